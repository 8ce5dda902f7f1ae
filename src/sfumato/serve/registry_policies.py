"""Rows of policies, read and written; an old version is kept, for the releases that were made under it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import bindparam, insert, select

from sfumato.errors import BadInput
from sfumato.ledger.transaction import Row, Transaction
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.registry_errors import RegistryUnavailable
from sfumato.serve.registry_tables import policies

__all__ = ["VersionedPolicy", "add_policy", "newest_policy", "newest_version", "policy_at"]

_NEW = insert(policies)
_OF_TENANT = select(policies).where(policies.c.tenant == bindparam("of"))
_NEWEST = _OF_TENANT.order_by(policies.c.version.desc()).limit(1)
_AT = _OF_TENANT.where(policies.c.version == bindparam("at"))


@dataclass(frozen=True)
class VersionedPolicy:
    """A tenant's policy and its number; version 0, without rules, is what a tenant has before the first."""

    version: int = 0
    policy: Policy = field(default_factory=Policy)
    created: datetime | None = None


def newest_policy(transaction: Transaction, tenant_id: str) -> VersionedPolicy:
    """The policy in force."""
    row = transaction.first(_NEWEST, {"of": tenant_id})
    return VersionedPolicy() if row is None else _policy_of(row)


def newest_version(transaction: Transaction, tenant_id: str) -> int:
    """The number of the policy in force, also of one that cannot be read: it can then be replaced."""
    row = transaction.first(_NEWEST, {"of": tenant_id})
    return 0 if row is None else int(row.version)


def policy_at(transaction: Transaction, tenant_id: str, version: int) -> VersionedPolicy | None:
    """The policy of this version, if there is one."""
    if version == 0:
        return VersionedPolicy()
    row = transaction.first(_AT, {"of": tenant_id, "at": version}) if 0 < version < 2**31 else None
    return None if row is None else _policy_of(row)


def add_policy(transaction: Transaction, tenant_id: str, new: VersionedPolicy) -> None:
    """Keep a policy, which is in force from now on."""
    assert new.created is not None
    row = {
        "tenant": tenant_id,
        "version": new.version,
        "created": new.created.isoformat(),
        "document": new.policy.to_json(),
    }
    transaction.run(_NEW, row)


def _policy_of(row: Row) -> VersionedPolicy:
    try:
        return VersionedPolicy(
            row.version, Policy.from_json(row.document), datetime.fromisoformat(row.created)
        )
    except (BadInput, ValueError, TypeError):
        # Half a policy could trust more than the whole one.
        raise RegistryUnavailable(
            f"version {row.version} of the policy of tenant {row.tenant!r} was not written by a registry: "
            "another hand was here."
        ) from None
