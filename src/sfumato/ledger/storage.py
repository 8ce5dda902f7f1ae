"""Where a ledger lives: SQLite in WAL mode by default, PostgreSQL by URL; its troubles as sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import BigInteger, bindparam, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.ledger.engine import engine_of, is_sqlite
from sfumato.ledger.errors import LedgerUnavailable
from sfumato.ledger.schema import prepare
from sfumato.ledger.transaction import Transaction

__all__ = ["Storage"]

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LOCK = select(func.pg_advisory_xact_lock(bindparam("number", type_=BigInteger)))


class Storage:
    """A database with the ledger's tables at their newest version; made where they are missing."""

    def __init__(self, url: str) -> None:
        self._engine = engine_of(url)
        self._place = self._engine.url.render_as_string(hide_password=True)
        self._troubles = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        try:
            self.identity = prepare(self._engine)
        except self._troubles as error:
            raise self._unavailable(error) from None

    def writing(self) -> AbstractContextManager[Transaction]:
        """One transaction, durable once it ends without an error; on SQLite nobody else writes beside it."""
        return self._transaction("BEGIN IMMEDIATE" if is_sqlite(self._engine) else None, commit=True)

    def reading(self) -> AbstractContextManager[Transaction]:
        """One consistent view, whatever is written meanwhile."""
        return self._transaction("BEGIN" if is_sqlite(self._engine) else _SNAPSHOT, commit=False)

    @contextmanager
    def _transaction(self, begin: str | None, *, commit: bool) -> Iterator[Transaction]:
        try:
            connection = self._engine.raw_connection()
            try:
                cursor = connection.cursor()
                if begin is not None:
                    cursor.execute(begin)
                yield Transaction(cursor, self._engine.dialect)
                if commit:
                    connection.commit()
            finally:
                connection.close()  # back into the pool, which rolls back what was not committed
        except self._troubles as error:
            raise self._unavailable(error) from None

    def one_at_a_time(self, transaction: Transaction, name: str) -> None:
        """Let one writer at a time pass with this ``name``; SQLite has only one anyway."""
        if not is_sqlite(self._engine):
            number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
            transaction.first(_LOCK, {"number": number})

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    def _unavailable(self, error: Exception) -> LedgerUnavailable:
        """Trouble with the database as one sentence; what a statement held is never shown."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
        return LedgerUnavailable(f"the ledger {self._place} could not be used: {reason}.")
