"""A tenant's own things: its keys, how it trusts its readers, and its budgets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sfumato.privacy.defaults import RECORDS
from sfumato.serve.auth.access_rules import Forbidden, known, named, require
from sfumato.serve.auth.api_keys import ApiKey
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.dataset_names import ledger_name
from sfumato.serve.auth.trust_policy import Policy
from sfumato.serve.registry_policies import VersionedPolicy
from sfumato.serve.resources import Resources

__all__ = ["Tenancy"]


class Tenancy:
    """What a service does for tenants beside releasing anything."""

    def __init__(self, resources: Resources) -> None:
        self.settings, self.keys = resources.settings, resources.keys
        self.registry, self.ledger = resources.registry, resources.ledger
        #: What readers verify certificates with, as PEM; anybody may know it.
        self.signing_key = resources.signing_key

    # Keys and the policy of a tenant

    def make_key(
        self,
        caller: Caller,
        *,
        name: str,
        role: str,
        scopes: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        reader: str | None = None,
        expires: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """A key of the caller's tenant and its token, which is shown this once.

        It allows nothing that the caller's own does not, and for no longer: without ``expires`` it expires
        when the caller's own does.
        """
        require(caller, "keys", None)
        until = expires or caller.expires
        if caller.outlasted_by(until):
            raise Forbidden("a key cannot outlast the key that makes it; leave out when it expires.")
        granted: dict[str, Any] = {"role": role, "scopes": scopes, "reader": reader, "expires": until}
        if not caller.may_grant(**granted):
            raise Forbidden("a key cannot be given what the key that makes it does not have.")
        return self.registry.create_key(caller.tenant, name=name, datasets=datasets, **granted)

    def keys_of(self, caller: Caller) -> list[ApiKey]:
        """The keys of the caller's tenant; never their secrets."""
        require(caller, "keys", None)
        return self.registry.keys(caller.tenant)

    def revoke_key(self, caller: Caller, key_id: str) -> ApiKey:
        """Let a key of the caller's tenant open nothing any more.

        Refused where the caller could not have made such a key: a narrowed one must not shut out its owner.
        """
        require(caller, "keys", None)
        found = next((key for key in self.registry.keys(caller.tenant) if key.id == key_id), None)
        if found is not None and not caller.may_grant(
            role=found.role, scopes=found.scopes, reader=found.reader, expires=found.expires
        ):
            raise Forbidden("this key allows what the key that revokes it does not have.")
        return self.registry.revoke_key(caller.tenant, key_id)

    def policy(self, caller: Caller) -> VersionedPolicy:
        """How the caller's tenant trusts its readers."""
        require(caller, "policy", None)
        return self.registry.policy(caller.tenant)

    def set_policy(self, caller: Caller, policy: Policy, after: int | None) -> VersionedPolicy:
        """Replace the policy, if the one in force is still number ``after``."""
        require(caller, "policy", None)
        return self.registry.set_policy(caller.tenant, policy, after=after)

    # Budgets

    def open_budget(
        self,
        caller: Caller,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        unit: str = RECORDS.unit,
        neighbours: str = RECORDS.neighbours,
    ) -> dict[str, Any]:
        """Give ``dataset`` a budget; the same one again changes nothing."""
        name = named(caller, "budget", dataset)
        self.ledger.open(name, epsilon, delta, unit, neighbours)
        return self._balance(name, dataset)

    def budgets(self, caller: Caller) -> list[dict[str, Any]]:
        """The budgets of the caller's tenant that the key may see."""
        require(caller, "read", None)
        start = ledger_name(caller.tenant, "")
        names = [name.removeprefix(start) for name in self.ledger.names() if name.startswith(start)]
        return [
            self._balance(ledger_name(caller.tenant, name), name)
            for name in sorted(names)
            if caller.may("read", name)
        ]

    def budget(self, caller: Caller, dataset: str) -> dict[str, Any]:
        """What ``dataset`` may still spend."""
        return self._balance(known(self.ledger, caller, "read", dataset), dataset)

    def history(self, caller: Caller, dataset: str) -> list[dict[str, Any]]:
        """Every entry of the budget of ``dataset``, oldest first."""
        return [entry.to_dict() for entry in self.ledger.history(known(self.ledger, caller, "read", dataset))]

    def _balance(self, name: str, dataset: str) -> dict[str, Any]:
        return self.ledger.balance(name).to_dict() | {"dataset": dataset}
