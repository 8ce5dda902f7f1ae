"""Tables of the ledger: their definition, creation and migration, and reading and writing their rows.

A row that no ledger wrote is refused where it is read. A database with tables of another program is refused.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    or_,
    select,
    text,
    update,
)

from sfumato.ledger.database import Row, Transaction, is_sqlite
from sfumato.ledger.entries import Dataset, Entry, Kind, digest, prices_of, prices_text, short
from sfumato.ledger.refusal import Account, LedgerUnavailable, State

metadata = MetaData()

#: One row: which ledger this is, so that two with the same name cannot be taken for each other.
ledgers = Table("ledgers", metadata, Column("id", Text, primary_key=True))

#: What was fixed when a dataset was opened; looked up by the SHA-256 of its name.
datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("terms", Text, nullable=False),
)

#: What happened, append-only: each row holds the hash of the one before.
entries = Table(
    "entries",
    metadata,
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("key", Text),
    Column("refers_to", BigInteger),
    Column("guarantee", Text),
    Column("prices", Text),
    Column("hash", Text, nullable=False),
)
Index("entries_hash", entries.c.hash)
# Most rows have neither, so these indexes leave the rest out.
for _column in (entries.c.key, entries.c.refers_to):
    Index(
        f"entries_{_column.name}",
        entries.c.dataset,
        _column,
        unique=True,
        sqlite_where=_column.is_not(None),
        postgresql_where=_column.is_not(None),
    )

#: Running totals of the entries, kept in the same transaction; ``integrity`` recomputes them.
accounts = Table(
    "accounts",
    metadata,
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
    Column("spent", Text, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("spends", BigInteger, nullable=False),
    Column("holds", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("at", Text, nullable=False),
)

#: The newest certificate of each release, as it was signed; nothing is computed from it.
certificates = Table(
    "certificates",
    metadata,
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("envelope", Text, nullable=False),
)

#: Who carries on the run that an entry paid for, and until when, in seconds; NULL once it may not go on.
leases = Table(
    "leases",
    metadata,
    Column("dataset", Integer, ForeignKey("datasets.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("until", Float),
)

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
_LEASE = select(leases).where(leases.c.dataset == bindparam("of"), leases.c.number == bindparam("at"))
_OLD_LEASE = delete(leases).where(leases.c.dataset == bindparam("of"), leases.c.number == bindparam("at"))
_NEW_LEASE = insert(leases)
#: Every revision in ``migrations``, oldest first; known here so that opening a ledger need not read them.
REVISIONS = ("0001", "0002", "0003")
_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = "alembic_version"
# Any number, the same for all: PostgreSQL lets one connection at a time create or carry forward the tables.
_LOCK = 5_387_261
# Alembic's contexts are global to the process.
_one_thread = threading.Lock()


def find_dataset(transaction: Transaction, name: str) -> Dataset | None:
    """Return the dataset of this name, if there is one."""
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
    """Return the running totals; with ``lock``, nobody else changes them until the transaction ends."""
    return _account_of(known, transaction.first(_LOCKED_ACCOUNT if lock else _ACCOUNT, {"of": known.id}))


def all_accounts(transaction: Transaction) -> list[tuple[Dataset, Account]]:
    """Return every dataset with its running totals, in the order in which they were opened."""
    found = [(_dataset_of(row), row) for row in transaction.all(_ALL_ACCOUNTS)]
    return [(known, _account_of(known, row)) for known, row in found]


def account_of(known: Dataset, row: Row | None) -> Account:
    """Return the totals in ``row``; a missing or damaged one raises ValueError or TypeError."""
    if row is None:
        raise ValueError("there are no totals")
    spent, counts = prices_of(row.spent), (row.entries, row.spends, row.holds)
    if len(spent) != len(known.filter.limits) or row.state not in _STATES:
        raise ValueError("the totals are those of another filter")
    if not all(isinstance(count, int) for count in counts):
        raise TypeError("the counts are not numbers")
    return Account(spent, *counts, row.state, row.head, row.at)


def append_entry(transaction: Transaction, known: Dataset, account: Account, entry: Entry) -> Entry:
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
    """Return entry ``number``, if there is one."""
    return _one(ledger, known, transaction.first(_NUMBERED, {"of": known.id, "at": number}))


def entry_with_key(transaction: Transaction, ledger: str, known: Dataset, key: str) -> Entry | None:
    """Return the entry with this idempotency key, if there is one."""
    return _one(ledger, known, transaction.first(_WITH_KEY, {"of": known.id, "with_key": key}))


def settlement(transaction: Transaction, ledger: str, known: Dataset, hold: int) -> Entry | None:
    """Return the commit or release that settled entry ``hold``, if one did."""
    return _one(ledger, known, transaction.first(_SETTLING, {"of": known.id, "hold": hold}))


def last_of_kind(transaction: Transaction, ledger: str, known: Dataset, kind: Kind) -> Entry | None:
    """Return the newest entry of this kind, if there is one."""
    return _one(ledger, known, transaction.first(_NEWEST, {"of": known.id, "wanted": kind}))


def all_entries(transaction: Transaction, known: Dataset) -> Iterator[Row]:
    """Return the rows of a dataset, oldest first, a page at a time in memory."""
    page = transaction.all(_FIRST_PAGE, {"of": known.id})
    while page:
        yield from page
        page = transaction.all(_NEXT_PAGE, {"of": known.id, "last": page[-1].number})


def names_of(transaction: Transaction) -> list[str]:
    """Return the datasets, in the order in which they were opened."""
    return [row.name for row in transaction.all(_NAMES)]


def rows_with_hash(transaction: Transaction, hash_: str) -> list[Row]:
    """Return the rows of any dataset that claim this hash, with the dataset's name."""
    return transaction.all(_HASHED, {"wanted": hash_})


def kept_guarantees(transaction: Transaction, known: Dataset) -> list[tuple[str, int]]:
    """Return each guarantee that was paid for and not given back, as its rows hold it, and how often."""
    return [(row.guarantee, row.times) for row in transaction.all(_KEPT, {"of": known.id})]


def put_certificate(transaction: Transaction, known: Dataset, number: int, envelope: str) -> None:
    """Keep the certificate of entry ``number``, in place of an earlier one."""
    transaction.run(_OLD_CERTIFICATE, {"of": known.id, "at": number})
    transaction.run(_NEW_CERTIFICATE, {"dataset": known.id, "number": number, "envelope": envelope})


def read_certificates(transaction: Transaction, known: Dataset) -> dict[int, str]:
    """Return the certificates of a dataset, by the number of the entry that paid."""
    return {row.number: row.envelope for row in transaction.all(_CERTIFICATES, {"of": known.id})}


def read_lease(transaction: Transaction, known: Dataset, number: int) -> Row | None:
    """Return ``holder`` and ``until`` of the lease of entry ``number``, if there is one."""
    return transaction.first(_LEASE, {"of": known.id, "at": number})


def put_lease(
    transaction: Transaction, known: Dataset, number: int, holder: str, until: float | None
) -> None:
    """Lease entry ``number`` to ``holder``, in place of an earlier lease."""
    drop_lease(transaction, known, number)
    row = {"dataset": known.id, "number": number, "holder": holder, "until": until}
    transaction.run(_NEW_LEASE, row)


def drop_lease(transaction: Transaction, known: Dataset, number: int) -> None:
    """Forget the lease of entry ``number``."""
    transaction.run(_OLD_LEASE, {"of": known.id, "at": number})


def entry_of(ledger: str, known: Dataset, row: Row) -> Entry:
    """Return the entry that ``row`` holds, altered or not."""
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
    """Return whether ``entry``, read from ``row``, is what its hash was computed from."""
    try:
        return bool(entry.hash == row.hash)
    except TypeError:  # SQLite keeps bytes in a column of text, if somebody puts them there
        return False


def whole_entry(ledger: str, known: Dataset, row: Row) -> Entry:
    """Return the entry that ``row`` holds, refused if it was altered."""
    entry = entry_of(ledger, known, row)
    if not unaltered(entry, row):
        raise _damaged(f"entry {row.number} of {short(known.name)}")
    return entry


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
    try:
        return account_of(known, row)
    except (ValueError, TypeError):
        raise _damaged(f"the running totals of {short(known.name)}") from None


def _one(ledger: str, known: Dataset, row: Row | None) -> Entry | None:
    return None if row is None else whole_entry(ledger, known, row)


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
            connection.execute(insert(ledgers).values(id=uuid.uuid4().hex))
        return _identity(connection)


def _revision(connection: Connection) -> str | None:
    """Return the revision of the ledger in the database; None where a new one can be made."""
    tables = set(inspect(connection).get_table_names())
    ours = {_VERSIONS, *metadata.tables}
    # A file is one program's; a server's database may be shared, as long as no name is taken.
    if not (tables if is_sqlite(connection.engine) else tables & ours):
        return None
    if not {_VERSIONS, ledgers.name} <= tables:
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
    return _only(connection, f"SELECT id FROM {ledgers.name}", "identity")


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
