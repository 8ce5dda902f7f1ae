"""The registry's database: tables, transactions, errors and quotas.

Names of all tables begin with ``serve_``; they may share a database with a ledger. Transactions follow the
ledger's rules: one writer at a time on SQLite, locked rows on PostgreSQL, and a write is on disk when the
call returns. Only counts of requests, the progress of jobs and the index of releases do not wait for the
disk. Losing the last counts in a power cut harms nobody, and the index is rebuilt from the releases; losing a
revocation of a key would do harm.

A tenant has quotas of requests per minute, bytes per day, concurrent jobs and stored bytes. Minutes and days
are whole, by the UTC clock. No tenant gets more than its quota in any of them, and a refused request is not
counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
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
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    inspect,
    select,
    text,
)

from sfumato.errors import BadInput, SfumatoError
from sfumato.ledger import Storage, Transaction, is_sqlite

#: The version of the tables below. The second added jobs and releases, the third tenants that were closed,
#: the fourth the last column of quotas, the fifth sources and readers, which were made elsewhere before; it
#: also left out the table of running jobs, which the records of jobs count. None changed anything else.
VERSION = 5

metadata = MetaData()

#: One row: the version of the tables that are here.
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

#: Tenants that were closed, and when: none of them has a key that opens anything, or is given one.
closed = Table(
    "serve_closed",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("at", Text, nullable=False),
)

#: API keys; ``digest`` is all that is kept of a secret. Rows are never deleted: a revoked key stays known.
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

#: One row a tenant: what it may ask for (null where nothing limits it), and what it asked for lately.
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

#: Every job that was accepted, as sfumato.serve.jobs.job_lifecycle tells it. ``worker`` has it in hand until
#: ``until``, in seconds of the epoch; ``attempt`` numbers its holds, ``tries`` how often somebody took it in
#: hand.
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

#: Where a tenant's releases are found, by their time; a row without a release in its folder is none.
releases = Table(
    "serve_releases",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("dataset", Text, nullable=False),
    Column("created", Text, nullable=False),
)
Index("serve_releases_created", releases.c.tenant, releases.c.created)

#: Buckets of the proxy. ``removed`` is empty while one is in force, so that a name is in force once.
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

#: What tenants state about their readers.
readers = Table(
    "serve_readers",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("reader", Text, primary_key=True),
    Column("document", Text, nullable=False),
)

# Any number, the same for all: PostgreSQL lets one connection at a time make tables or tenants.
_LOCK_NUMBER = 7_310_955
_VERSION = select(versions)


class RegistryUnavailable(SfumatoError):
    """Raised if the database of tenants cannot be read or written; all requests are then refused."""

    exit_code = 2


class QuotaRefused(SfumatoError):
    """Raised if a request exceeds the tenant's quota; nothing was counted.

    After ``seconds`` a retry may succeed; None if waiting does not help, because this request alone exceeds
    the quota.
    """

    exit_code = 3

    def __init__(self, sentence: str, seconds: float | None) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class Busy(SfumatoError):
    """Raised if the same request is in progress elsewhere and its outcome is not known yet.

    The outcome is known after ``seconds``.
    """

    seconds = 5.0


class Unknown(BadInput):
    """Raised if the tenant has nothing of this name.

    What other tenants have is answered in the same words.
    """


class Conflict(BadInput):
    """Raised if the name is taken, or what was to be replaced has changed meanwhile."""


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
        # Versions so far only added tables and a column, which are made beside what is there.
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


_MINUTE, _DAY = 60, 86_400
#: The greatest count there is; every reader of JSON has it exactly.
MOST = 2**53

_ONE = select(quotas).where(quotas.c.tenant == bindparam("of"))
_LOCKED = _ONE.with_for_update()  # SQLite, which has no such clause, locks the whole file


@dataclass(frozen=True)
class Quotas:
    """The limits of a tenant; None means unlimited, 0 shuts the tenant out.

    ``bytes_kept`` limits storage on the disk; if None, the limit of the service applies.
    """

    requests_per_minute: int | None = None
    bytes_per_day: int | None = None
    jobs_at_once: int | None = None
    bytes_kept: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST
            ):
                raise BadInput(f"the quota {field.name} must be a whole number from 0 to 2^53, or none.")


@dataclass(frozen=True)
class Usage:
    """What a tenant used in the newest minute and day, both numbered since the epoch."""

    minute: int = 0
    requests: int = 0
    day: int = 0
    bytes: int = 0

    def after(self, quotas: Quotas, now: float, *, requests: int, bytes: int) -> Usage:
        """Return the usage with ``requests`` and ``bytes`` added at ``now`` (seconds), or raise a refusal."""
        current = self._at(now)
        new = replace(current, requests=current.requests + requests, bytes=current.bytes + bytes)
        _require(
            new.requests, requests, quotas.requests_per_minute, "requests a minute", new.minute, _MINUTE, now
        )
        _require(new.bytes, bytes, quotas.bytes_per_day, "bytes a day", new.day, _DAY, now)
        return new

    def _at(self, now: float) -> Usage:
        """Return the usage in the minute and the day of ``now``."""
        minute, day = _window(self.minute, now, _MINUTE), _window(self.day, now, _DAY)
        return Usage(
            minute,
            self.requests if minute == self.minute else 0,
            day,
            self.bytes if day == self.day else 0,
        )


def _window(last: int, now: float, length: int) -> int:
    """Return the number of the window to count in.

    The clocks of several machines differ a little. If ours is one window behind, the newest window continues;
    otherwise two clocks would reset each other's counts. A clock that is off by more is ignored.
    """
    current = int(now // length)
    return last if last == current + 1 else current


def _require(
    used: int, asked: int, most: int | None, what: str, window: int, length: int, now: float
) -> None:
    if most is None or asked == 0 or used <= most:
        return
    if asked > most:
        raise QuotaRefused(f"one request asks for {asked:,} of {most:,} {what}; ask for less at once.", None)
    seconds = (window + 1) * length - now
    raise QuotaRefused(f"the quota of {most:,} {what} is used up for {seconds:.0f} seconds more.", seconds)


def read_quotas(transaction: Transaction, tenant_id: str, *, lock: bool = False) -> tuple[Quotas, Usage]:
    """Return the limits and the usage of a tenant.

    With ``lock``, nobody else counts against them until the transaction ends.
    """
    row = transaction.first(_LOCKED if lock else _ONE, {"of": tenant_id})
    assert row is not None  # a tenant is made with its row
    limits, usage = (
        {field.name: getattr(row, field.name) for field in fields(kind)} for kind in (Quotas, Usage)
    )
    return Quotas(**limits), Usage(**usage)
