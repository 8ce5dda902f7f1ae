"""The tables of a registry, all of whose names begin with ``serve_``; they may stand beside a ledger's."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

__all__ = ["VERSION", "jobs", "keys", "metadata", "policies", "quotas", "tenants", "versions"]

#: The version of the tables below.
VERSION = 1

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
)

#: Jobs under way; one that is not kept alive ends by itself at ``until``, in seconds of the epoch.
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
