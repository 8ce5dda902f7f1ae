"""Routes of REST: budgets, releases, jobs, audits, keys, policy, buckets, readers; health and metrics.

Lists are paged, newest first; the header Link gives the next page.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

from sfumato.errors import BadInput
from sfumato.ledger import Balance
from sfumato.serve.authentication import DatasetName
from sfumato.serve.jobs.audit_jobs import AuditDescription
from sfumato.serve.jobs.job_lifecycle import Job
from sfumato.serve.monitoring import MEDIA_TYPE
from sfumato.serve.proxy.buckets import NewBucket
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.refusals import Unauthenticated
from sfumato.serve.release_store import Release, StoredRelease
from sfumato.serve.rest.rest_requests import Asking, Form, Here, address_of, form_of, is_form, uploaded
from sfumato.serve.rest.rest_rows import released_rows
from sfumato.serve.service import MOST_AT_ONCE, Description, NewBudget, NewKey, NewPolicy, checked
from sfumato.serve.uploads import LATE_PLAN, MOST_WORDS, late_release

budgets_router = APIRouter(tags=["budgets"])
releases_router = APIRouter(tags=["releases"])
jobs_router = APIRouter(tags=["jobs"])
evidence_router = APIRouter(tags=["evidence"])
tenant_router = APIRouter(tags=["tenant"])
proxies_router = APIRouter(tags=["proxies"])
#: Health and metrics, for operators.
operator_router = APIRouter(include_in_schema=False)

# Threads of their own, so that readiness is answered however many releases are under way.
_READY_THREADS = CapacityLimiter(8)
_FILE_TYPE, _PEM_TYPE = "application/octet-stream", "application/x-pem-file"
# A released file of at most this size is answered from memory.
_IN_MEMORY = 1 << 20
_REPORT_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; sandbox allow-scripts",
    "X-Content-Type-Options": "nosniff",
}

# Parameters
_Limit = Annotated[int, Query(ge=1, le=MOST_AT_ONCE, description="How many at most.")]
_Cursor = Annotated[
    str | None, Query(pattern=r"^[0-9a-f]{24}$", description="The id of the last one of the previous page.")
]
_Reader = Annotated[str, Path(min_length=1, max_length=200)]
_Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="A request that may be repeated: charged once, the same bytes.",
        min_length=1,
        max_length=128,
    ),
]
_Named = Annotated[
    str | None,
    Query(
        alias="name",
        description="The file's name; its suffix says what it is. A file in a form has its own.",
        max_length=200,
    ),
]
_Asked = Annotated[
    str | None,
    Query(description="How to release it: JSON as the schema Description says.", max_length=MOST_WORDS),
]
_Certificate = Annotated[str | None, Query(description="The certificate, as JSON.", max_length=MOST_WORDS)]
_StoredRelease = Annotated[
    str | None,
    Query(pattern=r"^[0-9a-f]{24}$", description="A stored release, in place of the part released."),
]

# Bodies and answers in the OpenAPI document
_Documented = dict[int | str, dict[str, Any]]
_BINARY = {_FILE_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_AUDIT_FILES = {"original": True, "released": False, "nonmembers": False, "labels_file": False}
_AUDIT_WORDS: dict[str, Any] = {
    "asked": AuditDescription.model_json_schema(),
    "certificate": {"type": "string", "maxLength": MOST_WORDS},
}


def _text_header(description: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}}


_PAGED: _Documented = {
    200: {"headers": {"Link": _text_header('With rel="next", the next page; absent on the last.')}}
}
_ACCEPTED: _Documented = {
    202: {
        "description": "The job was accepted; the header Location is where its state is found.",
        "headers": {"Location": _text_header("The job.")},
    }
}
_RELEASED: _Documented = {
    200: {
        "description": "The released file; the header Link says where its certificate is.",
        "content": _BINARY,
        "headers": {
            "Sfumato-Release": _text_header("The id of the release."),
            "ETag": _text_header("SHA-256 of the file."),
            "Link": _text_header("The certificate of the release."),
        },
    }
}
_RELEASED_OR_ROWS: _Documented = {
    200: _RELEASED[200]
    | {
        "description": "The released file, or records as JSON if they came as JSON; the header Link says "
        "where the certificate is.",
        "content": _BINARY | {"application/json": {"schema": {"$ref": "#/components/schemas/ReleasedRows"}}},
    }
}
_PAGE: _Documented = {
    200: {"description": "One HTML page, which loads nothing.", "content": {"text/html": {}}}
}
_PEM: _Documented = {
    200: {"description": "A public key, in PEM.", "content": {_PEM_TYPE: {"schema": {"type": "string"}}}}
}


def _form_body(files: Mapping[str, bool], words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a form; ``files`` says which files are required."""
    file = {"type": "string", "contentMediaType": _FILE_TYPE}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(files, file) | dict(words),
        "required": [name for name, required in files.items() if required],
        "additionalProperties": False,
    }
    encoding = {name: {"contentType": "application/json"} for name, one in words.items() if "$ref" in one}
    content: dict[str, Any] = {"schema": schema} | ({"encoding": encoding} if encoding else {})
    return {"requestBody": {"content": {"multipart/form-data": content}, "required": True}}


def _file_body(**words: Any) -> dict[str, Any]:
    """Return the schema of a body: a file, a form with a file and ``words``, or records."""
    body = _form_body({"file": True}, words)
    body["requestBody"]["content"] |= _BINARY
    if "asked" in words:
        body["requestBody"]["content"]["application/json"] = {"schema": {"$ref": "#/components/schemas/Rows"}}
    return body


_RELEASE_BODY = _file_body(asked={"$ref": "#/components/schemas/Description"})


async def _paging(
    request: Request, response: Response, limit: _Limit = 100, cursor: _Cursor = None
) -> Callable[[Callable[..., Any]], Any]:
    """Return a function that returns a page of an operation, with a link to the next if it is full."""

    def page(operation: Callable[..., Sequence[Release | Job]]) -> Sequence[Release | Job]:
        found = operation(limit=limit, cursor=cursor)
        if len(found) == limit:
            place = f"{request.url.path}?limit={limit}&cursor={found[-1].id}"
            response.headers["Link"] = f'<{place}>; rel="next"'
        return found

    return page


_Page = Annotated[Callable[[Callable[..., Any]], Any], Depends(_paging)]


# Budgets


@budgets_router.get("/budgets", response_model=list[Balance])
def budgets(service: Here, asking: Asking) -> Any:
    """Return all budgets that the key may see."""
    return service.budgets(asking)


@budgets_router.post("/budgets", status_code=201, response_model=Balance)
def open_budget(service: Here, asking: Asking, new: NewBudget) -> Any:
    """Open a budget; opening the same one again changes nothing."""
    return service.open_budget(asking, **new.model_dump())


@budgets_router.get("/budgets/{dataset}", response_model=Balance)
def budget(service: Here, asking: Asking, dataset: DatasetName) -> Any:
    """Return what a dataset may still spend."""
    return service.budget(asking, dataset)


@budgets_router.get("/budgets/{dataset}/history")
def history(service: Here, asking: Asking, dataset: DatasetName) -> list[dict[str, Any]]:
    """Return every entry of the budget, oldest first."""
    return service.history(asking, dataset)


# Releases


async def _upload(
    request: Request, service: Here, asking: Asking, named: _Named = None, asked: _Asked = None
) -> Callable[..., Awaitable[Any]]:
    """Return a function that runs an operation of the service on the file that ``request`` brings."""

    async def run(
        operation: Callable[..., Any],
        dataset: str,
        show: Callable[[Form, Any], Any] = lambda _, done: done,
        *,
        late: str | None = None,
        **words: Any,
    ) -> Any:
        def work(sent: Form) -> Any:
            described = checked("asked", Description, sent.words.get("asked", "{}"))
            return show(sent, operation(asking, described.request(), sent.files["file"], dataset, **words))

        return await uploaded(request, service, asking, named, {"asked": asked}, work, late=late)

    return run


_Upload = Annotated[Callable[..., Awaitable[Any]], Depends(_upload)]


@releases_router.post("/datasets/{dataset}/plan", openapi_extra=_RELEASE_BODY)
async def plan(service: Here, upload: _Upload, dataset: DatasetName) -> dict[str, Any]:
    """Return what a release of a file would guarantee and cost; nothing is spent."""
    found: dict[str, Any] = await upload(service.plan, dataset, late=LATE_PLAN)
    return found


@releases_router.post(
    "/datasets/{dataset}/protect",
    openapi_extra=_RELEASE_BODY,
    responses=_RELEASED_OR_ROWS,
    response_class=FileResponse,
)
async def protect(service: Here, upload: _Upload, dataset: DatasetName, key: _Key = None) -> Any:
    """Release a file, or records as JSON; the dataset's budget is charged before anything is drawn."""
    return await upload(service.protect, dataset, _released, late=late_release(key), request=key)


def _released(sent: Form, done: StoredRelease) -> Response:
    if sent.rows:
        rows = released_rows(done).model_dump_json(exclude_unset=True)
        return Response(rows, media_type="application/json", headers=_release_headers(done))
    if done.file.stat().st_size > _IN_MEMORY:
        return _file(done)
    # Read in the thread that drew it: a response of a file would need three threads.
    quoted = quote(done.name)
    name = f'filename="{quoted}"' if quoted == done.name else f"filename*=utf-8''{quoted}"
    headers = _release_headers(done) | {"Content-Disposition": f"attachment; {name}"}
    return Response(done.file.read_bytes(), media_type=_FILE_TYPE, headers=headers)


def _file(done: StoredRelease) -> Response:
    return FileResponse(done.file, media_type=_FILE_TYPE, filename=done.name, headers=_release_headers(done))


def _release_headers(done: Release) -> dict[str, str]:
    return {
        "Sfumato-Release": done.id,
        "ETag": f'"{done.sha256}"',
        "Link": f'</v1/releases/{done.id}/certificate>; rel="describedby"',
    }


@releases_router.get("/releases", responses=_PAGED, response_model=list[Release])
def releases(service: Here, asking: Asking, page: _Page) -> Any:
    """Return a page of the releases that the key may see, newest first."""
    return page(partial(service.releases, asking))


@releases_router.get("/releases/{release}")
def release(service: Here, asking: Asking, release: str) -> Release:
    """Return one release: its three columns, and what paid for it."""
    return service.release(asking, release)


@releases_router.delete("/releases/{release}")
def delete(service: Here, asking: Asking, release: str) -> Release:
    """Delete the released file; its certificate, record and payment are kept."""
    return service.delete_release(asking, release)


@releases_router.get("/releases/{release}/content", responses=_RELEASED, response_class=FileResponse)
def content(service: Here, asking: Asking, release: str) -> Response:
    """Return the released file."""
    return _file(service.content(asking, release))


@releases_router.get("/releases/{release}/certificate")
def certificate(service: Here, asking: Asking, release: str) -> dict[str, Any]:
    """Return the signed certificate of a release."""
    found: dict[str, Any] = json.loads(service.certificate(asking, release))
    return found


@releases_router.post("/verify", openapi_extra=_file_body(certificate={"type": "string"}))
async def verify(
    request: Request, service: Here, asking: Asking, named: _Named = None, certificate: _Certificate = None
) -> dict[str, Any]:
    """Verify a released file against its certificate."""

    def verified(sent: Form) -> dict[str, Any]:
        if "certificate" not in sent.words:
            raise BadInput("the certificate of the file is missing; give it in the query or in the form.")
        return service.verified(asking, sent.files["file"], sent.words["certificate"])

    return await uploaded(request, service, asking, named, {"certificate": certificate}, verified)


# Jobs, audits and reports


@jobs_router.post(
    "/datasets/{dataset}/jobs", status_code=202, openapi_extra=_RELEASE_BODY, responses=_ACCEPTED
)
async def submit(
    response: Response, service: Here, upload: _Upload, dataset: DatasetName, key: _Key = None
) -> Job:
    """Release a file as a job: its price is held now, and spent when the job begins to draw."""
    return _accepted(response, await upload(service.submit, dataset, request=key))


def _accepted(response: Response, job: Job) -> Job:
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job


@jobs_router.get("/jobs", responses=_PAGED, response_model=list[Job])
def jobs(service: Here, asking: Asking, page: _Page) -> Any:
    """Return a page of the jobs that the key may see, newest first."""
    return page(partial(service.jobs, asking))


@jobs_router.get("/jobs/{job}")
def job(service: Here, asking: Asking, job: str) -> Job:
    """Return the state of a job."""
    return service.job(asking, job)


@jobs_router.delete("/jobs/{job}")
def cancel(service: Here, asking: Asking, job: str) -> Job:
    """Cancel a job: before it begins to draw its price is returned, afterwards it stays spent.

    A running job is cancelling, and ends at its next step; a job that has ended stays as it is.
    """
    return service.cancel(asking, job)


@evidence_router.post(
    "/datasets/{dataset}/audits",
    status_code=202,
    openapi_extra=_form_body(_AUDIT_FILES, _AUDIT_WORDS),
    responses=_ACCEPTED,
)
async def submit_audit(
    request: Request,
    response: Response,
    service: Here,
    asking: Asking,
    dataset: DatasetName,
    release: _StoredRelease = None,
    key: _Key = None,
) -> Job:
    """Audit a release as a job, at no cost: the part original is what it is a release of, row by row.

    The part released, with its certificate, or the query's release, is what is attacked.
    """
    if not is_form(request):
        raise BadInput("the files of an audit come as multipart/form-data, in parts original and released.")

    async def bring(brought: ExitStack) -> Callable[[], Job]:
        folder, limit = brought.enter_context(service.folder()), service.settings.body_bytes
        form = await form_of(request, folder, limit, files=_AUDIT_FILES, words=_AUDIT_WORDS)

        def submitted() -> Job:
            asked = checked("asked", AuditDescription, form.words.get("asked", "{}"))
            certificate = form.words.get("certificate")
            return service.submit_audit(
                asking, asked, form.files, dataset, release=release, certificate=certificate, request=key
            )

        return submitted

    return _accepted(response, await service.receive(asking, bring))


@evidence_router.get("/audits/{audit}")
def audit(service: Here, asking: Asking, audit: str) -> dict[str, Any]:
    """Return what an audit found: every attack, and the statement with its measured column."""
    return service.audit(asking, audit)


@evidence_router.get("/audits/{audit}/report", responses=_PAGE, response_class=HTMLResponse)
def audit_report(service: Here, asking: Asking, audit: str) -> Response:
    """Return the report of an audit."""
    return HTMLResponse(service.report_page(asking, audit), headers=_REPORT_HEADERS)


@evidence_router.get("/releases/{release}/report", responses=_PAGE, response_class=HTMLResponse)
def release_report(service: Here, asking: Asking, release: str) -> Response:
    """Return the report of a release: its three columns, and the budget that paid for it."""
    service.release(asking, release)  # so that only a release is answered here
    return HTMLResponse(service.report_page(asking, release), headers=_REPORT_HEADERS)


@evidence_router.get("/signing-key", responses=_PEM, response_class=Response, openapi_extra={"security": []})
async def signing_key(service: Here) -> Response:
    """Return the public key that verifies certificates, for anybody, as ``sfumato key trust`` takes it."""
    return Response(service.signing_key, media_type=_PEM_TYPE)


# The tenant


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
    key, token = service.make_key(asking, new)
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


# Buckets and readers


@proxies_router.post("/proxies", status_code=201)
def declare(service: Here, asking: Asking, new: NewBucket) -> dict[str, Any]:
    """Declare a bucket whose objects readers get protected; repeating it changes nothing."""
    return service.buckets.declare(asking, new).to_dict()


@proxies_router.get("/proxies")
def buckets(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """Return the buckets that the key may read; their source is shown only to those who may declare them."""
    return service.buckets.listed(asking)


@proxies_router.get("/proxies/{name}")
def bucket(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Return one bucket."""
    return service.buckets.shown(asking, name)


@proxies_router.get("/proxies/{name}/tier")
def tier(request: Request, service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Return the tier of the caller at its present address; nothing is spent."""
    return service.buckets.tier(asking, name, address_of(request))


@proxies_router.get("/proxies/{name}/names")
def names(service: Here, asking: Asking, name: str) -> dict[str, str]:
    """Return the keys of all objects by the names that readers see, for those who may declare the bucket."""
    bucket = service.buckets.bucket(asking, name, "budget")
    listed = Objects(service).listed(bucket, service.buckets.source(bucket))
    return {one.shown: one.key for one in listed}


@proxies_router.delete("/proxies/{name}")
def remove(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Remove a bucket, which can be read no longer; what was paid for it stays paid."""
    return service.buckets.remove(asking, name).to_dict()


@proxies_router.get("/readers")
def readers(service: Here, asking: Asking) -> dict[str, dict[str, Any]]:
    """Return the facts about the tenant's readers."""
    return {reader: facts.to_dict() for reader, facts in service.buckets.readers(asking).items()}


@proxies_router.put("/readers/{reader}")
def say(service: Here, asking: Asking, reader: _Reader, new: ReaderFacts) -> dict[str, Any]:
    """Set a reader's authorisations and jurisdiction, which the policy uses."""
    return service.buckets.say(asking, reader, new)


@proxies_router.delete("/readers/{reader}")
def forget(service: Here, asking: Asking, reader: _Reader) -> dict[str, Any]:
    """Remove the facts about a reader."""
    return service.buckets.say(asking, reader, None)


@proxies_router.post("/keys/{key}/s3")
def access_key(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """Return the access key of a key, with which S3 clients sign; it ends with the key."""
    return service.buckets.access_key(asking, key)


# Health and metrics


@operator_router.get("/healthz")
async def alive() -> dict[str, str]:
    """Return that the process answers."""
    return {"status": "alive"}


@operator_router.get("/readyz")
async def ready(service: Here) -> dict[str, str]:
    """Return whether the service could make a release."""
    await to_thread.run_sync(service.readiness.require, limiter=_READY_THREADS)
    return {"status": "ready"}


@operator_router.get("/metrics")
def metrics(
    request: Request, service: Here, authorization: Annotated[str | None, Header()] = None
) -> Response:
    """Return the metrics to the holder of the metrics token: they name tenants' datasets."""
    token, address = request.app.state.metrics_token, address_of(request)
    if token is None:
        raise HTTPException(404)
    service.throttle.require(address)
    if not hmac.compare_digest(f"Bearer {token}".encode(), (authorization or "").encode()):
        if authorization is not None:
            service.throttle.failed(address)
        raise Unauthenticated("the metrics need their token, as in Authorization: Bearer ….")
    return Response(service.metrics.page(), media_type=MEDIA_TYPE)


#: In the order of the OpenAPI document.
ROUTERS = (
    budgets_router,
    releases_router,
    jobs_router,
    evidence_router,
    tenant_router,
    proxies_router,
)
