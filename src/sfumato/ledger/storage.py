"""Where a ledger lives: SQLite in WAL mode by default, PostgreSQL by URL; its troubles as sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.ledger.engine import engine_of, is_sqlite, reading, writing
from sfumato.ledger.errors import LedgerUnavailable
from sfumato.ledger.schema import prepare

__all__ = ["Storage"]


class Storage:
    """A database with the ledger's tables at their newest version; made where they are missing."""

    def __init__(self, url: str) -> None:
        self._engine = engine_of(url)
        self._place = self._engine.url.render_as_string(hide_password=True)
        with self._faults():
            self.identity = prepare(self._engine)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, durable once it ends without an error."""
        with self._faults(), writing(self._engine) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view."""
        with self._faults(), reading(self._engine) as connection:
            yield connection

    def one_at_a_time(self, connection: Connection, name: str) -> None:
        """Let one writer at a time pass with this ``name``; SQLite has only one anyway."""
        if not is_sqlite(self._engine):
            number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
            connection.execute(select(func.pg_advisory_xact_lock(number)))

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Trouble with the database as one sentence; what a statement held is never shown."""
        try:
            yield
        except SQLAlchemyError as error:
            reason = (
                str(error.orig if isinstance(error, DBAPIError) else error).strip() or type(error).__name__
            )
            first = reason.splitlines()[0].rstrip(".")
            raise LedgerUnavailable(f"the ledger {self._place} could not be used: {first}.") from None
