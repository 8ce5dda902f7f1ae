"""Forms with files: written to a private folder that is gone when the request was answered.

The body is first written as it comes, under the same limits as every other body, and only then taken apart,
so that no part of it is ever kept in memory or in a folder that others may enter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from sfumato.errors import BadInput
from sfumato.serve.bodies import private_file
from sfumato.serve.dashboard.forms import Form
from sfumato.serve.rest.bodies import received
from sfumato.serve.service import Service, file_name

__all__ = ["upload_of"]

_MOST_PARTS = 60
_MOST_FIELD = 1 << 20
_MOST_HEADER = 4096
_CHUNK = 1 << 18


@asynccontextmanager
async def upload_of(
    request: Request, service: Service, certificates: tuple[str, ...] = ()
) -> AsyncIterator[Form]:
    """The form in the body of ``request``; its files are there until the block ends.

    Files of the fields ``certificates`` are JSON; all others must have names that can be released.
    """
    boundary = _boundary(request.headers.get("content-type", ""))
    with service.folder() as folder:
        body = folder / "body"
        await received(request, body, service.settings.body_bytes)
        yield await run_in_threadpool(_taken_apart, body, boundary, certificates)


def _boundary(content_type: str) -> bytes:
    found = Message()
    found["content-type"] = content_type
    boundary = found.get_param("boundary")
    if found.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise BadInput("the body of a form with files is multipart/form-data.")
    return boundary.encode("latin-1", "replace")[:200]


def _taken_apart(body: Path, boundary: bytes, certificates: tuple[str, ...]) -> Form:
    parts = _Parts(body.parent, certificates)
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": parts.begin,
            "on_header_field": parts.header_name,
            "on_header_value": parts.header_value,
            "on_header_end": parts.header_end,
            "on_headers_finished": parts.headers_end,
            "on_part_data": parts.data,
            "on_part_end": parts.end,
            "on_end": parts.finish,
        },
    )
    try:
        with body.open("rb") as file:
            while chunk := file.read(_CHUNK):
                parser.write(chunk)
        parser.finalize()
    except MultipartParseError:
        raise BadInput("the form is malformed; load its page again.") from None
    finally:
        parts.close()
    if not parts.whole:
        raise BadInput("the form was cut off; send it again.")
    body.unlink()
    return Form(parts.fields, parts.files)


class _Parts:
    """What the parser tells, as fields and files; each file in a folder of its own, for names may repeat."""

    def __init__(self, folder: Path, certificates: tuple[str, ...]) -> None:
        self.fields: dict[str, list[str]] = {}
        self.files: dict[str, Path] = {}
        self.whole = False
        self._folder, self._certificates = folder, certificates
        self._count = 0
        self._header: tuple[bytes, bytes] = (b"", b"")
        self._headers: dict[str, str] = {}
        self._name = ""
        self._text = bytearray()
        self._into: BinaryIO | None = None

    def begin(self) -> None:
        self._count += 1
        if self._count > _MOST_PARTS:
            raise BadInput(f"a form has at most {_MOST_PARTS} fields.")
        self._headers, self._text = {}, bytearray()

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], self._header[1])
        self._require_short()

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])
        self._require_short()

    def header_end(self) -> None:
        name, value = self._header
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")
        self._header = (b"", b"")

    def headers_end(self) -> None:
        described = Message()
        described["content-disposition"] = self._headers.get("content-disposition", "").replace("\n", " ")
        name = described.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise BadInput("the form is malformed; load its page again.")
        self._name = name
        called = described.get_filename()
        if called:  # an empty one says that nothing was chosen
            self._open(called)

    def data(self, data: bytes, start: int, end: int) -> None:
        if self._into is not None:
            self._into.write(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > _MOST_FIELD:
            raise BadInput("a field of the form is longer than 1 MiB.")

    def end(self) -> None:
        if self._into is not None:
            self._into.close()
            self._into = None
        elif "filename" not in self._headers.get("content-disposition", ""):
            text = bytes(self._text).decode("utf-8", "replace")
            self.fields.setdefault(self._name, []).append(text)

    def finish(self) -> None:
        self.whole = True

    def close(self) -> None:
        if self._into is not None:
            self._into.close()

    def _open(self, called: str) -> None:
        if self._name in self.files:
            raise BadInput("one file at a time.")
        safe = "certificate.json" if self._name in self._certificates else file_name(called)
        place = self._folder / str(self._count)
        place.mkdir(mode=0o700)
        self.files[self._name] = place / safe
        self._into = private_file(place / safe)

    def _require_short(self) -> None:
        if len(self._header[0]) + len(self._header[1]) > _MOST_HEADER:
            raise BadInput("the form is malformed; load its page again.")
