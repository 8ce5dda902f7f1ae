"""Around every request: whom it comes from, its id, its line in the log, its counts, what nobody foresaw."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect

from sfumato.serve.auth.addresses import Network
from sfumato.serve.auth.trusted_proxies import address_behind
from sfumato.serve.logs import noting, told
from sfumato.serve.metrics import Metrics
from sfumato.serve.refusal_codes import REFUSAL
from sfumato.serve.rest.problem_details import problem

__all__ = ["HEADER", "Watched"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_Application = Callable[[_Message, _Receive, _Send], Awaitable[None]]

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
    """An application of which every request is counted and has a line in the log.

    An error that nobody foresaw is answered by a problem that names the request; its type and place are in
    the log under the same name. ``trusted`` proxies are believed about whom they were asked by.
    """

    def __init__(self, app: _Application, metrics: Metrics, trusted: Sequence[Network] = ()) -> None:
        self._app, self._metrics, self._trusted = app, metrics, trusted

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request, or whatever else a server asks of an application."""
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

    def _find_client(self, scope: _Message) -> None:
        peer = scope.get("client")
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        if peer is not None and given:
            scope["client"] = (address_behind(peer[0], ",".join(given), self._trusted), 0)

    def _ended(self, scope: _Message, watch: _Watch, seconds: float, notes: dict[str, Any]) -> None:
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
    """What goes through one request."""

    def __init__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        self.id = secrets.token_hex(8)
        self.status: int | None = None
        self.bytes_in = self.bytes_out = 0
        self._receive, self._send = receive, send
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        self._secure = scope.get("scheme") == "https" or b"https" in forwarded

    async def receive(self) -> _Message:
        message = await self._receive()
        self.bytes_in += len(message.get("body", b""))
        return message

    async def send(self, message: _Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", ()))
            told = {name.lower() for name, _ in given}
            always = [*_ALWAYS, *(_OVER_TLS if self._secure else ())]
            given += [(name, value) for name, value in always if name not in told]
            message = {**message, "headers": [*given, (HEADER.lower().encode(), self.id.encode())]}
        self.bytes_out += len(message.get("body", b""))
        await self._send(message)


def _unforeseen(id_: str) -> _Application:
    return problem(500, "unforeseen", f"something unforeseen happened; it is in the log as request {id_}.")


def _method(scope: _Message) -> str:
    """One of few words, whatever a client made up."""
    known = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")
    return scope["method"] if scope["method"] in known else "other"


def _template(scope: _Message) -> str:
    """The template of the route, as /v1/releases/{release}: never the path, which holds names."""
    mounted = scope.get("root_path", "").removeprefix(scope.get("app_root_path", ""))
    path = getattr(scope.get("route"), "path", "")
    if path and scope["path"].startswith("/v1/") and not path.startswith("/v1/"):
        return f"/v1{path}"  # newer versions of FastAPI know a route by the path in its own router
    if mounted and not path.startswith(mounted):
        return f"{mounted}{path}"
    return path or "none"
