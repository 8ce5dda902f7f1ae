"""Synchronous requests: a few of each tenant at a time, in threads of their own, with a time limit.

So no tenant delays the others, and authentication and readiness, which have other threads, are answered
however long releases take. A thread cannot be stopped: work that nobody waits for any more runs to its end.
What it spends is spent, what it releases is kept, and until then it counts against its tenant.

Small files take turns in a process. Threads that compute at the same time compete for the interpreter, and
each release then takes half as long again. So work on a small file waits for the turn, but not long: if the
present holder takes its time, as a small file that unpacks to a large image does, the next one runs beside
it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import SfumatoError
from sfumato.serve.monitoring import told
from sfumato.serve.refusals import QuotaRefused, TookTooLong

_SMALL_BYTES = 1 << 20
_TURN_PATIENCE_SECONDS = 0.25

_Made = TypeVar("_Made")
_THREADS = 32
_PATIENCE_SECONDS = 10.0
_RETRY_SECONDS = 1.0
#: What to do where a plan took too long; what it says is said of a job too, before anything is spent.
LATE_PLAN = "ask again, or ask for a job, which is refused before it spends anything where it cannot be done"
_LATE = "it takes longer than {:g} seconds, which is the most that is waited for here"


class Turns:
    """A queue of one turn for the threads of a process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    @contextmanager
    def taken(self, file: Path) -> Iterator[None]:
        """Run the block on ``file``; if that is small, wait for the turn until the patience is over.

        Any of several waiting threads may be next.
        """
        small = file.stat().st_size <= _SMALL_BYTES
        held = small and self._turn.acquire(timeout=_TURN_PATIENCE_SECONDS)
        try:
            yield
        finally:
            if held:
                self._turn.release()


def late_release(request: str | None) -> str:
    """Return what to do if the release under this idempotency key, or under none, took too long."""
    if request is None:
        return (
            "it goes on, and once it is paid it will be among the releases; give such requests an "
            "idempotency key, or ask for jobs"
        )
    return (
        "it goes on, and is paid once: ask again under the same idempotency key in a while; ask for jobs "
        "where files are as large as this"
    )


class Direct:
    """Runs ``at_once`` requests of one tenant at a time, each waited for during ``seconds``.

    A further request waits for ``patience`` seconds and is then refused.
    """

    def __init__(self, at_once: int, seconds: float, *, patience: float = _PATIENCE_SECONDS) -> None:
        self._at_once, self._seconds, self._patience = at_once, seconds, patience
        self._threads = CapacityLimiter(_THREADS)
        self._free: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))

    async def done(
        self, tenant: str, work: Callable[[], _Made], brought: ExitStack, *, late: str | None = None
    ) -> _Made:
        """Run ``work`` in a thread and return its result; close ``brought``, its files, when it has ended.

        Work that takes too long raises :class:`TookTooLong`, whose sentence ends with ``late``, the advice;
        without ``late`` there is no time limit.
        """
        free = self._free[tenant]
        with brought:
            await self._admitted(free)
            kept = brought.pop_all()
        task = asyncio.ensure_future(to_thread.run_sync(work, limiter=self._threads))
        task.add_done_callback(partial(_ended, free, kept))
        try:
            await asyncio.wait((task,), timeout=None if late is None else self._seconds)
        finally:
            if not task.done():
                task.add_done_callback(_noted)
        if not task.done():
            raise TookTooLong(f"{_LATE.format(self._seconds)}; {late}.")
        return task.result()

    async def _admitted(self, free: asyncio.Semaphore) -> None:
        if not free.locked():
            await free.acquire()
            return
        try:
            await asyncio.wait_for(free.acquire(), self._patience)
        except TimeoutError:
            raise QuotaRefused(
                f"the tenant has {self._at_once:,} requests under way here that wait for their work; ask "
                "again when one of them has ended, or ask for a job.",
                _RETRY_SECONDS,
            ) from None


def _ended(free: asyncio.Semaphore, brought: ExitStack, task: asyncio.Task[Any]) -> None:
    free.release()
    brought.close()


def _noted(task: asyncio.Task[Any]) -> None:
    """Log an unexpected error of work that nobody waits for any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SfumatoError):
        told("unforeseen", level="error", error=error)
