"""Integrity check: recompute rows, hash chain and running totals, and name what was altered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sqlalchemy import text

from sfumato.ledger.accounts import Account, LedgerUnavailable
from sfumato.ledger.database import Row, Transaction
from sfumato.ledger.entries import Dataset, Entry, digest, short
from sfumato.ledger.ledger_tables import Book, all_datasets, unaltered
from sfumato.ledger.rdp_filter import Prices

_CHARGED = {table: text(f"SELECT DISTINCT dataset FROM {table}") for table in ("accounts", "entries")}


@dataclass(frozen=True)
class Damage:
    """A place where the chain does not hold; ``number`` is 0 where it is not one entry."""

    dataset: str
    number: int
    what: str

    def __str__(self) -> str:
        where = f", entry {self.number}" if self.number else ""
        return f"{short(self.dataset)}{where}: {self.what}"


def damages(transaction: Transaction, ledger: str, name: str | None = None) -> Iterator[Damage]:
    """Yield every place where something does not hold, in the dataset ``name`` or in all."""
    rows = all_datasets(transaction)
    for row in rows:
        if name in (None, row.name):
            yield from _in_dataset(transaction, ledger, row)
    known = {row.id for row in rows}
    for table, query in _CHARGED.items() if name is None else ():
        for stray in {row.dataset for row in transaction.all(query)} - known:
            yield Damage(f"({stray})", 0, f"there are {table} of a dataset that is not there")


def _in_dataset(transaction: Transaction, ledger: str, row: Row) -> Iterator[Damage]:
    name = str(row.name)
    try:
        if row.digest != digest(row.name):
            yield Damage(name, 0, "the dataset's name or its digest was altered")
        known = Dataset.stored(row.id, row.name, row.terms)
    except (ValueError, KeyError, TypeError, AttributeError):
        yield Damage(name, 0, "the dataset's name or terms were altered")
        return
    book, replay = Book(transaction, ledger, known), _Replay(known)
    for found in book.rows():
        what = replay.follow(book.entry_of(found), found)
        if what is not None:
            yield Damage(name, replay.number, what)
    try:
        account = book.account
    except LedgerUnavailable:
        yield Damage(name, 0, "the running totals were altered or are missing")
        return
    if account.head != replay.head and account.entries != replay.number:
        if account.entries > replay.number:
            yield Damage(name, account.entries, "the newest rows are missing")
        else:
            yield Damage(name, account.entries + 1, "rows were added from here on")
    elif replay.whole:
        there, expected = asdict(account), asdict(replay.account)
        altered = [column for column in there if there[column] != expected[column]]
        if altered:
            yield Damage(name, 0, f"the running totals were altered ({', '.join(altered)})")
    elif (account.head, account.entries) != (replay.head, replay.number):
        yield Damage(name, 0, "the running totals were altered (head, entries)")


class _Replay:
    """All that happened to one dataset, done again row by row."""

    def __init__(self, known: Dataset) -> None:
        self._known = known
        self._holds: dict[int, Prices] = {}
        self.account = Account(known.filter.nothing())
        self.number = 0
        self.head = self.account.head
        self.whole = True

    def follow(self, entry: Entry, row: Row) -> str | None:
        """Return what is wrong with the next row, if anything; totals are followed while nothing is."""
        self.number += 1
        what = self._wrong(entry, row)
        self.whole = self.whole and what is None
        self.head = row.hash
        if self.whole:
            settled = None if entry.refers_to is None else self._holds.pop(entry.refers_to)
            if entry.kind == "hold" and entry.prices is not None:
                self._holds[entry.number] = entry.prices
            self.account = self.account.after(entry, self._known.filter, settled)
        return what

    def _wrong(self, entry: Entry, row: Row) -> str | None:
        if not unaltered(entry, row):
            return "the row was altered"
        if row.number != self.number:
            self.number = row.number
            return "rows before this one are missing"
        if row.previous != self.head:
            return "the row does not follow the one before it"
        if self.whole and not self._allowed(entry):
            return f"a ledger would not have written this {entry.kind}"
        return None

    def _allowed(self, entry: Entry) -> bool:
        """Return whether the rules, above all the budget, admit ``entry`` here."""
        if entry.at < self.account.at or (entry.kind == "open") != (entry.number == 1):
            return False
        if entry.kind in ("commit", "release"):
            return entry.refers_to in self._holds
        if entry.refers_to is not None:
            return False
        if entry.kind in ("spend", "hold"):
            try:
                return self._admitted(entry)
            except (ValueError, KeyError, TypeError):
                return False
        return entry.kind == "open" or (entry.kind == "close" and self.account.state != "closed")

    def _admitted(self, entry: Entry) -> bool:
        prices, rule = entry.prices, self._known.filter
        if prices is None:
            return False
        if self.account.admits(rule, prices, covered=False):
            return True
        covered = entry.guarantee is not None and rule.covers(entry.guarantee)
        return self.account.admits(rule, prices, covered=covered)
