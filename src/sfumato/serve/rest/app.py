"""The application: its routes, its document, and whether it is alive and ready."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import APIRouter, FastAPI

import sfumato
from sfumato.serve.guessing import Guessing
from sfumato.serve.models import Description
from sfumato.serve.rest import budget_routes, release_routes, tenant_routes
from sfumato.serve.rest.asking import Here
from sfumato.serve.rest.problems import PROBLEMS, SCHEMA, add_problems
from sfumato.serve.service import Service

__all__ = ["make_app"]

_health = APIRouter(include_in_schema=False)


def make_app(
    service: Service,
    *,
    guessing: Guessing | None = None,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """The application of ``service``; ``lifespan`` is what goes on from its start to its end.

    ``guessing`` counts wrong keys, together with another server where it is shared.
    """
    app = FastAPI(
        title="Sfumato",
        version=sfumato.__version__,
        summary="Release data so that nobody in it can be singled out, with a statement of the promise.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=lifespan,
    )
    app.state.service, app.state.guessing = service, guessing or Guessing()
    add_problems(app)
    app.include_router(_health)
    for routes in (budget_routes, release_routes, tenant_routes):
        app.include_router(routes.router, prefix="/v1", responses=dict(PROBLEMS))
    described = app.openapi

    def openapi() -> dict[str, Any]:
        document = described()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas |= {"Problem": dict(SCHEMA), "Description": Description.model_json_schema()}
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


@_health.get("/healthz")
def alive() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "alive"}


@_health.get("/readyz")
def ready(service: Here) -> dict[str, str]:
    """Whether it could release something: its databases answer."""
    service.ledger.names()
    service.registry.tenants()
    return {"status": "ready"}
