"""Where a registry lives: its tables found or made, its transactions, its troubles as sentences.

The discipline is the ledger's: one writer at a time on SQLite, locked rows on PostgreSQL, and what is written
is on disk when the call returns. Only counts of requests and jobs do not wait for the disk: a power cut that
forgets the last of them harms nobody, while one that forgets a revoked key would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, func, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.ledger.engine import engine_of, is_sqlite
from sfumato.ledger.transaction import Transaction
from sfumato.serve.registry_errors import RegistryUnavailable
from sfumato.serve.tables import VERSION, metadata, versions

__all__ = ["RegistryDatabase"]

# Any number, the same for all: PostgreSQL lets one connection at a time make tables or tenants.
_LOCK_NUMBER = 7_310_955
_LOCK = select(func.pg_advisory_xact_lock(bindparam("number")))
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class RegistryDatabase:
    """A database with the registry's tables; made where they are missing."""

    def __init__(self, url: str) -> None:
        self._engine = engine_of(url)
        self._sqlite = is_sqlite(self._engine)
        self._place = self._engine.url.render_as_string(hide_password=True)
        self._troubles = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        try:
            _prepare(self._engine)
        except self._troubles as error:
            raise self._unavailable(error) from None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """One transaction, durable once it ends without an error; on SQLite nobody else writes beside it."""
        with self._transaction() as (cursor, connection):
            if self._sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            yield Transaction(cursor, self._engine.dialect)
            connection.commit()

    @contextmanager
    def counting(self) -> Iterator[Transaction]:
        """The same, whole or not at all, that returns before it is on disk."""
        with self._transaction() as (cursor, connection):
            if not self._sqlite:
                cursor.execute("SET LOCAL synchronous_commit = off")
                yield Transaction(cursor, self._engine.dialect)
                connection.commit()
                return
            cursor.execute("PRAGMA synchronous = NORMAL")
            try:
                cursor.execute("BEGIN IMMEDIATE")
                yield Transaction(cursor, self._engine.dialect)
                connection.commit()
            finally:
                connection.rollback()  # inside a transaction the setting would stay as it is
                cursor.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One consistent view, whatever is written meanwhile."""
        with self._transaction() as (cursor, _):
            cursor.execute("BEGIN" if self._sqlite else _SNAPSHOT)
            yield Transaction(cursor, self._engine.dialect)

    def one_at_a_time(self, transaction: Transaction) -> None:
        """Let one writer at a time pass here; SQLite has only one anyway."""
        if not self._sqlite:
            transaction.first(_LOCK, {"number": _LOCK_NUMBER})

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[tuple[Any, Any]]:
        try:
            connection = self._engine.raw_connection()
            try:
                yield connection.cursor(), connection
            finally:
                connection.close()  # back into the pool, which rolls back what was not committed
        except self._troubles as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> RegistryUnavailable:
        """Trouble with the database as one sentence; what a statement held is never shown."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
        return RegistryUnavailable(f"the registry {self._place} could not be used: {reason}.")


def _prepare(engine: Engine) -> None:
    """Make the tables where there are none, and refuse those of another program or a newer version."""
    with engine.connect() as connection, connection.begin():
        if _is_there(connection):
            return
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not is_sqlite(engine):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
        if not _is_there(connection):
            metadata.create_all(connection)
            connection.execute(insert(versions).values(version=VERSION))


def _is_there(connection: Connection) -> bool:
    tables = set(inspect(connection).get_table_names())
    # A file is one program's; a server's database may be shared, as long as no name is taken.
    if not (tables if is_sqlite(connection.engine) else tables & set(metadata.tables)):
        return False
    if versions.name not in tables:
        raise RegistryUnavailable(
            "this database holds tables of another program; choose another for the registry."
        )
    found = connection.execute(select(versions.c.version)).scalars().all()
    if len(found) != 1:
        raise RegistryUnavailable(
            f"this registry has {len(found)} rows for its version instead of one: another hand was here; "
            "restore a backup."
        )
    if found[0] != VERSION:
        raise RegistryUnavailable(
            f"this registry was written by another version of Sfumato (its tables are version {found[0]}, "
            f"those known here {VERSION}); install that version."
        )
    return True
