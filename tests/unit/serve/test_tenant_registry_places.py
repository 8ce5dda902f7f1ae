"""Where a registry may live: a file of its own, written by this version."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfumato.errors import BadInput
from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.serve.refusals import RegistryUnavailable
from sfumato.serve.registry_database import VERSION, metadata
from sfumato.serve.tenant_registry import Registry


def test_its_tables_are_made_once_and_bear_its_name(registry, registry_file, registry_sql):
    Registry(f"sqlite:///{registry_file}").close()
    assert registry_sql("SELECT version FROM serve_versions") == [(VERSION,)]
    tables = {name for (name,) in registry_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == set(metadata.tables)
    assert all(name.startswith("serve_") for name in tables)


def test_many_threads_make_one_registry(registry_file):
    def make(number):
        with Registry(f"sqlite:///{registry_file}") as made:
            return made.create_tenant(f"tenant{number}")

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    with Registry(f"sqlite:///{registry_file}") as again:
        assert {one.id for one in again.tenants()} == {one.id for one in made}


def test_neither_takes_the_others_file(tmp_path, registry, registry_file):
    with Ledger(f"sqlite:///{tmp_path}/ledger.db"):
        pass
    with pytest.raises(RegistryUnavailable, match="tables of another program"):
        Registry(f"sqlite:///{tmp_path}/ledger.db")
    with pytest.raises(LedgerUnavailable, match="tables of another program"):
        Ledger(f"sqlite:///{registry_file}")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE serve_versions SET version = 99", f"tables are version 99, those known here {VERSION}"),
        ("DELETE FROM serve_versions", "0 rows for its version"),
        ("INSERT INTO serve_versions VALUES (99)", "2 rows for its version"),
    ],
)
def test_a_registry_of_another_version_or_hand_is_refused(
    registry, registry_file, registry_sql, statement, words
):
    registry_sql(statement)
    with pytest.raises(RegistryUnavailable, match=words):
        Registry(f"sqlite:///{registry_file}")


def test_a_registry_of_an_older_version_is_carried_forward(registry, registry_file, registry_sql):
    """Versions only added tables: what was there stays."""
    clinic = registry.create_tenant("clinic")
    for name in ("serve_job_records", "serve_releases", "serve_closed"):
        registry_sql(f"DROP TABLE {name}")
    registry_sql("UPDATE serve_versions SET version = 1")
    with Registry(f"sqlite:///{registry_file}") as again:
        assert [one.id for one in again.tenants()] == [clinic.id]
    assert registry_sql("SELECT version FROM serve_versions") == [(VERSION,)]
    tables = {name for (name,) in registry_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == set(metadata.tables)


def test_what_is_no_database_is_told_in_a_sentence(tmp_path):
    (tmp_path / "text.db").write_text("not a database, but long enough to be taken for one " * 100)
    for url in (f"sqlite:///{tmp_path}/text.db", f"sqlite:///{tmp_path}/none/service.db"):
        with pytest.raises(RegistryUnavailable, match=r"^the registry .* could not be used: .*\.$"):
            Registry(url)
    for url in ("sqlite://", "mysql://x/y", "nonsense"):
        with pytest.raises(BadInput):
            Registry(url)


def test_a_tenant_keeps_its_row_for_as_long_as_it_has_keys(registry, registry_file):
    clinic = registry.create_tenant("clinic")
    registry.create_key(clinic.id, name="first", role="owner")
    connection = sqlite3.connect(registry_file)
    connection.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("DELETE FROM serve_tenants")
    connection.close()
