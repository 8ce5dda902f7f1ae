"""The OpenAPI document: what each operation answers, also where it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from sfumato.serve.request_models import Description
from sfumato.serve.rest.json_rows import ReleasedRows, Rows
from sfumato.serve.rest.problem_details import MEDIA, SCHEMA

__all__ = ["describe"]

# What any operation that needs a key may answer: no key, one that does not allow it, too many, and trouble.
_ALWAYS = {"401", "403", "429", "500", "503"}
# The name of the scheme that operations ask for unless they say otherwise: a key, as in Authorization:
# Bearer sfu_….
_KEY = "key"
_METHODS = ("get", "post", "put", "delete", "patch")


def describe(app: FastAPI) -> None:
    """Let the document of ``app`` have our schemas and scheme of keys, and only problems that can be had."""
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
    """The schemas of bodies that no route reads or makes by itself."""
    _, found = models_json_schema(
        [(Description, "validation"), (Rows, "validation"), (ReleasedRows, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _possible(method: str, operation: Mapping[str, Any]) -> set[str]:
    """The problems that an operation can have."""
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
