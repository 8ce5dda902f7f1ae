"""One object as an answer: whole or a range of it, or nothing where the reader has it already."""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path

import anyio
from starlette.responses import Response, StreamingResponse

from sfumato.serve.proxy.s3_errors import Refused

__all__ = ["about", "answered", "is_had", "media_type"]

_CHUNK = 256 << 10
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def about(etag: str, modified: datetime, told: Mapping[str, str]) -> dict[str, str]:
    """The headers of an object, whose bytes ``etag`` names; ``told`` are further ones."""
    return {
        "ETag": etag,
        "Last-Modified": format_datetime(modified.astimezone(UTC).replace(microsecond=0), usegmt=True),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private",
        "X-Content-Type-Options": "nosniff",
        **told,
    }


async def answered(file: Path, method: str, headers: Mapping[str, str], told: Mapping[str, str]) -> Response:
    """The answer to a GET or HEAD of ``file``, about which all of ``told`` is said."""
    said, etag = dict(told), told["ETag"]
    opened = await anyio.open_file(file, "rb")
    try:
        size = os.fstat(opened.wrapped.fileno()).st_size
        part = _part(headers, size, etag)
        start, stop = (0, size) if part is None else part
        said["Content-Length"] = str(stop - start)
        if part is not None:
            said["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        status = 200 if part is None else 206
        if method == "HEAD":
            await opened.aclose()
            return Response(status_code=status, headers=said)
        return StreamingResponse(_bytes(opened, start, stop), status, headers=said)
    except BaseException:
        await opened.aclose()
        raise


async def _bytes(file: anyio.AsyncFile[bytes], start: int, stop: int) -> AsyncIterator[bytes]:
    async with file:
        await file.seek(start)
        left = stop - start
        while left and (chunk := await file.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk


def media_type(name: str) -> str:
    """What a client may take a file for, told from its name alone."""
    kind, packed = mimetypes.guess_type(name)
    return "application/octet-stream" if kind is None or packed is not None else kind


def is_had(headers: Mapping[str, str], etag: str, modified: datetime) -> bool:
    """Whether the reader has the bytes that ``etag`` names; refused where it wants others."""
    wanted, had = headers.get("if-match"), headers.get("if-none-match")
    whole = modified.astimezone(UTC).replace(microsecond=0)
    if wanted is not None:
        if not _names(wanted, etag):
            raise Refused("PreconditionFailed", "the object is not the one that If-Match names.")
    elif (since := _time(headers.get("if-unmodified-since"))) is not None and whole > since:
        raise Refused("PreconditionFailed", "the object has changed since.")
    if had is not None:
        return _names(had, etag)
    since = _time(headers.get("if-modified-since"))
    return since is not None and whole <= since


def _names(header: str, etag: str) -> bool:
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or etag in given or etag.strip('"') in given


def _time(header: str | None) -> datetime | None:
    """A time in a header; one that cannot be read is as none."""
    if header is None:
        return None
    try:
        found = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _part(headers: Mapping[str, str], size: int, etag: str) -> tuple[int, int] | None:
    """Which bytes are asked for; None where all are, also for several ranges at once, as S3 has it."""
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    if found is None or found[0] == "bytes=-":
        return None
    if "if-range" in headers and headers["if-range"].strip() != etag:
        return None
    first, last = found[1], found[2]
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1 if last else size)
    if first and last and int(last) < int(first):
        return None
    if start >= size or start >= stop:
        raise Refused("InvalidRange", "the object has fewer bytes than the range asks for.")
    return start, stop
