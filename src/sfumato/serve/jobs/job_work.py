"""The work on one job, from the moment it is in hand to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import SfumatoError, StorageFailed
from sfumato.ledger.ledger_errors import LedgerUnavailable
from sfumato.serve.jobs.audit_jobs import Audits
from sfumato.serve.jobs.job_store import LEASE_SECONDS, KeptJobs
from sfumato.serve.jobs.job_table import JobRecord
from sfumato.serve.jobs.job_watch import Cancelled, Lost, PutBack, Watch
from sfumato.serve.logs import told
from sfumato.serve.refusal_codes import disk_failure, refusal, said_of
from sfumato.serve.registry_errors import RegistryUnavailable

__all__ = ["Work", "problem_of"]


class Work:
    """What a ``worker`` does with the jobs that it takes in hand."""

    def __init__(self, jobs: KeptJobs, audits: Audits, worker: str, lease: float = LEASE_SECONDS) -> None:
        self._jobs, self._audits, self._worker, self._lease = jobs, audits, worker, lease

    def do(self, record: JobRecord, watch: Watch) -> None:
        """Work on ``record``, which the worker has in hand, and end it.

        Where a database does not answer nothing is known about the job: it is left as it is, its lease runs
        out, and the janitor finds out.
        """
        try:
            self._tried(record, watch)
        except (Lost, LedgerUnavailable, RegistryUnavailable):
            return
        except PutBack:
            self._jobs.queued(record.id, self._worker, tries=record.tries - 1)
        except Exception as error:
            told("unforeseen", level="error", tenant=record.tenant, job=record.id, error=error)

    def _tried(self, record: JobRecord, watch: Watch) -> None:
        try:
            watch.cancelled = watch.cancelled or record.cancelled
            watch.check()
            if record.kind == "audit":
                result: Mapping[str, Any] = self._audits.work(record, self._jobs.files, watch.report)
                watch.check()
            else:
                result = self._protect(record, watch)
            self._publish(record, watch, result)
        except Cancelled:
            self._jobs.cancelled(record, self._worker)
        except (Lost, PutBack, LedgerUnavailable, RegistryUnavailable):
            raise
        except SfumatoError as error:
            retryable = isinstance(error, StorageFailed)
            self._failed(record, refusal(error), said_of(error), retryable=retryable)
        except Exception as error:
            fault = disk_failure(error)
            if fault is not None:
                self._failed(record, refusal(fault), said_of(fault), retryable=True)
                return
            sentence = "something unforeseen happened; it is in the log by its time."
            self._failed(record, "unforeseen", sentence, retryable=False)
            raise

    def _protect(self, record: JobRecord, watch: Watch) -> dict[str, Any]:
        jobs = self._jobs
        opened, file = jobs.opened_file(record, watch.report)

        def before() -> None:
            self._require(record, watch)
            watch.committed = True

        with jobs.releases.drawing() as folder:
            done = opened.protect(
                folder,
                jobs.payment(record, file, before),
                jobs.resources.keys,
                room=lambda size: jobs.storage.require(record.tenant, size),
            )
            self._require(record, watch)
            id_ = jobs.release_id(record)
            made = jobs.releases.keep(
                record.tenant, id_, record.dataset, record.request, done, record.content
            )
        return {"release": made.id, "name": made.name, "sha256": made.sha256, "paid": made.paid}

    def _require(self, record: JobRecord, watch: Watch) -> None:
        """Go on only with a job that is durably ours, and not cancelled."""
        watch.check()
        found = self._jobs.table.still(record.id, self._worker, self._lease)
        if found is None:
            raise Lost
        watch.kept()
        if found.cancelled:
            raise Cancelled

    def _publish(self, record: JobRecord, watch: Watch, result: Mapping[str, Any]) -> None:
        """End the job with what it made; made in vain, nothing of it remains."""
        words: dict[str, Any] = {"result": result, "unless_cancelled": True}
        if self._jobs.ended(record, self._worker, "done", **words) is not None:
            return
        now = self._jobs.table.get(record.id)
        if now is not None and now.worker == self._worker:
            raise Cancelled
        if record.kind == "protect" and record.request is None:
            self._jobs.releases.discard(record.tenant, self._jobs.release_id(record))
        raise Lost

    def _failed(self, record: JobRecord, kind: str, sentence: str, *, retryable: bool) -> None:
        spent = record.kind == "protect" and not self._jobs.returned(record)
        problem = problem_of(kind, sentence, retryable=retryable, spent=spent)
        self._jobs.ended(record, self._worker, "failed", problem=problem)


def problem_of(kind: str, sentence: str, *, retryable: bool, spent: bool) -> dict[str, Any]:
    """Why a job ended without a result."""
    return {"type": kind, "detail": sentence, "retryable": retryable, "spent": spent}
