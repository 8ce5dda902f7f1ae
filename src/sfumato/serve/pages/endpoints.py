"""How a page is reached: signed in, within the quota, and forms only with the proof that they are ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Concatenate, ParamSpec

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.serve.pages.forms import Form, form_of
from sfumato.serve.pages.page_request import Visit, require_own_site, visit_of
from sfumato.serve.pages.page_uploads import upload_of

__all__ = ["form", "page", "upload"]

_SLOW_AT_ONCE = 2
_P = ParamSpec("_P")
_Endpoint = Callable[[Request], Awaitable[Response]]
Page = Callable[Concatenate[Visit, _P], Response]
Posted = Callable[Concatenate[Visit, Form, _P], Response]


def page(path: str, work: Page[_P], name: str, *, slow: bool = False) -> Route:
    """A page that ``work`` makes of a visit and of what stands in its path.

    Of ``slow`` ones, two are made at a time: others wait without keeping a thread from those who want less.
    """

    async def endpoint(request: Request) -> Response:
        if slow:
            return await to_thread.run_sync(_looked, request, work, limiter=_few(request))
        return await run_in_threadpool(_looked, request, work)

    return Route(path, endpoint, methods=["GET"], name=name)


def form(path: str, work: Posted[_P], name: str) -> Route:
    """What a form without files asks for."""

    async def endpoint(request: Request) -> Response:
        require_own_site(request)
        visit = await run_in_threadpool(visit_of, request)
        given = await form_of(request)
        return await run_in_threadpool(_proven, visit, given, work)

    return Route(path, endpoint, methods=["POST"], name=name)


def upload(
    path: str,
    work: Posted[_P],
    name: str,
    *,
    certificates: tuple[str, ...] = (),
    late: str | None = None,
) -> Route:
    """What a form with files asks for, among the few that a tenant has under way; the files are gone then.

    With ``late``, what to do where the work takes too long, the form has the limits of a direct request.
    """

    async def endpoint(request: Request) -> Response:
        require_own_site(request)
        visit = await run_in_threadpool(visit_of, request)
        with ExitStack() as brought:
            given = await upload_of(request, visit.service, brought, certificates, direct=late is not None)
            doing = partial(_proven, visit, given, work)
            return await visit.service.direct.done(visit.caller.tenant, doing, brought.pop_all(), late=late)

    return Route(path, endpoint, methods=["POST"], name=name)


def _few(request: Request) -> CapacityLimiter:
    state = request.app.state
    if not hasattr(state, "few"):
        state.few = CapacityLimiter(_SLOW_AT_ONCE)
    found: CapacityLimiter = state.few
    return found


def _looked(request: Request, work: Callable[..., Response]) -> Response:
    return work(visit_of(request), **request.path_params)


def _proven(visit: Visit, given: Form, work: Callable[..., Response]) -> Response:
    visit.require_proof(given.proof)
    return work(visit, given, **visit.request.path_params)
