"""Releases: planned, made, looked at and checked."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, Response

from sfumato.report import certificate_file
from sfumato.serve.models import Description, Name, checked
from sfumato.serve.rest.asking import Asking, Here
from sfumato.serve.rest.bodies import received
from sfumato.serve.service import Release, file_name

__all__ = ["router"]

router = APIRouter(tags=["releases"])

_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_BODY: dict[str, Any] = {"requestBody": {"content": _BINARY, "required": True}}
_RELEASED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The released file; the header Link says where its certificate is.",
        "content": _BINARY,
    }
}

_Named = Annotated[str, Query(alias="name", description="The file's name; its suffix says what it is.")]
_Asked = Annotated[
    str, Query(description="How to release it: JSON as the schema Description says.", max_length=100_000)
]
_Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A request that may be repeated: charged once, the same bytes.",
        min_length=1,
        max_length=128,
    ),
]


@router.post("/datasets/{dataset}/plan", openapi_extra=_BODY)
async def plan(
    request: Request, service: Here, asking: Asking, dataset: Name, named: _Named, asked: _Asked = "{}"
) -> dict[str, Any]:
    """What a release of the body, a file, would promise and cost; nothing is spent."""
    described = checked("asked", Description, asked).asked()
    with service.body(file_name(named)) as place:
        await received(request, place, service.settings.body_bytes)
        return await run_in_threadpool(service.plan, asking, described, place, dataset)


@router.post(
    "/datasets/{dataset}/protect", openapi_extra=_BODY, responses=_RELEASED, response_class=FileResponse
)
async def protect(
    request: Request,
    service: Here,
    asking: Asking,
    dataset: Name,
    named: _Named,
    asked: _Asked = "{}",
    key: _Key = None,
) -> Response:
    """Release the body, a file; the dataset's budget is charged before anything is drawn."""
    described = checked("asked", Description, asked).asked()
    with service.body(file_name(named)) as place:
        await received(request, place, service.settings.body_bytes)
        done = await run_in_threadpool(service.protect, asking, described, place, dataset, request=key)
    return _file(done)


@router.get("/releases")
def releases(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """All releases that the key may see, newest first."""
    return [one.to_dict() for one in service.releases(asking)]


@router.get("/releases/{release}")
def release(service: Here, asking: Asking, release: str) -> dict[str, Any]:
    """One release: its three columns, and what paid for it."""
    return service.release(asking, release).to_dict()


@router.get("/releases/{release}/content", responses=_RELEASED, response_class=FileResponse)
def content(service: Here, asking: Asking, release: str) -> Response:
    """The released file."""
    return _file(service.release(asking, release))


@router.get("/releases/{release}/certificate")
def certificate(service: Here, asking: Asking, release: str) -> dict[str, Any]:
    """The signed certificate of a release."""
    beside = certificate_file(service.release(asking, release).file)
    found: dict[str, Any] = json.loads(beside.read_bytes())
    return found


@router.post("/verify", openapi_extra=_BODY)
async def verify(
    request: Request,
    service: Here,
    asking: Asking,
    named: _Named,
    certificate: Annotated[str, Query(description="The certificate, as JSON.", max_length=100_000)],
) -> dict[str, Any]:
    """Whether the body, a released file, is what its certificate says."""
    with service.body(file_name(named)) as place:
        await received(request, place, service.settings.body_bytes)
        certificate_file(place).write_text(certificate, "utf-8")
        return await run_in_threadpool(service.verified, asking, place)


def _file(done: Release) -> Response:
    return FileResponse(
        done.file,
        media_type="application/octet-stream",
        filename=done.name,
        headers={
            "Sfumato-Release": done.id,
            "ETag": f'"{done.sha256}"',
            "Link": f'</v1/releases/{done.id}/certificate>; rel="describedby"',
        },
    )
