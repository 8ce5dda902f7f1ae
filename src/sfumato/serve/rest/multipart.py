"""Bodies that are forms (multipart/form-data): files go to a private folder as they come, words to memory.

Nothing is read before the caller is known, nothing is ever kept elsewhere, and every part and all of them
together are no longer than is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from sfumato.errors import BadInput
from sfumato.serve.bodies import Pace, TooSlow, private_file, require_size
from sfumato.serve.rest.bodies import allow
from sfumato.serve.service import file_name

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

__all__ = ["Form", "form_of", "is_form"]

_MOST_WORDS = 100_000
_MOST_HEADERS = 8 << 10
# What may come around the content of the parts: boundaries and headers.
_AROUND = 256 << 10
_MALFORMED = "the body is no multipart/form-data that could be read: {}."


@dataclass
class Form:
    """What came: files by the name of their part, and words."""

    files: dict[str, Path] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)


def is_form(request: Request) -> bool:
    """Whether the body of ``request`` says that it is a form."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind == b"multipart/form-data"


async def form_of(
    request: Request,
    folder: Path,
    limit: int,
    *,
    files: Collection[str],
    words: Collection[str],
    names: dict[str, str] | None = None,
) -> Form:
    """The form in the body of ``request``, which may have these parts, each once; files lie in ``folder``.

    A file keeps the name that the client gave it, or the one that ``names`` has for its part. Refused: parts
    of other names, more than ``limit`` bytes, words longer than 100,000 bytes, and a sender that is too slow.
    """
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise BadInput(_MALFORMED.format("its boundary must have 1 to 70 characters"))
    allow(request, limit + _AROUND)
    reader = _Reader(folder, limit, files, words, names or {})
    pace, coming = Pace(), aiter(request.stream())
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        while True:
            try:
                chunk = await asyncio.wait_for(anext(coming), pace.patience())
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise TooSlow("the body came too slowly; send it again.") from None
            pace.add(len(chunk))
            require_size(pace.bytes, limit + _AROUND)
            parser.write(chunk)
        parser.finalize()
    except FormParserError:
        raise BadInput(_MALFORMED.format("its parts are malformed")) from None
    finally:
        reader.close()
    if not reader.whole:
        raise BadInput(_MALFORMED.format("it was cut off"))
    return reader.form


class _Reader:
    """What the parser tells, in order: headers of a part, its content, its end."""

    def __init__(
        self,
        folder: Path,
        limit: int,
        files: Collection[str],
        words: Collection[str],
        names: dict[str, str],
    ) -> None:
        self.form, self.whole = Form(), False
        self._folder, self._left, self._names = folder, limit, names
        self._files, self._words, self._limit = files, words, limit
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._part, self._text, self._headers = "", bytearray(), 0
        self._into: BinaryIO | None = None
        self._open = ExitStack()

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def close(self) -> None:
        self._open.close()

    def _begin(self) -> None:
        self._disposition, self._text, self._headers, self._into = b"", bytearray(), 0, None

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._require_headers(end - start)
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._require_headers(end - start)
        self._value += data[start:end]

    def _require_headers(self, more: int) -> None:
        self._headers += more
        if self._headers > _MOST_HEADERS:
            raise BadInput(_MALFORMED.format(f"a part has more than {_MOST_HEADERS:,} bytes of headers"))

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        known = self._part in self._files or self._part in self._words
        if kind != b"form-data" or not known:
            accepted = ", ".join((*self._files, *self._words))
            raise BadInput(_MALFORMED.format(f"its parts are {accepted}"))
        if self._part in self.form.files or self._part in self.form.words:
            raise BadInput(_MALFORMED.format(f"there are two parts {self._part}"))
        if self._part in self._files:
            called = options.get(b"filename", b"").decode("utf-8", "replace")
            self._into = self._opened(file_name(self._names.get(self._part, called)))

    def _opened(self, name: str) -> BinaryIO:
        place = self._folder / self._part
        place.mkdir(mode=0o700)
        self.form.files[self._part] = place / name
        return self._open.enter_context(private_file(place / name))

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._left -= end - start
        if self._left < 0:
            require_size(self._limit + 1, self._limit)
        if self._into is not None:
            self._into.write(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > _MOST_WORDS:
            raise BadInput(f"the part {self._part} is longer than {_MOST_WORDS:,} bytes.")

    def _end(self) -> None:
        if self._into is None:
            try:
                self.form.words[self._part] = self._text.decode()
            except UnicodeDecodeError:
                raise BadInput(f"the part {self._part} is no text in UTF-8.") from None
        elif self._into.tell() == 0:
            raise BadInput(f"the part {self._part} is empty; it must be a file.")
        else:
            self._into.close()

    def _finish(self) -> None:
        self.whole = True
