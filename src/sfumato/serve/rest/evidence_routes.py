"""Evidence: releases attacked, and reports of releases and of attacks."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.errors import BadInput
from sfumato.reports import certificate_file
from sfumato.serve.auth.callers import Caller
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.request_files import MOST_WORDS
from sfumato.serve.request_models import AuditDescription, JobShown, Name, checked
from sfumato.serve.rest.dependencies import Asking, Here
from sfumato.serve.rest.job_routes import ACCEPTED, accepted
from sfumato.serve.rest.multipart import Form, form_of
from sfumato.serve.rest.multipart_parser import is_form
from sfumato.serve.rest.rest_uploads import Key, form_body
from sfumato.serve.service import Service

__all__ = ["router"]

router = APIRouter(tags=["evidence"])

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
    "/datasets/{dataset}/audits",
    status_code=202,
    openapi_extra=form_body(_FILES, _WORDS),
    responses=ACCEPTED,
)
async def submit(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    dataset: Name,
    release: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9a-f]{24}$", description="A release that is here, in place of the part released."
        ),
    ] = None,
    key: Key = None,
) -> JobShown:
    """Attack a release as a job: what it is a release of, row by row, is the part original.

    The part released, with its certificate, or the query's release, is what is attacked. It costs nothing.
    """
    if not is_form(request):
        raise BadInput("the files of an audit come as multipart/form-data, in parts original and released.")

    def submitted() -> Job:
        asked = checked("asked", AuditDescription, form.words.get("asked", "{}"))
        released, certificate = _released(service, asking, form, release)
        if "original" not in form.files:
            raise BadInput("the form has no part original, which the release was made from.")
        return service.submit_audit(
            asking,
            form.files["original"],
            released,
            dataset,
            certificate=certificate,
            labels=_labels(asked, form),
            nonmembers=form.files.get("nonmembers"),
            array=asked.array,
            columns=asked.columns,
            confidence=asked.confidence,
            seed=asked.seed,
            request=key,
        )

    with ExitStack() as brought:
        folder = brought.enter_context(service.folder())
        form = await form_of(request, folder, service.settings.body_bytes, files=_FILES, words=_WORDS)
        return accepted(response, await service.direct.done(asking.tenant, submitted, brought.pop_all()))


@router.get("/audits/{audit}")
def audit(service: Here, asking: Asking, audit: str) -> dict[str, Any]:
    """What an audit found: every attack, and the statement with its measured column."""
    return service.audit(asking, audit)


@router.get("/audits/{audit}/report", responses=_PAGE, response_class=HTMLResponse)
def audit_report(service: Here, asking: Asking, audit: str) -> Response:
    """The report of an audit."""
    return HTMLResponse(service.report_page(asking, audit), headers=_HEADERS)


@router.get("/releases/{release}/report", responses=_PAGE, response_class=HTMLResponse)
def release_report(service: Here, asking: Asking, release: str) -> Response:
    """The report of a release: its three columns, and the budget that paid for it."""
    service.release(asking, release)
    return HTMLResponse(service.report_page(asking, release), headers=_HEADERS)


@router.get("/signing-key", responses=_PEM, response_class=Response, openapi_extra={"security": []})
async def signing_key(service: Here) -> Response:
    """The public key that certificates are verified with, for anybody, as ``sfumato key trust`` takes it."""
    return Response(service.signing_key, media_type=_PEM_TYPE)


def _released(service: Service, asking: Caller, form: Form, release: str | None) -> tuple[Path, Path | None]:
    """The file that is attacked and its certificate: those of a release that is here, or what was sent."""
    if release is not None:
        if "released" in form.files or "certificate" in form.words:
            raise BadInput("the release is named in the query and sent in the form; once is enough.")
        file = service.content(asking, release).file
        return file, certificate_file(file)
    if "released" not in form.files:
        raise BadInput("the form has no part released, which is what is attacked.")
    file = form.files["released"]
    if "certificate" not in form.words:
        return file, None
    beside = certificate_file(file)
    beside.write_text(form.words["certificate"], "utf-8")
    return file, beside


def _labels(asked: AuditDescription, form: Form) -> str | Path | None:
    own = form.files.get("labels_file")
    if own is not None and asked.labels is not None:
        raise BadInput("`labels` are named in asked or sent as labels_file, not both.", parameter="labels")
    return asked.labels if own is None else own
