"""The runner: threads of a server process that work on jobs, keep their leases, and tidy after the dead."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress

from sfumato.errors import SfumatoError
from sfumato.serve.jobs.job_recovery import Janitor
from sfumato.serve.jobs.job_store import LEASE_SECONDS
from sfumato.serve.jobs.job_watch import Watch
from sfumato.serve.jobs.job_work import Work
from sfumato.serve.logs import told
from sfumato.serve.service import Service

__all__ = ["Runner"]


class Runner:
    """Works on the jobs of ``service`` from :meth:`start` to :meth:`stop`, ``threads`` of them at once.

    Leases are kept for ``lease`` seconds and put off every ``beat``, when progress is written too. Every
    ``tick`` seconds it looks for jobs of processes that are gone, so that they wait for at most a lease and a
    tick. Queued jobs of other processes are looked for every ``poll`` seconds, those of this one at once. A
    job may take ``longest`` seconds; it then fails at its next step.
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
        self._service, self._jobs = service, service.jobs_kept
        self._lease, self._beat, self._tick, self._poll = lease, beat, tick, poll
        self._longest = longest
        # With the process's number, by which people know it; it may come again, the rest does not.
        self._name = f"worker {os.getpid()} {secrets.token_hex(8)}"
        self._work = Work(self._jobs, service.audits_kept, self._name, lease)
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
        """Begin."""
        for thread in (*self._workers, *self._others):
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether everything that was started goes on."""
        return all(thread.is_alive() for thread in (*self._workers, *self._others))

    def stop(self, seconds: float = 30.0) -> None:
        """Take no more jobs, and give those in hand so many ``seconds`` to end.

        One that has not begun to draw by then goes back to the queue with its price set aside; what has, and
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
                    watch.kept()
                    watch.cancelled = watch.cancelled or kept[id_]

    def _tidying(self) -> None:
        while True:
            try:
                self._janitor.tidy()
                self._service.sweep()
            except SfumatoError:  # a database that does not answer now may do so later
                pass
            except Exception as error:
                # One job that nobody can settle must not keep the others waiting.
                told("unforeseen", level="error", error=error)
            if self._stopping.wait(self._tick):
                return
