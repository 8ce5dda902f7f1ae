"""Routes of a tenant: budgets, keys, policy, buckets and readers; and health and metrics for operators."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Path, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from sfumato.ledger import Balance
from sfumato.serve.authentication import DatasetName, Unauthenticated
from sfumato.serve.metrics import MEDIA_TYPE
from sfumato.serve.proxy.buckets import NewBucket, NewReader
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.rest.rest_requests import Asking, Here, address_of
from sfumato.serve.service import NewBudget, NewKey, NewPolicy

bucket_router = APIRouter(tags=["proxies"])

_Reader = Annotated[str, Path(min_length=1, max_length=200)]

# Threads of their own: however many releases are under way, whoever asks whether it is ready is answered.
_THREADS = CapacityLimiter(8)


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
    await to_thread.run_sync(service.readiness.require, limiter=_THREADS)
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


router = APIRouter(tags=["tenant"])


@router.get("/me")
def me(service: Here, asking: Asking) -> dict[str, Any]:
    """Return the caller, and what its key allows."""
    return service.me(asking)


@router.get("/keys")
def keys(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """Return all keys of the tenant, without their secrets."""
    return [key.to_dict() for key in service.keys_of(asking)]


@router.post("/keys", status_code=201)
def make_key(service: Here, asking: Asking, new: NewKey) -> dict[str, Any]:
    """Create a key; its token is shown only once."""
    key, token = service.make_key(asking, **new.model_dump())
    return key.to_dict() | {"token": token}


@router.delete("/keys/{key}")
def revoke(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """Revoke a key."""
    return service.revoke_key(asking, key).to_dict()


@router.get("/policy")
def policy(service: Here, asking: Asking) -> dict[str, Any]:
    """Return the tenant's trust policy."""
    return service.policy(asking).to_dict()


@router.put("/policy")
def set_policy(service: Here, asking: Asking, new: NewPolicy) -> dict[str, Any]:
    """Replace the trust policy."""
    return service.set_policy(asking, **new.model_dump()).to_dict()
