"""The table of jobs: who has one in hand, how far it is, how it ended. Each call is one transaction.

Whoever has a job in hand is its ``worker``, until a time that they put off as long as they live. Only they
change it; what they change after somebody else took it is refused, by answering None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sfumato.ledger.transaction import Transaction
from sfumato.serve.jobs.job_rows import (
    COUNTS,
    DROP,
    LAPSED,
    NEW,
    NEWEST,
    NEXT,
    OLDER,
    ONE,
    REQUESTED,
    JobRecord,
    locked,
    put,
    record_of,
    row_of,
)
from sfumato.serve.registry_database import RegistryDatabase
from sfumato.serve.registry_errors import QuotaRefused
from sfumato.serve.registry_quotas import begin, end

__all__ = ["ENDED", "JobRecord", "JobTable", "may_be_repeated"]

#: States in which nobody has a job in hand; only a repeated request takes it from there.
ENDED = ("done", "failed", "cancelled")
_IN_HAND = ("accepted", "running")
_WAIT_SECONDS = 10.0
# A job counts until it ends, which is noted together with its end: no time runs out on it.
_FOR_EVER = 1e12


class JobTable:
    """The jobs of all tenants; ``clock`` tells the time."""

    def __init__(self, database: RegistryDatabase, clock: Callable[[], datetime]) -> None:
        self._database, self._clock = database, clock

    def add(self, new: JobRecord, worker: str, seconds: float) -> JobRecord:
        """Keep ``new``, in the hands of ``worker``, as one of those that the tenant's quota allows at once.

        Where there is a job of the same request, that is returned and nothing kept.
        """
        now = self._clock().timestamp()
        with self._database.writing() as transaction:
            self._database.alone(transaction)
            before = self._of_request(transaction, new)
            if before is not None:
                return before
            _begun(transaction, new, now)
            made = replace(new, worker=worker, until=now + seconds)
            transaction.run(NEW, row_of(made))
        return made

    def reopen(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Let ``worker`` have an ended job in hand for another attempt, as if it had just been added.

        None where it is not one that :func:`may_be_repeated`. What was spent stays the hold that pays; where
        nothing was, the attempt is a new one, without a hold yet.
        """
        now = self._clock().timestamp()
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not may_be_repeated(found) or found.problem is None:
                return None
            _begun(transaction, found, now)
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
        """The job of the same tenant, kind, dataset and request, if there is one."""
        with self._database.reading() as transaction:
            return self._of_request(transaction, like)

    def get(self, id_: str) -> JobRecord | None:
        """One job of whatever tenant."""
        with self._database.reading() as transaction:
            row = transaction.first(ONE, {"which": id_})
        return None if row is None else record_of(row)

    def newest(self, tenant: str, after: str | None = None) -> list[JobRecord]:
        """A page of the tenant's jobs, newest first; those ``after`` the job of this id."""
        with self._database.reading() as transaction:
            if after is None:
                return [record_of(row) for row in transaction.all(NEWEST, {"of": tenant})]
            last = transaction.first(ONE, {"which": after})
            if last is None or last.tenant != tenant:
                return []
            place = {"at": last.created, "same": last.created, "last": last.id}
            return [record_of(row) for row in transaction.all(OLDER, {"of": tenant} | place)]

    def counts(self) -> dict[str, float]:
        """How many are queued and running, and for how many seconds the oldest has been queued."""
        with self._database.reading() as transaction:
            found = {row.state: row for row in transaction.all(COUNTS)}
        waited = 0.0
        if "queued" in found:
            waited = (self._clock() - datetime.fromisoformat(found["queued"].first)).total_seconds()
        numbers = {state: found[state].number if state in found else 0 for state in ("queued", "running")}
        return numbers | {"oldest_queued_seconds": max(0.0, waited)}

    # Taking one in hand

    def claim(self, worker: str, seconds: float) -> JobRecord | None:
        """The next queued job, which ``worker`` has in hand from now on."""
        return self._taken(NEXT, {}, worker, seconds, tries=1)

    def seize(self, worker: str, seconds: float) -> JobRecord | None:
        """A job whose worker gave no sign for too long, in the state that it was left in."""
        return self._taken(LAPSED, {"now": self._clock().timestamp()}, worker, seconds, tries=0)

    def cancel(self, id_: str, worker: str, seconds: float) -> JobRecord | None:
        """Mark a job that has not ended; one that is queued is then in the hands of ``worker``."""
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
        """Put off the time of each job of ``progress`` and note how far it is.

        Of those that ``worker`` still has in hand: whether they are to be cancelled. It does not wait for the
        disk: who forgets it after a power cut has no worker left either.
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
        """Put off the time of a job that ``worker`` has in hand, durably; None where it has it no longer."""
        return self._changed(id_, worker, until=self._clock().timestamp() + seconds)

    def queue(self, id_: str, worker: str, **changes: Any) -> JobRecord | None:
        """Put a job that ``worker`` has in hand into the queue."""
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
        """End a job that ``worker`` has in hand, and count it no longer."""
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not _has(found, worker) or (unless_cancelled and found.cancelled):
                return None
            end(transaction, found.tenant, id_)
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
        """Forget a job that ``worker`` has in hand: it was not accepted after all. Whether it had it."""
        with self._database.writing() as transaction:
            found = locked(transaction, id_)
            if found is None or not _has(found, worker):
                return False
            end(transaction, found.tenant, id_)
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
    """Whether another attempt at an ended job may be made under its request."""
    problem = found.problem if found.state in ENDED else None
    return found.request is not None and problem is not None and bool(problem["retryable"])


def _begun(transaction: Transaction, job: JobRecord, now: float) -> None:
    """Count a job as one of those that the tenant's quota allows at once."""
    try:
        begin(transaction, job.tenant, job.id, now, _FOR_EVER)
    except QuotaRefused as refused:
        raise QuotaRefused(str(refused), refused.seconds and _WAIT_SECONDS) from None


def _has(found: JobRecord, worker: str) -> bool:
    return found.worker == worker and found.state in _IN_HAND
