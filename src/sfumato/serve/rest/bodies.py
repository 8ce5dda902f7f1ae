"""Bodies of requests: streamed to a private file, no longer than is allowed, whatever their headers say."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from fastapi import Request

from sfumato.serve.rest.problems import Problem

__all__ = ["received"]

_PAUSE_SECONDS = 30.0


async def received(request: Request, into: Path, limit: int) -> None:
    """Write the body of ``request`` to ``into``, which only its owner may read.

    Refused: more than ``limit`` bytes, nothing at all, and a sender that is silent for half a minute.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    done = 0
    descriptor = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        chunks = request.stream().__aiter__()
        while True:
            try:
                chunk = await asyncio.wait_for(chunks.__anext__(), _PAUSE_SECONDS)
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise Problem(408, "too-slow", "the body came too slowly; send it again.") from None
            done += len(chunk)
            if done > limit:
                raise _too_large(limit)
            file.write(chunk)
    if done == 0:
        raise Problem(400, "bad-input", "the body is empty; it must be the file to release.")


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"the body is larger than {limit:,} bytes, the most this service takes.")
