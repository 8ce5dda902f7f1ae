"""The REST application: its routes, middleware and OpenAPI document.

The document says what each operation answers, including its refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import RedirectResponse
from pydantic.json_schema import models_json_schema

import sfumato
from sfumato.serve.pages.pages_app import make_dashboard
from sfumato.serve.proxy.s3_app import proxy_mount
from sfumato.serve.rest import rest_routes
from sfumato.serve.rest.middleware import MEDIA, PROBLEMS, SCHEMA, Watched, add_problems
from sfumato.serve.rest.rest_requests import Bounded
from sfumato.serve.rest.rest_uploads import ReleasedRows, Rows
from sfumato.serve.service import Description, Service

__all__ = ["make_app"]

# What any operation that needs a key may answer: no key, one that does not allow it, too many, and trouble.
_ALWAYS = {"401", "403", "429", "500", "503"}
# The name of the scheme that operations ask for unless they say otherwise: a key, as in Authorization:
# Bearer sfu_….
_KEY = "key"
_METHODS = ("get", "post", "put", "delete", "patch")

_ROUTERS = (
    rest_routes.budget_router,
    rest_routes.release_router,
    rest_routes.job_router,
    rest_routes.evidence_router,
    rest_routes.tenant_router,
    rest_routes.bucket_router,
)


def describe(app: FastAPI) -> None:
    """Add our schemas, the key scheme and the possible problems to the OpenAPI document of ``app``."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = described()
        parts = document.setdefault("components", {})
        parts["securitySchemes"] = {_KEY: {"type": "http", "scheme": "bearer"}}
        parts["schemas"] |= {"Problem": dict(SCHEMA)} | _asked_for()
        for path in document["paths"].values():
            for method in set(path) & set(_METHODS):
                path[method].setdefault("security", [{_KEY: []}])
                possible = _possible(method, path[method])
                answers = path[method]["responses"]
                path[method]["responses"] = {
                    status: answer
                    for status, answer in answers.items()
                    if status in possible or MEDIA not in answer.get("content", {})
                }
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _asked_for() -> dict[str, Any]:
    """Return the schemas of bodies that no route declares by itself."""
    _, found = models_json_schema(
        [(Description, "validation"), (Rows, "validation"), (ReleasedRows, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _possible(method: str, operation: Mapping[str, Any]) -> set[str]:
    """Return the problems that an operation can answer."""
    found = set(_ALWAYS) if operation["security"] else {"500"}
    given = {one["in"] for one in operation.get("parameters", ())}
    if given or "requestBody" in operation:
        found |= {"400", "422"}
    if "path" in given:
        found.add("404")
    if "requestBody" in operation:
        found |= {"408", "413", "507"}
    if method != "get":
        found.add("409")
    return found


def make_app(service: Service, *, metrics_token: str | None = None) -> FastAPI:
    """Return the application of ``service``; without a ``metrics_token`` there is no page of metrics."""
    app = FastAPI(
        title="Sfumato",
        version=sfumato.__version__,
        summary="Release data so that nobody in it can be singled out, with a statement of the promise.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.service, app.state.metrics_token = service, metrics_token
    add_problems(app)
    app.add_middleware(Bounded)
    app.add_middleware(Watched, metrics=service.metrics, trusted=service.settings.trusted)
    app.include_router(rest_routes.operation_router)
    for router in _ROUTERS:
        app.include_router(router, prefix="/v1", responses=dict(PROBLEMS))
    app.include_router(_front)
    app.mount("/ui", make_dashboard(service))
    # Not mounted by the framework, which would redirect the bare /s3, whose path clients have signed.
    app.router.routes.append(proxy_mount(service))
    describe(app)
    return app


_front = APIRouter(include_in_schema=False)


@_front.get("/")
@_front.api_route("/ui", methods=["GET", "HEAD"])  # or the framework would redirect every method
def front() -> RedirectResponse:
    """Redirect visitors without a path to the pages."""
    return RedirectResponse("/ui/")
