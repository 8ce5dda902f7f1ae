"""Routes of releases: plan, protect, list, download, delete and verify."""

import json
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response

from sfumato.errors import BadInput
from sfumato.serve.authentication import DatasetName
from sfumato.serve.jobs.sync_executor import LATE_PLAN, late_release
from sfumato.serve.release_store import Release, StoredRelease
from sfumato.serve.request_files import MOST_WORDS
from sfumato.serve.rest.rest_requests import PAGED, Asking, Cursor, Here, Limit, link_next
from sfumato.serve.rest.rest_uploads import (
    BINARY,
    DESCRIPTION,
    Asked,
    Form,
    Key,
    Named,
    body_of,
    described,
    released_rows,
    uploaded,
)

router = APIRouter(tags=["releases"])

_TYPE = "application/octet-stream"
_SMALL = 1 << 20
_RELEASED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The released file; the header Link says where its certificate is.",
        "content": dict(BINARY),
        "headers": {
            "Sfumato-Release": {"description": "The id of the release.", "schema": {"type": "string"}},
            "ETag": {"description": "SHA-256 of the file.", "schema": {"type": "string"}},
            "Link": {"description": "The certificate of the release.", "schema": {"type": "string"}},
        },
    }
}
_RELEASED_OR_ROWS: dict[int | str, dict[str, Any]] = {
    200: _RELEASED[200]
    | {
        "description": "The released file, or records as JSON where they came as JSON; the header Link says "
        "where the certificate is.",
        "content": dict(BINARY)
        | {"application/json": {"schema": {"$ref": "#/components/schemas/ReleasedRows"}}},
    }
}


@router.post("/datasets/{dataset}/plan", openapi_extra=body_of(asked=DESCRIPTION))
async def plan(
    request: Request,
    service: Here,
    asking: Asking,
    dataset: DatasetName,
    named: Named = None,
    asked: Asked = None,
) -> dict[str, Any]:
    """Return what a release of a file would guarantee and cost; nothing is spent."""

    def planned(sent: Form) -> dict[str, Any]:
        return service.plan(asking, described(sent), sent.files["file"], dataset)

    return await uploaded(request, service, asking, named, {"asked": asked}, planned, late=LATE_PLAN)


@router.post(
    "/datasets/{dataset}/protect",
    openapi_extra=body_of(asked=DESCRIPTION),
    responses=_RELEASED_OR_ROWS,
    response_class=FileResponse,
)
async def protect(
    request: Request,
    service: Here,
    asking: Asking,
    dataset: DatasetName,
    named: Named = None,
    asked: Asked = None,
    key: Key = None,
) -> Response:
    """Release a file, or records as JSON; the dataset's budget is charged before anything is drawn."""

    def released(sent: Form) -> Response:
        done = service.protect(asking, described(sent), sent.files["file"], dataset, request=key)
        if sent.rows:
            shown = released_rows(done).model_dump_json(exclude_unset=True)
            return Response(shown, media_type="application/json", headers=_headers(done))
        # What is small is read where it was drawn: a response of a file asks three threads for it.
        return _whole(done) if done.file.stat().st_size <= _SMALL else _file(done)

    late = late_release(key)
    return await uploaded(request, service, asking, named, {"asked": asked}, released, late=late)


@router.get("/releases", responses=PAGED)
def releases(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Sequence[Release]:
    """Return a page of the releases that the key may see, newest first."""
    page = service.releases(asking, limit=limit, cursor=cursor)
    link_next(request, response, page, limit)
    return page


@router.get("/releases/{release}")
def release(service: Here, asking: Asking, release: str) -> Release:
    """Return one release: its three columns, and what paid for it."""
    return service.release(asking, release)


@router.delete("/releases/{release}")
def delete(service: Here, asking: Asking, release: str) -> Release:
    """Delete the released file; its certificate, record and payment are kept."""
    return service.delete_release(asking, release)


@router.get("/releases/{release}/content", responses=_RELEASED, response_class=FileResponse)
def content(service: Here, asking: Asking, release: str) -> Response:
    """Return the released file."""
    return _file(service.content(asking, release))


@router.get("/releases/{release}/certificate")
def certificate(service: Here, asking: Asking, release: str) -> dict[str, Any]:
    """Return the signed certificate of a release."""
    found: dict[str, Any] = json.loads(service.certificate(asking, release))
    return found


@router.post("/verify", openapi_extra=body_of(certificate={"type": "string"}))
async def verify(
    request: Request,
    service: Here,
    asking: Asking,
    named: Named = None,
    certificate: Annotated[
        str | None, Query(description="The certificate, as JSON.", max_length=MOST_WORDS)
    ] = None,
) -> dict[str, Any]:
    """Verify a released file against its certificate."""

    def verified(sent: Form) -> dict[str, Any]:
        if "certificate" not in sent.words:
            raise BadInput("the certificate of the file is missing; give it in the query or in the form.")
        return service.verified(asking, sent.files["file"], sent.words["certificate"])

    return await uploaded(request, service, asking, named, {"certificate": certificate}, verified)


def _file(done: StoredRelease) -> Response:
    return FileResponse(done.file, media_type=_TYPE, filename=done.name, headers=_headers(done))


def _whole(done: StoredRelease) -> Response:
    quoted = quote(done.name)
    name = f'filename="{quoted}"' if quoted == done.name else f"filename*=utf-8''{quoted}"
    headers = _headers(done) | {"Content-Disposition": f"attachment; {name}"}
    return Response(done.file.read_bytes(), media_type=_TYPE, headers=headers)


def _headers(done: StoredRelease) -> dict[str, str]:
    return {
        "Sfumato-Release": done.id,
        "ETag": f'"{done.sha256}"',
        "Link": f'</v1/releases/{done.id}/certificate>; rel="describedby"',
    }
