"""Rows of tenants, read and written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, insert, select

from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.tables import tenants

__all__ = ["Tenant", "add_tenant", "all_tenants", "tenant_named", "tenant_of_id"]

_NEW = insert(tenants)
_ALL = select(tenants).order_by(tenants.c.created, tenants.c.id)
_BY_ID = select(tenants).where(tenants.c.id == bindparam("wanted"))
_BY_NAME = select(tenants).where(tenants.c.name == bindparam("wanted"))


@dataclass(frozen=True)
class Tenant:
    """Who has datasets, budgets, keys and a policy of its own; the ``id`` never changes."""

    id: str
    name: str
    created: datetime


def add_tenant(transaction: Transaction, tenant: Tenant) -> None:
    """Keep a new tenant, whose name nobody has."""
    transaction.run(_NEW, vars(tenant) | {"created": tenant.created.isoformat()})


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
    return Tenant(row.id, row.name, datetime.fromisoformat(row.created))
