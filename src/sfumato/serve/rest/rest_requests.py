"""REST requests: middleware, the caller, limits on bodies, forms, and the work on uploaded files.

Every route takes the caller of its request's key, or is not reached. An unexpected error is answered by a
problem that names the request id.

Limits of size and speed hold whatever the headers say. Files of a form are written to private paths as they
arrive, words are kept in memory, and nothing is stored elsewhere. Every part, and all of them together, are
limited.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import BadInput
from sfumato.serve.authentication import ApiKey, Network, address_behind
from sfumato.serve.monitoring import Metrics, log, log_fields
from sfumato.serve.refusals import REFUSAL, TooLarge, TooSlow
from sfumato.serve.rest.rest_rows import read_rows, rows_file
from sfumato.serve.service import Service
from sfumato.serve.uploads import (
    MOST_WORDS,
    Pace,
    file_name,
    private_file,
    require_size,
    require_some,
    written,
)

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

#: The media type of problems (RFC 9457).
MEDIA = "application/problem+json"
# In every answer: the id of the request in the log.
_HEADER = b"sfumato-request"
# The status in the log if the client went away before it was answered.
_GONE = 499
# Requested every few seconds by machines: logged only if something is wrong.
_QUIET = ("/healthz", "/readyz", "/metrics")
# On every answer that has no such header of its own: most answers are for one tenant or one reader only.
_ALWAYS = ((b"cache-control", b"no-store"),)
# A header that claims TLS where there is none only reaches whoever sent it, and browsers ignore it there.
_OVER_TLS = ((b"strict-transport-security", b"max-age=31536000"),)
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
# The limit of a body unless a route allows more: the longest policy, and the words around it.
_SMALL_BODY = 2 << 20
_BODY = "sfumato.body"
# A file of at most this size is kept in memory until it is worked on.
_IN_MEMORY = 1 << 20
_MOST_HEADERS = 8 << 10
# The limit of everything around the content of the parts: boundaries and headers.
_AROUND = 256 << 10
# Threads of their own, so that keys are checked however slow everything else is.
_KEY_THREADS = CapacityLimiter(16)
_Result = TypeVar("_Result")
#: Returns the path for a file part that the client named, in a folder of its own; None for words.
Place = Callable[[str, str | None], Path | None]


def problem(status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response of a problem."""
    content = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA)


class Watched:
    """Middleware that gives every request an id, counts and logs it, and answers unexpected errors.

    The type and place of an unexpected error are logged under the request id. ``trusted`` proxies are
    believed about the address of their client.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, trusted: Sequence[Network] = ()) -> None:
        self._app, self._metrics, self._trusted = app, metrics, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on any other event of the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        forwarded = [
            value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"
        ]
        if self._trusted and forwarded and scope.get("client") is not None:
            scope["client"] = (address_behind(scope["client"][0], ",".join(forwarded), self._trusted), 0)
        watch, begun = _Watch(scope, receive, send), time.perf_counter()
        with log_fields() as notes:
            try:
                await self._app(scope, watch.receive, watch.send)
            except ClientDisconnect:
                pass  # nobody is there to be answered
            except Exception as error:
                log("unforeseen", level="error", request=watch.id, error=error, **notes)
                if watch.status is not None:
                    raise  # the answer has begun, so the connection is cut off
                detail = f"an unexpected error occurred; it is in the log as request {watch.id}."
                await problem(500, "unforeseen", detail)(scope, receive, watch.send)
            finally:
                self._log(scope, watch, time.perf_counter() - begun, notes)

    def _log(self, scope: Scope, watch: _Watch, seconds: float, notes: dict[str, Any]) -> None:
        route, method = _template(scope), scope["method"] if scope["method"] in _METHODS else "other"
        status = _GONE if watch.status is None else watch.status
        found: dict[str, Any] = {
            "bytes_in": watch.bytes_in,
            "bytes_out": watch.bytes_out,
            "refusal": scope.get(REFUSAL),
        }
        self._metrics.answered("rest", route, method, status, seconds, **found)
        if route not in _QUIET or status >= 400:
            found |= {"route": route, "method": method, "status": status, "ms": 1000.0 * seconds}
            log("request", request=watch.id, **found, **notes)


class _Watch:
    """The messages of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = secrets.token_hex(8)
        self.status: int | None = None
        self.bytes_in = self.bytes_out = 0
        self._receive, self._send = receive, send
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        self._secure = scope.get("scheme") == "https" or b"https" in forwarded

    async def receive(self) -> Message:
        message = await self._receive()
        self.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", ()))
            named = {name.lower() for name, _ in given}
            always = [*_ALWAYS, *(_OVER_TLS if self._secure else ())]
            given += [(name, value) for name, value in always if name not in named]
            message = {**message, "headers": [*given, (_HEADER, self.id.encode())]}
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)


def _template(scope: Scope) -> str:
    """Return the route's template, as in /v1/releases/{release}; never the path, which contains names."""
    mounted = scope.get("root_path", "").removeprefix(scope.get("app_root_path", ""))
    path = getattr(scope.get("route"), "path", "")
    if path and scope["path"].startswith("/v1/") and not path.startswith("/v1/"):
        return f"/v1{path}"  # newer versions of FastAPI know a route by the path in its own router
    if mounted and not path.startswith(mounted):
        return f"{mounted}{path}"
    return path or "none"


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
            # A proxy may have gone by the other one: what follows here would be another client's request.
            detail = "a request has either Content-Length or Transfer-Encoding, not both."
            await problem(400, "bad-input", detail, {"Connection": "close"})(scope, receive, send)
            return
        scope[_BODY] = body = _Body(receive)
        await self._app(scope, body.receive, send)


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._pace, self._complete = Pace(), False
        self.limit = _SMALL_BODY

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # waits for the end of the connection
        try:
            async with asyncio.timeout(self._pace.patience()):
                message = await self._receive()
        except TimeoutError:
            raise _Slow(408, "the body came too slowly; send it again.") from None
        if message["type"] == "http.request":
            self._complete = not message.get("more_body", False)
            self._pace.add(len(message.get("body", b"")))
            if self._pace.bytes > self.limit:
                raise _Large(413, f"the body is larger than {self.limit:,} bytes, the most that is taken.")
        return message


class _Refused(HTTPException):
    # Frameworks that read a body pass an HTTPException on, and make any other error their own.
    def __str__(self) -> str:
        return str(self.detail)


class _Large(TooLarge, _Refused):
    pass


class _Slow(TooSlow, _Refused):
    pass


def allowed(request: Request) -> str:
    """Return the methods of the path of ``request``, over all of its routes, for the header Allow."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*found, "OPTIONS"])


def address_of(request: Request) -> str | None:
    """Return the network address of the client."""
    return None if request.client is None else request.client.host


async def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


#: The service that answers.
Here = Annotated[Service, Depends(_service)]


async def _caller(request: Request, service: Here) -> ApiKey:
    # The OpenAPI document has the header as the security scheme. Declared as a parameter, it would be parsed
    # for every request.
    given = request.headers.get("authorization")
    return await to_thread.run_sync(service.authenticate, given, address_of(request), limiter=_KEY_THREADS)


#: The caller, within the quota of requests; wrong keys are counted by the address they come from.
Asking = Annotated[ApiKey, Depends(_caller)]


def _announced(request: Request) -> float:
    """Return the content length that ``request`` announces; infinity if it announces none."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() else math.inf


def allow(request: Request, limit: int) -> None:
    """Let ``request`` bring ``limit`` bytes; raise before reading if it announces more."""
    if (size := _announced(request)) < math.inf:
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


def _media_type(request: Request) -> bytes:
    """Return the media type of the body of ``request``, in lower case and without parameters."""
    kind: bytes = parse_options_header(request.headers.get("content-type", ""))[0]
    return kind


def is_form(request: Request) -> bool:
    """Return whether the body of ``request`` is declared as a form."""
    return _media_type(request) == b"multipart/form-data"


def _malformed(why: str) -> BadInput:
    return BadInput(f"the body is no multipart/form-data that could be read: {why}.")


class FormReader:
    """Reads a form: headers, content and end of each part in order.

    ``place`` says where files go, and which parts are accepted. All content together has at most ``limit``
    bytes, and a word at most ``most_word``. Words are collected in ``fields``, paths in ``files``.
    """

    def __init__(self, limit: int, place: Place, *, most_word: int = MOST_WORDS) -> None:
        self._limit = self._left = limit
        self._place, self._most_word = place, most_word
        self.fields: dict[str, list[str]] = {}
        self.files: dict[str, Path] = {}
        self._complete = False
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._part, self._text, self._headers = "", bytearray(), 0
        self._called: str | None = None
        self._into: BinaryIO | None = None

    async def read(self, request: Request) -> None:
        """Read all parts of the body of ``request``, which must be complete."""
        _, options = parse_options_header(request.headers.get("content-type", ""))
        boundary = options.get(b"boundary", b"")
        if not 1 <= len(boundary) <= 70:
            raise _malformed("its boundary must have 1 to 70 characters")
        allow(request, self._limit + _AROUND)
        try:
            parser = MultipartParser(boundary, self._callbacks())
            async for chunk in request.stream():
                parser.write(chunk)
            parser.finalize()
        except FormParserError:
            raise _malformed("its parts are malformed") from None
        finally:
            if self._into is not None:
                self._into.close()
        if not self._complete:
            raise _malformed("it was cut off")

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": partial(self._add_header, self._header),
            "on_header_value": partial(self._add_header, self._value),
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self._disposition, self._text, self._headers = b"", bytearray(), 0

    def _add_header(self, into: bytearray, data: bytes, start: int, end: int) -> None:
        self._headers += end - start
        if self._headers > _MOST_HEADERS:
            raise _malformed(f"a part has more than {_MOST_HEADERS:,} bytes of headers")
        into += data[start:end]

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        kind, options = parse_options_header(self._disposition)
        called = options.get(b"filename")
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        self._called = None if called is None else called.decode("utf-8", "replace")
        if kind != b"form-data" or not self._part:
            raise _malformed("a part does not say what it is")
        place = self._place(self._part, self._called)
        if place is not None:
            self.files[self._part] = place
            place.parent.mkdir(mode=0o700)
            self._into = private_file(place)

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._left -= end - start
        if self._left < 0:
            require_size(self._limit + 1, self._limit)
        if self._into is not None:
            self._into.write(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > self._most_word:
            raise BadInput(f"the part {self._part} is longer than {self._most_word:,} bytes.")

    def _end(self) -> None:
        if self._into is not None:
            self._into.close()
            self._into = None
        elif self._called != "":  # an empty name says that no file was chosen
            try:
                self.fields.setdefault(self._part, []).append(self._text.decode())
            except UnicodeDecodeError:
                raise BadInput(f"the part {self._part} is no text in UTF-8.") from None

    def _finish(self) -> None:
        self._complete = True


@dataclass
class Form:
    """An upload: files by part name, words, and whether records replaced the file."""

    files: dict[str, Path] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    rows: bool = False


async def form_of(
    request: Request,
    folder: Path,
    limit: int,
    *,
    files: Collection[str],
    words: Collection[str],
    names: Mapping[str, str] | None = None,
) -> Form:
    """Return the form in the body of ``request``, with these parts, each at most once, files in ``folder``.

    A file keeps the client's name, or the one that ``names`` has for its part. Refused are parts of other
    names, empty files, more than ``limit`` bytes, and words longer than 100,000 bytes.
    """
    seen: set[str] = set()

    def place(part: str, called: str | None) -> Path | None:
        if part not in files and part not in words:
            raise _malformed(f"its parts are {', '.join((*files, *words))}")
        if part in seen:
            raise _malformed(f"there are two parts {part}")
        seen.add(part)
        return folder / part / file_name((names or {}).get(part, called or "")) if part in files else None

    reader = FormReader(limit, place)
    await reader.read(request)
    for part, file in reader.files.items():
        if file.stat().st_size == 0:
            raise BadInput(f"the part {part} is empty; it must be a file.")
    return Form(reader.files, {part: values[0] for part, values in reader.fields.items()})


async def uploaded(
    request: Request,
    service: Service,
    caller: ApiKey,
    named: str | None,
    words: Mapping[str, str | None],
    work: Callable[[Form], _Result],
    *,
    late: str | None = None,
) -> _Result:
    """Run ``work`` in a thread on the file (the part ``file``) and the words of ``request``.

    A file that is the whole body must be ``named``, and ``words`` are those of the query. In a form both may
    be parts instead, and if ``asked`` is among the words, records may come as JSON. Everything uploaded is
    removed when the work is done. ``late`` is that of :meth:`Service.receive`.
    """
    given = {name: value for name, value in words.items() if value is not None}
    rows = "asked" in words and named is None and _media_type(request) == b"application/json"
    limit = service.body_limit(late)
    content = await read_rows(given, partial(whole, request), limit) if rows else b""

    async def bring(brought: ExitStack) -> Callable[[], _Result]:
        if rows:
            return partial(_on_rows, content, service, caller, work)
        if is_form(request):
            folder = brought.enter_context(service.folder())
            names = {} if named is None else {"file": named}
            form = await form_of(request, folder, limit, files=("file",), words=tuple(words), names=names)
            if "file" not in form.files:
                raise BadInput("the form has no part file, which is the file to work on.")
            for name in given.keys() & form.words.keys():
                raise BadInput(f"`{name}` is in the query and in the form; once is enough.", parameter=name)
            form.words |= given
            return partial(work, form)
        if named is None:
            raise BadInput("the file needs a name, as in ?name=X.npz; its suffix says what it is.")
        name = file_name(named)
        if _announced(request) <= _IN_MEMORY:
            return partial(_on_bytes, await whole(request, limit), service, name, given, work)
        folder = brought.enter_context(service.folder())
        await received(request, folder / name, limit)
        return partial(work, Form({"file": folder / name}, given))

    return await service.receive(caller, bring, late=late)


def _on_bytes(
    content: bytes, service: Service, name: str, words: dict[str, str], work: Callable[[Form], _Result]
) -> _Result:
    """Write ``content`` to a file and run ``work`` on it, in the same thread."""
    with service.body(name) as place:
        with private_file(place) as file:
            file.write(content)
        return work(Form({"file": place}, words))


def _on_rows(content: bytes, service: Service, caller: ApiKey, work: Callable[[Form], _Result]) -> _Result:
    """Run ``work`` on records, and count the bytes of the body beyond those of the records' file."""
    with service.folder() as folder:
        uncounted = len(content)
        try:
            place, asked = rows_file(content, folder)
            uncounted = max(0, uncounted - place.stat().st_size)
        finally:
            service.registry.charge(caller.tenant, requests=0, bytes=uncounted)
        return work(Form({"file": place}, {"asked": asked.model_dump_json()}, rows=True))
