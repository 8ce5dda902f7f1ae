"""Rows of tenants, read and written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, insert, select

from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.registry_tables import closed, tenants

__all__ = ["Tenant", "add_tenant", "all_tenants", "put_closed", "tenant_named", "tenant_of_id"]

_NEW = insert(tenants)
_CLOSED = insert(closed)
_TENANTS = select(tenants, closed.c.at.label("closed")).select_from(
    tenants.outerjoin(closed, closed.c.tenant == tenants.c.id)
)
_ALL = _TENANTS.order_by(tenants.c.created, tenants.c.id)
_BY_ID = _TENANTS.where(tenants.c.id == bindparam("wanted"))
_BY_NAME = _TENANTS.where(tenants.c.name == bindparam("wanted"))


@dataclass(frozen=True)
class Tenant:
    """Who has datasets, budgets, keys and a policy of its own; the ``id`` never changes.

    From the time at which it was ``closed`` it has no key that opens anything.
    """

    id: str
    name: str
    created: datetime
    closed: datetime | None = None


def add_tenant(transaction: Transaction, tenant: Tenant) -> None:
    """Keep a new tenant, whose name nobody has."""
    transaction.run(_NEW, {"id": tenant.id, "name": tenant.name, "created": tenant.created.isoformat()})


def put_closed(transaction: Transaction, tenant_id: str, now: datetime) -> None:
    """Keep that a tenant, which is open, was closed."""
    transaction.run(_CLOSED, {"tenant": tenant_id, "at": now.isoformat()})


def all_tenants(transaction: Transaction) -> list[Tenant]:
    """Every tenant, oldest first."""
    return [_tenant_of(row) for row in transaction.all(_ALL)]


def tenant_of_id(transaction: Transaction, id_: str) -> Tenant | None:
    """The tenant of this id, if there is one."""
    row = transaction.first(_BY_ID, {"wanted": id_})
    return None if row is None else _tenant_of(row)


def tenant_named(transaction: Transaction, name: str) -> Tenant | None:
    """The tenant of this name, if there is one."""
    row = transaction.first(_BY_NAME, {"wanted": name})
    return None if row is None else _tenant_of(row)


def _tenant_of(row: Row) -> Tenant:
    closed_at = None if row.closed is None else datetime.fromisoformat(row.closed)
    return Tenant(row.id, row.name, datetime.fromisoformat(row.created), closed_at)
