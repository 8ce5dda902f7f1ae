"""Blocks of independent work on as many threads as help; NumPy and AES release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["THREADS", "each_block", "processors"]

#: The environment variable that says how many processors to use, where that is fewer than there are.
THREADS = "SFUMATO_THREADS"


def processors() -> int:
    """How many processors this process may use."""
    told = os.environ.get(THREADS, "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_block(work: Callable[[int], None], blocks: int, threads: int | None = None) -> None:
    """Call ``work(0)`` … ``work(blocks − 1)``, on ``threads`` threads (default: all processors).

    The first error is raised, after which no further block is started.
    """
    count = min(processors() if threads is None else threads, blocks)
    if count <= 1:
        for block in range(blocks):
            work(block)
        return
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, block) for block in range(blocks)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise
