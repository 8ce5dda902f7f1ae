"""Buckets, readers and access keys, for a tenant's owner."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from sfumato.serve.proxy.bucket_declarations import NewBucket, NewReader
from sfumato.serve.proxy.buckets import Buckets, shown
from sfumato.serve.proxy.protected_objects import Objects
from sfumato.serve.reader_tiers import ReaderFacts
from sfumato.serve.rest.dependencies import Asking, Here

__all__ = ["router"]

router = APIRouter(tags=["proxies"])

_Reader = Annotated[str, Path(min_length=1, max_length=200)]


@router.post("/proxies", status_code=201)
def declare(service: Here, asking: Asking, new: NewBucket) -> dict[str, Any]:
    """Declare a bucket whose objects readers get protected; the same one again changes nothing."""
    return Buckets.of(service).declare(asking, new).to_dict()


@router.get("/proxies")
def buckets(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """The buckets that the key may read; where they come from is shown to whoever may declare them."""
    return [shown(bucket, asking) for bucket in Buckets.of(service).buckets(asking)]


@router.get("/proxies/{name}")
def bucket(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """One bucket."""
    return shown(Buckets.of(service).bucket(asking, name), asking)


@router.get("/proxies/{name}/tier")
def tier(request: Request, service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """The tier that whoever asks gets, from where they ask; nothing is spent."""
    address = None if request.client is None else request.client.host
    found = Buckets.of(service)
    bucket = found.bucket(asking, name, "tier")
    return {"tier": found.level(asking, bucket, address), "tiers": list(bucket.tiers.levels)}


@router.get("/proxies/{name}/names")
def names(service: Here, asking: Asking, name: str) -> dict[str, str]:
    """The keys of all objects, by the names that readers know them by; for whoever may declare the bucket."""
    found = Buckets.of(service)
    bucket = found.bucket(asking, name, "budget")
    listed = Objects(service).listed(bucket, found.source(bucket))
    return {one.shown: one.key for one in listed}


@router.delete("/proxies/{name}")
def remove(service: Here, asking: Asking, name: str) -> dict[str, Any]:
    """Let a bucket be read no longer; what was paid for it stays paid."""
    return Buckets.of(service).remove(asking, name).to_dict()


@router.get("/readers")
def readers(service: Here, asking: Asking) -> dict[str, dict[str, Any]]:
    """What the tenant says of its readers."""
    return {reader: facts.to_dict() for reader, facts in Buckets.of(service).readers(asking).items()}


@router.put("/readers/{reader}")
def say(service: Here, asking: Asking, reader: _Reader, new: NewReader) -> dict[str, Any]:
    """Say which authorisations a reader has and what law it is under, for the policy to go by."""
    facts = ReaderFacts.of(new.authorisations, new.jurisdiction)
    Buckets.of(service).say(asking, reader, facts)
    return {"reader": reader} | facts.to_dict()


@router.delete("/readers/{reader}")
def forget(service: Here, asking: Asking, reader: _Reader) -> dict[str, Any]:
    """Say nothing of a reader any more."""
    Buckets.of(service).say(asking, reader, None)
    return {"reader": reader} | ReaderFacts().to_dict()


@router.post("/keys/{key}/s3")
def access_key(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """The access key of a key, with which clients of S3 sign; it lives and ends with the key."""
    found, secret = Buckets.of(service).access_key(asking, key)
    return {"access_key_id": found.id, "secret_access_key": secret, "path": "/s3"}
