"""Where a registry lives: its tables found or made, its transactions, its troubles as sentences.

The discipline is the ledger's: one writer at a time on SQLite, locked rows on PostgreSQL, and what is written
is on disk when the call returns. Only counts of requests and jobs, and the index of releases, do not wait for
the disk: a power cut that forgets the last of the former harms nobody, and the latter is made good from the
releases themselves; one that forgets a revoked key would harm.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, insert, inspect, select, text

from sfumato.ledger.database import is_sqlite
from sfumato.ledger.storage import Storage
from sfumato.ledger.transaction import Transaction
from sfumato.serve.registry_errors import RegistryUnavailable
from sfumato.serve.registry_tables import VERSION, metadata, quotas, versions

__all__ = ["RegistryDatabase"]

# Any number, the same for all: PostgreSQL lets one connection at a time make tables or tenants.
_LOCK_NUMBER = 7_310_955
_VERSION = select(versions)


class RegistryDatabase(Storage[None]):
    """A database with the registry's tables; made where they are missing."""

    def __init__(self, url: str) -> None:
        super().__init__(url, _prepare, what="registry", unavailable=RegistryUnavailable)

    def alone(self, transaction: Transaction) -> None:
        """Let one writer at a time pass here."""
        self.one_at_a_time(transaction, _LOCK_NUMBER)

    def require_answer(self) -> None:
        """Raise :class:`RegistryUnavailable` unless the database answers and has its tables."""
        with self.reading() as transaction:
            transaction.first(_VERSION, {})


def _prepare(engine: Engine) -> None:
    """Make the tables where they are missing, and refuse those of another program or a newer version."""
    with engine.connect() as connection, connection.begin():
        if _version(connection) == VERSION:
            return
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not is_sqlite(engine):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
        before = _version(connection)
        if before == VERSION:
            return
        # Versions so far only added tables and a column, which are made beside what is there.
        metadata.create_all(connection)
        columns = {column["name"] for column in inspect(connection).get_columns(quotas.name)}
        if "bytes_kept" not in columns:
            connection.execute(text("ALTER TABLE serve_quotas ADD COLUMN bytes_kept BIGINT"))
        connection.execute(versions.delete())
        connection.execute(insert(versions).values(version=VERSION))


def _version(connection: Connection) -> int | None:
    """The version of the registry that is here; None where a new one can be made."""
    tables = set(inspect(connection).get_table_names())
    # A file is one program's; a server's database may be shared, as long as no name is taken.
    if not (tables if is_sqlite(connection.engine) else tables & set(metadata.tables)):
        return None
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
    if not 1 <= found[0] <= VERSION:
        raise RegistryUnavailable(
            f"this registry was written by another version of Sfumato (its tables are version {found[0]}, "
            f"those known here {VERSION}); install that version."
        )
    return int(found[0])
