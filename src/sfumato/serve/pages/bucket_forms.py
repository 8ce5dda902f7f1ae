"""Declaring a bucket, and removing it."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.serve.pages.access_pages import access_page
from sfumato.serve.pages.endpoints import form
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.proxy.bucket_declarations import NewBucket
from sfumato.serve.proxy.buckets import Buckets
from sfumato.serve.refusal_codes import said_of
from sfumato.serve.registry_errors import Conflict
from sfumato.serve.request_models import checked

__all__ = ["ROUTES"]

_FIELDS = ("name", "source", "dataset", "tiers", "collected", "files")


def _declare(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _FIELDS}
    try:
        read = {
            "tiers": _tiers(typed["tiers"]),
            "files": _files(typed["files"]),
            "collected": typed["collected"] or None,
            "public_names": bool(given.several("public_names")),
        }
        Buckets.of(visit.service).declare(visit.caller, checked("the bucket", NewBucket, typed | read))
    except BadInput as error:
        status = 409 if isinstance(error, Conflict) else 400
        typed |= {"public_names": given.text("public_names")}
        return access_page(visit, status, bucket=typed, refused="bucket", refusal=said_of(error))
    return visit.then("access")


def _tiers(text: str) -> list[float]:
    """Numbers with commas or spaces between them."""
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise BadInput("tiers are numbers from 0 to 1 with commas between them, as in 0, 0.5, 1.") from None


def _files(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("how files are released is declared in JSON, which this is not.") from None


def _remove(visit: Visit, given: Form, bucket: str) -> Response:
    Buckets.of(visit.service).remove(visit.caller, bucket)
    return visit.then("access")


ROUTES = [
    form("/access/buckets", _declare, "declare-bucket"),
    form("/access/buckets/{bucket}/remove", _remove, "remove-bucket"),
]
