"""Work that requests wait for: a few of a tenant at a time, in threads of their own, and not for ever.

So no tenant keeps the others waiting, and keys and readiness, which have other threads, are looked at
however long releases take. A thread cannot be stopped: work that nobody waits for any more goes on to its
end, what it spends is spent, what it releases is kept, and until then it counts as its tenant's.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import SfumatoError
from sfumato.serve.logs import told
from sfumato.serve.registry_errors import QuotaRefused

__all__ = ["LATE_PLAN", "Direct", "TookTooLong", "late_release"]

_Made = TypeVar("_Made")
_THREADS = 32
_PATIENCE_SECONDS = 10.0
_RETRY_SECONDS = 1.0
#: What to do where a plan took too long; what it says is said of a job too, before anything is spent.
LATE_PLAN = "ask again, or ask for a job, which is refused before it spends anything where it cannot be done"
_LATE = "it takes longer than {:g} seconds, which is the most that is waited for here"


def late_release(request: str | None) -> str:
    """What to do where the release under this idempotency key, or under none, took too long."""
    if request is None:
        return (
            "it goes on, and once it is paid it will be among the releases; give such requests an "
            "idempotency key, or ask for jobs"
        )
    return (
        "it goes on, and is paid once: ask again under the same idempotency key in a while; ask for jobs "
        "where files are as large as this"
    )


class TookTooLong(SfumatoError):
    """The work goes on, but its request was answered."""


class Direct:
    """Work in a process: ``at_once`` of one tenant at a time, each waited for during ``seconds``.

    Who comes when a tenant has as many under way waits for ``patience`` seconds, and is then refused.
    """

    def __init__(self, at_once: int, seconds: float, *, patience: float = _PATIENCE_SECONDS) -> None:
        self._at_once, self._seconds, self._patience = at_once, seconds, patience
        self._threads = CapacityLimiter(_THREADS)
        self._free: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))

    async def done(
        self, tenant: str, work: Callable[[], _Made], brought: ExitStack, *, late: str | None = None
    ) -> _Made:
        """What ``work`` makes in a thread; ``brought``, the files it works on, is closed when it has ended.

        Work that lasts longer than is waited for is answered by :class:`TookTooLong`, whose sentence ends
        with ``late``, what to do then; without it, it is waited for to its end.
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
    """Let what nobody foresaw be in the log, though nobody waits for the answer."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SfumatoError):
        told("unforeseen", level="error", error=error)
