"""Where a ledger or a registry lives: SQLite in WAL mode or PostgreSQL; its troubles as sentences."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, Engine, bindparam, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.errors import SfumatoError
from sfumato.ledger.database import engine_of, is_sqlite
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
        self._turns = _Turns()
        self._what, self._kind = what, unavailable
        # Parameters of a URL may hold a password, too.
        parsed = self._engine.url
        self._place = parsed.set(query={}).render_as_string(hide_password=True)
        self._secrets = [str(one) for one in (parsed.password, parsed.query.get("password")) if one]
        self._troubles = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        try:
            self.prepared = prepare(self._engine)
        except self._troubles as error:
            raise self._unavailable(error) from None

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """One transaction, durable once it ends without an error; on SQLite nobody else writes beside it."""
        if is_sqlite(self._engine):
            with self._turns.one(), self._transaction("BEGIN IMMEDIATE", commit=True) as transaction:
                yield transaction
        else:
            with self._transaction(None, commit=True) as transaction:
                yield transaction

    @contextmanager
    def counting(self) -> Iterator[Transaction]:
        """The same, whole or not at all, that returns before it is on disk."""
        if is_sqlite(self._engine):
            begun = self._transaction("BEGIN IMMEDIATE", commit=True, durable=False)
            with self._turns.one(), begun as transaction:
                yield transaction
        else:
            with self._transaction("SET LOCAL synchronous_commit = off", commit=True) as transaction:
                yield transaction

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
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        return self._kind(f"the {self._what} {self._place} could not be used: {reason}.")


class _Turns:
    """Turns of the threads of this process that write to SQLite.

    Whoever finds a file of SQLite locked looks again after a pause that grows to a tenth of a second, while
    the lock lies idle; whoever waits for a thread is woken at once.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()

    def one(self) -> AbstractContextManager[Any]:
        """A block that one thread at a time is in."""
        if self._process != os.getpid():
            # The thread that was in the block when this process was forked is not in it.
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock
