"""Bodies that are forms (multipart/form-data): files go to private places as they come, words to memory.

Nothing is ever kept elsewhere, and every part and all of them together are no longer than is allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from sfumato.errors import BadInput
from sfumato.serve.request_files import private_file, require_size
from sfumato.serve.rest.bounded_bodies import allow

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

__all__ = ["Parts", "is_form", "malformed", "media_type"]

_MOST_HEADERS = 8 << 10
# What may come around the content of the parts: boundaries and headers.
_AROUND = 256 << 10


def media_type(request: Request) -> str:
    """What the body of ``request`` says that it is, in small letters and without its options."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind.decode("latin-1")


def is_form(request: Request) -> bool:
    """Whether the body of ``request`` says that it is a form."""
    return media_type(request) == "multipart/form-data"


def malformed(why: str) -> BadInput:
    """The refusal of a body that is no form that could be read."""
    return BadInput(f"the body is no multipart/form-data that could be read: {why}.")


class Parts(ABC):
    """What a parser tells of a form, in order: headers of a part, its content, its end.

    Subclasses say which parts there may be, and keep what comes. All content together has at most ``limit``
    bytes, and a word at most ``most_word``.
    """

    most_word: ClassVar[int]

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit
        self._whole = False
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._part, self._text, self._headers = "", bytearray(), 0
        self._called: str | None = None
        self._into: BinaryIO | None = None

    @abstractmethod
    def place(self, part: str, called: str | None) -> Path | None:
        """Where a file goes that the client ``called`` so, in a folder of its own; None of words."""

    @abstractmethod
    def word(self, part: str, called: str | None, text: bytes) -> None:
        """Keep what came in a part that has no place."""

    async def read(self, request: Request) -> None:
        """Take all parts of the body of ``request``, which must be whole."""
        _, options = parse_options_header(request.headers.get("content-type", ""))
        boundary = options.get(b"boundary", b"")
        if not 1 <= len(boundary) <= 70:
            raise malformed("its boundary must have 1 to 70 characters")
        allow(request, self._limit + _AROUND)
        try:
            parser = MultipartParser(boundary, self._callbacks())
            async for chunk in request.stream():
                parser.write(chunk)
            parser.finalize()
        except FormParserError:
            raise malformed("its parts are malformed") from None
        finally:
            if self._into is not None:
                self._into.close()
        if not self._whole:
            raise malformed("it was cut off")

    def _callbacks(self) -> MultipartCallbacks:
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

    def _begin(self) -> None:
        self._disposition, self._text, self._headers = b"", bytearray(), 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._require_headers(end - start)
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._require_headers(end - start)
        self._value += data[start:end]

    def _require_headers(self, more: int) -> None:
        self._headers += more
        if self._headers > _MOST_HEADERS:
            raise malformed(f"a part has more than {_MOST_HEADERS:,} bytes of headers")

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        called = options.get(b"filename")
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        self._called = None if called is None else called.decode("utf-8", "replace")
        if kind != b"form-data" or not self._part:
            raise malformed("a part does not say what it is")
        place = self.place(self._part, self._called)
        if place is not None:
            place.parent.mkdir(mode=0o700)
            self._into = private_file(place)

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._left -= end - start
        if self._left < 0:
            require_size(self._limit + 1, self._limit)
        if self._into is not None:
            self._into.write(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > self.most_word:
            raise BadInput(f"the part {self._part} is longer than {self.most_word:,} bytes.")

    def _end(self) -> None:
        if self._into is None:
            self.word(self._part, self._called, bytes(self._text))
            return
        self._into.close()
        self._into = None

    def _finish(self) -> None:
        self._whole = True
