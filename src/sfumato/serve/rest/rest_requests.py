"""REST requests: the caller, the service, pages of lists, and limits on bodies and forms.

Every route takes the caller of its request's key, or is not reached. Lists are paged, newest first; the
header Link gives the next page.

Limits of size and speed hold whatever the headers say. Files of a form are written to private paths as they
arrive, words are kept in memory, and nothing is stored elsewhere. Every part, and all of them together, are
limited.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, Protocol

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, HTTPException, Query, Request, Response
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import BadInput
from sfumato.serve.authentication import ApiKey
from sfumato.serve.refusals import TooLarge, TooSlow
from sfumato.serve.rest.middleware import problem
from sfumato.serve.service import MOST_AT_ONCE, Service
from sfumato.serve.uploads import Pace, private_file, require_size, require_some, written

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

#: How many at most.
Limit = Annotated[int, Query(ge=1, le=MOST_AT_ONCE, description="How many at most.")]
#: After which one.
Cursor = Annotated[
    str | None, Query(pattern=r"^[0-9a-f]{24}$", description="The id of the last one of the page before.")
]
#: The header of a page, for the OpenAPI document.
PAGED: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "Link": {
                "description": 'With rel="next", where the next page is; not there on the last.',
                "schema": {"type": "string"},
            }
        }
    }
}

# Threads of their own: whatever else is slow, keys are looked at.
_THREADS = CapacityLimiter(16)


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


def link_next(request: Request, response: Response, page: Sequence[_Identified], limit: int) -> None:
    """Add the link to the next page if this one is full."""
    if len(page) == limit:
        place = f"{request.url.path}?limit={limit}&cursor={page[-1].id}"
        response.headers["Link"] = f'<{place}>; rel="next"'


def address_of(request: Request) -> str | None:
    """Return the network address of the client."""
    return None if request.client is None else request.client.host


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


#: The service that answers.
Here = Annotated[Service, Depends(_service)]


async def _caller(request: Request) -> ApiKey:
    # The header is in the document as the scheme of keys, and is taken as it is: declared, it would be
    # looked up by every request as if it could be anything.
    service: Service = request.app.state.service
    given = request.headers.get("authorization")
    return await to_thread.run_sync(service.authenticate, given, address_of(request), limiter=_THREADS)


#: Who asks, within the quota of requests; wrong keys are counted by the address they come from.
Asking = Annotated[ApiKey, Depends(_caller)]


# What a body may have where no route asks for more: the longest policy, and the words around it.
_SMALL = 2 << 20
_BODY = "sfumato.body"

_MOST_HEADERS = 8 << 10
# What may come around the content of the parts: boundaries and headers.
_AROUND = 256 << 10


class Bounded:
    """Middleware that limits bodies, unless a route that knows its caller allows more.

    JSON bodies are read before the key is checked, so this comes before everything else: at most 2 MiB, at a
    minimum transfer rate.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on any other event of the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # Who stands in front may have gone by the other: what follows here would be another's request.
            refused = problem(
                400, "bad-input", "a request tells where it ends in one way.", {"Connection": "close"}
            )
            await refused(scope, receive, send)
            return
        body = _Body(receive)
        scope[_BODY] = body
        await self._app(scope, body.receive, send)


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._pace, self._whole = Pace(), False
        self.limit = _SMALL

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()  # whoever waits for the end of a connection
        try:
            async with asyncio.timeout(self._pace.patience()):
                message = await self._receive()
        except TimeoutError:
            raise _Slow(408, "the body came too slowly; send it again.") from None
        if message["type"] == "http.request":
            self._whole = not message.get("more_body", False)
            self._pace.add(len(message.get("body", b"")))
            if self._pace.bytes > self.limit:
                raise _Large(413, f"the body is larger than {self.limit:,} bytes, the most that is taken.")
        return message


class _Refused(HTTPException):
    # Frameworks that read a body let an HTTPException through, and make any other error their own.
    def __str__(self) -> str:
        return str(self.detail)


class _Large(TooLarge, _Refused):
    pass


class _Slow(TooSlow, _Refused):
    pass


def announced(request: Request) -> float:
    """Return the content length that ``request`` announces; infinity if it announces none."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isdecimal() else math.inf


def allow(request: Request, limit: int) -> None:
    """Let ``request`` bring ``limit`` bytes; raise before reading if it announces more."""
    if (size := announced(request)) < math.inf:
        require_size(int(size), limit)
    body: _Body = request.scope[_BODY]
    body.limit = limit


async def received(request: Request, into: Path, limit: int) -> None:
    """Write the body of ``request`` to ``into``; raise before reading if it announces too much."""
    allow(request, limit)
    await written(request.stream(), into, limit)


async def whole(request: Request, limit: int) -> bytes:
    """Return the body of ``request``."""
    allow(request, limit)
    content = await request.body()
    require_some(len(content))
    return content


def media_type(request: Request) -> str:
    """Return the media type of the body of ``request``, in lower case and without parameters."""
    kind, _ = parse_options_header(request.headers.get("content-type", ""))
    return kind.decode("latin-1")


def is_form(request: Request) -> bool:
    """Return whether the body of ``request`` is declared as a form."""
    return media_type(request) == "multipart/form-data"


def malformed(why: str) -> BadInput:
    """Return the refusal of a body that cannot be read as a form."""
    return BadInput(f"the body is no multipart/form-data that could be read: {why}.")


class Parts(ABC):
    """A parser of a form that receives headers, content and end of each part in order.

    Subclasses say which parts are accepted, and store them. All content together has at most ``limit`` bytes,
    and a word at most ``most_word``.
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
        """Return the path for a file that the client ``called`` so, in a folder of its own.

        None for words.
        """

    @abstractmethod
    def word(self, part: str, called: str | None, text: bytes) -> None:
        """Store the text of a part that has no path."""

    async def read(self, request: Request) -> None:
        """Read all parts of the body of ``request``, which must be complete."""
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
