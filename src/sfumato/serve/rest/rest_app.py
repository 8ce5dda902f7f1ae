"""The REST application: its routes, middleware, errors as problem details (RFC 9457) and OpenAPI document.

A problem has one sentence, a type for machines, and no private value. The OpenAPI document says what each
operation answers, including its refusals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

import sfumato
from sfumato.errors import SfumatoError
from sfumato.serve.pages.pages_app import make_dashboard
from sfumato.serve.proxy.s3_app import proxy_mount
from sfumato.serve.refusals import REFUSAL, refusal_of
from sfumato.serve.rest.rest_requests import MEDIA, Bounded, Watched, allowed, problem
from sfumato.serve.rest.rest_routes import ROUTERS, operator_router
from sfumato.serve.rest.rest_rows import ReleasedRows, Rows
from sfumato.serve.service import Description, Service, faults

__all__ = ["make_app"]

# The problems of any operation that needs a key: no key, one that does not allow it, too many, and failures.
_ALWAYS = {"401", "403", "429", "500", "503"}
# The security scheme of operations that declare no other: a key, as in Authorization: Bearer sfu_….
_KEY = "key"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 507)
}
_PROBLEM_SCHEMA = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


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
    app.include_router(operator_router)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1", responses=_PROBLEMS)
    app.include_router(_front)
    app.mount("/ui", make_dashboard(service))
    # Not mounted by the framework, which would redirect the bare /s3, whose path clients have signed.
    app.router.routes.append(proxy_mount(service))
    _document(app)
    return app


_front = APIRouter(include_in_schema=False)


@_front.get("/")
@_front.api_route("/ui", methods=["GET", "HEAD"])  # or the framework would redirect every method
def front() -> RedirectResponse:
    """Redirect visitors without a path to the pages."""
    return RedirectResponse("/ui/")


def add_problems(app: FastAPI) -> None:
    """Answer every refusal of ``app`` with a problem; middleware answers unexpected errors."""

    @app.exception_handler(SfumatoError)
    @app.exception_handler(OSError)
    def refused(request: Request, error: Exception) -> JSONResponse:
        found = refusal_of(error)
        if found is None:
            raise error
        headers = {} if found.seconds is None else {"Retry-After": str(math.ceil(found.seconds))}
        request.scope[REFUSAL] = found.code
        if found.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return problem(found.status, found.code, found.message, headers)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        request.scope[REFUSAL] = "malformed"
        return problem(422, "malformed", f"the request is malformed at {faults(error.errors())}.")

    @app.exception_handler(HTTPException)
    def plain(request: Request, error: HTTPException) -> Response:
        status, headers = HTTPStatus(error.status_code), dict(error.headers or {})
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = allowed(request)
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
        word = status.phrase.lower().replace(" ", "-")
        request.scope[REFUSAL] = word
        return problem(status, word, f"{status.phrase}.", headers)


def _document(app: FastAPI) -> None:
    """Add our schemas, the key scheme and the possible problems to the OpenAPI document of ``app``."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = described()
        _, ours = models_json_schema(  # of bodies that no route declares by itself
            [(Description, "validation"), (Rows, "validation"), (ReleasedRows, "serialization")],
            ref_template="#/components/schemas/{model}",
        )
        parts = document.setdefault("components", {})
        parts["securitySchemes"] = {_KEY: {"type": "http", "scheme": "bearer"}}
        parts["schemas"] |= {"Problem": _PROBLEM_SCHEMA} | ours["$defs"]
        for path in document["paths"].values():
            for method, operation in path.items():
                operation.setdefault("security", [{_KEY: []}])
                possible = _possible(method, operation)
                operation["responses"] = {
                    status: answer
                    for status, answer in operation["responses"].items()
                    if status in possible or MEDIA not in answer.get("content", {})
                }
        return document

    app.openapi = openapi  # type: ignore[method-assign]


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
