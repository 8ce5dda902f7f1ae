"""Files that clients stream: a message that says what is asked, then the file in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.bodies import written
from sfumato.serve.grpc_api.deadlines import within
from sfumato.serve.service import Service, file_name

__all__ = ["asked_first", "uploaded"]


async def asked_first(parts: AsyncIterator[Any], seconds: float) -> Any:
    """The first of ``parts``, which says what is asked and names a file; it must come within ``seconds``."""
    async with within(seconds, "nothing came; begin with the message that says what is asked."):
        first = await anext(parts, None)
    if first is None or first.WhichOneof("part") != "file":
        raise BadInput("the first message of the stream must be file, which says what is asked.")
    return first.file


@asynccontextmanager
async def uploaded(
    service: Service, name: str, parts: AsyncIterator[Any], seconds: float
) -> AsyncIterator[Path]:
    """Where the file that the rest of ``parts`` makes up lies until the block ends, under this ``name``."""
    with service.body(file_name(name)) as place:
        async with within(seconds, f"the file did not come within {seconds:.0f} seconds; send it again."):
            await written(_chunks(parts), place, service.settings.body_bytes)
        yield place


async def _chunks(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise BadInput("all messages of the stream after the first must be chunks of the file.")
        yield part.chunk
