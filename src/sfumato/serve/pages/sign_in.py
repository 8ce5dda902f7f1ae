"""Signing in with a key, and out again. The key itself is looked at once and never written anywhere."""

from __future__ import annotations

import hmac
import re
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.serve.auth.authentication import TooManyGuesses, Unauthenticated, caller_of
from sfumato.serve.pages.endpoints import form
from sfumato.serve.pages.forms import Form, form_of
from sfumato.serve.pages.page_rendering import address_of, rendered
from sfumato.serve.pages.page_request import SESSION, Visit, desk_of, require_own_site
from sfumato.serve.pages.sessions import LIFETIME_SECONDS
from sfumato.serve.service import Forbidden

__all__ = ["ROUTES", "forget", "way_back"]

_MARK = "sfumato_mark"
_MOST_BYTES = 1 << 14  # of a form that anybody may send
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)*/?")


def way_back(request: Request) -> str:
    """The query that brings whoever signs in back to the page of ``request``."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return f"?{urlencode({'to': path})}" if _PATH.fullmatch(path) and path != "/" else ""


def forget(request: Request, answer: Response) -> None:
    """Let the browser forget who was signed in."""
    answer.delete_cookie(SESSION, path=_path(request), httponly=True, samesite="strict")


def _form(request: Request) -> Response:
    return _asked(request, request.query_params.get("to", ""))


def _asked(request: Request, to: str, status: int = 200, refusal: str | None = None) -> Response:
    """The form, tied to this browser by a cookie."""
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
    proof = desk.sessions.proof_of_mark(request.cookies.get(_MARK))
    if proof is None or not hmac.compare_digest(proof.encode(), (given.proof or "").encode()):
        raise Forbidden("this form is not one of yours or too old; load its page again.")
    address = None if request.client is None else request.client.host
    try:
        caller = caller_of(desk.service, desk.guessing, f"Bearer {given.text('key')}", address)
    except (Unauthenticated, TooManyGuesses) as error:
        answer = _asked(request, to, _status(error), _sentence(error))
        if isinstance(error, TooManyGuesses):
            answer.headers["Retry-After"] = str(int(error.seconds) + 1)
        return answer
    home = f"{request.scope.get('root_path', '')}{to}" if to and _PATH.fullmatch(to) else None
    first = "datasets" if caller.may("read") else "tenant"
    signed_in = RedirectResponse(home or address_of(request, first), 303)
    _put(request, signed_in, SESSION, desk.sessions.opened(caller), LIFETIME_SECONDS)
    return signed_in


def _sentence(error: SfumatoError) -> str:
    if isinstance(error, Unauthenticated):
        return "this is no valid key: it may be mistyped, revoked or expired."
    return str(error)


def _status(error: SfumatoError) -> int:
    return 401 if isinstance(error, Unauthenticated) else 429


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
    """Whether the browser came by https: a header that says so too much only keeps its own cookie safer."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").strip().lower())


def _path(request: Request) -> str:
    return request.scope.get("root_path", "") or "/"


ROUTES = [
    Route("/sign-in", _form, methods=["GET"], name="sign-in"),
    Route("/sign-in", _sign_in, methods=["POST"], name="sign-in-with"),
    form("/sign-out", _sign_out, "sign-out"),
]
