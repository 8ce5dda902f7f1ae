"""Sign-in and sign-out with an API key, and the sessions in between.

The key is checked once and stored nowhere. A signed cookie names the key, never its secret: it says which key
of which tenant was shown and until when that counts. The signature comes from the service's own key ring, so
every process of the service reads it. The key is looked up again at each request, and a revoked or expired
key ends the session. A session that was signed out is recorded in a folder that all processes share, until
its cookie would have expired.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.serve.authentication import ApiKey
from sfumato.serve.pages.page_request import (
    SESSION,
    Form,
    Visit,
    address_of,
    desk_of,
    form,
    form_of,
    rendered,
    require_own_site,
    require_proof,
)
from sfumato.serve.refusals import TooManyGuesses, Unauthenticated

#: After so long one signs in again.
LIFETIME_SECONDS = 8 * 3600

_VALUE = re.compile(r"(t[0-9a-f]{16})\.([0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})")
_MARK_VALUE = re.compile(r"[0-9a-f]{32}")

_MARK = "sfumato_mark"
_MOST_BYTES = 1 << 14  # of a form that anybody may send
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)*/?")


@dataclass(frozen=True)
class Session:
    """The content of a cookie: a tenant's id, a key's id, and the ``proof`` that its forms must carry."""

    tenant: str
    key_id: str
    proof: str


class Sessions:
    """Creates and reads cookies with a key derived from ``secret``; ended ones are recorded in ``ended``.

    ``clock`` returns seconds of the epoch.
    """

    def __init__(self, secret: bytes, ended: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = hmac.digest(secret, b"sfumato dashboard sessions", hashlib.sha256)
        self._ended, self._clock = ended, clock

    def opened(self, caller: ApiKey) -> str:
        """Return the cookie of a new session for ``caller``."""
        until = int(self._clock()) + LIFETIME_SECONDS
        body = f"{caller.tenant}.{caller.id}.{until}.{secrets.token_hex(16)}"
        return f"{body}.{self._signature('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """Return the session of ``cookie``; None if it is forged, altered, ended or expired."""
        found = _VALUE.fullmatch(cookie or "")
        if found is None:
            return None
        tenant, key_id, until, _, signature = found.groups()
        body = found[0].rpartition(".")[0]
        genuine = hmac.compare_digest(self._signature("session", body), signature)
        if not genuine or int(until) <= self._clock() or self._note(body).exists():
            return None
        return Session(tenant, key_id, self._signature("form", body))

    def end(self, cookie: str | None) -> None:
        """End the session of ``cookie`` in all processes; remove records of expired cookies."""
        if self.read(cookie) is None:
            return
        self._ended.mkdir(mode=0o700, exist_ok=True)
        for note in self._ended.iterdir():
            with suppress(FileNotFoundError):
                if note.stat().st_mtime < time.time() - LIFETIME_SECONDS:
                    note.unlink()
        self._note(str(cookie).rpartition(".")[0]).touch(mode=0o600)

    def _note(self, body: str) -> Path:
        return self._ended / self._signature("ended", body)

    def mark(self) -> str:
        """Return a cookie that ties the sign-in form to the browser of a visitor who is not signed in."""
        return secrets.token_hex(16)

    def proof_of_mark(self, mark: str | None) -> str | None:
        """Return the proof that the sign-in form must carry for the cookie ``mark``."""
        return self._signature("sign in", mark) if mark is not None and _MARK_VALUE.fullmatch(mark) else None

    def _signature(self, purpose: str, body: str) -> str:
        return hmac.new(self._secret, f"{purpose}\0{body}".encode(), hashlib.sha256).hexdigest()


def way_back(request: Request) -> str:
    """Return the query that leads back to the page of ``request`` after signing in."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return f"?{urlencode({'to': path})}" if _PATH.fullmatch(path) and path != "/" else ""


def forget(request: Request, answer: Response) -> None:
    """Delete the session cookie in the browser."""
    answer.delete_cookie(SESSION, path=_path(request), httponly=True, samesite="strict")


def _form(request: Request) -> Response:
    return _asked(request, request.query_params.get("to", ""))


def _asked(request: Request, to: str, status: int = 200, refusal: str | None = None) -> Response:
    """Return the sign-in form, tied to this browser by a cookie."""
    sessions = desk_of(request).sessions
    mark = request.cookies.get(_MARK)
    proof = sessions.proof_of_mark(mark)
    if mark is None or proof is None:
        mark = sessions.mark()
        proof = sessions.proof_of_mark(mark)
    answer = rendered(
        request,
        "sign_in.html",
        status=status,
        proof=proof,
        to=to if _PATH.fullmatch(to) else "",
        refusal=refusal,
    )
    _put(request, answer, _MARK, mark)
    return answer


async def _sign_in(request: Request) -> Response:
    require_own_site(request)
    given = await form_of(request, _MOST_BYTES)
    return await run_in_threadpool(_shown, request, given)


def _shown(request: Request, given: Form) -> Response:
    desk, to = desk_of(request), given.text("to")
    require_proof(given, desk.sessions.proof_of_mark(request.cookies.get(_MARK)))
    address = None if request.client is None else request.client.host
    try:
        caller = desk.service.authenticate(f"Bearer {given.text('key')}", address)
    except Unauthenticated:
        return _asked(request, to, 401, "this is no valid key: it may be mistyped, revoked or expired.")
    except TooManyGuesses as error:
        answer = _asked(request, to, 429, str(error))
        answer.headers["Retry-After"] = str(int(error.seconds) + 1)
        return answer
    home = f"{request.scope.get('root_path', '')}{to}" if to and _PATH.fullmatch(to) else None
    first = "datasets" if caller.may("read") else "tenant"
    signed_in = RedirectResponse(home or address_of(request, first), 303)
    _put(request, signed_in, SESSION, desk.sessions.opened(caller), LIFETIME_SECONDS)
    return signed_in


def _sign_out(visit: Visit, given: Form) -> Response:
    visit.desk.sessions.end(visit.request.cookies.get(SESSION))
    answer = visit.then("sign-in")
    forget(visit.request, answer)
    return answer


def _put(request: Request, answer: Response, name: str, value: str, seconds: int | None = None) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=_path(request),
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )


def _is_secure(request: Request) -> bool:
    """Return whether the browser used https; a forged header only makes its own cookie stricter."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").strip().lower())


def _path(request: Request) -> str:
    return request.scope.get("root_path", "") or "/"


ROUTES = [
    Route("/sign-in", _form, methods=["GET"], name="sign-in"),
    Route("/sign-in", _sign_in, methods=["POST"], name="sign-in-with"),
    form("/sign-out", _sign_out, "sign-out"),
]
