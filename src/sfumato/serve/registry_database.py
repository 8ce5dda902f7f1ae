"""The registry's database: its tables, their versions, transactions and errors.

Names of all tables begin with ``serve_``; they may share a database with a ledger. Transactions follow the
ledger's rules: one writer at a time on SQLite, locked rows on PostgreSQL, and a write is on disk when the
call returns. Only counts of requests, the progress of jobs and the index of releases do not wait for the
disk. Losing the last counts in a power cut harms nobody, and the index is rebuilt from the releases; losing a
revocation of a key would do harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    inspect,
    select,
    text,
    tuple_,
)

from sfumato.ledger import Row, Storage, Transaction, is_sqlite
from sfumato.serve.refusals import RegistryUnavailable

#: The version of the tables below. Version 2 added jobs and releases, 3 closed tenants, 4 the last column of
#: quotas, 5 sources and readers, which had been made elsewhere; 5 also left out the table of running jobs,
#: which the records of jobs count. Nothing else changed.
VERSION = 5

metadata = MetaData()

#: One row: the version of the present tables.
versions = Table(
    "serve_versions", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)

tenants = Table(
    "serve_tenants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created", Text, nullable=False),
)

#: Tenants that were closed, and when; none of their keys is accepted, and they get no new ones.
closed = Table(
    "serve_closed",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("at", Text, nullable=False),
)

#: API keys; of a secret only its ``digest`` is stored. Rows are never deleted: a revoked key stays listed.
keys = Table(
    "serve_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("serve_tenants.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("scopes", Text),
    Column("datasets", Text),
    Column("reader", Text),
    Column("created", Text, nullable=False),
    Column("expires", Text),
    Column("revoked", Text),
)
Index("serve_keys_tenant", keys.c.tenant)

#: One row for each tenant: its limits (null means unlimited) and its recent usage.
quotas = Table(
    "serve_quotas",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("requests_per_minute", BigInteger),
    Column("bytes_per_day", BigInteger),
    Column("jobs_at_once", BigInteger),
    Column("minute", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("day", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("bytes_kept", BigInteger),
)

#: Every version of every tenant's policy, the first numbered 1; the newest is in force.
policies = Table(
    "serve_policies",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("created", Text, nullable=False),
    Column("document", Text, nullable=False),
)

#: Every accepted job, as sfumato.serve.jobs.job_lifecycle describes it. ``worker`` has its lease until
#: ``until``, in seconds of the epoch; ``attempt`` numbers its holds, ``tries`` counts how often it was taken.
job_records = Table(
    "serve_job_records",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("serve_tenants.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("request", Text),
    Column("asked", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("stage", Text),
    Column("share", Float(53)),
    Column("ended", Text),
    Column("attempt", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("hold", BigInteger),
    Column("worker", Text),
    Column("until", Float(53), nullable=False),
    Column("cancelled", Integer, nullable=False),
    Column("result", Text),
    Column("problem", Text),
)
Index("serve_job_records_state", job_records.c.state, job_records.c.created)
Index("serve_job_records_tenant", job_records.c.tenant, job_records.c.created)
Index(
    "serve_job_records_request",
    job_records.c.tenant,
    job_records.c.kind,
    job_records.c.dataset,
    job_records.c.request,
    unique=True,
)

#: An index of a tenant's releases by time; a row whose folder holds no release is ignored.
releases = Table(
    "serve_releases",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("created", Text, nullable=False),
)
Index("serve_releases_created", releases.c.tenant, releases.c.created)

#: Buckets of the proxy. ``removed`` is empty while a bucket is in force, so that its name is unique.
sources = Table(
    "serve_sources",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created", Text, nullable=False),
    Column("removed", Text, nullable=False),
    UniqueConstraint("tenant", "name", "removed"),
)

#: Facts that tenants state about their readers.
readers = Table(
    "serve_readers",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("reader", Text, primary_key=True),
    Column("document", Text, nullable=False),
)

# Of the advisory lock by which PostgreSQL lets one connection at a time create tables or tenants.
_LOCK_NUMBER = 7_310_955
_VERSION = select(versions)
_ROWS_PER_PAGE = 200


def rows_where(table: Table, *columns: str) -> Select[Any]:
    """Return a statement for the rows of ``table`` whose ``columns`` equal parameters of the same names."""
    return select(table).where(*(table.c[name] == bindparam(name) for name in columns))


class NewestFirst:
    """Reads the rows of one tenant in ``table``, newest first, as far as they meet ``conditions``."""

    def __init__(self, table: Table, *conditions: Any) -> None:
        place = (table.c.created, table.c.id)
        self._one = rows_where(table, "tenant", "id")
        self._first = (
            rows_where(table, "tenant")
            .where(*conditions)
            .order_by(*(column.desc() for column in place))
            .limit(_ROWS_PER_PAGE)
        )
        self._next = self._first.where(tuple_(*place) < tuple_(bindparam("created"), bindparam("id")))

    def rows(self, database: RegistryDatabase, tenant: str, after: str | None) -> Iterator[Row]:
        """Return the rows that follow the one with the id ``after``; None begins with the newest."""
        while True:
            with database.reading() as transaction:
                if after is None:
                    page = transaction.all(self._first, {"tenant": tenant})
                else:
                    last = transaction.first(self._one, {"tenant": tenant, "id": after})
                    if last is None:
                        return
                    place = {"tenant": tenant, "created": last.created, "id": last.id}
                    page = transaction.all(self._next, place)
            yield from page
            if len(page) < _ROWS_PER_PAGE:
                return
            after = page[-1].id


class RegistryDatabase(Storage[None]):
    """A database with the registry's tables, which are created if missing."""

    def __init__(self, url: str) -> None:
        super().__init__(url, _prepare, what="registry", unavailable=RegistryUnavailable)

    def alone(self, transaction: Transaction) -> None:
        """Admit one writer at a time."""
        self.one_at_a_time(transaction, _LOCK_NUMBER)

    def require_answer(self) -> None:
        """Raise :class:`RegistryUnavailable` unless the database answers and has its tables."""
        with self.reading() as transaction:
            transaction.first(_VERSION, {})


def _prepare(engine: Engine) -> None:
    """Create missing tables; raise for tables of another program or a newer version."""
    with engine.connect() as connection, connection.begin():
        if _version(connection) == VERSION:
            return
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not is_sqlite(engine):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
        before = _version(connection)
        if before == VERSION:
            return
        # Versions so far only added tables and one column.
        metadata.create_all(connection)
        columns = {column["name"] for column in inspect(connection).get_columns(quotas.name)}
        if "bytes_kept" not in columns:
            connection.execute(text("ALTER TABLE serve_quotas ADD COLUMN bytes_kept BIGINT"))
        connection.execute(versions.delete())
        connection.execute(insert(versions).values(version=VERSION))


def _version(connection: Connection) -> int | None:
    """Return the version of the registry found; None if a new one can be created."""
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
            f"this registry has {len(found)} rows for its version instead of one: it was changed outside of "
            "Sfumato; restore a backup."
        )
    if not 1 <= found[0] <= VERSION:
        raise RegistryUnavailable(
            f"this registry was written by another version of Sfumato (its tables are version {found[0]}, "
            f"those known here {VERSION}); install that version."
        )
    return int(found[0])
