"""The tables of a registry, all of whose names begin with ``serve_``; they may stand beside a ledger's."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

__all__ = [
    "VERSION",
    "closed",
    "job_records",
    "jobs",
    "keys",
    "metadata",
    "policies",
    "quotas",
    "releases",
    "tenants",
    "versions",
]

#: The version of the tables below. The second added jobs and releases, the third tenants that were closed,
#: the fourth the last column of quotas; none changed anything else.
VERSION = 4

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

#: What counts as a job of a tenant: until it ends, or until ``until``, in seconds of the epoch.
jobs = Table(
    "serve_jobs",
    metadata,
    Column("tenant", Text, ForeignKey("serve_tenants.id"), primary_key=True),
    Column("job", Text, primary_key=True),
    Column("until", Float(53), nullable=False),
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
