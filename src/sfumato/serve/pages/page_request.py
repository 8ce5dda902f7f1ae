"""One request of somebody who is signed in: who asks, what they may do, and how they are answered."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.serve.auth.authentication import Unauthenticated
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.logs import note
from sfumato.serve.pages.page_rendering import address_of, rendered
from sfumato.serve.pages.samples import Samples
from sfumato.serve.pages.sessions import Session, Sessions
from sfumato.serve.pages.spending_plot import Spendings
from sfumato.serve.registry_errors import Unknown
from sfumato.serve.service import Forbidden, Service

__all__ = ["SESSION", "Desk", "Visit", "desk_of", "require_own_site", "visit_of"]

#: The name of the cookie of those who are signed in.
SESSION = "sfumato_session"


@dataclass(frozen=True)
class Desk:
    """What every page of one application shares."""

    service: Service
    guessing: Guessing
    sessions: Sessions
    samples: Samples
    spendings: Spendings


@dataclass(frozen=True)
class Visit:
    """A request by ``caller``, who is signed in; ``proof`` stands in each of their forms."""

    request: Request
    desk: Desk
    caller: Caller
    proof: str

    @property
    def service(self) -> Service:
        """The service that does what is asked."""
        return self.desk.service

    def may(self, operation: str, dataset: str | None = None) -> bool:
        """Whether the key allows it; what it does not allow is not offered."""
        return self.caller.may(operation, dataset)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page; only its changing part where a script asked for that."""
        return rendered(self.request, template, status=status, visit=self, **values)

    def then(self, name: str, *, part: str = "", **parameters: Any) -> Response:
        """Go on to the ``part`` of the page called ``name``: loaded again, it does nothing again."""
        place = f"#{part}" if part else ""
        return RedirectResponse(f"{address_of(self.request, name, **parameters)}{place}", 303)

    def require_proof(self, given: str | None) -> None:
        """Refuse a form that was not made for this session."""
        if given is None or not hmac.compare_digest(given.encode(), self.proof.encode()):
            raise Forbidden("this form is not one of yours or too old; load its page again.")


def desk_of(request: Request) -> Desk:
    """What the application of ``request`` was made with."""
    found: Desk = request.app.state.desk
    return found


def visit_of(request: Request) -> Visit:
    """The visit that the cookie of ``request`` names, charged once to the tenant's quota."""
    found: Visit | None = getattr(request.state, "visit", None)
    if found is None:
        found = request.state.visit = _charged_visit(request)
    return found


def _charged_visit(request: Request) -> Visit:
    desk = desk_of(request)
    session = desk.sessions.read(request.cookies.get(SESSION))
    caller = None if session is None else _caller(desk.service, session)
    if session is None or caller is None:
        raise Unauthenticated("this needs a valid key: sign in with one.")
    note(tenant=caller.tenant, key=caller.key_id)
    desk.service.registry.charge(caller.tenant)
    return Visit(request, desk, caller, session.proof)


def require_own_site(request: Request) -> None:
    """Refuse what another site's page makes a browser send; browsers say whose page it was."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Forbidden("this form was sent by a page of another site; nothing was done.")


def _caller(service: Service, session: Session) -> Caller | None:
    """Who holds the key of ``session``, if it still opens anything."""
    now = datetime.now(UTC)
    try:
        keys = service.registry.keys(session.tenant)
    except Unknown:
        return None
    for key in keys:
        if key.id == session.key_id and key.usable(now):
            return key.caller()
    return None
