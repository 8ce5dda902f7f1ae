"""The application: its routes, its document, and whether it is alive and ready."""

from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse

import sfumato
from sfumato.serve.auth.login_throttle import Guessing
from sfumato.serve.metrics import Metrics
from sfumato.serve.pages import make_dashboard
from sfumato.serve.proxy import bucket_routes as proxy_routes
from sfumato.serve.proxy import proxy_mount
from sfumato.serve.readiness import Readiness
from sfumato.serve.rest import (
    budget_routes,
    evidence_routes,
    job_routes,
    operation_routes,
    release_routes,
    tenant_routes,
)
from sfumato.serve.rest.bounded_bodies import Bounded
from sfumato.serve.rest.middleware import Watched
from sfumato.serve.rest.openapi_document import describe
from sfumato.serve.rest.problem_details import PROBLEMS, add_problems
from sfumato.serve.service import Service

__all__ = ["make_app"]

_ROUTES = (budget_routes, release_routes, job_routes, evidence_routes, tenant_routes, proxy_routes)


def make_app(
    service: Service,
    *,
    guessing: Guessing | None = None,
    metrics: Metrics | None = None,
    readiness: Readiness | None = None,
    metrics_token: str | None = None,
) -> FastAPI:
    """The application of ``service``.

    ``guessing`` counts wrong keys, ``metrics`` requests and ``readiness`` is asked, together with another
    server where they are shared. Without a ``metrics_token`` there is no page of metrics.
    """
    app = FastAPI(
        title="Sfumato",
        version=sfumato.__version__,
        summary="Release data so that nobody in it can be singled out, with a statement of the promise.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service, app.state.guessing = service, guessing or Guessing()
    app.state.metrics, app.state.metrics_token = metrics or Metrics(service), metrics_token
    app.state.readiness = readiness or Readiness(service)
    add_problems(app)
    app.add_middleware(Bounded)
    app.add_middleware(Watched, metrics=app.state.metrics, trusted=service.settings.trusted)
    app.include_router(operation_routes.router)
    for routes in _ROUTES:
        app.include_router(routes.router, prefix="/v1", responses=dict(PROBLEMS))
    app.include_router(_front)
    app.mount("/ui", make_dashboard(service, app.state.guessing))
    # Not mounted by the framework, which would redirect the bare /s3, whose path clients have signed.
    app.router.routes.append(proxy_mount(service, app.state.guessing))
    describe(app)
    return app


_front = APIRouter(include_in_schema=False)


@_front.get("/")
@_front.api_route("/ui", methods=["GET", "HEAD"])  # or the framework would redirect every method
def front() -> RedirectResponse:
    """People who come without a path look for the pages."""
    return RedirectResponse("/ui/")
