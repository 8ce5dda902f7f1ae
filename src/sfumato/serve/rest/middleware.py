"""HTTP middleware: request ids, access log, metrics, and errors as problem details (RFC 9457).

A problem has one sentence, a type for machines, and no private value. Unexpected errors are answered by a
problem that names the request id.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.errors import SfumatoError
from sfumato.serve.authentication import Network, address_behind
from sfumato.serve.monitoring import Metrics, noting, told
from sfumato.serve.refusals import REFUSAL, refusal_of
from sfumato.serve.service import faults

#: What problems are.
MEDIA = "application/problem+json"
#: What operations may answer, for the OpenAPI document, which tells those of each.
PROBLEMS: Mapping[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 507)
}
SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def problem(status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response of a problem."""
    content = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA)


def add_problems(app: FastAPI) -> None:
    """Answer every refusal of ``app`` with a problem; ``middleware`` handles unexpected errors."""

    @app.exception_handler(SfumatoError)
    @app.exception_handler(OSError)
    def refused(request: Request, error: Exception) -> JSONResponse:
        found = refusal_of(error)
        if found is None:
            raise error
        headers = {} if found.seconds is None else {"Retry-After": str(math.ceil(found.seconds))}
        request.scope[REFUSAL] = found.code
        if found.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return problem(found.status, found.code, found.message, headers)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        request.scope[REFUSAL] = "malformed"
        # Where it is wrong and what is expected there; never the value that came.
        return problem(422, "malformed", f"the request is malformed at {faults(error.errors())}.")

    @app.exception_handler(HTTPException)
    def plain(request: Request, error: HTTPException) -> Response:
        status, headers = HTTPStatus(error.status_code), dict(error.headers or {})
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = allowed(request)
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
        word = status.phrase.lower().replace(" ", "-")
        request.scope[REFUSAL] = word
        return problem(status, word, f"{status.phrase}.", headers)


def allowed(request: Request) -> str:
    """Return the methods of the path of ``request``, over all of its routes, for the header Allow."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*found, "OPTIONS"])


#: In every answer: the id that the log knows the request by.
HEADER = "Sfumato-Request"
# The client went away before it was answered.
_GONE = 499
# Asked every few seconds by machines: in the log only where something is wrong.
_QUIET = ("/healthz", "/readyz", "/metrics")
# On every answer that does not say otherwise itself: most are for one tenant or one reader alone.
_ALWAYS = ((b"cache-control", b"no-store"),)
# A header that claims TLS where there is none only reaches whoever sent the claim, over what browsers ignore.
_OVER_TLS = ((b"strict-transport-security", b"max-age=31536000"),)


class Watched:
    """Middleware that counts and logs every request.

    An unexpected error is answered by a problem that names the request id; its type and place are logged
    under the same id. ``trusted`` proxies are believed about the address of their client.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, trusted: Sequence[Network] = ()) -> None:
        self._app, self._metrics, self._trusted = app, metrics, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on any other event of the server."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._trusted:
            self._find_client(scope)
        watch = _Watch(scope, receive, send)
        begun = time.perf_counter()
        with noting() as notes:
            try:
                await self._app(scope, watch.receive, watch.send)
            except ClientDisconnect:
                pass  # nobody is there to be answered
            except Exception as error:
                told("unforeseen", level="error", request=watch.id, error=error, **notes)
                if watch.status is not None:
                    raise  # what was begun cannot be unsaid, so the connection is cut off
                await _unforeseen(watch.id)(scope, receive, watch.send)
            finally:
                self._ended(scope, watch, time.perf_counter() - begun, notes)

    def _find_client(self, scope: Scope) -> None:
        peer = scope.get("client")
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        if peer is not None and given:
            scope["client"] = (address_behind(peer[0], ",".join(given), self._trusted), 0)

    def _ended(self, scope: Scope, watch: _Watch, seconds: float, notes: dict[str, Any]) -> None:
        route, method = _template(scope), _method(scope)
        status = _GONE if watch.status is None else watch.status
        refusal = scope.get(REFUSAL)
        self._metrics.answered(
            "rest",
            route,
            method,
            status,
            seconds,
            bytes_in=watch.bytes_in,
            bytes_out=watch.bytes_out,
            refusal=refusal,
        )
        if route in _QUIET and status < 400:
            return
        told(
            "request",
            request=watch.id,
            route=route,
            method=method,
            status=status,
            refusal=refusal,
            ms=1000.0 * seconds,
            bytes_in=watch.bytes_in,
            bytes_out=watch.bytes_out,
            **notes,
        )


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
            told = {name.lower() for name, _ in given}
            always = [*_ALWAYS, *(_OVER_TLS if self._secure else ())]
            given += [(name, value) for name, value in always if name not in told]
            message = {**message, "headers": [*given, (HEADER.lower().encode(), self.id.encode())]}
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)


def _unforeseen(id_: str) -> ASGIApp:
    return problem(500, "unforeseen", f"something unforeseen happened; it is in the log as request {id_}.")


def _method(scope: Scope) -> str:
    """Return the method if it is a known one, else a fixed word."""
    known = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


def _template(scope: Scope) -> str:
    """Return the route's template, as in /v1/releases/{release}; never the path, which contains names."""
    mounted = scope.get("root_path", "").removeprefix(scope.get("app_root_path", ""))
    path = getattr(scope.get("route"), "path", "")
    if path and scope["path"].startswith("/v1/") and not path.startswith("/v1/"):
        return f"/v1{path}"  # newer versions of FastAPI know a route by the path in its own router
    if mounted and not path.startswith(mounted):
        return f"{mounted}{path}"
    return path or "none"
