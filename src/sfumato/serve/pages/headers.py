"""What every answer tells browsers: run nothing but ours, show it nowhere else, keep nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders

__all__ = ["DOCUMENT", "PROTECTION", "Headers"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_Application = Callable[[_Message, _Receive, _Send], Awaitable[None]]


def _policy(allowed: Mapping[str, str]) -> str:
    return "; ".join(f"{what} {where}".strip() for what, where in allowed.items())


_PAGES = _policy(
    {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
)
#: For a whole document inside a page's address, such as a report, whose own policy names its style and script
#: by their hashes: it is shown as if it came from another site, without cookies of this one.
DOCUMENT = _policy(
    {
        "default-src": "'none'",
        "script-src": "'unsafe-inline'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "sandbox": "allow-scripts",
    }
)
#: On every answer.
PROTECTION: Mapping[str, str] = {
    "Content-Security-Policy": _PAGES,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without any referrer browsers would not say either whose form they send.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Headers:
    """``app`` with these headers on each of its answers; what an answer says itself stays as it is."""

    def __init__(self, app: _Application) -> None:
        self._app = app

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer one request."""

        async def sent(message: _Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sent)
