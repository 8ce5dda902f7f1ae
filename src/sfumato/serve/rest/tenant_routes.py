"""A tenant's own things: its keys, and how it trusts its readers."""

from typing import Any

from fastapi import APIRouter

from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.registry_policies import VersionedPolicy
from sfumato.serve.request_models import NewKey, NewPolicy
from sfumato.serve.rest.dependencies import Asking, Here

__all__ = ["router"]

router = APIRouter(tags=["tenant"])


@router.get("/me")
def me(asking: Asking) -> dict[str, Any]:
    """Who asks, and what the key allows."""
    return {
        "tenant": asking.tenant,
        "key": asking.key_id,
        "role": asking.role,
        "scopes": None if asking.scopes is None else sorted(asking.scopes),
        "datasets": None if asking.datasets is None else sorted(asking.datasets),
        "reader": asking.reader,
    }


@router.get("/keys")
def keys(service: Here, asking: Asking) -> list[dict[str, Any]]:
    """All keys of the tenant; their secrets are nowhere."""
    return [key.to_dict() for key in service.keys_of(asking)]


@router.post("/keys", status_code=201)
def make_key(service: Here, asking: Asking, new: NewKey) -> dict[str, Any]:
    """Make a key; its token is shown this once."""
    key, token = service.make_key(asking, **new.model_dump())
    return key.to_dict() | {"token": token}


@router.delete("/keys/{key}")
def revoke(service: Here, asking: Asking, key: str) -> dict[str, Any]:
    """Let a key open nothing any more."""
    return service.revoke_key(asking, key).to_dict()


@router.get("/policy")
def policy(service: Here, asking: Asking) -> dict[str, Any]:
    """How the tenant trusts its readers."""
    return _shown(service.policy(asking))


@router.put("/policy")
def set_policy(service: Here, asking: Asking, new: NewPolicy) -> dict[str, Any]:
    """Replace the policy."""
    return _shown(service.set_policy(asking, Policy.from_dict(new.policy), new.after))


def _shown(found: VersionedPolicy) -> dict[str, Any]:
    return {"version": found.version, "policy": found.policy.to_dict()}
