"""The dashboard as one ASGI application, to be mounted by the server."""

from __future__ import annotations

import math
from http import HTTPStatus
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import SfumatoError
from sfumato.serve.pages import (
    dataset_pages,
    explorer,
    release_pages,
    sign_in,
    tenant_pages,
)
from sfumato.serve.pages.dataset_pages import Spendings
from sfumato.serve.pages.explorer import Samples
from sfumato.serve.pages.page_request import (
    PROTECTION,
    SESSION,
    Desk,
    Headers,
    address_of,
    is_fragment,
    rendered,
    template_text,
    visit_of,
)
from sfumato.serve.pages.sign_in import Sessions
from sfumato.serve.refusals import refusal_of
from sfumato.serve.rest.rest_requests import allowed
from sfumato.serve.service import Service

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OF_THE_REPORT = ("style.css", "script.js")
_HEADINGS = {
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    429: "Too many requests",
    503: "Not available now",
}


def make_dashboard(service: Service) -> Starlette:
    """Return the pages of ``service``."""
    app = Starlette(
        routes=[
            Route("/static/{file}", _static, methods=["GET"], name="static"),
            *(
                route
                for part in (
                    sign_in,
                    dataset_pages,
                    release_pages,
                    explorer,
                    tenant_pages,
                )
                for route in part.ROUTES
            ),
        ],
        middleware=[Middleware(Headers)],
        exception_handlers={SfumatoError: _refused, HTTPException: _plain, Exception: _unforeseen},
    )
    secret = service.keys.noise_secret()
    sessions = Sessions(secret, service.settings.data / "signed-out")
    app.state.desk = Desk(service, sessions, Samples(secret), Spendings(service.ledger))
    return app


def _static(request: Request) -> Response:
    name = request.path_params["file"]
    place = files("sfumato.serve.pages").joinpath("static", name)
    suffix = "." + name.rpartition(".")[2]
    if name in _OF_THE_REPORT:
        text = template_text(name)
    elif suffix in _KINDS and "/" not in name and place.is_file():
        text = place.read_text("utf-8")
    else:
        raise HTTPException(404)
    return Response(text, media_type=_KINDS[suffix], headers={"Cache-Control": "public, max-age=3600"})


def _refused(request: Request, error: Exception) -> Response:
    """Return a page with the refusal in the words of the API."""
    found = refusal_of(error)
    assert found is not None
    if found.status == 401 and not is_fragment(request):
        return _to_sign_in(request)
    answer = _page(request, found.status, found.message)
    if found.seconds is not None:
        answer.headers["Retry-After"] = str(math.ceil(found.seconds))
    return answer


def _plain(request: Request, error: Exception) -> Response:
    """Return a page for the framework's own refusals: no such page, no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and request.method == "OPTIONS":
        return Response(status_code=204, headers={"Allow": allowed(request)})
    sentence = (
        "there is no such page." if error.status_code == 404 else f"{HTTPStatus(error.status_code).phrase}."
    )
    answer = _page(request, error.status_code, sentence)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = allowed(request)
    return answer


def _unforeseen(request: Request, error: Exception) -> Response:
    """Return a page for an unexpected error; the error itself is logged."""
    sentence = "an unexpected error occurred; it is in the log by its time."
    # Answered from outside of what adds headers to all others.
    answer = rendered(request, "error.html", status=500, heading=_heading(500), sentence=sentence)
    answer.headers.update(PROTECTION)
    return answer


def _to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, which leads back to the requested page."""
    back = sign_in.way_back(request) if request.method == "GET" else ""
    answer = RedirectResponse(f"{address_of(request, 'sign-in')}{back}", 303)
    if SESSION in request.cookies:
        sign_in.forget(request, answer)
    return answer


def _page(request: Request, status: int, sentence: str) -> Response:
    try:
        visit = visit_of(request)
    except SfumatoError:
        visit = None  # the way on is then the page for signing in
    return rendered(
        request, "error.html", status=status, visit=visit, heading=_heading(status), sentence=sentence
    )


def _heading(status: int) -> str:
    return _HEADINGS.get(status, "Bad request" if status < 500 else "Something went wrong")
