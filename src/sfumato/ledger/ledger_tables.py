"""Tables of the ledger: their creation and migration, and ``Book``, which reads and writes their rows.

``migrations`` defines the tables:

- ``ledgers``: one row, the identity of this ledger, so that two of one name cannot be confused.
- ``datasets``: what was fixed when a dataset was opened; found by the SHA-256 of its name.
- ``entries``: what happened, append-only; each row holds the hash of the one before.
- ``accounts``: running totals of the entries, kept in the same transaction; ``integrity`` recomputes them.
- ``certificates``: the newest certificate of each release, as it was signed.
- ``leases``: who carries on the run that an entry paid for, and until when, in seconds; NULL once nobody may,
  or once the entry is bound to one output, whose digest then stands in place of the holder.

A row that no ledger wrote is refused where it is read. A database with tables of another program is refused.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.sql import ClauseElement

from sfumato.errors import BadInput
from sfumato.ledger.accounts import Account, LedgerUnavailable, State
from sfumato.ledger.database import Row, Transaction, is_sqlite
from sfumato.ledger.entries import Dataset, Entry, Kind, digest, prices_of, prices_text, short
from sfumato.ledger.rdp_filter import Prices

_TABLES = ("ledgers", "datasets", "entries", "accounts", "certificates", "leases")
_PAGE = 1000
_STATES = frozenset(get_args(State))

_IDENTITY = text("SELECT id FROM ledgers")
_DATASETS = text("SELECT * FROM datasets ORDER BY id")
_DATASET = text("SELECT * FROM datasets WHERE digest = :digest")
_NEW_DATASET = text("INSERT INTO datasets (digest, name, terms) VALUES (:digest, :name, :terms)")
_ACCOUNT = text("SELECT * FROM accounts WHERE dataset = :of")
_LOCKED_ACCOUNT = text("SELECT * FROM accounts WHERE dataset = :of FOR UPDATE")
_ALL_ACCOUNTS = text("SELECT * FROM datasets JOIN accounts ON accounts.dataset = datasets.id ORDER BY id")
_NEW_ACCOUNT = text(
    "INSERT INTO accounts (dataset, spent, entries, spends, holds, state, head, at)"
    " VALUES (:of, :spent, :entries, :spends, :holds, :state, :head, :at)"
)
_NEW_TOTALS = text(
    "UPDATE accounts SET spent = :spent, entries = :entries, spends = :spends, holds = :holds,"
    " state = :state, head = :head, at = :at WHERE dataset = :of"
)
_ENTRIES = "SELECT * FROM entries WHERE dataset = :of"
_NUMBERED = text(f"{_ENTRIES} AND number = :number")
_WITH_KEY = text(f"{_ENTRIES} AND key = :key")
_SETTLING = text(f"{_ENTRIES} AND refers_to = :hold")
_NEWEST = text(f"{_ENTRIES} AND kind = :kind ORDER BY number DESC LIMIT 1")
_FIRST_PAGE = text(f"{_ENTRIES} ORDER BY number LIMIT {_PAGE}")
_NEXT_PAGE = text(f"{_ENTRIES} AND number > :last ORDER BY number LIMIT {_PAGE}")
_HASHED = text(
    "SELECT entries.*, datasets.name FROM entries JOIN datasets ON datasets.id = entries.dataset"
    " WHERE entries.hash = :hash"
)
_KEPT = text(
    "SELECT guarantee, COUNT(*) AS times FROM entries"
    " WHERE dataset = :of AND kind IN ('spend', 'hold') AND number NOT IN"
    " (SELECT refers_to FROM entries WHERE dataset = :of AND kind = 'release') GROUP BY guarantee"
)
_NEW_ENTRY = text(
    "INSERT INTO entries"
    " (dataset, number, kind, at, previous, purpose, key, refers_to, guarantee, prices, hash) VALUES"
    " (:of, :number, :kind, :at, :previous, :purpose, :key, :refers_to, :guarantee, :prices, :hash)"
)
_CERTIFICATES = text("SELECT * FROM certificates WHERE dataset = :of ORDER BY number")
_OLD_CERTIFICATE = text("DELETE FROM certificates WHERE dataset = :of AND number = :number")
_NEW_CERTIFICATE = text(
    "INSERT INTO certificates (dataset, number, envelope) VALUES (:of, :number, :envelope)"
)
_LEASE = text("SELECT * FROM leases WHERE dataset = :of AND number = :number")
_OLD_LEASE = text("DELETE FROM leases WHERE dataset = :of AND number = :number")
_NEW_LEASE = text(
    "INSERT INTO leases (dataset, number, holder, until) VALUES (:of, :number, :holder, :until)"
)

#: Every revision in ``migrations``, oldest first; known here so that opening a ledger need not read them.
REVISIONS = ("0001", "0002", "0003")
_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = "alembic_version"
# Any number, the same for all: PostgreSQL lets one connection at a time create or carry forward the tables.
_LOCK = 5_387_261
# Alembic's contexts are global to the process.
_one_thread = threading.Lock()


class Book:
    """The rows of one dataset, in one transaction; with ``lock``, nobody else changes them until it ends.

    ``ledger`` is the identity of the ledger. A row that was altered is refused where it is read.
    """

    def __init__(self, transaction: Transaction, ledger: str, known: Dataset, *, lock: bool = False) -> None:
        self.known, self.transaction = known, transaction
        self._ledger, self._lock = ledger, lock
        self._account = self._read_account() if lock else None

    @property
    def account(self) -> Account:
        """The running totals, with what was appended."""
        if self._account is None:
            self._account = self._read_account()
        return self._account

    def _read_account(self) -> Account:
        # SQLite has no such clause: a transaction that writes locks the whole file.
        locked = self._lock and not self.transaction.is_sqlite
        return _account_of(self.known, self._first(_LOCKED_ACCOUNT if locked else _ACCOUNT))

    def append(self, kind: Kind, *, held: Prices | None = None, **fields: Any) -> Entry:
        """Append the next entry, with these ``fields`` of its own; ``held`` is what the settled hold cost."""
        entry = Entry(
            ledger=self._ledger,
            dataset=self.known.name,
            number=self.account.entries + 1,
            kind=kind,
            # Order is that of the numbers; a clock that was moved back does not reorder history.
            at=max(datetime.now(UTC).isoformat(timespec="microseconds"), self.account.at),
            previous=self.account.head,
            **fields,
        )
        self._run(_NEW_ENTRY, **entry.content(), hash=entry.hash)
        self._account = self.account.after(entry, self.known.filter, held)
        self._run(_NEW_TOTALS, **_totals(self._account))
        return entry

    def entry(self, number: int) -> Entry:
        """Return entry ``number``; refuse a number that no entry has."""
        if isinstance(number, bool) or not isinstance(number, int):
            raise BadInput(f"an entry number was {number!r}: it must be a whole number.")
        found = self._entry(_NUMBERED, number=number) if 0 < number <= 2**62 else None
        if found is None:
            raise BadInput(f"dataset {short(self.known.name)} has no entry {number}.")
        return found

    def with_key(self, key: str) -> Entry | None:
        """Return the entry with this idempotency key, if there is one."""
        return self._entry(_WITH_KEY, key=key)

    def settlement(self, hold: int) -> Entry | None:
        """Return the commit or release that settled entry ``hold``, if one did."""
        return self._entry(_SETTLING, hold=hold)

    def newest(self, kind: Kind) -> Entry | None:
        """Return the newest entry of this kind, if there is one."""
        return self._entry(_NEWEST, kind=kind)

    def history(self) -> list[Entry]:
        """Return every entry, oldest first."""
        return [self._whole(row) for row in self.rows()]

    def rows(self) -> Iterator[Row]:
        """Yield the rows, altered or not, oldest first, a page at a time in memory."""
        page = self._all(_FIRST_PAGE)
        while page:
            yield from page
            page = self._all(_NEXT_PAGE, last=page[-1].number)

    def kept_guarantees(self) -> list[tuple[str, int]]:
        """Return each guarantee that was paid for and not given back, as its rows hold it, and how often."""
        return [(row.guarantee, row.times) for row in self._all(_KEPT)]

    def certificates(self) -> dict[int, str]:
        """Return the certificates, by the number of the entry that paid."""
        return {row.number: row.envelope for row in self._all(_CERTIFICATES)}

    def put_certificate(self, number: int, envelope: str) -> None:
        """Keep the certificate of entry ``number``, in place of an earlier one."""
        self._run(_OLD_CERTIFICATE, number=number)
        self._run(_NEW_CERTIFICATE, number=number, envelope=envelope)

    def lease(self, number: int) -> Row | None:
        """Return ``holder`` and ``until`` of the lease of entry ``number``, if there is one."""
        return self._first(_LEASE, number=number)

    def put_lease(self, number: int, holder: str, until: float | None) -> None:
        """Lease entry ``number`` to ``holder``, in place of an earlier lease."""
        self.drop_lease(number)
        self._run(_NEW_LEASE, number=number, holder=holder, until=until)

    def drop_lease(self, number: int) -> None:
        """Forget the lease of entry ``number``."""
        self._run(_OLD_LEASE, number=number)

    def entry_of(self, row: Row) -> Entry:
        """Return the entry that ``row`` holds, altered or not."""
        return Entry(
            ledger=self._ledger,
            dataset=self.known.name,
            number=row.number,
            kind=row.kind,
            at=row.at,
            previous=row.previous,
            purpose=row.purpose,
            key=row.key,
            refers_to=row.refers_to,
            guarantee_wire=row.guarantee,
            prices_wire=row.prices,
            terms_wire=self.known.terms_wire if row.kind == "open" else None,
        )

    def _whole(self, row: Row) -> Entry:
        entry = self.entry_of(row)
        if not unaltered(entry, row):
            raise _damaged(f"entry {row.number} of {short(self.known.name)}")
        return entry

    def _entry(self, statement: ClauseElement, **values: Any) -> Entry | None:
        row = self._first(statement, **values)
        return None if row is None else self._whole(row)

    def _first(self, statement: ClauseElement, **values: Any) -> Row | None:
        return self.transaction.first(statement, values | {"of": self.known.id})

    def _all(self, statement: ClauseElement, **values: Any) -> list[Row]:
        return self.transaction.all(statement, values | {"of": self.known.id})

    def _run(self, statement: ClauseElement, **values: Any) -> None:
        self.transaction.run(statement, values | {"of": self.known.id})


def unaltered(entry: Entry, row: Row) -> bool:
    """Return whether ``entry``, read from ``row``, is what its hash was computed from."""
    try:
        return bool(entry.hash == row.hash)
    except TypeError:  # SQLite keeps bytes in a column of text, if somebody puts them there
        return False


def find_dataset(transaction: Transaction, name: str) -> Dataset | None:
    """Return the dataset of this name, if there is one."""
    row = transaction.first(_DATASET, {"digest": digest(name)})
    return None if row is None else _dataset_of(row)


def add_dataset(transaction: Transaction, opened: Dataset) -> Dataset:
    """Insert a dataset with empty totals; the entry that opens it is still to be appended."""
    row = {"digest": digest(opened.name), "name": opened.name, "terms": opened.terms_wire}
    transaction.run(_NEW_DATASET, row)
    known = find_dataset(transaction, opened.name)
    assert known is not None
    transaction.run(_NEW_ACCOUNT, _totals(Account(known.filter.nothing())) | {"of": known.id})
    return known


def all_datasets(transaction: Transaction) -> list[Row]:
    """Return the rows of the datasets, altered or not, in the order in which they were opened."""
    return transaction.all(_DATASETS)


def all_accounts(transaction: Transaction) -> list[tuple[Dataset, Account]]:
    """Return every dataset with its running totals, in the order in which they were opened."""
    found = [(_dataset_of(row), row) for row in transaction.all(_ALL_ACCOUNTS)]
    return [(known, _account_of(known, row)) for known, row in found]


def find_entry(transaction: Transaction, ledger: str, hash_: str) -> Entry | None:
    """Return the entry of any dataset with this hash, if there is an unaltered one."""
    for row in transaction.all(_HASHED, {"hash": hash_}):
        known = find_dataset(transaction, row.name)
        if known is not None:
            entry = Book(transaction, ledger, known).entry_of(row)
            if unaltered(entry, row):
                return entry
    return None


def identity_of(transaction: Transaction) -> str | None:
    """Return the ledger's id, if the row that holds it is there."""
    row = transaction.first(_IDENTITY, {})
    return None if row is None else str(row.id)


def _dataset_of(row: Row) -> Dataset:
    try:
        return Dataset.stored(row.id, row.name, row.terms)
    except (ValueError, KeyError, TypeError):
        raise _damaged(f"the terms of {short(row.name)}") from None


def _account_of(known: Dataset, row: Row | None) -> Account:
    """Return the totals in ``row``; a missing or damaged one is refused."""
    try:
        if row is None:
            raise ValueError("there are no totals")
        spent, counts = prices_of(row.spent), (row.entries, row.spends, row.holds)
        if len(spent) != len(known.filter.limits) or row.state not in _STATES:
            raise ValueError("the totals are those of another filter")
        if not all(isinstance(count, int) for count in counts):
            raise TypeError("the counts are not numbers")
        return Account(spent, *counts, row.state, row.head, row.at)
    except (ValueError, TypeError):
        raise _damaged(f"the running totals of {short(known.name)}") from None


def _totals(account: Account) -> dict[str, Any]:
    return vars(account) | {"spent": prices_text(account.spent)}


def _damaged(what: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"{what}: changed outside the ledger; `ledger.check()` names every such place.")


def is_there(engine: Engine) -> bool:
    """Return whether the database holds a ledger of any version; a missing file of SQLite is not made."""
    if is_sqlite(engine) and not os.path.exists(engine.url.database or ""):
        return False
    with engine.connect() as connection, connection.begin():
        return _revision(connection) is not None


def prepare(engine: Engine) -> str:
    """Bring the tables to the newest version, where they are not, and return the ledger's identity."""
    with engine.connect() as connection, connection.begin():
        if _revision(connection) == REVISIONS[-1]:
            return _identity(connection)
    with _one_thread, engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not is_sqlite(engine):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        before = _revision(connection)
        if before != REVISIONS[-1]:
            _upgrade(connection)
        if before is None:
            connection.execute(text("INSERT INTO ledgers (id) VALUES (:id)"), {"id": uuid.uuid4().hex})
        return _identity(connection)


def _revision(connection: Connection) -> str | None:
    """Return the revision of the ledger in the database; None where a new one can be made."""
    tables = set(inspect(connection).get_table_names())
    ours = {_VERSIONS, *_TABLES}
    # A file is one program's; a server's database may be shared, as long as no name is taken.
    if not (tables if is_sqlite(connection.engine) else tables & ours):
        return None
    if not {_VERSIONS, "ledgers"} <= tables:
        raise LedgerUnavailable(
            "this database holds tables of another program; choose another for the ledger."
        )
    revision = _only(connection, f"SELECT version_num FROM {_VERSIONS}", "version")
    if revision not in REVISIONS:
        raise LedgerUnavailable(
            f"this ledger was written by a newer version of Sfumato (its revision is {revision}, the newest "
            f"known here {REVISIONS[-1]}); install that version."
        )
    return revision


def _identity(connection: Connection) -> str:
    return _only(connection, "SELECT id FROM ledgers", "identity")


def _only(connection: Connection, query: str, what: str) -> str:
    found = connection.execute(text(query)).scalars().all()
    if len(found) != 1:
        raise LedgerUnavailable(
            f"this ledger has {len(found)} rows for its {what} instead of one: it was changed outside the "
            "ledger; restore a backup."
        )
    return str(found[0])


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
