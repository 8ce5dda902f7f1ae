"""A database engine that is durable: what was committed is still there after the power fails."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from sfumato.errors import BadInput

__all__ = ["engine_of", "is_sqlite"]

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


def engine_of(url: str) -> Engine:
    """The engine for a ledger's URL, or a refusal that says which URLs there are."""
    parsed = _parsed(url)
    backend = parsed.get_backend_name()
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise BadInput(f"a ledger lives in SQLite or PostgreSQL, not in {parsed.drivername}.")
    parsed = parsed.set(drivername=driver)
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:") or parsed.query:
            raise BadInput(
                "a ledger needs a plain file, as in sqlite:///budget.db; memory would be forgotten."
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
    """Whether this is a file of SQLite, and not a PostgreSQL server."""
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


def _let_go() -> None:
    """Close idle connections before a fork: a child can share neither SQLite's locks nor a socket."""
    for engine in list(_open_engines):
        engine.dispose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_go)
