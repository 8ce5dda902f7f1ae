"""Rows of API keys, read and written."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.auth.api_keys import ApiKey, is_key_id
from sfumato.serve.auth.callers import checked_role
from sfumato.serve.registry_errors import RegistryUnavailable
from sfumato.serve.registry_tables import keys

__all__ = ["add_key", "key_with_digest", "keys_of_tenant", "revoke", "revoke_all"]

_NEW = insert(keys)
_BY_ID = select(keys).where(keys.c.id == bindparam("key"))
_OF_TENANT = select(keys).where(keys.c.tenant == bindparam("of"))
_ONE_OF_TENANT = _OF_TENANT.where(keys.c.id == bindparam("key"))
_ALL_OF_TENANT = _OF_TENANT.order_by(keys.c.created, keys.c.id)
_REVOKE_ALL = (
    update(keys)
    .where(keys.c.tenant == bindparam("of"), keys.c.revoked.is_(None))
    .values(revoked=bindparam("at"))
)
_REVOKE = _REVOKE_ALL.where(keys.c.id == bindparam("key"))


def add_key(transaction: Transaction, key: ApiKey, digest: str) -> None:
    """Keep ``key`` with the digest of its secret."""
    row = {
        "id": key.id,
        "tenant": key.tenant,
        "digest": digest,
        "name": key.name,
        "role": key.role,
        "scopes": _list_text(key.scopes),
        "datasets": _list_text(key.datasets),
        "reader": key.reader,
        "created": key.created.isoformat(),
        "expires": None if key.expires is None else key.expires.isoformat(),
        "revoked": None,
    }
    transaction.run(_NEW, row)


def key_with_digest(transaction: Transaction, key_id: str) -> tuple[ApiKey, str] | None:
    """A key of whatever tenant, and the digest of its secret: for those who present a token."""
    row = transaction.first(_BY_ID, {"key": key_id})
    return None if row is None else (_key_of(row), str(row.digest))


def keys_of_tenant(transaction: Transaction, tenant_id: str) -> list[ApiKey]:
    """The tenant's keys, oldest first."""
    return [_key_of(row) for row in transaction.all(_ALL_OF_TENANT, {"of": tenant_id})]


def revoke(transaction: Transaction, tenant_id: str, key_id: str, now: datetime) -> ApiKey | None:
    """Revoke the tenant's key, if it has this one; a key that was revoked keeps the time at which it was."""
    if not is_key_id(key_id):
        return None
    transaction.run(_REVOKE, {"of": tenant_id, "key": key_id, "at": now.isoformat()})
    row = transaction.first(_ONE_OF_TENANT, {"of": tenant_id, "key": key_id})
    return None if row is None else _key_of(row)


def revoke_all(transaction: Transaction, tenant_id: str, now: datetime) -> None:
    """Revoke every key of the tenant that is not revoked yet."""
    transaction.run(_REVOKE_ALL, {"of": tenant_id, "at": now.isoformat()})


def _key_of(row: Row) -> ApiKey:
    try:
        return ApiKey(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            role=checked_role(row.role),
            scopes=_list_of(row.scopes),
            datasets=_list_of(row.datasets),
            reader=row.reader,
            created=_time_of(row.created),
            expires=None if row.expires is None else _time_of(row.expires),
            revoked=None if row.revoked is None else _time_of(row.revoked),
        )
    except (ValueError, TypeError):
        # What cannot be read might have narrowed the key, so the key opens nothing.
        raise RegistryUnavailable(
            f"the row of key {row.id!r} was not written by a registry: another hand was here."
        ) from None


def _list_text(names: frozenset[str] | None) -> str | None:
    return None if names is None else json.dumps(sorted(names))


def _list_of(text: Any) -> frozenset[str] | None:
    if text is None:
        return None
    names = json.loads(text)
    if not isinstance(names, list):
        raise TypeError("the names are not a list")
    return frozenset(names)


def _time_of(text: Any) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("the time is of no zone")
    return time
