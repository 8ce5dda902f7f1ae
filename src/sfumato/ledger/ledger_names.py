"""Which names, keys and purposes a ledger takes, and how messages show them."""

from __future__ import annotations

import hashlib

from sfumato.errors import BadInput
from sfumato.privacy import Neighbours, Unit
from sfumato.privacy.defaults import RECORDS

__all__ = [
    "call_to_open",
    "checked_key",
    "checked_name",
    "checked_purpose",
    "digest",
    "lock_number",
    "printable_name",
    "short",
]

_MAX_TEXT = 10_000
# Keys are indexed as they are, and PostgreSQL indexes at most 2,704 bytes.
_MAX_KEY = 500


def checked_name(dataset: str) -> str:
    """``dataset``, if it can be the name of one."""
    return _checked("a dataset name", dataset, 1, _MAX_TEXT)


def printable_name(dataset: str) -> str:
    """``dataset``, if a release can name it: what a certificate shows has to be legible."""
    if not (dataset.strip() and dataset.isprintable()):
        raise BadInput(
            f"`dataset` was {dataset!r}", parameter="dataset", accepted="a name in printable characters"
        )
    return checked_name(dataset)


def checked_purpose(purpose: str) -> str:
    """``purpose``, if a ledger can hold it."""
    return _checked("a purpose", purpose, 0, _MAX_TEXT)


def checked_key(key: str | None) -> str | None:
    """``key``, if it can be an idempotency key or is none."""
    return None if key is None else _checked("an idempotency key", key, 1, _MAX_KEY)


def call_to_open(name: str, unit: Unit, neighbours: Neighbours, ledger: str | None = None) -> str:
    """Return the call that opens a budget ``name`` for ``unit`` under ``neighbours``, as errors name it.

    ``ledger`` is the URL of the ledger as a literal of Python, "..." for one with a secret in it; None where
    the caller has the ledger in hand.
    """
    words = [repr(name), "epsilon=...", "delta=..."]
    words += [] if str(unit) == RECORDS.unit else [f"unit={str(unit).replace('(', ':').rstrip(')')!r}"]
    words += [] if str(neighbours) == RECORDS.neighbours else [f"neighbours={str(neighbours)!r}"]
    return f"`{'ledger' if ledger is None else f'sf.Ledger({ledger})'}.open({', '.join(words)})`"


def digest(name: str) -> str:
    """SHA-256 of ``name``: what datasets are looked up by, since long names cannot be indexed everywhere."""
    return hashlib.sha256(name.encode()).hexdigest()


def lock_number(name: str) -> int:
    """The number of the lock that ``name`` has on PostgreSQL, of 64 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def short(name: str) -> str:
    """``name`` as a message shows it."""
    return repr(name if len(name) <= 60 else name[:57] + "…")


def _checked(what: str, value: str, least: int, most: int) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{what} must be text, not {value!r}.")
    if not least <= len(value) <= most:
        raise BadInput(f"{what} has {least} to {most:,} characters, not {len(value):,}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} holds characters that no text encoding knows.") from None
    if "\0" in value:
        raise BadInput(f"{what} holds a null character.")
    return value
