"""Files that clients stream: a message that says what is asked, then the file in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.grpc.deadlines import within
from sfumato.serve.request_files import direct_limit, for_jobs, written
from sfumato.serve.service import Service, file_name

__all__ = ["asked_first", "uploaded", "uploaded_parts"]

_PARTS = ("original", "released", "nonmembers", "labels_file")


async def asked_first(parts: AsyncIterator[Any], seconds: float, part: str = "file") -> Any:
    """The first of ``parts``, which says what is asked; it must come within ``seconds``."""
    async with within(seconds, "nothing came; begin with the message that says what is asked."):
        first = await anext(parts, None)
    if first is None or first.WhichOneof("part") != part:
        raise BadInput(f"the first message of the stream must be {part}, which says what is asked.")
    return getattr(first, part)


async def uploaded(
    service: Service,
    name: str,
    parts: AsyncIterator[Any],
    seconds: float,
    brought: ExitStack,
    *,
    direct: bool = False,
) -> Path:
    """Where the file that the rest of ``parts`` makes up lies, under this ``name``, until ``brought`` closes.

    Where the call waits for the work on it (``direct``) it may be less large.
    """
    limit = direct_limit(service.settings) if direct else service.settings.body_bytes
    place = brought.enter_context(service.body(file_name(name)))
    with for_jobs(limit, service.settings):
        async with within(seconds, f"the file did not come within {seconds:.0f} seconds; send it again."):
            await written(_chunks(parts), place, limit)
    return place


async def _chunks(parts: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise BadInput("all messages of the stream after the first must be chunks of the file.")
        yield part.chunk


async def uploaded_parts(
    service: Service, parts: AsyncIterator[Any], seconds: float, brought: ExitStack
) -> dict[str, Path]:
    """Where the files that the rest of ``parts`` brings lie until ``brought`` closes, by their parts."""
    files: dict[str, Path] = {}
    left = service.settings.body_bytes
    folder = brought.enter_context(service.folder())
    async with within(seconds, f"the files did not come within {seconds:.0f} seconds; send them again."):
        part = await anext(parts, None)
        while part is not None:
            place = _place(part, folder, files)
            chunks = _OneFile(parts)
            await written(chunks, place, left)
            left -= place.stat().st_size
            part = chunks.next
    return files


def _place(part: Any, folder: Path, files: dict[str, Path]) -> Path:
    """Where the file goes that ``part`` begins."""
    if part.WhichOneof("part") != "file" or part.file.part not in _PARTS or part.file.part in files:
        raise BadInput(f"after what is asked come files, each begun by its part: {', '.join(_PARTS)}.")
    own = folder / part.file.part
    own.mkdir(mode=0o700)
    files[part.file.part] = own / file_name(part.file.name)
    return files[part.file.part]


class _OneFile:
    """The chunks of one file of several; ``next`` is the message that begins the one after it."""

    def __init__(self, parts: AsyncIterator[Any]) -> None:
        self._parts, self.next = parts, None

    def __aiter__(self) -> _OneFile:
        return self

    async def __anext__(self) -> bytes:
        part = await anext(self._parts, None)
        if part is None or part.WhichOneof("part") == "file":
            self.next = part
            raise StopAsyncIteration
        if part.WhichOneof("part") != "chunk":
            raise BadInput("what is asked comes once, before all files.")
        chunk: bytes = part.chunk
        return chunk
