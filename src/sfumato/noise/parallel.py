"""Run independent blocks of work on several threads; NumPy and AES release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

__all__ = ["THREADS", "each_block", "inner_threads", "processors"]

#: The environment variable that says how many processors to use, where that is fewer than there are.
THREADS = "SFUMATO_THREADS"


def processors() -> int:
    """Return how many processors this process may use."""
    told = os.environ.get(THREADS, "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def inner_threads(most: int | None) -> Iterator[None]:
    """Let linear algebra use at most so many threads in the block, where others work beside it already.

    That holds for the whole process. None leaves it as it is.
    """
    if most is None:
        yield
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(most):
        yield


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
