"""The tables of a ledger; ``migrations`` creates them and carries them forward."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Table, Text

__all__ = ["accounts", "certificates", "datasets", "entries", "ledgers", "metadata"]

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
