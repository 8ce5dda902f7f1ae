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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, insert, or_, select, update

from sfumato.io import sync
from sfumato.ledger import Row, Transaction
from sfumato.serve.authentication import is_id
from sfumato.serve.registry_database import QuotaRefused, RegistryDatabase, job_records, read_quotas

_ALONE_SECONDS = 3600.0

_COLUMNS = job_records.c
NEW = insert(job_records)
ONE = select(job_records).where(_COLUMNS.id == bindparam("which"))
_LOCKED = ONE.with_for_update()  # SQLite, which has no such clause, locks the whole file
REQUESTED = select(job_records).where(
    _COLUMNS.tenant == bindparam("of"),
    _COLUMNS.kind == bindparam("sort"),
    _COLUMNS.dataset == bindparam("about"),
    _COLUMNS.request == bindparam("asked_as"),
)
_CHANGED = ("state", "stage", "share", "ended", "attempt", "tries", "hold", "worker", "until", "cancelled")
_CHANGED_TEXTS = ("result", "problem")
_SET = (
    update(job_records)
    .where(_COLUMNS.id == bindparam("which"))
    .values({name: bindparam(f"new_{name}") for name in (*_CHANGED, *_CHANGED_TEXTS)})
)
DROP = delete(job_records).where(_COLUMNS.id == bindparam("which"))
LAPSED = (
    select(job_records)
    .where(or_(_COLUMNS.state == "accepted", _COLUMNS.state == "running"), _COLUMNS.until <= bindparam("now"))
    .order_by(_COLUMNS.until)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_OF_TENANT = select(job_records).where(_COLUMNS.tenant == bindparam("of"), _COLUMNS.state != "accepted")
NEWEST = _OF_TENANT.order_by(_COLUMNS.created.desc(), _COLUMNS.id.desc()).limit(200)
OLDER = NEWEST.where(
    or_(
        _COLUMNS.created < bindparam("at"),
        and_(_COLUMNS.created == bindparam("same"), _COLUMNS.id < bindparam("last")),
    )
)
COUNTS = (
    select(_COLUMNS.state, func.count().label("number"), func.min(_COLUMNS.created).label("first"))
    .where(or_(_COLUMNS.state == "queued", _COLUMNS.state == "running"))
    .group_by(_COLUMNS.state)
)
#: States in which nobody has a job in hand; only a repeated request takes it from there.
ENDED = ("done", "failed", "cancelled")
_IN_HAND = ("accepted", "running")
_WAIT_SECONDS = 10.0
_UNDER_WAY = select(func.count().label("number")).where(
    _COLUMNS.tenant == bindparam("of"),
    or_(_COLUMNS.state == "accepted", _COLUMNS.state == "queued", _COLUMNS.state == "running"),
)


class JobFiles:
    """Folders inside ``place``, one for each upload of a job's files, of which the newest counts.

    Each has a subfolder for each of the files.
    """

    def __init__(self, place: Path, work: Path) -> None:
        self._place, self._work = place, work

    def new(self, job: str) -> Path:
        """Return a new folder for the files of ``job``, newer than its others."""
        folder = self._place / f"{job}-{time.time_ns():020d}"
        folder.mkdir(mode=0o700)
        return folder

    def take(self, into: Path, part: str, file: Path, beside: Path | None = None) -> Path:
        """Move or copy ``file`` into a folder of ours, durably, with ``beside``, its certificate.

        Files in the work folder are moved, all others copied.
        """
        folder = into / part
        folder.mkdir(mode=0o700)
        for one in (file, beside):
            if one is None:
                continue
            taken = folder / one.name
            if self._work in one.parents:
                os.replace(one, taken)
            else:
                shutil.copyfile(one, taken)
            sync(taken)
        for made in (folder, into, self._place):
            sync(made)
        return folder / file.name

    def find(self, job: str, part: str) -> Path | None:
        """Return the file of this part, or None."""
        newest = max(self.of(job), default=None)
        if newest is None or not (newest / part).is_dir():
            return None
        return next((one for one in (newest / part).iterdir() if not one.name.endswith(".cert.json")), None)

    def there(self, job: str) -> bool:
        """Return whether the job still has files."""
        return bool(self.of(job))

    def of(self, job: str) -> list[Path]:
        """Return the present folders of a job."""
        return list(self._place.glob(f"{job}-*"))

    def all(self) -> list[tuple[str, Path]]:
        """Return all folders, each with its job."""
        named = [(folder.name.partition("-")[0], folder) for folder in self._place.iterdir()]
        return [(job, folder) for job, folder in named if is_id(job)]

    def remove(self, folders: Iterable[Path]) -> None:
        """Remove folders."""
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def is_old(self, folder: Path) -> bool:
        """Return whether a folder is so old that the process which made it must be gone."""
        try:
            return time.time() - folder.stat().st_mtime > _ALONE_SECONDS
        except FileNotFoundError:
            return False


_others = job_records.alias("others")
_BUSY = (
    select(func.count())
    .select_from(_others)
    .where(_others.c.tenant == _COLUMNS.tenant, _others.c.state == "running")
    .scalar_subquery()
)
# The tenant with the fewest jobs under way is next, so that none waits behind all of another's.
NEXT = (
    select(job_records)
    .where(_COLUMNS.state == "queued")
    .order_by(_BUSY, _COLUMNS.created, _COLUMNS.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


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


def locked(transaction: Transaction, id_: str) -> JobRecord | None:
    """Return the job with this id, locked until the transaction ends."""
    row = transaction.first(_LOCKED, {"which": id_})
    return None if row is None else record_of(row)


def put(transaction: Transaction, changed: JobRecord) -> JobRecord:
    """Store the changed fields of a job and return it."""
    row = row_of(changed)
    new = {f"new_{name}": row[name] for name in (*_CHANGED, *_CHANGED_TEXTS)}
    transaction.run(_SET, new | {"which": changed.id})
    return changed


def row_of(record: JobRecord) -> dict[str, Any]:
    """Return the row of a new job."""
    texts = {name: _text(getattr(record, name)) for name in ("asked", *_CHANGED_TEXTS)}
    return vars(record) | texts | {"cancelled": int(record.cancelled)}


def record_of(row: Row) -> JobRecord:
    """Return the job in ``row``."""
    values = {field.name: getattr(row, field.name) for field in fields(JobRecord)}
    parsed = {
        name: None if values[name] is None else json.loads(values[name])
        for name in ("asked", *_CHANGED_TEXTS)
    }
    return JobRecord(**(values | parsed | {"cancelled": bool(row.cancelled)}))


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


class JobTable:
    """The jobs of all tenants; ``clock`` returns the time."""

    def __init__(self, database: RegistryDatabase, clock: Callable[[], datetime]) -> None:
        self._database, self._clock = database, clock

    def add(self, new: JobRecord, worker: str, seconds: float) -> JobRecord:
        """Insert ``new`` for ``worker``, counted against the tenant's quota of concurrent jobs.

        If there is a job of the same request, return that and store nothing.
        """
        now = self._clock().timestamp()
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            before = self._of_request(transaction, new)
            if before is not None:
                return before
            _require_place(transaction, new.tenant)
            made = replace(new, worker=worker, until=now + seconds)
            transaction.run(NEW, row_of(made))
        return made

    def reopen(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Give an ended job to ``worker`` for another attempt, as if it had just been added.

        Return None unless :func:`may_be_repeated`. A spent hold keeps paying; if nothing was spent, the
        attempt is a new one, without a hold yet.
        """
        now = self._clock().timestamp()
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not may_be_repeated(found) or found.problem is None:
                return None
            _require_place(transaction, found.tenant)
            spent = bool(found.problem["spent"])
            again = replace(
                found,
                state="accepted",
                worker=worker,
                until=now + seconds,
                attempt=found.attempt + (not spent),
                hold=found.hold if spent else None,
                tries=0,
                stage=None,
                share=None,
                ended=None,
                problem=None,
                cancelled=False,
            )
            return put(transaction, again)

    def of_request(self, like: JobRecord) -> JobRecord | None:
        """Return the job of the same tenant, kind, dataset and request, or None."""
        with self._database.reading() as transaction:
            return self._of_request(transaction, like)

    def get(self, id_: str) -> JobRecord | None:
        """Return one job of any tenant."""
        with self._database.reading() as transaction:
            row = transaction.first(ONE, {"which": id_})
        return None if row is None else record_of(row)

    def newest(self, tenant: str, after: str | None = None) -> list[JobRecord]:
        """Return a page of the tenant's jobs, newest first, starting ``after`` the job with this id."""
        with self._database.reading() as transaction:
            if after is None:
                return [record_of(row) for row in transaction.all(NEWEST, {"of": tenant})]
            last = transaction.first(ONE, {"which": after})
            if last is None or last.tenant != tenant:
                return []
            place = {"at": last.created, "same": last.created, "last": last.id}
            return [record_of(row) for row in transaction.all(OLDER, {"of": tenant} | place)]

    def counts(self) -> dict[str, float]:
        """Return the numbers of queued and running jobs, and the age of the oldest queued one in seconds."""
        with self._database.reading() as transaction:
            found = {row.state: row for row in transaction.all(COUNTS)}
        waited = 0.0
        if "queued" in found:
            waited = (self._clock() - datetime.fromisoformat(found["queued"].first)).total_seconds()
        numbers = {state: found[state].number if state in found else 0 for state in ("queued", "running")}
        return numbers | {"oldest_queued_seconds": max(0.0, waited)}

    # Taking one in hand

    def claim(self, worker: str, seconds: float) -> JobRecord | None:
        """Give the next queued job to ``worker`` and return it."""
        return self._taken(NEXT, {}, worker, seconds, tries=1)

    def seize(self, worker: str, seconds: float) -> JobRecord | None:
        """Give a job with an expired lease to ``worker`` and return it in the state in which it was left."""
        return self._taken(LAPSED, {"now": self._clock().timestamp()}, worker, seconds, tries=0)

    def cancel(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Mark a job that has not ended for cancellation; a queued one is given to ``worker``."""
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or found.state in ENDED:
                return found
            changed = replace(found, cancelled=True)
            if found.state == "queued":
                until = self._clock().timestamp() + seconds
                changed = replace(changed, state="running", worker=worker, until=until)
            return put(transaction, changed)

    # Having it in hand

    def keep(
        self, worker: str, progress: Mapping[str, tuple[str | None, float | None]], seconds: float
    ) -> dict[str, bool]:
        """Renew the lease of each job in ``progress`` and store its progress.

        Return, for those that ``worker`` still has, whether they are to be cancelled. This does not wait for
        the disk: after a power cut there is no worker left either.
        """
        kept = {}
        with self._database.counting() as transaction:
            until = self._clock().timestamp() + seconds
            for id_, (stage, share) in progress.items():
                found = locked(transaction, id_)
                if found is not None and _has(found, worker):
                    put(transaction, replace(found, until=until, stage=stage, share=share))
                    kept[id_] = found.cancelled
        return kept

    def still(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Renew the lease of a job of ``worker``, durably; return None if it no longer has the job."""
        return self._changed(id_, worker, until=self._clock().timestamp() + seconds)

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
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not _has(found, worker) or (unless_cancelled and found.cancelled):
                return None
            share = 1.0 if state == "done" else found.share
            ended = replace(
                found,
                state=state,
                share=share,
                ended=self._clock().isoformat(),
                worker=None,
                result=result,
                problem=problem,
            )
            return put(transaction, ended)

    def drop(self, id_: str, worker: str) -> bool:
        """Delete a job of ``worker`` that was not accepted after all; return whether it had it."""
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not _has(found, worker):
                return False
            transaction.run(DROP, {"which": id_})
            return True

    def _changed(self, id_: str, by: str, **changes: Any) -> JobRecord | None:
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not _has(found, by):
                return None
            return put(transaction, replace(found, **changes))

    def _taken(
        self, statement: Any, values: dict[str, Any], worker: str, seconds: float, *, tries: int
    ) -> JobRecord | None:
        with self._database.writing() as transaction:
            row = transaction.first(statement, values)
            if row is None:
                return None
            found, until = record_of(row), self._clock().timestamp() + seconds
            state = "running" if found.state == "queued" else found.state
            taken = replace(found, state=state, worker=worker, until=until, tries=found.tries + tries)
            return put(transaction, taken)

    def _of_request(self, transaction: Transaction, like: JobRecord) -> JobRecord | None:
        if like.request is None:
            return None
        named = {"of": like.tenant, "sort": like.kind, "about": like.dataset, "asked_as": like.request}
        row = transaction.first(REQUESTED, named)
        return None if row is None else record_of(row)


def may_be_repeated(found: JobRecord) -> bool:
    """Return whether another attempt at an ended job may be made under its request."""
    problem = found.problem if found.state in ENDED else None
    return found.request is not None and problem is not None and bool(problem["retryable"])


def _require_place(transaction: Transaction, tenant: str) -> None:
    """Raise :class:`QuotaRefused` if the tenant has as many jobs that have not ended as it may."""
    most = read_quotas(transaction, tenant, lock=True)[0].jobs_at_once
    if most is None:
        return
    row = transaction.first(_UNDER_WAY, {"of": tenant})
    if row is not None and row.number >= most:
        raise QuotaRefused(
            f"the quota of {most:,} jobs at the same time is used up; ask again when one of them has ended.",
            _WAIT_SECONDS if row.number else None,
        )


def _has(found: JobRecord, worker: str) -> bool:
    return found.worker == worker and found.state in _IN_HAND
