"""The job runner: threads that work on jobs and renew leases, and a janitor for jobs of dead processes.

A :class:`Watch` holds the progress of a running job and stops it, :class:`Work` does it, and the
:class:`Janitor` finds jobs with an expired lease and settles them by what the ledger says.
"""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sfumato.errors import BadInput, SfumatoError, StorageFailed
from sfumato.ledger import LedgerUnavailable
from sfumato.serve.jobs.job_lifecycle import LEASE_SECONDS, Jobs
from sfumato.serve.jobs.job_store import JobRecord
from sfumato.serve.monitoring import log
from sfumato.serve.refusals import RegistryUnavailable, TooSlow, refusal_of
from sfumato.serve.release_store import Release
from sfumato.serve.service import Service

__all__ = ["Runner"]


class _Stopped(Exception):
    """Raised to stop the work; not an error of the work, so its handlers do not catch it."""


class Cancelled(_Stopped):
    """Raised if a client has cancelled the job."""


class Lost(_Stopped):
    """Raised if another worker has taken over the job."""


class PutBack(_Stopped):
    """Raised if the process ends before the job has begun to draw: it goes back to the queue."""


# Of a database: nothing is known about the job then. It is left as it is, its lease ends, and the janitor
# settles it.
_SILENT = (LedgerUnavailable, RegistryUnavailable)
# A job that kills the process that works on it would otherwise do so for ever.
_MOST_TRIES = 5
_UNFINISHED = "the process that worked on the job has ended; request it again."


class Watch:
    """One running job of a worker, with a lease of ``seconds``, which a keeper thread renews.

    The job may take ``longest`` seconds.
    """

    def __init__(self, seconds: float, longest: float = math.inf) -> None:
        self._longest, self._begun = longest, time.monotonic()
        self.stage: str | None = None
        self.share: float | None = None
        self.cancelled = self.lost = self.ending = False
        #: Whether the hold may have been committed; never back to False.
        self.committed = False
        self._seconds = seconds
        self.renewed()

    def renewed(self) -> None:
        """Record that the lease was renewed just now."""
        self._until = time.monotonic() + self._seconds

    def report(self, stage: str, share: float | None) -> None:
        """Record the progress, and raise if the work must stop.

        Nothing is written here: a keeper thread stores the progress every few seconds.
        """
        self.stage, self.share = stage, share
        self.check()

    def check(self) -> None:
        """Raise if the work must stop."""
        if self.lost or time.monotonic() > self._until:
            raise Lost
        if self.cancelled:
            raise Cancelled
        if self.ending and not self.committed:
            raise PutBack
        if time.monotonic() - self._begun > self._longest:
            raise TooSlow(f"the job took longer than {self._longest:.0f} seconds, the most that it may.")


class Work:
    """The work of ``worker`` on jobs of ``service``, with leases of ``lease`` seconds."""

    def __init__(self, service: Service, worker: str, lease: float = LEASE_SECONDS) -> None:
        self._jobs, self._audits = service.job_store, service.audit_store
        self._worker, self._lease = worker, lease

    def do(self, record: JobRecord, watch: Watch) -> None:
        """Work on ``record``, which the worker has, and end it."""
        try:
            self._try(record, watch)
        except (Lost, *_SILENT):
            return
        except PutBack:
            self._jobs.queue(record.id, self._worker, tries=record.tries - 1)
        except Exception as error:
            log("unforeseen", level="error", tenant=record.tenant, job=record.id, error=error)

    def _try(self, record: JobRecord, watch: Watch) -> None:
        try:
            watch.cancelled = watch.cancelled or record.cancelled
            watch.check()
            if record.kind == "audit":
                result = self._audits.work(record, self._jobs.files, watch.report)
                watch.check()
            else:
                result = self._protect(record, watch)
            self._publish(record, result)
        except Cancelled:
            self._jobs.end_cancelled(record, self._worker)
        except (Lost, PutBack, *_SILENT):
            raise
        except Exception as error:
            refused = refusal_of(error)
            spent = record.kind == "protect" and not self._jobs.give_back(record)
            kind, detail = "unforeseen", "an unexpected error occurred; it is in the log by its time."
            if refused is not None:
                kind, detail = refused.code, refused.message
            retryable = refused is not None and isinstance(error, StorageFailed | OSError)
            self._jobs.fail(record, self._worker, kind, detail, retryable=retryable, spent=spent)
            if refused is None:
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
            made = jobs.releases.keep(
                record.tenant, jobs.release_id(record), record.dataset, record.request, done, record.content
            )
        return _result_of(made)

    def _require(self, record: JobRecord, watch: Watch) -> None:
        """Raise unless the job is durably ours, and not cancelled."""
        watch.check()
        found = self._jobs.table.renew(record.id, self._worker, self._lease)
        if found is None:
            raise Lost
        watch.renewed()
        if found.cancelled:
            raise Cancelled

    def _publish(self, record: JobRecord, result: Mapping[str, Any]) -> None:
        """End the job with its result; if it was cancelled or lost meanwhile, remove the result."""
        words: dict[str, Any] = {"result": result, "unless_cancelled": True}
        if self._jobs.end(record, self._worker, "done", **words) is not None:
            return
        now = self._jobs.table.get(record.id)
        if now is not None and now.worker == self._worker:
            raise Cancelled
        if record.kind == "protect" and record.request is None:
            self._jobs.releases.discard(record.tenant, self._jobs.release_id(record))
        raise Lost


def _result_of(made: Release) -> dict[str, Any]:
    return {"release": made.id} | made.model_dump(include={"name", "sha256", "paid"})


class Janitor:
    """Takes over, as ``worker``, jobs whose worker is gone."""

    def __init__(self, jobs: Jobs, worker: str) -> None:
        self._jobs, self._worker = jobs, worker

    def tidy(self) -> int:
        """Settle every job with an expired lease, remove unneeded files, and return the number of jobs."""
        count = 0
        while (record := self._jobs.table.seize(self._worker, LEASE_SECONDS)) is not None:
            self._settle(record)
            count += 1
        self._jobs.sweep()
        return count

    def _settle(self, record: JobRecord) -> None:
        jobs = self._jobs
        if record.state == "accepted":
            self._accept(record)
            return
        id_ = jobs.release_id(record)
        made = jobs.releases.read(record.tenant, id_) if record.kind == "protect" else None
        if record.cancelled:
            jobs.end_cancelled(record, self._worker)
        elif made is not None:  # only the end of the job was not recorded
            jobs.end(record, self._worker, "done", result=_result_of(made))
        elif record.kind == "audit" or jobs.give_back(record):
            self._again(record, spent=False)
        elif record.request is not None:
            self._again(record, spent=True)
        else:
            jobs.releases.discard(record.tenant, id_)
            self._fail(record, "interrupted", f"{_UNFINISHED} It had begun to draw.", spent=True)

    def _accept(self, record: JobRecord) -> None:
        """Settle a job whose acceptance was never reported: keep it for a repeated request, else drop it."""
        spent = record.hold is not None
        try:
            if not self._jobs.files.of(record.id):
                raise BadInput(_UNFINISHED)
            hold = self._jobs.held(record)
        except _SILENT:
            raise
        except SfumatoError as error:  # no price is held, and none can be
            if spent or record.attempt > 1:  # it ended before, and clients know it
                self._refuse(record, error, spent=spent)
            else:
                self._jobs.forget(record.id, self._worker)
            return
        if record.request is not None:
            self._jobs.queue(record.id, self._worker, hold=hold)
            return
        self._jobs.give_back(replace(record, hold=hold))
        self._jobs.forget(record.id, self._worker)

    def _again(self, record: JobRecord, *, spent: bool) -> None:
        """Queue a job again: with its committed hold, or with a new hold for a new attempt."""
        if record.tries > _MOST_TRIES or not self._jobs.files.of(record.id):
            self._fail(record, "interrupted", _UNFINISHED, spent=spent)
            return
        changes: dict[str, Any] = {}
        if record.kind == "protect" and not spent:
            new = replace(record, attempt=record.attempt + 1, hold=None)
            try:
                changes = {"attempt": new.attempt, "hold": self._jobs.held(new)}
            except _SILENT:
                raise
            except SfumatoError as error:
                self._refuse(record, error, spent=False)
                return
        self._jobs.queue(record.id, self._worker, **changes)

    def _refuse(self, record: JobRecord, error: SfumatoError, *, spent: bool) -> None:
        found = refusal_of(error)
        assert found is not None
        self._fail(record, found.code, found.message, spent=spent)

    def _fail(self, record: JobRecord, kind: str, detail: str, *, spent: bool) -> None:
        self._jobs.fail(record, self._worker, kind, detail, retryable=True, spent=spent)


class Runner:
    """Works on the jobs of ``service`` from :meth:`start` to :meth:`stop`, ``threads`` of them at once.

    Leases last ``lease`` seconds and are renewed every ``beat`` seconds, when progress is stored too. Every
    ``tick`` seconds it looks for jobs of dead processes, so these wait for at most a lease and a tick. It
    looks for queued jobs of other processes every ``poll`` seconds, and finds those of its own process at
    once. A job may take ``longest`` seconds; it then fails at its next step.
    """

    def __init__(
        self,
        service: Service,
        *,
        threads: int = 2,
        lease: float = LEASE_SECONDS,
        beat: float = 2.0,
        tick: float = 5.0,
        poll: float = 1.0,
        longest: float = 6 * 3600.0,
    ) -> None:
        self._service, self._jobs = service, service.job_store
        self._lease, self._beat, self._tick, self._poll = lease, beat, tick, poll
        self._longest = longest
        # The process's number is for people; it may repeat, the rest does not.
        self._name = f"worker {os.getpid()} {secrets.token_hex(8)}"
        self._work = Work(service, self._name, lease)
        self._janitor = Janitor(self._jobs, f"janitor {os.getpid()} {secrets.token_hex(8)}")
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._watched: dict[str, Watch] = {}
        self._lock = threading.Lock()
        # Daemons: a job that does not stop must not keep the process from ending.
        self._workers = [
            threading.Thread(target=self._working, name=f"sfumato-job-{number}", daemon=True)
            for number in range(threads)
        ]
        self._others = [
            threading.Thread(target=self._keeping, name="sfumato-job-keeper", daemon=True),
            threading.Thread(target=self._tidying, name="sfumato-job-janitor", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in (*self._workers, *self._others):
            thread.start()

    @property
    def alive(self) -> bool:
        """Return whether every started thread is alive."""
        return all(thread.is_alive() for thread in (*self._workers, *self._others))

    def stop(self, seconds: float = 30.0) -> None:
        """Take no more jobs, and give running ones ``seconds`` to end.

        A job that has not begun to draw by then goes back to the queue with its price held. One that has, and
        does not end, is found by the janitor of another process. Queued jobs stay queued.
        """
        self._stopping.set()
        self._jobs.news.set()
        self._joined(seconds)
        with self._lock:
            for watch in self._watched.values():
                watch.ending = True
        self._joined(self._beat)
        self._ended.set()
        for thread in self._others:
            thread.join(self._beat)

    def _joined(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in self._workers:
            thread.join(max(0.0, until - time.monotonic()))

    def _working(self) -> None:
        news = self._jobs.news
        while not self._stopping.is_set():
            news.clear()
            record = None
            with suppress(SfumatoError):  # a database that does not answer now may do so later
                record = self._jobs.table.claim(self._name, self._lease)
            if record is None:
                news.wait(self._poll)
                continue
            news.set()  # there may be more, for another thread
            watch = Watch(self._lease, self._longest)
            with self._lock:
                self._watched[record.id] = watch
            try:
                with suppress(SfumatoError):
                    self._work.do(record, watch)
            finally:
                with self._lock:
                    del self._watched[record.id]

    def _keeping(self) -> None:
        while not self._ended.wait(self._beat):
            with self._lock:
                watched = dict(self._watched)
            if not watched:
                continue
            progress = {id_: (watch.stage, watch.share) for id_, watch in watched.items()}
            with suppress(SfumatoError):
                kept = self._jobs.table.keep(self._name, progress, self._lease)
                for id_, watch in watched.items():
                    if id_ not in kept:
                        watch.lost = True
                        continue
                    watch.renewed()
                    watch.cancelled = watch.cancelled or kept[id_]

    def _tidying(self) -> None:
        while True:
            try:
                self._janitor.tidy()
                self._service.resources.work.sweep()
            except SfumatoError:  # a database that does not answer now may do so later
                pass
            except Exception as error:
                # One job that nobody can settle must not keep the others waiting.
                log("unforeseen", level="error", error=error)
            if self._stopping.wait(self._tick):
                return
