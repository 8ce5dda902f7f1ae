"""The store of jobs: database records with leases and progress, and private files.

Each call on the table is one transaction. The ``worker`` of a job has it until its lease ends, which it
renews as long as it lives. Only the worker changes the job; a change after somebody else took it over is
refused by returning None.

The files of a job are private and lie in the data folder from its acceptance to its end.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, func, insert, or_, select, update

from sfumato.io import sync
from sfumato.ledger import Row, Transaction
from sfumato.serve.authentication import is_record_id
from sfumato.serve.refusals import QuotaRefused
from sfumato.serve.registry_database import NewestFirst, job_records, rows_where
from sfumato.serve.tenant_registry import Registry, read_quotas

#: States of a job that nobody has; only a repeated request takes it from there.
ENDED = ("done", "failed", "cancelled")
_LEASED = ("accepted", "running")
_ABANDONED_SECONDS = 3600.0
_WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class JobRecord:
    """One stored job; ``asked``, ``result`` and ``problem`` are JSON values."""

    id: str
    tenant: str
    kind: str
    dataset: str
    request: str | None
    asked: Mapping[str, Any]
    content: str
    created: str
    state: str = "accepted"
    stage: str | None = None
    share: float | None = None
    ended: str | None = None
    attempt: int = 1
    tries: int = 0
    hold: int | None = None
    worker: str | None = None
    until: float = 0.0
    cancelled: bool = False
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None

    @property
    def may_be_repeated(self) -> bool:
        """Return whether another attempt at an ended job may be made under its request."""
        problem = self.problem if self.state in ENDED else None
        return self.request is not None and problem is not None and bool(problem["retryable"])

    def is_leased_to(self, worker: str) -> bool:
        """Return whether ``worker`` has the job."""
        return self.worker == worker and self.state in _LEASED

    def row(self) -> dict[str, Any]:
        """Return the row of the job."""
        values = {name: getattr(self, name) for name in _JSON}
        texts = {name: None if value is None else json.dumps(value) for name, value in values.items()}
        return vars(self) | texts | {"cancelled": int(self.cancelled)}

    @classmethod
    def of(cls, row: Row | None) -> JobRecord | None:
        """Return the job in ``row``, if there is one."""
        if row is None:
            return None
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        parsed = {name: None if values[name] is None else json.loads(values[name]) for name in _JSON}
        return cls(**(values | parsed | {"cancelled": bool(row.cancelled)}))


_JSON = ("asked", "result", "problem")
_CHANGING = (
    *("state", "stage", "share", "ended", "attempt", "tries", "hold", "worker", "until", "cancelled"),
    *("result", "problem"),
)
_COLUMNS = job_records.c


def _in_state(*states: str) -> ColumnElement[bool]:
    return or_(*(_COLUMNS.state == state for state in states))


_NEW = insert(job_records)
_ONE = rows_where(job_records, "id")
_LOCKED = _ONE.with_for_update()  # SQLite, which has no such clause, locks the whole file
_OF_REQUEST = rows_where(job_records, "tenant", "kind", "dataset", "request")
_CHANGE = (
    update(job_records)
    .where(_COLUMNS.id == bindparam("which"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGING})
)
_DROP = delete(job_records).where(_COLUMNS.id == bindparam("which"))
_EXPIRED = (
    select(job_records)
    .where(_in_state(*_LEASED), _COLUMNS.until <= bindparam("now"))
    .order_by(_COLUMNS.until)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_NEWEST = NewestFirst(job_records, _COLUMNS.state != "accepted")
_COUNTS = (
    select(_COLUMNS.state, func.count().label("number"), func.min(_COLUMNS.created).label("first"))
    .where(_in_state("queued", "running"))
    .group_by(_COLUMNS.state)
)
_UNENDED = select(func.count().label("number")).where(
    _COLUMNS.tenant == bindparam("tenant"), _in_state("accepted", "queued", "running")
)
_others = job_records.alias("others")
_RUNNING_OF_TENANT = (
    select(func.count())
    .select_from(_others)
    .where(_others.c.tenant == _COLUMNS.tenant, _others.c.state == "running")
    .scalar_subquery()
)
# The tenant with the fewest running jobs is next, so that none waits behind all of another's.
_NEXT = (
    select(job_records)
    .where(_COLUMNS.state == "queued")
    .order_by(_RUNNING_OF_TENANT, _COLUMNS.created, _COLUMNS.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


class JobTable:
    """The jobs of all tenants of ``registry``."""

    def __init__(self, registry: Registry) -> None:
        self._database, self._clock = registry.database, registry.clock

    def add(self, new: JobRecord, worker: str, seconds: float) -> JobRecord:
        """Insert ``new`` for ``worker``, counted against the tenant's quota of concurrent jobs.

        If there is a job of the same request, return that and store nothing.
        """
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            before = self._of_request(transaction, new)
            if before is not None:
                return before
            _require_quota(transaction, new.tenant)
            made = replace(new, worker=worker, until=self._in(seconds))
            transaction.run(_NEW, made.row())
        return made

    def reopen(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Give an ended job to ``worker`` for another attempt, as if it had just been added.

        Return None unless it may be repeated. A spent hold keeps paying; if nothing was spent, the attempt is
        a new one, without a hold yet.
        """
        with self._database.writing() as transaction:
            found = _locked(transaction, id_)
            if found is None or not found.may_be_repeated or found.problem is None:
                return None
            _require_quota(transaction, found.tenant)
            spent = bool(found.problem["spent"])
            again = replace(
                found,
                state="accepted",
                worker=worker,
                until=self._in(seconds),
                attempt=found.attempt + (not spent),
                hold=found.hold if spent else None,
                tries=0,
                stage=None,
                share=None,
                ended=None,
                problem=None,
                cancelled=False,
            )
            return _change(transaction, again)

    def of_request(self, like: JobRecord) -> JobRecord | None:
        """Return the job of the same tenant, kind, dataset and request, or None."""
        with self._database.reading() as transaction:
            return self._of_request(transaction, like)

    def get(self, id_: str) -> JobRecord | None:
        """Return one job of any tenant."""
        with self._database.reading() as transaction:
            return JobRecord.of(transaction.first(_ONE, {"id": id_}))

    def newest(self, tenant: str, after: str | None = None) -> Iterator[JobRecord]:
        """Return the tenant's jobs, newest first, starting ``after`` the job with this id."""
        for row in _NEWEST.rows(self._database, tenant, after):
            if (found := JobRecord.of(row)) is not None:
                yield found

    def counts(self) -> dict[str, float]:
        """Return the numbers of queued and running jobs, and the age of the oldest queued one in seconds."""
        with self._database.reading() as transaction:
            found = {row.state: row for row in transaction.all(_COUNTS)}
        waited = 0.0
        if "queued" in found:
            waited = (self._clock() - datetime.fromisoformat(found["queued"].first)).total_seconds()
        numbers = {state: found[state].number if state in found else 0 for state in ("queued", "running")}
        return numbers | {"oldest_queued_seconds": max(0.0, waited)}

    # Taking a lease

    def claim(self, worker: str, seconds: float) -> JobRecord | None:
        """Give the next queued job to ``worker`` and return it."""
        return self._taken(_NEXT, {}, worker, seconds, tries=1)

    def seize(self, worker: str, seconds: float) -> JobRecord | None:
        """Give a job with an expired lease to ``worker`` and return it in the state in which it was left."""
        return self._taken(_EXPIRED, {"now": self._in(0.0)}, worker, seconds, tries=0)

    def cancel(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Mark a job that has not ended for cancellation; a queued one is given to ``worker``."""
        with self._database.writing() as transaction:
            found = _locked(transaction, id_)
            if found is None or found.state in ENDED:
                return found
            changed = replace(found, cancelled=True)
            if found.state == "queued":
                changed = replace(changed, state="running", worker=worker, until=self._in(seconds))
            return _change(transaction, changed)

    # Holding a lease

    def keep(
        self, worker: str, progress: Mapping[str, tuple[str | None, float | None]], seconds: float
    ) -> dict[str, bool]:
        """Renew the lease of each job in ``progress`` and store its progress.

        Return, for those that ``worker`` still has, whether they are to be cancelled. This does not wait for
        the disk: after a power cut there is no worker left either.
        """
        kept = {}
        with self._database.counting() as transaction:
            until = self._in(seconds)
            for id_, (stage, share) in progress.items():
                found = _locked(transaction, id_)
                if found is not None and found.is_leased_to(worker):
                    _change(transaction, replace(found, until=until, stage=stage, share=share))
                    kept[id_] = found.cancelled
        return kept

    def renew(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Renew the lease of a job of ``worker``, durably; return None if it no longer has the job."""
        return self._changed(id_, worker, until=self._in(seconds))

    def queue(self, id_: str, worker: str, **changes: Any) -> JobRecord | None:
        """Put a job of ``worker`` into the queue."""
        return self._changed(id_, worker, state="queued", worker=None, stage=None, share=None, **changes)

    def finish(
        self,
        id_: str,
        worker: str,
        state: str,
        *,
        result: Mapping[str, Any] | None = None,
        problem: Mapping[str, Any] | None = None,
        unless_cancelled: bool = False,
    ) -> JobRecord | None:
        """End a job of ``worker``."""
        changes: dict[str, Any] = {"result": result, "problem": problem}
        if state == "done":
            changes["share"] = 1.0
        now = self._clock().isoformat()
        return self._changed(id_, worker, unless_cancelled, state=state, ended=now, worker=None, **changes)

    def drop(self, id_: str, worker: str) -> bool:
        """Delete a job of ``worker`` that was not accepted after all; return whether it had it."""
        with self._database.writing() as transaction:
            found = _locked(transaction, id_)
            if found is None or not found.is_leased_to(worker):
                return False
            transaction.run(_DROP, {"which": id_})
            return True

    def _in(self, seconds: float) -> float:
        """Return the time in ``seconds``, in seconds of the epoch."""
        return self._clock().timestamp() + seconds

    def _changed(
        self, id_: str, by: str, unless_cancelled: bool = False, /, **changes: Any
    ) -> JobRecord | None:
        with self._database.writing() as transaction:
            found = _locked(transaction, id_)
            if found is None or not found.is_leased_to(by) or (unless_cancelled and found.cancelled):
                return None
            return _change(transaction, replace(found, **changes))

    def _taken(
        self, statement: Any, values: dict[str, Any], worker: str, seconds: float, *, tries: int
    ) -> JobRecord | None:
        with self._database.writing() as transaction:
            found = JobRecord.of(transaction.first(statement, values))
            if found is None:
                return None
            state = "running" if found.state == "queued" else found.state
            taken = replace(
                found, state=state, worker=worker, until=self._in(seconds), tries=found.tries + tries
            )
            return _change(transaction, taken)

    def _of_request(self, transaction: Transaction, like: JobRecord) -> JobRecord | None:
        if like.request is None:
            return None
        named = {name: getattr(like, name) for name in ("tenant", "kind", "dataset", "request")}
        return JobRecord.of(transaction.first(_OF_REQUEST, named))


def _locked(transaction: Transaction, id_: str) -> JobRecord | None:
    """Return the job with this id, locked until the transaction ends."""
    return JobRecord.of(transaction.first(_LOCKED, {"id": id_}))


def _change(transaction: Transaction, changed: JobRecord) -> JobRecord:
    row = changed.row()
    transaction.run(_CHANGE, {f"new_{name}": row[name] for name in _CHANGING} | {"which": changed.id})
    return changed


def _require_quota(transaction: Transaction, tenant: str) -> None:
    """Raise :class:`QuotaRefused` if the tenant has as many jobs that have not ended as it may."""
    most = read_quotas(transaction, tenant, lock=True)[0].jobs_at_once
    if most is None:
        return
    row = transaction.first(_UNENDED, {"tenant": tenant})
    if row is not None and row.number >= most:
        raise QuotaRefused(
            f"the quota of {most:,} jobs at the same time is used up; retry when one of them has ended.",
            _WAIT_SECONDS if row.number else None,
        )


class JobFiles:
    """Folders inside ``place``, one for each upload of a job's files, of which the newest counts.

    Each has a subfolder for each of the files. Files in the folder ``work`` are moved here, others copied.
    """

    def __init__(self, place: Path, work: Path) -> None:
        self._place, self._work = place, work

    def store(self, job: str, parts: Mapping[str, Sequence[Path]]) -> Path:
        """Bring the files of each part into a new folder of ``job``, durably, and return the folder."""
        folder = self._place / f"{job}-{time.time_ns():020d}"
        folder.mkdir(mode=0o700)
        try:
            for part, files in parts.items():
                self._take(folder / part, files)
            sync(folder)
            sync(self._place)
        except BaseException:
            self.remove([folder])
            raise
        return folder

    def _take(self, folder: Path, files: Sequence[Path]) -> None:
        folder.mkdir(mode=0o700)
        for file in files:
            taken = folder / file.name
            if self._work in file.parents:
                os.replace(file, taken)
            else:
                shutil.copyfile(file, taken)
            sync(taken)
        sync(folder)

    def find(self, job: str, part: str) -> Path | None:
        """Return the first file of this part, or None; its certificate is not meant."""
        newest = max(self.of(job), default=None)
        if newest is None or not (newest / part).is_dir():
            return None
        return next((one for one in (newest / part).iterdir() if not one.name.endswith(".cert.json")), None)

    def of(self, job: str) -> list[Path]:
        """Return the present folders of a job."""
        return list(self._place.glob(f"{job}-*"))

    def all(self) -> list[tuple[str, Path]]:
        """Return all folders, each with its job."""
        named = [(folder.name.partition("-")[0], folder) for folder in self._place.iterdir()]
        return [(job, folder) for job, folder in named if is_record_id(job)]

    def remove(self, folders: Iterable[Path]) -> None:
        """Remove folders."""
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def is_abandoned(self, folder: Path) -> bool:
        """Return whether a folder is so old that the process which made it must be gone."""
        try:
            return time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS
        except FileNotFoundError:
            return False
