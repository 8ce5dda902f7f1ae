"""The janitor: jobs whose worker is gone, found by a lapsed lease, and settled by what the ledger says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.ledger.ledger_errors import LedgerUnavailable
from sfumato.serve.jobs.job_store import LEASE_SECONDS, KeptJobs
from sfumato.serve.jobs.job_table import JobRecord
from sfumato.serve.jobs.job_work import problem_of
from sfumato.serve.refusal_codes import refusal, said_of
from sfumato.serve.registry_errors import RegistryUnavailable

__all__ = ["Janitor"]

# A job that ends the process that works on it would otherwise do so for ever.
_MOST_TRIES = 5
_UNFINISHED = "the process that worked on the job has ended; ask for it again."


class Janitor:
    """Takes over, as ``worker``, jobs that nobody has in hand any more."""

    def __init__(self, jobs: KeptJobs, worker: str) -> None:
        self._jobs, self._worker = jobs, worker

    def tidy(self) -> int:
        """Settle every job whose lease has lapsed, and remove files that no job needs; how many jobs."""
        count = 0
        while (record := self._jobs.table.seize(self._worker, LEASE_SECONDS)) is not None:
            self._settle(record)
            count += 1
        self._jobs.swept()
        return count

    def _settle(self, record: JobRecord) -> None:
        if record.state == "accepted":
            self._accept(record)
        elif record.kind == "protect":
            self._release(record)
        elif record.cancelled:
            self._jobs.cancelled(record, self._worker)
        else:
            self._again(record, spent=False)

    def _accept(self, record: JobRecord) -> None:
        """A job of whose acceptance nobody was told: who repeats a request finds it, others ask anew."""
        spent = record.hold is not None
        try:
            if not self._jobs.files.there(record.id):
                raise BadInput(_UNFINISHED)
            hold = self._jobs.held(record)
        except (LedgerUnavailable, RegistryUnavailable):
            raise
        except SfumatoError as error:  # no price was set aside, and none can be
            if spent or record.attempt > 1:  # it ended before, and is known
                self._failed(record, refusal(error), said_of(error), spent=spent)
            else:
                self._jobs.forgotten(record.id, self._worker)
            return
        if record.request is not None:
            self._jobs.queued(record.id, self._worker, hold=hold)
            return
        self._jobs.returned(replace(record, hold=hold))
        self._jobs.forgotten(record.id, self._worker)

    def _release(self, record: JobRecord) -> None:
        jobs = self._jobs
        made = jobs.releases.read(record.tenant, jobs.release_id(record))
        if record.cancelled:
            jobs.cancelled(record, self._worker)
        elif made is not None:  # all was done but to say so
            result = {"release": made.id, "name": made.name, "sha256": made.sha256, "paid": made.paid}
            jobs.ended(record, self._worker, "done", result=result)
        elif not jobs.returned(record):
            if record.request is None:
                jobs.releases.discard(record.tenant, jobs.release_id(record))
                self._failed(record, "interrupted", f"{_UNFINISHED} It had begun to draw.", spent=True)
            else:
                self._again(record, spent=True)
        else:
            self._again(record, spent=False)

    def _again(self, record: JobRecord, *, spent: bool) -> None:
        """Back into the queue: with the hold that was committed, or with a new one for a new attempt."""
        if record.tries > _MOST_TRIES or not self._jobs.files.there(record.id):
            self._failed(record, "interrupted", _UNFINISHED, spent=spent)
            return
        changes: dict[str, Any] = {}
        if record.kind == "protect" and not spent:
            new = replace(record, attempt=record.attempt + 1)
            try:
                changes = {"attempt": new.attempt, "hold": self._jobs.hold(new).number}
            except (LedgerUnavailable, RegistryUnavailable):
                raise
            except SfumatoError as error:
                self._failed(record, refusal(error), said_of(error), spent=False)
                return
        self._jobs.queued(record.id, self._worker, **changes)

    def _failed(self, record: JobRecord, kind: str, sentence: str, *, spent: bool) -> None:
        problem = problem_of(kind, sentence, retryable=True, spent=spent)
        self._jobs.ended(record, self._worker, "failed", problem=problem)
