"""The ledger's tables in a database: found, made or carried forward, and never somebody else's."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, text

from sfumato.ledger.database import is_sqlite
from sfumato.ledger.ledger_errors import LedgerUnavailable
from sfumato.ledger.ledger_tables import ledgers, metadata

__all__ = ["REVISIONS", "is_there", "prepare"]

#: Every revision in ``migrations``, oldest first; known here so that opening a ledger need not read them.
REVISIONS = ("0001", "0002")

_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSIONS = "alembic_version"
# Any number, the same for all: PostgreSQL lets one connection at a time create or carry forward the tables.
_LOCK = 5_387_261
# Alembic's contexts are global to the process.
_one_thread = threading.Lock()


def is_there(engine: Engine) -> bool:
    """Whether the database holds a ledger of any version; a file of SQLite that is missing is not made."""
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
    """The revision of the ledger that is here; None where a new one can be made."""
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
            f"this ledger has {len(found)} rows for its {what} instead of one: another hand was here; "
            "restore a backup."
        )
    return str(found[0])


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
