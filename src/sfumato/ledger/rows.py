"""Rows of the tables, read and written: what no ledger wrote is refused where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from sfumato.ledger.account import Account, State
from sfumato.ledger.dataset import Dataset
from sfumato.ledger.entry import Entry, Kind, prices_of, prices_text
from sfumato.ledger.errors import LedgerUnavailable
from sfumato.ledger.tables import accounts, datasets, entries
from sfumato.ledger.text import digest, short

__all__ = [
    "account_of",
    "add_dataset",
    "all_entries",
    "append",
    "entry_at",
    "entry_of",
    "entry_with_key",
    "find_dataset",
    "last_of_kind",
    "read_account",
    "settlement",
    "unaltered",
    "whole_entry",
]

# Built once: building a statement takes longer than running it.
_DATASET = select(datasets).where(datasets.c.digest == bindparam("digest"))
_ACCOUNT = select(accounts).where(accounts.c.dataset == bindparam("of"))
_LOCKED_ACCOUNT = _ACCOUNT.with_for_update()  # SQLite, which has no such clause, locks the whole file
_ENTRIES = select(entries).where(entries.c.dataset == bindparam("of")).order_by(entries.c.number)
_NUMBERED = _ENTRIES.where(entries.c.number == bindparam("at_number"))
_WITH_KEY = _ENTRIES.where(entries.c.key == bindparam("with_key"))
_SETTLING = _ENTRIES.where(entries.c.refers_to == bindparam("hold"))
_INSERT = insert(entries)
_UPDATE = (
    update(accounts)
    .where(accounts.c.dataset == bindparam("of"))
    .values(
        {column.name: bindparam(f"new_{column.name}") for column in accounts.c if column.name != "dataset"}
    )
)


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """The dataset of this name, if there is one."""
    row = connection.execute(_DATASET, {"digest": digest(name)}).first()
    if row is None:
        return None
    try:
        return Dataset.stored(row.id, row.name, row.terms)
    except (ValueError, KeyError, TypeError):
        raise _damaged(f"the terms of {short(name)}") from None


def add_dataset(connection: Connection, opened: Dataset) -> tuple[Dataset, Account]:
    """Insert a dataset with empty totals; the entry that opens it is still to be appended."""
    row = {"digest": digest(opened.name), "name": opened.name, "terms": opened.terms_json}
    made = connection.execute(insert(datasets).values(row)).inserted_primary_key
    assert made is not None
    known, account = replace(opened, id=int(made[0])), Account(opened.filter.nothing())
    connection.execute(insert(accounts).values(_totals(account) | {"dataset": known.id}))
    return known, account


def read_account(connection: Connection, known: Dataset, *, lock: bool = False) -> Account:
    """The running totals; with ``lock``, nobody else changes them until the transaction ends."""
    row = connection.execute(_LOCKED_ACCOUNT if lock else _ACCOUNT, {"of": known.id}).first()
    try:
        return account_of(known, row)
    except (ValueError, TypeError):
        raise _damaged(f"the running totals of {short(known.name)}") from None


def account_of(known: Dataset, row: Row[Any] | None) -> Account:
    """The totals that ``row`` holds; a missing or damaged one raises ValueError or TypeError."""
    if row is None:
        raise ValueError("there are no totals")
    spent, counts = prices_of(row.spent), (row.entries, row.spends, row.holds)
    if len(spent) != len(known.filter.limits) or row.state not in get_args(State):
        raise ValueError("the totals are those of another filter")
    if not all(isinstance(count, int) for count in counts):
        raise TypeError("the counts are not numbers")
    return Account(spent, *counts, row.state, row.head, row.at)


def append(connection: Connection, known: Dataset, account: Account, entry: Entry) -> Entry:
    """Insert ``entry`` and the totals ``account`` that it leads to."""
    row = {
        "dataset": known.id,
        "number": entry.number,
        "kind": entry.kind,
        "at": entry.at,
        "previous": entry.previous,
        "purpose": entry.purpose,
        "key": entry.key,
        "refers_to": entry.refers_to,
        "guarantee": entry.guarantee_json,
        "prices": entry.prices_json,
        "hash": entry.hash,
    }
    connection.execute(_INSERT, row)
    totals = {f"new_{name}": value for name, value in _totals(account).items()}
    connection.execute(_UPDATE, totals | {"of": known.id})
    return entry


def entry_at(connection: Connection, ledger: str, known: Dataset, number: int) -> Entry | None:
    """Entry ``number``, if there is one."""
    return _one(ledger, known, connection.execute(_NUMBERED, {"of": known.id, "at_number": number}).first())


def entry_with_key(connection: Connection, ledger: str, known: Dataset, key: str) -> Entry | None:
    """The entry with this idempotency key, if there is one."""
    return _one(ledger, known, connection.execute(_WITH_KEY, {"of": known.id, "with_key": key}).first())


def settlement(connection: Connection, ledger: str, known: Dataset, hold: int) -> Entry | None:
    """The commit or release that settled entry ``hold``, if one did."""
    return _one(ledger, known, connection.execute(_SETTLING, {"of": known.id, "hold": hold}).first())


def last_of_kind(connection: Connection, ledger: str, known: Dataset, kind: Kind) -> Entry | None:
    """The newest entry of this kind, if there is one."""
    newest = (
        select(entries)
        .where(entries.c.dataset == known.id, entries.c.kind == kind)
        .order_by(entries.c.number.desc())
        .limit(1)
    )
    return _one(ledger, known, connection.execute(newest).first())


def all_entries(connection: Connection, known: Dataset) -> Iterator[Row[Any]]:
    """The rows of a dataset, oldest first, a thousand at a time in memory."""
    yield from connection.execute(_ENTRIES.execution_options(yield_per=1000), {"of": known.id})


def entry_of(ledger: str, known: Dataset, row: Row[Any]) -> Entry:
    """The entry that ``row`` holds, altered or not."""
    return Entry(
        ledger=ledger,
        dataset=known.name,
        number=row.number,
        kind=row.kind,
        at=row.at,
        previous=row.previous,
        purpose=row.purpose,
        key=row.key,
        refers_to=row.refers_to,
        guarantee_json=row.guarantee,
        prices_json=row.prices,
        terms_json=known.terms_json if row.kind == "open" else None,
    )


def unaltered(entry: Entry, row: Row[Any]) -> bool:
    """Whether ``entry``, read from ``row``, is what its hash was computed from."""
    try:
        return bool(entry.hash == row.hash)
    except TypeError:  # SQLite keeps bytes in a column of text, if somebody puts them there
        return False


def whole_entry(ledger: str, known: Dataset, row: Row[Any]) -> Entry:
    """The entry that ``row`` holds, refused if it was altered."""
    entry = entry_of(ledger, known, row)
    if not unaltered(entry, row):
        raise _damaged(f"entry {row.number} of {short(known.name)}")
    return entry


def _one(ledger: str, known: Dataset, row: Row[Any] | None) -> Entry | None:
    return None if row is None else whole_entry(ledger, known, row)


def _totals(account: Account) -> dict[str, Any]:
    return vars(account) | {"spent": prices_text(account.spent)}


def _damaged(what: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"{what}: another hand than the ledger's was here; 'sfumato budget check' names every such place."
    )
