"""Routes of jobs, audits and reports."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.errors import BadInput
from sfumato.serve.authentication import DatasetName
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.request_files import MOST_WORDS
from sfumato.serve.rest.rest_requests import PAGED, Asking, Cursor, Here, Limit, is_form, link_next
from sfumato.serve.rest.rest_uploads import (
    DESCRIPTION,
    Asked,
    Form,
    Key,
    Named,
    body_of,
    described,
    form_body,
    form_of,
    uploaded,
)
from sfumato.serve.service import checked

router = APIRouter(tags=["jobs"])

#: What an accepted job is answered by, for the OpenAPI document.
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The job was accepted; the header Location says where to ask how it stands.",
        "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}},
    }
}

_FILES = {"original": True, "released": False, "nonmembers": False, "labels_file": False}
_WORDS: dict[str, Any] = {
    "asked": AuditDescription.model_json_schema(),
    "certificate": {"type": "string", "maxLength": MOST_WORDS},
}
_PAGE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One page of HTML, which asks the network for nothing.",
        "content": {"text/html": {}},
    }
}
_PEM_TYPE = "application/x-pem-file"
_PEM: dict[int | str, dict[str, Any]] = {
    200: {"description": "A public key, in PEM.", "content": {_PEM_TYPE: {"schema": {"type": "string"}}}}
}
_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
}


@router.post(
    "/datasets/{dataset}/jobs", status_code=202, openapi_extra=body_of(asked=DESCRIPTION), responses=ACCEPTED
)
async def submit(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    dataset: DatasetName,
    named: Named = None,
    asked: Asked = None,
    key: Key = None,
) -> Job:
    """Release a file as a job: its price is held now, and spent when the job begins to draw."""

    def submitted(sent: Form) -> Job:
        return service.submit(asking, described(sent), sent.files["file"], dataset, request=key)

    return accepted(response, await uploaded(request, service, asking, named, {"asked": asked}, submitted))


@router.get("/jobs", responses=PAGED)
def jobs(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> list[Job]:
    """Return a page of the jobs that the key may see, newest first."""
    page = service.jobs(asking, limit=limit, cursor=cursor)
    link_next(request, response, page, limit)
    return page


@router.get("/jobs/{job}")
def job(service: Here, asking: Asking, job: str) -> Job:
    """Return the state of a job."""
    return service.job(asking, job)


@router.delete("/jobs/{job}")
def cancel(service: Here, asking: Asking, job: str) -> Job:
    """Cancel a job: before it begins to draw its price is returned, afterwards it stays spent.

    A running job is cancelling, and ends at its next step; a job that has ended stays as it is.
    """
    return service.cancel(asking, job)


def accepted(response: Response, job: Job) -> Job:
    """Return the answer to an accepted ``job``."""
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


evidence_router = APIRouter(tags=["evidence"])


@evidence_router.post(
    "/datasets/{dataset}/audits",
    status_code=202,
    openapi_extra=form_body(_FILES, _WORDS),
    responses=ACCEPTED,
)
async def submit_audit(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    dataset: DatasetName,
    release: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9a-f]{24}$", description="A release that is here, in place of the part released."
        ),
    ] = None,
    key: Key = None,
) -> Job:
    """Audit a release as a job, at no cost: the part original is what it is a release of, row by row.

    The part released, with its certificate, or the query's release, is what is attacked.
    """
    if not is_form(request):
        raise BadInput("the files of an audit come as multipart/form-data, in parts original and released.")

    def submitted() -> Job:
        asked = checked("asked", AuditDescription, form.words.get("asked", "{}"))
        certificate = form.words.get("certificate")
        return service.submit_audit(
            asking, asked, form.files, dataset, release=release, certificate=certificate, request=key
        )

    with ExitStack() as brought:
        folder = brought.enter_context(service.folder())
        form = await form_of(request, folder, service.settings.body_bytes, files=_FILES, words=_WORDS)
        return accepted(response, await service.direct.done(asking.tenant, submitted, brought.pop_all()))


@evidence_router.get("/audits/{audit}")
def audit(service: Here, asking: Asking, audit: str) -> dict[str, Any]:
    """Return what an audit found: every attack, and the statement with its measured column."""
    return service.audit(asking, audit)


@evidence_router.get("/audits/{audit}/report", responses=_PAGE, response_class=HTMLResponse)
def audit_report(service: Here, asking: Asking, audit: str) -> Response:
    """Return the report of an audit."""
    return HTMLResponse(service.report_page(asking, audit), headers=_HEADERS)


@evidence_router.get("/releases/{release}/report", responses=_PAGE, response_class=HTMLResponse)
def release_report(service: Here, asking: Asking, release: str) -> Response:
    """Return the report of a release: its three columns, and the budget that paid for it."""
    service.release(asking, release)
    return HTMLResponse(service.report_page(asking, release), headers=_HEADERS)


@evidence_router.get("/signing-key", responses=_PEM, response_class=Response, openapi_extra={"security": []})
async def signing_key(service: Here) -> Response:
    """Return the public key that verifies certificates, for anybody, as ``sfumato key trust`` takes it."""
    return Response(service.signing_key, media_type=_PEM_TYPE)
