"""Who asks, and what the key they hold allows: roles say what, scopes and datasets narrow it.

``tier`` is the least that a key can allow: to read the objects of a bucket, in the one tier that the policy
gives to its reader, and nothing else. Whoever may ``read`` a dataset may do that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.auth.dataset_names import checked_dataset

__all__ = [
    "OPERATIONS",
    "ROLES",
    "Caller",
    "checked_datasets",
    "checked_reader",
    "checked_role",
    "checked_scopes",
]

#: Everything that a service does for a tenant.
OPERATIONS = ("plan", "protect", "read", "tier", "audit", "budget", "keys", "policy")

#: What each role may do.
ROLES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "owner": frozenset(OPERATIONS),
        "publisher": frozenset({"plan", "protect", "read", "tier"}),
        "auditor": frozenset({"read", "tier", "audit", "plan"}),
    }
)

# They decide over all datasets of a tenant, so a key for some of them allows neither.
_OF_THE_WHOLE_TENANT = frozenset({"keys", "policy"})
_MOST = 1000
_MOST_TEXT = 200


@dataclass(frozen=True)
class Caller:
    """A request's sender, known by a key: ``tenant`` is the tenant's id, ``reader`` whom a policy knows."""

    tenant: str
    key_id: str
    role: str
    scopes: frozenset[str] | None = None
    datasets: frozenset[str] | None = None
    reader: str | None = None
    expires: datetime | None = None

    def may(self, operation: str, dataset: str | None = None) -> bool:
        """Whether the key allows ``operation`` on ``dataset``; without one, on any dataset at all.

        An operation that lists things must ask again for each dataset it is about to show.
        """
        if operation not in OPERATIONS:
            raise BadInput(f"an operation is one of {', '.join(OPERATIONS)}, not {operation!r}.")
        if operation == "tier" and self.may("read", dataset):
            return True
        if operation not in ROLES[self.role] or (self.scopes is not None and operation not in self.scopes):
            return False
        if self.datasets is None:
            return True
        return operation not in _OF_THE_WHOLE_TENANT and (dataset is None or dataset in self.datasets)

    def may_grant(
        self,
        *,
        role: str,
        scopes: Iterable[str] | None = None,
        reader: str | None = None,
        expires: datetime | None = None,
    ) -> bool:
        """Whether the caller may make such a key: one that allows nothing that the caller's own does not.

        Who may make keys at all has every dataset, so datasets never stand in the way. A reader is what a
        policy's trust goes by: only who may change the policy makes keys of other readers. A key of a caller
        whose own expires does so no later.
        """
        granted = ROLES[checked_role(role)]
        asked = checked_scopes(role, scopes)
        return (
            self.may("keys")
            and all(self.may(operation) for operation in (granted if asked is None else asked))
            and (reader == self.reader or self.may("policy"))
            and not self.outlasted_by(expires)
        )

    def outlasted_by(self, expires: datetime | None) -> bool:
        """Whether a key that expires then, or never, would be there when the caller's own is not."""
        if self.expires is None:
            return False
        # A time of no zone is none of a key: it is refused where keys are made.
        return expires is None or (expires.tzinfo is not None and expires > self.expires)


def checked_role(role: Any) -> str:
    """``role``, if there is one of this name."""
    if not isinstance(role, str) or role not in ROLES:
        raise BadInput(f"a role is one of {', '.join(ROLES)}, not {_shown(role)}.")
    return role


def checked_scopes(role: str, scopes: Iterable[str] | None) -> frozenset[str] | None:
    """``scopes`` of a key of this role: one or more operations of it."""
    if scopes is None:
        return None
    chosen = _several("scopes", scopes)
    for one in chosen:
        if one not in ROLES[role]:
            accepted = ", ".join(name for name in OPERATIONS if name in ROLES[role])
            raise BadInput(f"the scopes of a key of role {role} are among {accepted}, not {_shown(one)}.")
    return chosen


def checked_datasets(datasets: Iterable[str] | None) -> frozenset[str] | None:
    """The ``datasets`` that a key is for: one or more names, or None for all, also later ones."""
    if datasets is None:
        return None
    return frozenset(checked_dataset(one) for one in _several("datasets", datasets))


def checked_reader(reader: Any) -> str | None:
    """``reader``, if a policy could name it."""
    if reader is None:
        return None
    if not isinstance(reader, str) or not 1 <= len(reader) <= _MOST_TEXT or not reader.isprintable():
        raise BadInput(f"a reader is named by 1 to {_MOST_TEXT} printable characters.")
    return reader


def _several(what: str, values: Any) -> frozenset[str]:
    # A text is also a sequence of texts, of one letter each.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise BadInput(f"the {what} of a key are a list of names, not {_shown(values)}.")
    chosen = list(values)
    if not 1 <= len(chosen) <= _MOST or not all(isinstance(one, str) for one in chosen):
        raise BadInput(f"the {what} of a key are 1 to {_MOST:,} names; leave them out to allow all.")
    return frozenset(chosen)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
