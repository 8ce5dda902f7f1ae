"""Files that clients send: streamed to a private file, no longer than is allowed, at a pace."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import BadInput, SfumatoError
from sfumato.serve.settings import Settings

__all__ = [
    "MOST_WORDS",
    "Pace",
    "TooLarge",
    "TooSlow",
    "direct_limit",
    "for_jobs",
    "private_file",
    "require_size",
    "require_some",
    "written",
]

#: The longest description or certificate that comes with a file, in characters.
MOST_WORDS = 100_000
_PAUSE_SECONDS = 30.0
_LEAST_RATE = 16 << 10


class TooLarge(SfumatoError):
    """A body of more bytes than the service takes."""


class TooSlow(SfumatoError):
    """A sender that was silent for too long, or that sends less than a pace asks for."""


class Pace:
    """How fast a sender must be: half a minute, and for every 16 KiB that came a second more.

    Who sends a byte now and then keeps a place among those who are answered no longer than who sends none.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count what came."""
        self.bytes += count

    def patience(self) -> float:
        """How many seconds more may pass until something comes; 0 where the sender is too slow already."""
        left = self._start + _PAUSE_SECONDS + self.bytes / _LEAST_RATE - self._clock()
        return max(0.0, min(left, _PAUSE_SECONDS))


def require_size(size: int, limit: int) -> None:
    """Refuse a body of ``size`` bytes where only ``limit`` are taken."""
    if size > limit:
        raise TooLarge(f"the body is larger than {limit:,} bytes, the most this service takes.")


def direct_limit(settings: Settings) -> int:
    """The most that a request may bring which waits for its work."""
    return min(settings.direct_bytes, settings.body_bytes)


@contextmanager
def for_jobs(limit: int, settings: Settings) -> Iterator[None]:
    """Say of a body that is larger than ``limit`` what takes more, where jobs do."""
    try:
        yield
    except TooLarge:
        if limit >= settings.body_bytes:
            raise
        raise TooLarge(
            f"the body is larger than {limit:,} bytes, the most that is waited for; ask for a "
            "job, as POST /v1/datasets/…/jobs or by Submit, which takes more."
        ) from None


def private_file(place: Path) -> BinaryIO:
    """A new file at ``place``, open for writing, which only its owner may read."""
    return open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def require_some(size: int) -> None:
    """Refuse a body of no bytes."""
    if size == 0:
        raise BadInput("the body is empty; it must be the file to release.")


async def written(chunks: AsyncIterable[bytes], into: Path, limit: int) -> None:
    """Write ``chunks`` to ``into``, which only its owner may read.

    Refused: more than ``limit`` bytes, nothing at all, and a sender that does not keep the :class:`Pace`.
    """
    pace = Pace()
    with private_file(into) as file:
        coming = aiter(chunks)
        while True:
            try:
                chunk = await asyncio.wait_for(anext(coming), pace.patience())
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise TooSlow("the body came too slowly; send it again.") from None
            pace.add(len(chunk))
            require_size(pace.bytes, limit)
            file.write(chunk)
    require_some(pace.bytes)
