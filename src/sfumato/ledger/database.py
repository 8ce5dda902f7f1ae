"""Durable database engines (SQLite in WAL mode, PostgreSQL) and transactions on the driver's connection.

What was committed is still there after a power failure. Errors of a database become one sentence.

SQLAlchemy keeps the connections and writes each statement, once for each kind of database; the driver runs
it. A spend is three small statements, and executing them through SQLAlchemy takes longer than all the rest.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import make_dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Dialect,
    Engine,
    bindparam,
    create_engine,
    event,
    extract,
    func,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.sql import ClauseElement

from sfumato.errors import BadInput, SfumatoError

__all__ = ["Row", "Storage", "Transaction", "is_sqlite"]

_WAIT_SECONDS = 120
_CONNECTIONS = 8
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
#: A row of a result, its columns by name.
Row = Any
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_LOCK = select(func.pg_advisory_xact_lock(bindparam("number", type_=BigInteger)))
_CLOCK = select(extract("epoch", func.clock_timestamp()).label("now"))
_Prepared = TypeVar("_Prepared")


def engine_of(url: str) -> Engine:
    """Return the engine for a ledger's URL; refuse with the URLs that are accepted."""
    parsed = _parsed(url)
    backend = parsed.get_backend_name()
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise BadInput(f"the database URL names {parsed.drivername}: SQLite and PostgreSQL are supported.")
    parsed = parsed.set(drivername=driver)
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:") or parsed.query:
            raise BadInput(
                "the database URL names no plain file: give one, as in sqlite:///budget.db; a database in "
                "memory is lost when the program ends."
            )
        engine = create_engine(parsed, pool_size=_CONNECTIONS, max_overflow=0, pool_timeout=_WAIT_SECONDS)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        if "connect_timeout" not in parsed.query:
            parsed = parsed.update_query_dict({"connect_timeout": "30"})
        try:
            engine = create_engine(
                parsed,
                pool_size=_CONNECTIONS,
                max_overflow=0,
                pool_timeout=_WAIT_SECONDS,
                pool_pre_ping=True,  # a server that was restarted costs nobody a refused release
                isolation_level="READ COMMITTED",
            )
        except ImportError:
            raise BadInput("PostgreSQL needs its driver: pip install 'sfumato[postgres]'.") from None
        event.listen(engine, "connect", _prepare_postgresql)
    _open_engines.add(engine)
    return engine


def is_sqlite(engine: Engine) -> bool:
    """Return whether this is a file of SQLite, and not a PostgreSQL server."""
    return engine.dialect.name == "sqlite"


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # A URL with a password is not repeated.
        given = "this" if not isinstance(url, str) or "@" in url else repr(url)
        raise BadInput(f"{given} is not a ledger URL; give sqlite:///budget.db or postgresql://….") from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {1000 * _WAIT_SECONDS}")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA fullfsync = ON")  # macOS: until it is on the platter, not in the disk's cache
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    """Turn write-ahead logging on; SQLite itself does not wait for another process that is doing the same."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            (mode,) = cursor.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise sqlite3.OperationalError("this file system cannot keep a write-ahead log")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # A server may be told to answer before a commit is on disk; a ledger's must be.
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
    # Neither a stopped nor a vanished process may keep a dataset locked for ever.
    for setting in ("lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SET {setting} = '{_WAIT_SECONDS}s'")
    cursor.close()
    connection.commit()


def _close_idle_connections() -> None:
    """Close idle connections before a fork: a child can share neither SQLite's locks nor a socket."""
    for engine in list(_open_engines):
        engine.dispose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_idle_connections)


class Transaction:
    """Runs statements, which must be constants: their SQL is kept for as long as the process lives."""

    _written: dict[tuple[ClauseElement, str], _Statement] = {}  # noqa: RUF012 (shared by all on purpose)

    def __init__(self, cursor: Any, dialect: Dialect) -> None:
        self._cursor = cursor
        self._dialect = dialect
        self.is_sqlite = dialect.name == "sqlite"

    def run(self, statement: ClauseElement, values: Mapping[str, Any]) -> None:
        """Run a statement that returns no rows."""
        self._execute(statement, values)

    def first(self, statement: ClauseElement, values: Mapping[str, Any]) -> Row | None:
        """Return the first row of the answer, if there is one."""
        written = self._execute(statement, values)
        row = self._cursor.fetchone()
        return None if row is None else written.row(self._cursor)(*row)

    def all(self, statement: ClauseElement, values: Mapping[str, Any] | None = None) -> list[Row]:
        """Return every row of the answer."""
        written = self._execute(statement, values or {})
        return [written.row(self._cursor)(*row) for row in self._cursor.fetchall()]

    def _execute(self, statement: ClauseElement, values: Mapping[str, Any]) -> _Statement:
        place = (statement, self._dialect.name)
        if place not in self._written:
            self._written[place] = _Statement(statement, self._dialect)
        written = self._written[place]
        self._cursor.execute(written.sql, written.parameters(values))
        return written


class _Statement:
    """The SQL of a statement for one kind of database."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self.sql = str(compiled)
        self._constants = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup
        self._row: Any = None

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return values as the driver expects them: by name, or in the order of the question marks."""
        named = {**self._constants, **values} if self._constants else values
        return named if self._order is None else [named[name] for name in self._order]

    def row(self, cursor: Any) -> Any:
        """Return the class of the rows of this statement's answer."""
        if self._row is None:
            self._row = make_dataclass("Row", [column[0] for column in cursor.description], slots=True)
        return self._row


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
        self._lock, self._process = threading.Lock(), os.getpid()
        self._what, self._kind = what, unavailable
        # Parameters of a URL may hold a password, too.
        parsed = self._engine.url
        self._place = parsed.set(query={}).render_as_string(hide_password=True)
        self._secrets = [str(one) for one in (parsed.password, parsed.query.get("password")) if one]
        self._errors = (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)
        try:
            self.prepared = prepare(self._engine)
        except self._errors as error:
            raise self._unavailable(error) from None

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Transaction]:
        """Open one transaction, on disk once it ends without an error; SQLite admits no other writer.

        Unless it is ``durable``, it may end before it is on disk.
        """
        if is_sqlite(self._engine):
            begun = self._transaction("BEGIN IMMEDIATE", commit=True, durable=durable)
            with self._one_thread(), begun as transaction:
                yield transaction
        else:
            begin = None if durable else "SET LOCAL synchronous_commit = off"
            with self._transaction(begin, commit=True) as transaction:
                yield transaction

    def _one_thread(self) -> threading.Lock:
        """Return the lock by which one thread of this process at a time writes to SQLite.

        Whoever finds the file locked looks again after pauses that grow to a tenth of a second; whoever waits
        for a thread is woken at once.
        """
        if self._process != os.getpid():
            # The thread that held the lock when this process was forked is not in it.
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock

    def counting(self) -> AbstractContextManager[Transaction]:
        """Open one atomic transaction that may end before it is on disk."""
        return self.writing(durable=False)

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open one consistent view, whatever is written meanwhile."""
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
        except self._errors as error:
            raise self._unavailable(error) from None

    def one_at_a_time(self, transaction: Transaction, number: int) -> None:
        """Let one writer at a time pass with this ``number``; SQLite has only one anyway."""
        if not is_sqlite(self._engine):
            transaction.first(_LOCK, {"number": number})

    def clock(self, transaction: Transaction) -> float:
        """Return the seconds since 1970 by one clock for all who use the database: the server's, if any."""
        return time.time() if is_sqlite(self._engine) else float(transaction.all(_CLOCK)[0].now)

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    def _unavailable(self, error: Exception) -> SfumatoError:
        """Return trouble with the database as one sentence, without the values of a statement."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        return self._kind(f"the {self._what} {self._place} could not be used: {reason}.")
