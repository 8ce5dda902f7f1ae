"""Bodies of requests: no longer than is allowed and not too slow, whatever their headers say."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request

from sfumato.serve.request_files import Pace, TooLarge, TooSlow, require_size, require_some, written
from sfumato.serve.rest.problem_details import problem

__all__ = ["Bounded", "allow", "announced", "received", "whole"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_Application = Callable[[_Message, _Receive, _Send], Awaitable[None]]

# What a body may have where no route asks for more: the longest policy, and the words around it.
_SMALL = 2 << 20
_BODY = "sfumato.body"


class Bounded:
    """An application whose requests bring little, unless a route that knows its caller allows more.

    Bodies of JSON are read before anybody looks at the key, so this stands in front of everything: 2 MiB,
    and a pace that a sender must keep.
    """

    def __init__(self, app: _Application) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request, or whatever else a server asks of an application."""
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
    def __init__(self, receive: _Receive) -> None:
        self._receive = receive
        self._pace, self._whole = Pace(), False
        self.limit = _SMALL

    async def receive(self) -> _Message:
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
    """How many bytes ``request`` says that it brings; infinitely many where it does not say."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isdecimal() else math.inf


def allow(request: Request, limit: int) -> None:
    """Let ``request`` bring ``limit`` bytes; one that announces more is refused before it is read."""
    if (size := announced(request)) < math.inf:
        require_size(int(size), limit)
    body: _Body = request.scope[_BODY]
    body.limit = limit


async def received(request: Request, into: Path, limit: int) -> None:
    """Write the body of ``request`` to ``into``; one that announces too much is not even read."""
    allow(request, limit)
    await written(request.stream(), into, limit)


async def whole(request: Request, limit: int) -> bytes:
    """The body of ``request``, in memory."""
    allow(request, limit)
    content = await request.body()
    require_some(len(content))
    return content
