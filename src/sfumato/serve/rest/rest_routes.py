"""Routes of REST: budgets, releases, jobs, audits, keys, policy, buckets, readers; health and metrics."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

from sfumato.errors import BadInput
from sfumato.ledger import Balance
from sfumato.serve.authentication import DatasetName
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.monitoring import MEDIA_TYPE
from sfumato.serve.proxy.buckets import NewBucket, NewReader
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.refusals import Unauthenticated
from sfumato.serve.release_store import Release, StoredRelease
from sfumato.serve.rest.rest_requests import (
    PAGED,
    Asking,
    Cursor,
    Here,
    Limit,
    address_of,
    is_form,
    link_next,
)
from sfumato.serve.rest.rest_uploads import (
    BINARY,
    DESCRIPTION,
    Asked,
    Form,
    Key,
    Named,
    body_of,
    described,
    form_body,
    form_of,
    released_rows,
    uploaded,
)
from sfumato.serve.service import NewBudget, NewKey, NewPolicy, checked
from sfumato.serve.uploads import LATE_PLAN, MOST_WORDS, late_release

release_router = APIRouter(tags=["releases"])

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


@release_router.post("/datasets/{dataset}/plan", openapi_extra=body_of(asked=DESCRIPTION))
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


@release_router.post(
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


@release_router.get("/releases", responses=PAGED)
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


@release_router.get("/releases/{release}")
def release(service: Here, asking: Asking, release: str) -> Release:
    """Return one release: its three columns, and what paid for it."""
    return service.release(asking, release)


@release_router.delete("/releases/{release}")
def delete(service: Here, asking: Asking, release: str) -> Release:
    """Delete the released file; its certificate, record and payment are kept."""
    return service.delete_release(asking, release)


@release_router.get("/releases/{release}/content", responses=_RELEASED, response_class=FileResponse)
def content(service: Here, asking: Asking, release: str) -> Response:
    """Return the released file."""
    return _file(service.content(asking, release))


@release_router.get("/releases/{release}/certificate")
def certificate(service: Here, asking: Asking, release: str) -> dict[str, Any]:
    """Return the signed certificate of a release."""
    found: dict[str, Any] = json.loads(service.certificate(asking, release))
    return found


@release_router.post("/verify", openapi_extra=body_of(certificate={"type": "string"}))
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


job_router = APIRouter(tags=["jobs"])

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


@job_router.post(
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


@job_router.get("/jobs", responses=PAGED)
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


@job_router.get("/jobs/{job}")
def job(service: Here, asking: Asking, job: str) -> Job:
    """Return the state of a job."""
    return service.job(asking, job)


@job_router.delete("/jobs/{job}")
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


bucket_router = APIRouter(tags=["proxies"])

_Reader = Annotated[str, Path(min_length=1, max_length=200)]

# Threads of their own: however many releases are under way, whoever asks whether it is ready is answered.
_READY_THREADS = CapacityLimiter(8)


@bucket_router.post("/proxies", status_code=201)
def declare(service: Here, asking: Asking, new: NewBucket) -> dict[str, Any]:
    """Declare a bucket whose objects readers get protected; repeating it changes nothing."""
    return service.buckets.declare(asking, new).to_dict()


@bucket_router.get("/proxies")
def buckets(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """Return the buckets that the key may read; their source is shown only to those who may declare them."""
    return service.buckets.listed(asking)


@bucket_router.get("/proxies/{name}")
def bucket(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Return one bucket."""
    return service.buckets.shown(asking, name)


@bucket_router.get("/proxies/{name}/tier")
def tier(request: Request, service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Return the tier of the caller at its present address; nothing is spent."""
    return service.buckets.tier(asking, name, address_of(request))


@bucket_router.get("/proxies/{name}/names")
def names(service: Here, asking: Asking, name: str) -> dict[str, str]:
    """Return the keys of all objects by the names that readers see, for those who may declare the bucket."""
    found = service.buckets
    bucket = found.bucket(asking, name, "budget")
    listed = Objects(service).listed(bucket, found.source(bucket))
    return {one.shown: one.key for one in listed}


@bucket_router.delete("/proxies/{name}")
def remove(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Remove a bucket, which can be read no longer; what was paid for it stays paid."""
    return service.buckets.remove(asking, name).to_dict()


@bucket_router.get("/readers")
def readers(service: Here, asking: Asking) -> dict[str, dict[str, Any]]:
    """Return the facts about the tenant's readers."""
    return {reader: facts.to_dict() for reader, facts in service.buckets.readers(asking).items()}


@bucket_router.put("/readers/{reader}")
def say(service: Here, asking: Asking, reader: _Reader, new: NewReader) -> dict[str, Any]:
    """Set a reader's authorisations and jurisdiction, which the policy uses."""
    return service.buckets.say(asking, reader, new.facts())


@bucket_router.delete("/readers/{reader}")
def forget(service: Here, asking: Asking, reader: _Reader) -> dict[str, Any]:
    """Remove the facts about a reader."""
    return service.buckets.say(asking, reader, None)


@bucket_router.post("/keys/{key}/s3")
def access_key(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """Return the access key of a key, with which S3 clients sign; it ends with the key."""
    return service.buckets.access_key(asking, key)


budget_router = APIRouter(tags=["budgets"])


@budget_router.get("/budgets", response_model=list[Balance])
def budgets(service: Here, asking: Asking) -> Any:
    """Return all budgets that the key may see."""
    return service.budgets(asking)


@budget_router.post("/budgets", status_code=201, response_model=Balance)
def open_budget(service: Here, asking: Asking, new: NewBudget) -> Any:
    """Open a budget; opening the same one again changes nothing."""
    return service.open_budget(asking, **new.model_dump())


@budget_router.get("/budgets/{dataset}", response_model=Balance)
def budget(service: Here, asking: Asking, dataset: DatasetName) -> Any:
    """Return what a dataset may still spend."""
    return service.budget(asking, dataset)


@budget_router.get("/budgets/{dataset}/history")
def history(service: Here, asking: Asking, dataset: DatasetName) -> list[dict[str, Any]]:
    """Return every entry of the budget, oldest first."""
    return service.history(asking, dataset)


operation_router = APIRouter(include_in_schema=False)


@operation_router.get("/healthz")
async def alive() -> dict[str, str]:
    """Return that the process answers."""
    return {"status": "alive"}


@operation_router.get("/readyz")
async def ready(service: Here) -> dict[str, str]:
    """Return whether the service could make a release."""
    await to_thread.run_sync(service.readiness.require, limiter=_READY_THREADS)
    return {"status": "ready"}


@operation_router.get("/metrics")
def metrics(
    request: Request, service: Here, authorization: Annotated[str | None, Header()] = None
) -> Response:
    """Return the metrics to the holder of the metrics token: they name tenants' datasets."""
    token, throttle = request.app.state.metrics_token, service.throttle
    address = address_of(request)
    if token is None:
        raise HTTPException(404)
    throttle.require(address)
    if not hmac.compare_digest(f"Bearer {token}".encode(), (authorization or "").encode()):
        if authorization is not None:
            throttle.failed(address)
        raise Unauthenticated("the metrics need their token, as in Authorization: Bearer ….")
    return Response(service.metrics.page(), media_type=MEDIA_TYPE)


tenant_router = APIRouter(tags=["tenant"])


@tenant_router.get("/me")
def me(service: Here, asking: Asking) -> dict[str, Any]:
    """Return the caller, and what its key allows."""
    return service.me(asking)


@tenant_router.get("/keys")
def keys(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """Return all keys of the tenant, without their secrets."""
    return [key.to_dict() for key in service.keys_of(asking)]


@tenant_router.post("/keys", status_code=201)
def make_key(service: Here, asking: Asking, new: NewKey) -> dict[str, Any]:
    """Create a key; its token is shown only once."""
    key, token = service.make_key(asking, **new.model_dump())
    return key.to_dict() | {"token": token}


@tenant_router.delete("/keys/{key}")
def revoke(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """Revoke a key."""
    return service.revoke_key(asking, key).to_dict()


@tenant_router.get("/policy")
def policy(service: Here, asking: Asking) -> dict[str, Any]:
    """Return the tenant's trust policy."""
    return service.policy(asking).to_dict()


@tenant_router.put("/policy")
def set_policy(service: Here, asking: Asking, new: NewPolicy) -> dict[str, Any]:
    """Replace the trust policy."""
    return service.set_policy(asking, **new.model_dump()).to_dict()
