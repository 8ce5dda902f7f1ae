"""Rows of the tables, read and written: what no ledger wrote is refused where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from sfumato.ledger.account import Account, State
from sfumato.ledger.dataset import Dataset
from sfumato.ledger.entries import Entry, Kind, prices_of, prices_text
from sfumato.ledger.ledger_errors import LedgerUnavailable
from sfumato.ledger.ledger_names import digest, short
from sfumato.ledger.ledger_tables import accounts, certificates, datasets, entries, ledgers
from sfumato.ledger.transaction import Row, Transaction

__all__ = [
    "account_of",
    "add_dataset",
    "all_accounts",
    "all_entries",
    "append",
    "entry_at",
    "entry_of",
    "entry_with_key",
    "find_dataset",
    "identity_of",
    "kept_guarantees",
    "last_of_kind",
    "names_of",
    "put_certificate",
    "read_account",
    "read_certificates",
    "rows_with_hash",
    "settlement",
    "unaltered",
    "whole_entry",
]

_PAGE = 1000
_STATES = frozenset(get_args(State))

_DATASET = select(datasets).where(datasets.c.digest == bindparam("digest"))
_NEW_DATASET = insert(datasets).values({name: bindparam(name) for name in ("digest", "name", "terms")})
_ACCOUNT = select(accounts).where(accounts.c.dataset == bindparam("of"))
_LOCKED_ACCOUNT = _ACCOUNT.with_for_update()  # SQLite, which has no such clause, locks the whole file
_ALL_ACCOUNTS = select(datasets, accounts).join(accounts).order_by(datasets.c.id)
_NEW_ACCOUNT = insert(accounts)
_TOTALS = [column.name for column in accounts.c if column.name != "dataset"]
_NEW_TOTALS = (
    update(accounts)
    .where(accounts.c.dataset == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in _TOTALS})
)
_OF_DATASET = select(entries).where(entries.c.dataset == bindparam("of"))
_NUMBERED = _OF_DATASET.where(entries.c.number == bindparam("at"))
_WITH_KEY = _OF_DATASET.where(entries.c.key == bindparam("with_key"))
_SETTLING = _OF_DATASET.where(entries.c.refers_to == bindparam("hold"))
_NEWEST = _OF_DATASET.where(entries.c.kind == bindparam("wanted")).order_by(entries.c.number.desc()).limit(1)
_FIRST_PAGE = _OF_DATASET.order_by(entries.c.number).limit(_PAGE)
_NEXT_PAGE = _FIRST_PAGE.where(entries.c.number > bindparam("last"))
_NEW_ENTRY = insert(entries)
_IDENTITY = select(ledgers)
_NAMES = select(datasets.c.name).order_by(datasets.c.id)
_HASHED = select(entries, datasets.c.name).join(datasets).where(entries.c.hash == bindparam("wanted"))
_GIVEN_BACK = select(entries.c.refers_to).where(
    entries.c.dataset == bindparam("of"), entries.c.kind == "release"
)
_KEPT = (
    select(entries.c.guarantee, func.count().label("times"))
    .where(
        entries.c.dataset == bindparam("of"),
        or_(entries.c.kind == "spend", entries.c.kind == "hold"),
        entries.c.number.not_in(_GIVEN_BACK),
    )
    .group_by(entries.c.guarantee)
)
_CERTIFICATES = (
    select(certificates).where(certificates.c.dataset == bindparam("of")).order_by(certificates.c.number)
)
_OLD_CERTIFICATE = delete(certificates).where(
    certificates.c.dataset == bindparam("of"), certificates.c.number == bindparam("at")
)
_NEW_CERTIFICATE = insert(certificates)


def find_dataset(transaction: Transaction, name: str) -> Dataset | None:
    """The dataset of this name, if there is one."""
    row = transaction.first(_DATASET, {"digest": digest(name)})
    return None if row is None else _dataset_of(row)


def add_dataset(transaction: Transaction, opened: Dataset) -> tuple[Dataset, Account]:
    """Insert a dataset with empty totals; the entry that opens it is still to be appended."""
    row = {"digest": digest(opened.name), "name": opened.name, "terms": opened.terms_wire}
    transaction.run(_NEW_DATASET, row)
    known = find_dataset(transaction, opened.name)
    assert known is not None
    account = Account(known.filter.nothing())
    transaction.run(_NEW_ACCOUNT, _totals(account) | {"dataset": known.id})
    return known, account


def read_account(transaction: Transaction, known: Dataset, *, lock: bool = False) -> Account:
    """The running totals; with ``lock``, nobody else changes them until the transaction ends."""
    return _account_of(known, transaction.first(_LOCKED_ACCOUNT if lock else _ACCOUNT, {"of": known.id}))


def all_accounts(transaction: Transaction) -> list[tuple[Dataset, Account]]:
    """Every dataset with its running totals, in the order in which they were opened."""
    found = [(_dataset_of(row), row) for row in transaction.all(_ALL_ACCOUNTS)]
    return [(known, _account_of(known, row)) for known, row in found]


def account_of(known: Dataset, row: Row | None) -> Account:
    """The totals that ``row`` holds; a missing or damaged one raises ValueError or TypeError."""
    if row is None:
        raise ValueError("there are no totals")
    spent, counts = prices_of(row.spent), (row.entries, row.spends, row.holds)
    if len(spent) != len(known.filter.limits) or row.state not in _STATES:
        raise ValueError("the totals are those of another filter")
    if not all(isinstance(count, int) for count in counts):
        raise TypeError("the counts are not numbers")
    return Account(spent, *counts, row.state, row.head, row.at)


def append(transaction: Transaction, known: Dataset, account: Account, entry: Entry) -> Entry:
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
        "guarantee": entry.guarantee_wire,
        "prices": entry.prices_wire,
        "hash": entry.hash,
    }
    transaction.run(_NEW_ENTRY, row)
    totals = {f"new_{name}": value for name, value in _totals(account).items()}
    transaction.run(_NEW_TOTALS, totals | {"of": known.id})
    return entry


def entry_at(transaction: Transaction, ledger: str, known: Dataset, number: int) -> Entry | None:
    """Entry ``number``, if there is one."""
    return _one(ledger, known, transaction.first(_NUMBERED, {"of": known.id, "at": number}))


def entry_with_key(transaction: Transaction, ledger: str, known: Dataset, key: str) -> Entry | None:
    """The entry with this idempotency key, if there is one."""
    return _one(ledger, known, transaction.first(_WITH_KEY, {"of": known.id, "with_key": key}))


def settlement(transaction: Transaction, ledger: str, known: Dataset, hold: int) -> Entry | None:
    """The commit or release that settled entry ``hold``, if one did."""
    return _one(ledger, known, transaction.first(_SETTLING, {"of": known.id, "hold": hold}))


def last_of_kind(transaction: Transaction, ledger: str, known: Dataset, kind: Kind) -> Entry | None:
    """The newest entry of this kind, if there is one."""
    return _one(ledger, known, transaction.first(_NEWEST, {"of": known.id, "wanted": kind}))


def all_entries(transaction: Transaction, known: Dataset) -> Iterator[Row]:
    """The rows of a dataset, oldest first, a page at a time in memory."""
    page = transaction.all(_FIRST_PAGE, {"of": known.id})
    while page:
        yield from page
        page = transaction.all(_NEXT_PAGE, {"of": known.id, "last": page[-1].number})


def names_of(transaction: Transaction) -> list[str]:
    """The datasets, in the order in which they were opened."""
    return [row.name for row in transaction.all(_NAMES)]


def rows_with_hash(transaction: Transaction, hash_: str) -> list[Row]:
    """The rows of any dataset that claim this hash, with the dataset's name."""
    return transaction.all(_HASHED, {"wanted": hash_})


def kept_guarantees(transaction: Transaction, known: Dataset) -> list[tuple[str, int]]:
    """Each guarantee that was paid for and not given back, as its rows hold it, and how often."""
    return [(row.guarantee, row.times) for row in transaction.all(_KEPT, {"of": known.id})]


def put_certificate(transaction: Transaction, known: Dataset, number: int, envelope: str) -> None:
    """Keep the certificate of entry ``number``, in place of an earlier one."""
    transaction.run(_OLD_CERTIFICATE, {"of": known.id, "at": number})
    transaction.run(_NEW_CERTIFICATE, {"dataset": known.id, "number": number, "envelope": envelope})


def read_certificates(transaction: Transaction, known: Dataset) -> dict[int, str]:
    """The certificates of a dataset, by the number of the entry that paid."""
    return {row.number: row.envelope for row in transaction.all(_CERTIFICATES, {"of": known.id})}


def entry_of(ledger: str, known: Dataset, row: Row) -> Entry:
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
        guarantee_wire=row.guarantee,
        prices_wire=row.prices,
        terms_wire=known.terms_wire if row.kind == "open" else None,
    )


def unaltered(entry: Entry, row: Row) -> bool:
    """Whether ``entry``, read from ``row``, is what its hash was computed from."""
    try:
        return bool(entry.hash == row.hash)
    except TypeError:  # SQLite keeps bytes in a column of text, if somebody puts them there
        return False


def whole_entry(ledger: str, known: Dataset, row: Row) -> Entry:
    """The entry that ``row`` holds, refused if it was altered."""
    entry = entry_of(ledger, known, row)
    if not unaltered(entry, row):
        raise _damaged(f"entry {row.number} of {short(known.name)}")
    return entry


def identity_of(transaction: Transaction) -> str | None:
    """Which ledger this is, if the row that says so is there."""
    row = transaction.first(_IDENTITY, {})
    return None if row is None else str(row.id)


def _dataset_of(row: Row) -> Dataset:
    try:
        return Dataset.stored(row.id, row.name, row.terms)
    except (ValueError, KeyError, TypeError):
        raise _damaged(f"the terms of {short(row.name)}") from None


def _account_of(known: Dataset, row: Row | None) -> Account:
    try:
        return account_of(known, row)
    except (ValueError, TypeError):
        raise _damaged(f"the running totals of {short(known.name)}") from None


def _one(ledger: str, known: Dataset, row: Row | None) -> Entry | None:
    return None if row is None else whole_entry(ledger, known, row)


def _totals(account: Account) -> dict[str, Any]:
    return vars(account) | {"spent": prices_text(account.spent)}


def _damaged(what: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"{what}: another hand than the ledger's was here; `ledger.check()` names every such place."
    )
