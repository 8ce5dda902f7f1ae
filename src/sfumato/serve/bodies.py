"""Files that clients send: streamed to a private file, no longer than is allowed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable
from pathlib import Path

from sfumato.errors import BadInput, SfumatoError

__all__ = ["TooLarge", "TooSlow", "require_size", "written"]

_PAUSE_SECONDS = 30.0


class TooLarge(SfumatoError):
    """A body of more bytes than the service takes."""


class TooSlow(SfumatoError):
    """A sender that was silent for too long."""


def require_size(size: int, limit: int) -> None:
    """Refuse a body of ``size`` bytes where only ``limit`` are taken."""
    if size > limit:
        raise TooLarge(f"the body is larger than {limit:,} bytes, the most this service takes.")


async def written(chunks: AsyncIterable[bytes], into: Path, limit: int) -> None:
    """Write ``chunks`` to ``into``, which only its owner may read.

    Refused: more than ``limit`` bytes, nothing at all, and a sender that is silent for half a minute.
    """
    done = 0
    descriptor = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        coming = aiter(chunks)
        while True:
            try:
                chunk = await asyncio.wait_for(anext(coming), _PAUSE_SECONDS)
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise TooSlow("the body came too slowly; send it again.") from None
            done += len(chunk)
            require_size(done, limit)
            file.write(chunk)
    if done == 0:
        raise BadInput("the body is empty; it must be the file to release.")
