"""Where a ledger or a registry lives: SQLite in WAL mode or PostgreSQL; its troubles as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, TypeVar

from sqlalchemy import BigInteger, Engine, bindparam, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.errors import SfumatoError
from sfumato.ledger.engine import engine_of, is_sqlite
from sfumato.ledger.transaction import Transaction

__all__ = ["Storage"]

_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LOCK = select(func.pg_advisory_xact_lock(bindparam("number", type_=BigInteger)))
_Prepared = TypeVar("_Prepared")


class Storage(Generic[_Prepared]):
    """A database whose tables ``prepare`` finds or makes; what that returns is ``prepared``.

    ``what`` lives there is named where the database cannot be used, by an error of the kind ``unavailable``.
    """

    def __init__(
        self,
        url: str,
        prepare: Callable[[Engine], _Prepared],
        *,
        what: str,
        unavailable: type[SfumatoError],
    ) -> None:
        self._engine = engine_of(url)
        self._what, self._kind = what, unavailable
        self._place = self._engine.url.render_as_string(hide_password=True)
        self._troubles = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        try:
            self.prepared = prepare(self._engine)
        except self._troubles as error:
            raise self._unavailable(error) from None

    def writing(self) -> AbstractContextManager[Transaction]:
        """One transaction, durable once it ends without an error; on SQLite nobody else writes beside it."""
        return self._transaction("BEGIN IMMEDIATE" if is_sqlite(self._engine) else None, commit=True)

    def counting(self) -> AbstractContextManager[Transaction]:
        """The same, whole or not at all, that returns before it is on disk."""
        if is_sqlite(self._engine):
            return self._transaction("BEGIN IMMEDIATE", commit=True, durable=False)
        return self._transaction("SET LOCAL synchronous_commit = off", commit=True)

    def reading(self) -> AbstractContextManager[Transaction]:
        """One consistent view, whatever is written meanwhile."""
        return self._transaction("BEGIN" if is_sqlite(self._engine) else _SNAPSHOT, commit=False)

    @contextmanager
    def _transaction(self, begin: str | None, *, commit: bool, durable: bool = True) -> Iterator[Transaction]:
        try:
            connection = self._engine.raw_connection()
            try:
                cursor = connection.cursor()
                if not durable:
                    cursor.execute("PRAGMA synchronous = NORMAL")
                try:
                    if begin is not None:
                        cursor.execute(begin)
                    yield Transaction(cursor, self._engine.dialect)
                    if commit:
                        connection.commit()
                finally:
                    if not durable:
                        connection.rollback()  # inside a transaction the setting would stay as it is
                        cursor.execute("PRAGMA synchronous = FULL")
            finally:
                connection.close()  # back into the pool, which rolls back what was not committed
        except self._troubles as error:
            raise self._unavailable(error) from None

    def one_at_a_time(self, transaction: Transaction, number: int) -> None:
        """Let one writer at a time pass with this ``number``; SQLite has only one anyway."""
        if not is_sqlite(self._engine):
            transaction.first(_LOCK, {"number": number})

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    def _unavailable(self, error: Exception) -> SfumatoError:
        """Trouble with the database as one sentence; what a statement held is never shown."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
        return self._kind(f"the {self._what} {self._place} could not be used: {reason}.")
