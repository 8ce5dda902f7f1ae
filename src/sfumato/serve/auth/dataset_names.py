"""Names of tenants and datasets, and the one name that a tenant's dataset has in the ledger.

A tenant's id is made here and never chosen, and neither an id nor a dataset's name may hold a colon: so two
tenants whose datasets have equal names never meet in the ledger.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from sfumato.errors import BadInput

__all__ = [
    "checked_dataset",
    "checked_tenant",
    "is_tenant_id",
    "ledger_name",
    "new_tenant_id",
    "own_dataset",
    "own_words",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TENANT_ID = re.compile(r"t[0-9a-f]{16}")
_IN_LEDGER = re.compile(r"\bt[0-9a-f]{16}:")
_ACCEPTED = "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit"


def checked_dataset(name: str) -> str:
    """``name``, if it can be that of a dataset; it is then a safe part of a path, a URL and a header too."""
    return _checked("the name of a dataset", name)


def checked_tenant(name: str) -> str:
    """``name``, if it can be that of a tenant."""
    return _checked("the name of a tenant", name)


def new_tenant_id() -> str:
    """An id that no tenant has."""
    return f"t{secrets.token_hex(8)}"


def is_tenant_id(value: Any) -> bool:
    """Whether ``value`` could be the id of a tenant."""
    return isinstance(value, str) and _TENANT_ID.fullmatch(value) is not None


def ledger_name(tenant_id: str, dataset: str) -> str:
    """The ledger's name of a tenant's dataset; of an empty one, what all names of the tenant begin with."""
    if not is_tenant_id(tenant_id):
        raise BadInput("a tenant is named in the ledger by its id, t and 16 hexadecimal digits.")
    return f"{tenant_id}:{checked_dataset(dataset) if dataset != '' else ''}"


def own_dataset(tenant_id: str, name: str) -> str | None:
    """The dataset of this tenant that the ledger calls ``name``; None where it is not this tenant's."""
    owner, colon, dataset = name.partition(":")
    return dataset if colon and owner == tenant_id and _NAME.fullmatch(dataset) else None


def own_words(sentence: str) -> str:
    """``sentence`` with datasets named as their tenant names them, and not as the ledger does."""
    return _IN_LEDGER.sub("", sentence)


def _checked(what: str, name: Any) -> str:
    # fullmatch, for a pattern's $ would let a line break through.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(f"{what} must be {_ACCEPTED}.")
    return name
