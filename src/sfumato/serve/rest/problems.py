"""Errors as problem details (RFC 9457): one sentence, a type for machines, and no private value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sfumato.errors import SfumatoError
from sfumato.ledger.errors import BudgetRefused, LedgerUnavailable
from sfumato.serve.registry_errors import Conflict, QuotaRefused, RegistryUnavailable, Unknown
from sfumato.serve.service import Forbidden, NotFound

__all__ = ["PROBLEMS", "Problem", "add_problems", "problem"]

_MEDIA = "application/problem+json"
# The status and the type of our own errors, the most special first.
_OURS: tuple[tuple[type[SfumatoError], int, str], ...] = (
    (BudgetRefused, 409, "budget-refused"),
    (LedgerUnavailable, 503, "ledger-unavailable"),
    (RegistryUnavailable, 503, "registry-unavailable"),
    (QuotaRefused, 429, "quota"),
    (Unknown, 404, "not-found"),
    (Conflict, 409, "conflict"),
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not-found"),
    (SfumatoError, 400, "bad-input"),
)
#: What any operation may answer, for the OpenAPI document.
PROBLEMS: Mapping[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 409, 413, 422, 429, 503)
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


class Problem(Exception):
    """An answer with ``status`` that says in ``detail`` what was wrong and what to do."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers


def problem(status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer."""
    content = {"type": kind, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=_MEDIA)


def add_problems(app: FastAPI) -> None:
    """Let every error of ``app`` be answered by a problem."""

    @app.exception_handler(Problem)
    def ours(request: Request, error: Problem) -> JSONResponse:
        return problem(error.status, error.kind, error.detail, error.headers)

    @app.exception_handler(SfumatoError)
    def refused(request: Request, error: SfumatoError) -> JSONResponse:
        status, kind = next((status, kind) for own, status, kind in _OURS if isinstance(error, own))
        seconds = 5.0 if status == 503 else getattr(error, "seconds", None)
        wait = None if seconds is None else {"Retry-After": str(math.ceil(seconds))}
        return problem(status, kind, str(error), wait)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        # Where it is wrong and what is expected there; never the value that came.
        faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5]]
        return problem(422, "malformed", f"the request is malformed at {'; '.join(faults)}.")

    @app.exception_handler(HTTPException)
    def plain(request: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        return problem(status, status.phrase.lower().replace(" ", "-"), f"{status.phrase}.", error.headers)

    @app.exception_handler(Exception)
    def unforeseen(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "unforeseen", "something unforeseen happened; it is in the log by its time.")
