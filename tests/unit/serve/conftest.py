"""A new registry in a file of its own, a clock that is set by hand, and that file's rows by raw SQL."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from sfumato.serve.jobs.job_store import JobRecord, JobTable
from sfumato.serve.tenant_registry import Registry


@pytest.fixture
def clock():
    """A time that passes when told: ``clock.pass_by(seconds=1)``."""
    made = SimpleNamespace(now=datetime(2026, 11, 16, 12, 0, tzinfo=UTC))

    def pass_by(**time):
        made.now += timedelta(**time)

    made.pass_by = pass_by
    return made


@pytest.fixture
def registry_file(tmp_path):
    return tmp_path / "service.db"


@pytest.fixture
def registry(registry_file, clock):
    """A new, empty registry."""
    with Registry(f"sqlite:///{registry_file}", clock=lambda: clock.now) as made:
        yield made


@pytest.fixture
def begin_job():
    """Accepts a job of a tenant, which counts until it ends."""

    def begun(registry, tenant_id, number):
        new = JobRecord(
            id=f"{number:024x}",
            tenant=tenant_id,
            kind="protect",
            dataset="ward",
            request=None,
            asked={},
            content="digest",
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        return JobTable(registry).add(new, "accepting", 5.0)

    return begun


@pytest.fixture
def registry_sql(registry_file):
    """Runs one statement on the registry's file behind its back."""

    def run(statement, *values):
        with closing(sqlite3.connect(registry_file, isolation_level=None, timeout=60)) as connection:
            return connection.execute(statement, values).fetchall()

    return run
