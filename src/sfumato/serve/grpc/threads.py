"""Work in threads that is waited for, also by calls that are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

__all__ = ["finished"]

_Result = TypeVar("_Result")


async def finished(
    threads: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: Any, **words: Any
) -> _Result:
    """What ``function`` returns in one of ``threads``.

    A caller that goes away meanwhile is let go only when the function has ended: no thread can be stopped,
    and the private file it works on lies there until its call ends.
    """
    # With the call's own context, in which what is noted for its line in the log finds it.
    work = partial(copy_context().run, function, *arguments, **words)
    job = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        while not job.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([job])
        raise
