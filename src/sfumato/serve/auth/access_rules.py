"""What a caller's key does not allow is refused first; what a tenant does not have, nobody tells apart."""

from __future__ import annotations

from sfumato.errors import SfumatoError
from sfumato.ledger import Ledger
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.dataset_names import checked_dataset, ledger_name

__all__ = ["Forbidden", "NotFound", "is_id", "known", "named", "require"]

_ID_DIGITS = 24


class Forbidden(SfumatoError):
    """The caller's key does not allow this."""


class NotFound(SfumatoError):
    """There is no such thing that the caller could know of."""


def require(caller: Caller, operation: str, dataset: str | None) -> None:
    """Refuse an ``operation`` that the key does not allow on ``dataset``."""
    if not caller.may(operation, dataset):
        raise Forbidden(
            f"this key does not allow the operation {operation!r} here; ask the tenant's owner for one that "
            "does."
        )


def named(caller: Caller, operation: str, dataset: str) -> str:
    """The ledger's name of the caller's ``dataset``, for an ``operation`` that the key allows."""
    checked = checked_dataset(dataset)
    require(caller, operation, checked)
    return ledger_name(caller.tenant, checked)


def known(ledger: Ledger, caller: Caller, operation: str, dataset: str) -> str:
    """The same of a dataset that has a budget: without one nothing is released, and nothing told."""
    name = named(caller, operation, dataset)
    if not ledger.has(name):
        raise NotFound(f"there is no budget of dataset {dataset!r}; its owner has to open one first.")
    return name


def is_id(text: str) -> bool:
    """Whether ``text`` could be the id of a release or a job: 24 hexadecimal digits, safe in a path."""
    return len(text) == _ID_DIGITS and all(character in "0123456789abcdef" for character in text)
