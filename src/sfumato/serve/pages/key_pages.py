"""The tenant: what it may ask for, this key, and all keys of those who may make them."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

from starlette.responses import Response

from sfumato.errors import BadInput
from sfumato.reports.numbers import plain
from sfumato.serve.auth.api_keys import ApiKey
from sfumato.serve.auth.callers import OPERATIONS, ROLES
from sfumato.serve.pages.endpoints import form, page
from sfumato.serve.pages.forms import Form
from sfumato.serve.pages.page_request import Visit
from sfumato.serve.refusal_codes import said_of

__all__ = ["ROUTES", "end_of"]

_QUOTAS = {
    "requests_per_minute": "requests a minute",
    "bytes_per_day": "bytes a day",
    "jobs_at_once": "jobs at the same time",
    "bytes_kept": "bytes that are kept",
}
_FIELDS = ("name", "role", "datasets", "reader", "expires")
_ROLES = {
    "owner": "everything: budgets, keys and policy too",
    "publisher": "plans and makes releases",
    "auditor": "reads everything and audits; spends only as a reader of buckets",
}


def _tenant(visit: Visit) -> Response:
    return _shown(visit)


def _shown(visit: Visit, status: int = 200, **values: Any) -> Response:
    registry, now = visit.service.registry, datetime.now(UTC)
    quotas = registry.quotas(visit.caller.tenant)
    keys = visit.service.keys_of(visit.caller) if visit.may("keys") else []
    return visit.page(
        "keys.html",
        status=status,
        here="tenant",
        tenant=registry.tenant(visit.caller.tenant),
        quotas=[
            (said, "no limit" if getattr(quotas, name) is None else plain(getattr(quotas, name)))
            for name, said in _QUOTAS.items()
        ],
        keys=[
            (key, _state(key, now)) for key in sorted(keys, key=lambda key: (not key.usable(now), key.name))
        ],
        roles=_ROLES,
        operations=[
            (name, [role for role in ROLES if name in ROLES[role]]) for name in OPERATIONS if visit.may(name)
        ],
        today=now.date().isoformat(),
        **(
            {"typed": dict.fromkeys(_FIELDS, ""), "ticked": [], "refusal": None, "token": None, "made": None}
            | values
        ),
    )


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked is not None:
        return "revoked"
    return "usable" if key.usable(now) else "expired"


def _make(visit: Visit, given: Form) -> Response:
    typed = {name: given.text(name) for name in _FIELDS}
    scopes = given.several("scopes")
    try:
        made, token = visit.service.make_key(
            visit.caller,
            name=typed["name"],
            role=typed["role"],
            scopes=scopes or None,
            datasets=typed["datasets"].replace(",", " ").split() or None,
            reader=typed["reader"] or None,
            expires=end_of(typed["expires"]),
        )
    except BadInput as error:
        return _shown(visit, 400, typed=typed, ticked=scopes, refusal=said_of(error))
    return _shown(visit, 201, token=token, made=made)


def end_of(day: str) -> datetime | None:
    """The last moment of a day that was chosen, in UTC."""
    if not day:
        return None
    try:
        return datetime.combine(datetime.fromisoformat(day).date(), time.max, UTC)
    except ValueError:
        raise BadInput("a key expires at the end of a day, as in 2030-01-31.") from None


def _revoke(visit: Visit, given: Form, key: str) -> Response:
    visit.service.revoke_key(visit.caller, key)
    return visit.then("tenant")


ROUTES = [
    page("/tenant", _tenant, "tenant"),
    form("/tenant/keys", _make, "make-key"),
    form("/tenant/keys/{key}/revoke", _revoke, "revoke-key"),
]
