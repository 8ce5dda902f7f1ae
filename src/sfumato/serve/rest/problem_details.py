"""Errors as problem details (RFC 9457): one sentence, a type for machines, and no private value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from sfumato.errors import SfumatoError
from sfumato.serve.refusal_codes import REFUSAL, disk_failure, refusal, said_of, seconds_to_wait
from sfumato.serve.request_models import faults

__all__ = ["MEDIA", "PROBLEMS", "SCHEMA", "STATUS", "add_problems", "allowed", "problem"]

#: What problems are.
MEDIA = "application/problem+json"
#: The status of each way of refusing; 400 where there is no other.
STATUS: Mapping[str, int] = {
    "budget-refused": 409,
    "ledger-unavailable": 503,
    "registry-unavailable": 503,
    "not-ready": 503,
    "busy": 503,
    "took-too-long": 503,
    "storage-failed": 503,
    "storage-full": 507,
    "quota": 429,
    "too-many-guesses": 429,
    "unauthenticated": 401,
    "too-large": 413,
    "too-slow": 408,
    "conflict": 409,
    "forbidden": 403,
    "not-found": 404,
}
#: What operations may answer, for the OpenAPI document, which tells those of each.
PROBLEMS: Mapping[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503, 507)
}
SCHEMA: Mapping[str, Any] = {
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


def problem(status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer."""
    content = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA)


def add_problems(app: FastAPI) -> None:
    """Let every refusal of ``app`` be answered by a problem; ``middleware`` answers what nobody foresaw."""

    @app.exception_handler(SfumatoError)
    def refused(request: Request, error: SfumatoError) -> JSONResponse:
        word, seconds = refusal(error), seconds_to_wait(error)
        headers = {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}
        request.scope[REFUSAL] = word
        if word == "unauthenticated":
            headers["WWW-Authenticate"] = "Bearer"
        return problem(STATUS.get(word, 400), word, said_of(error), headers)

    @app.exception_handler(OSError)
    def failed(request: Request, error: OSError) -> JSONResponse:
        fault = disk_failure(error)
        if fault is None:
            raise error
        return refused(request, fault)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        request.scope[REFUSAL] = "malformed"
        # Where it is wrong and what is expected there; never the value that came.
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


def allowed(request: Request) -> str:
    """The methods that the path of ``request`` takes, each perhaps by a route of its own, for Allow."""
    routes = [route for route in request.app.router.routes if not isinstance(route, Mount)]
    found = [
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join([*found, "OPTIONS"])
