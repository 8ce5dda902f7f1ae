"""Requests to pages: session, permissions, forms and routes; and how pages are rendered.

A page is answered only to a signed-in caller within the tenant's quota. A form must carry the proof that it
was made for the session. Uploaded files lie in a private folder until the request is answered.

Pages use the report's templates. Headers on every answer tell browsers to run only our scripts, to show pages
in no frame of others, and to store nothing.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, FunctionLoader
from markupsafe import Markup, escape
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import sfumato
from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.privacy import Statement
from sfumato.reports import Entry, ReleaseSection, at_least, at_most, plain, share
from sfumato.reports import environment as report_environment
from sfumato.serve.authentication import ApiKey
from sfumato.serve.refusals import Forbidden, TooSlow, Unauthenticated, refusal_of
from sfumato.serve.rest.rest_requests import FormReader, allow, is_form
from sfumato.serve.service import Service
from sfumato.serve.uploads import file_name, require_size

if TYPE_CHECKING:
    from sfumato.serve.pages.dataset_pages import Spendings
    from sfumato.serve.pages.explorer import Samples
    from sfumato.serve.pages.sign_in import Sessions

#: The name of the cookie of a session.
SESSION = "sfumato_session"
# The titles of windows; a page about one thing is titled by its name.
_TITLES = {
    "access.html": "Buckets and readers",
    "audits.html": "Audits and jobs",
    "check.html": "Check a file",
    "datasets.html": "Datasets",
    "explorer.html": "Frontier explorer",
    "frontier.html": "The frontier",
    "job.html": "A job",
    "keys.html": "Keys",
    "policy.html": "Trust",
    "protect.html": "Make a release",
    "release.html": "A release",
    "releases_list.html": "Releases",
    "sign_in.html": "Sign in",
}
#: The policy for a whole document at a page's address, such as a report, whose own policy names its style and
#: script by their hashes: it is shown as if it came from another site, without cookies of this one.
DOCUMENT = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox allow-scripts"
)
#: On every answer.
PROTECTION: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without any referrer browsers would not say either whose form they send.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_MOST_BYTES = 4 << 20  # a policy of the largest size, with every character escaped
_MOST_FIELDS, _MOST_PARTS, _MOST_WORD = 200, 120, 1 << 20
_FORM_SECONDS = 30.0
# Two slow pages are made at a time; others wait without blocking a thread.
_SLOW = CapacityLimiter(2)


class Headers:
    """An application with these headers on each answer; headers that an answer sets itself are kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sent)


# Rendering


def rendered(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return the page ``template``, or only its changing part if a script requests that.

    The changing part is a file of the same name; a page is rendered inside ``frame.html``, so scripts and
    browsers get the same content.
    """
    title = _TITLES.get(template) or values.get("heading") or values.get("dataset") or ""
    content = {"title": title, "visit": None, "here": "", "fragment": is_fragment(request)} | values
    frame = template if content["fragment"] else "frame.html"
    body = (
        _environment()
        .get_template(frame)
        .render(
            inner=template, sfumato_version=sfumato.__version__, at=partial(address_of, request), **content
        )
    )
    return HTMLResponse(body, status)


def address_of(request: Request, name: str, /, **parameters: Any) -> Markup:
    """Return the escaped path of the page called ``name``, below the mount point of the application."""
    path = request.app.url_path_for(name, **{key: str(value) for key, value in parameters.items()})
    return Markup(escape(f"{request.scope.get('root_path', '').rstrip('/')}{path}"))


def is_fragment(request: Request) -> bool:
    """Return whether our script requests only the changing part of a page."""
    return request.headers.get("sfumato-fragment") == "1"


def section_of(
    name: str, statement: Statement | Mapping[str, Any], findings: Sequence[Finding] = ()
) -> ReleaseSection:
    """Return the three columns of a release as the report shows them."""
    found = statement if isinstance(statement, Statement) else Statement.from_dict(statement)
    return ReleaseSection(1, Entry(name, found, findings))


def budget_of(balance: dict[str, Any]) -> dict[str, Any]:
    """Return a budget for display: what is left rounded down, the used share as a percentage."""
    return balance | {
        "used_text": share(balance["used"]),
        "left_text": at_least(balance["left"] or balance["left_pure"]),
        "left_pure_text": at_least(balance["left_pure"]),
        "epsilon_text": plain(balance["epsilon"]),
        "delta_text": plain(balance["delta"]),
    }


def template_text(name: str) -> str:
    """Return a template of the dashboard or, if it has none of this name, of the report."""
    for package in ("sfumato.serve.pages", "sfumato.reports"):
        place = files(package).joinpath("templates", name)
        if place.is_file():
            return place.read_text("utf-8")
    raise FileNotFoundError(name)


@cache
def _environment() -> Environment:
    environment = report_environment().overlay(loader=FunctionLoader(template_text))
    environment.filters = report_environment().filters | {
        "at_most": at_most,
        "share": share,
        "exact": lambda text: Markup(escape(text)),
        "sentence": lambda text: text[:1].upper() + text[1:],  # messages of the API begin in lower case
        "day": lambda time: f"{_parsed(time).day} {_parsed(time):%B %Y}",
        "moment": moment,
        "machine": lambda time: _parsed(time).isoformat(timespec="seconds"),
    }
    return environment


def _parsed(time: str | datetime) -> datetime:
    return time if isinstance(time, datetime) else datetime.fromisoformat(time)


def moment(time: str | datetime) -> str:
    """Return a time as in 16 Nov 2026, 15:40 UTC."""
    found = _parsed(time)
    return f"{found.day} {found:%b %Y, %H:%M} UTC"


# Forms


@dataclass(frozen=True)
class Form:
    """The ``fields`` of a form with their values, and the paths of its ``files`` during the request."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the text of field ``name``, without surrounding spaces."""
        return self.exact(name).strip()

    def exact(self, name: str) -> str:
        """Return the text of the hidden field ``name``, with surrounding spaces."""
        return self.fields.get(name, [""])[0]

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        """Return the texts of several fields."""
        return {name: self.text(name) for name in names}

    def several(self, name: str) -> list[str]:
        """Return all values of field ``name``."""
        return [value for value in self.fields.get(name, []) if value]

    def number(self, name: str) -> float:
        """Return the number in field ``name``; raise if it is not a number."""
        try:
            return float(self.text(name))
        except ValueError:
            raise BadInput(f"the field `{name}` must be a number.", parameter=name) from None

    def file(self, name: str) -> Path:
        """Return the path of the file in field ``name``; raise if none was chosen."""
        if name not in self.files:
            raise BadInput(f"no {name} was chosen; choose one.")
        return self.files[name]


async def form_of(request: Request, most: int = _MOST_BYTES) -> Form:
    """Return the form in the body of ``request``: at most ``most`` bytes, within half a minute."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadInput("the body of a form is application/x-www-form-urlencoded.")
    allow(request, most)
    body = bytearray()

    async def read() -> None:
        async for chunk in request.stream():
            body.extend(chunk)
            require_size(len(body), most)

    try:
        await asyncio.wait_for(read(), _FORM_SECONDS)
        found = parse_qs(
            body.decode("utf-8"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MOST_FIELDS
        )
    except TimeoutError:
        raise TooSlow("the form came too slowly; send it again.") from None
    except ValueError:
        raise BadInput("the form is malformed; load its page again.") from None
    return Form(found)


async def _upload_of(request: Request, folder: Path, limit: int, certificates: Collection[str]) -> Form:
    """Return the form in the body of ``request``, with its files in ``folder``, at most ``limit`` bytes.

    Files of the fields ``certificates`` are JSON; all others must have names of files that can be released.
    """
    if not is_form(request):
        raise BadInput("the body of a form with files is multipart/form-data.")
    numbers, chosen = count(1), set[str]()

    def place(part: str, called: str | None) -> Path | None:
        number = next(numbers)
        if number > _MOST_PARTS:
            raise BadInput(f"a form has at most {_MOST_PARTS} fields.")
        if not called:
            return None
        if part in chosen:
            raise BadInput("one file at a time.")
        chosen.add(part)
        # Each file has its own folder, because names repeat.
        return folder / str(number) / ("certificate.json" if part in certificates else file_name(called))

    reader = FormReader(limit, place, most_word=_MOST_WORD)
    await reader.read(request)
    return Form(reader.fields, reader.files)


# Visits


@dataclass(frozen=True)
class Desk:
    """What all pages of one application share."""

    service: Service
    sessions: Sessions
    samples: Samples
    spendings: Spendings


@dataclass(frozen=True)
class Visit:
    """A request by ``caller``, who is signed in; ``proof`` is part of each of their forms."""

    request: Request
    desk: Desk
    caller: ApiKey
    proof: str

    @property
    def service(self) -> Service:
        """Return the service."""
        return self.desk.service

    def may(self, operation: str, dataset: str | None = None) -> bool:
        """Return whether the key allows an operation; what it does not allow is not offered."""
        return self.caller.may(operation, dataset)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page, or only its changing part if a script requested that."""
        return rendered(self.request, template, status=status, visit=self, **values)

    def then(self, name: str, *, part: str = "", **parameters: Any) -> Response:
        """Redirect to the ``part`` of the page called ``name``, so that reloading repeats nothing."""
        place = f"#{part}" if part else ""
        return RedirectResponse(f"{address_of(self.request, name, **parameters)}{place}", 303)


def desk_of(request: Request) -> Desk:
    """Return the shared objects of the application of ``request``."""
    found: Desk = request.app.state.desk
    return found


def visit_of(request: Request) -> Visit:
    """Return the visit of the session cookie of ``request``, charged once to the tenant's quota."""
    found: Visit | None = getattr(request.state, "visit", None)
    if found is None:
        desk = desk_of(request)
        session = desk.sessions.read(request.cookies.get(SESSION))
        key = None if session is None else desk.service.registry.key(session.key_id)
        usable = key is not None and key.is_usable(datetime.now(UTC))
        if session is None or key is None or key.tenant != session.tenant or not usable:
            raise Unauthenticated("this needs a valid key: sign in with one.")
        found = request.state.visit = Visit(request, desk, desk.service.admit(key), session.proof)
    return found


def require_own_site(request: Request) -> None:
    """Raise if the browser says that another site's page sent the request."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Forbidden("this form was sent by a page of another site; nothing was done.")


def require_proof(given: Form, proof: str | None) -> None:
    """Raise if the form was not made for the session or browser of this ``proof``."""
    if proof is None or not hmac.compare_digest(given.exact("proof").encode(), proof.encode()):
        raise Forbidden("this form is not one of yours or too old; load its page again.")


# Routes: the work of a page takes the visit, that of a form also the form, and the parameters of the path

Work = Callable[..., Response]


def page(path: str, work: Work, name: str, *, slow: bool = False) -> Route:
    """Return the route of a page that ``work`` makes."""

    def looked(request: Request) -> Response:
        return work(visit_of(request), **request.path_params)

    async def endpoint(request: Request) -> Response:
        if slow:
            return await to_thread.run_sync(looked, request, limiter=_SLOW)
        return await run_in_threadpool(looked, request)

    return Route(path, endpoint, methods=["GET"], name=name)


def form(path: str, work: Work, name: str, *, again: Work | None = None) -> Route:
    """Return the route of a form without files.

    If it is refused, ``again`` makes its page once more, with the form as ``given`` and the ``refusal``.
    """

    async def endpoint(request: Request) -> Response:
        require_own_site(request)
        visit = await run_in_threadpool(visit_of, request)
        return await run_in_threadpool(_posted, visit, await form_of(request), work, again)

    return Route(path, endpoint, methods=["POST"], name=name)


def upload(
    path: str,
    work: Work,
    name: str,
    *,
    again: Work | None = None,
    certificates: Collection[str] = (),
    late: str | None = None,
) -> Route:
    """Return the route of a form with files, which counts among the tenant's concurrent requests.

    The files are removed afterwards. ``late`` is that of :meth:`Service.receive`.
    """

    async def endpoint(request: Request) -> Response:
        require_own_site(request)
        visit = await run_in_threadpool(visit_of, request)
        service = visit.service

        async def bring(brought: ExitStack) -> Callable[[], Response]:
            folder = brought.enter_context(service.folder())
            given = await _upload_of(request, folder, service.body_limit(late), certificates)
            return partial(_posted, visit, given, work, again)

        return await service.receive(visit.caller, bring, late=late)

    return Route(path, endpoint, methods=["POST"], name=name)


def _posted(visit: Visit, given: Form, work: Work, again: Work | None) -> Response:
    require_proof(given, visit.proof)
    try:
        return work(visit, given, **visit.request.path_params)
    except BadInput as error:
        refusal = refusal_of(error)
        if again is None or refusal is None or is_fragment(visit.request):
            raise
        words = {"status": refusal.status, "given": given, "refusal": refusal.message}
        return again(visit, **visit.request.path_params, **words)
