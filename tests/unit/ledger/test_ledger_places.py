"""Where a ledger may live, what it may be called, and what it says when it cannot be used."""

import os
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text

from sfumato.errors import BadInput
from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.ledger.ledger_tables import REVISIONS
from sfumato.privacy import Guarantee


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite://", "names no plain file"),
        ("sqlite:///:memory:", "names no plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "names no plain file"),
        ("mysql://root@localhost/x", "names mysql: SQLite and PostgreSQL"),
        ("sqlite+aiosqlite:///x.db", "names sqlite\\+aiosqlite"),
        ("budget.db", "'budget.db' is not a ledger URL; give sqlite:///budget.db or postgresql"),
        ("", "'' is not a ledger URL"),
        (None, "this is not a ledger URL"),
        ("postgresql://user:secret@host:port/x", "this is not a ledger URL"),
    ],
)
def test_a_url_that_is_no_ledgers_is_refused(url, sentence):
    with pytest.raises(BadInput, match=sentence) as refused:
        Ledger(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "notes.db").write_text("not a database, but long enough to be looked at " * 50)
    assert "file is not a database" in refusal(f"sqlite:///{tmp_path}/notes.db")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert f"{tmp_path}/absent/budget.db could not be used" in refusal(
        f"sqlite:///{tmp_path}/absent/budget.db"
    )


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path):
    pytest.importorskip("psycopg")
    sentence = refusal(f"postgresql://me:secret@/x?host={tmp_path}")
    assert "could not be used" in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize("table", ["datasets", "patients", "alembic_version"])
def test_the_database_of_another_program_is_refused_and_left_alone(file, sql, table):
    sql(f"CREATE TABLE {table} (version_num TEXT)")
    sql(f"INSERT INTO {table} VALUES ('0001')")
    assert "holds tables of another program" in refusal(f"sqlite:///{file}")
    assert sql("SELECT name FROM sqlite_master") == [(table,)]


def test_a_ledger_from_a_newer_version_is_refused_and_left_alone(ledger, file, sql):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    sql("UPDATE alembic_version SET version_num = '9999'")
    sentence = refusal(f"sqlite:///{file}")
    assert "written by a newer version of Sfumato (its revision is 9999, the newest known here" in sentence
    assert sql("SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_ledger_from_the_first_version_is_carried_forward(ledger, file, sql):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    ledger.spend("clinic", Guarantee.pure(0.5))
    sql("DROP TABLE certificates")
    sql("DROP TABLE leases")
    sql("UPDATE alembic_version SET version_num = '0001'")
    with Ledger(f"sqlite:///{file}") as later:
        assert later.identity == ledger.identity
        assert later.history("clinic") == ledger.history("clinic")
        assert later.check() == []
    assert sql("SELECT version_num FROM alembic_version") == [(REVISIONS[-1],)]


@pytest.mark.parametrize(("table", "what"), [("alembic_version", "version"), ("ledgers", "identity")])
def test_a_ledger_without_its_version_or_identity_is_refused(ledger, file, sql, table, what):
    sql(f"DELETE FROM {table}")
    assert f"has 0 rows for its {what} instead of one" in refusal(f"sqlite:///{file}")


def test_the_revisions_known_without_reading_them_are_those_that_there_are():
    import sfumato.ledger.ledger_tables as schema

    config = Config()
    config.set_main_option("script_location", os.path.join(os.path.dirname(schema.__file__), "migrations"))
    found = [revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(found)) == REVISIONS


def test_opening_an_existing_ledger_needs_no_migrations(ledger, file):
    code = (
        "import sys; from sfumato.ledger import Ledger; "
        f"print(Ledger('sqlite:///{file}').identity, 'alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [ledger.identity, "False"]


NAMES = {
    "quotes": 'it\'s "the" `clinic`',
    "slashes": "../../etc\\clinic/%2e",
    "emoji": "🩺 clinic 👩‍⚕️ é ﷽",
    "SQL": "'; DROP TABLE entries; --",
    "new lines": "clinic\n\r\t",
    "one": "x",
    "long": "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyzäöü🩺", k=10_000)),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_of_up_to_ten_thousand_characters_will_do(ledger, name):
    ledger.open(name, epsilon=1.0, delta=0.0)
    ledger.open(name + "'" if len(name) < 10_000 else name[1:], epsilon=2.0, delta=0.0)
    spent = ledger.spend(name, Guarantee.pure(0.5), purpose=name, key=name[:500])
    assert spent.dataset == spent.purpose == name
    assert ledger.names()[0] == name
    assert ledger.balance(name).dataset == name
    assert ledger.find(spent.hash) == spent
    assert ledger.check(name) == ledger.check() == []


BAD_TEXT = {"null": "a\0b", "surrogate": "a\ud800b", "too long": "x" * 10_001, "bytes": b"clinic", "none": 7}


@pytest.mark.parametrize("bad", [*BAD_TEXT.values(), ""], ids=[*BAD_TEXT, "empty"])
def test_a_name_that_no_database_can_hold_is_refused(ledger, bad):
    for ask in (lambda: ledger.open(bad, epsilon=1.0, delta=0.0), lambda: ledger.balance(bad)):
        with pytest.raises(BadInput, match="a dataset name"):
            ask()


@pytest.mark.parametrize("bad", BAD_TEXT.values(), ids=BAD_TEXT)
def test_a_purpose_or_key_that_no_database_can_hold_is_refused_and_spends_nothing(ledger, bad):
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    with pytest.raises(BadInput, match="a purpose"):
        ledger.spend("clinic", Guarantee.pure(0.5), purpose=bad)
    with pytest.raises(BadInput, match="an idempotency key"):
        ledger.spend("clinic", Guarantee.pure(0.5), key=bad)
    with pytest.raises(BadInput, match="an idempotency key has 1 to 500 characters, not 501"):
        ledger.hold("clinic", Guarantee.pure(0.5), key="k" * 501)
    with pytest.raises(BadInput, match="an idempotency key has 1 to 500 characters, not 0"):
        ledger.hold("clinic", Guarantee.pure(0.5), key="")
    assert ledger.balance("clinic").spends == 0


def test_commits_wait_for_the_disk(ledger):
    with ledger._storage.writing() as transaction:
        assert transaction.first(text("PRAGMA journal_mode"), {}).journal_mode == "wal"
        assert transaction.first(text("PRAGMA synchronous"), {}).synchronous == 2


def test_a_ledger_that_stays_locked_gives_a_sentence(ledger, file, monkeypatch):
    import sfumato.ledger.database as engine

    monkeypatch.setattr(engine, "_WAIT_SECONDS", 0.2)
    ledger.open("clinic", epsilon=1.0, delta=0.0)
    with Ledger(f"sqlite:///{file}") as impatient, closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="could not be used: database is locked"):
            impatient.spend("clinic", Guarantee.pure(0.5))
        other.rollback()
        assert impatient.spend("clinic", Guarantee.pure(0.5)).number == 2


def test_a_file_that_another_process_is_just_preparing_is_waited_for(file):
    """SQLite's own waiting does not cover the change to write-ahead logging."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        later = threading.Timer(0.3, other.rollback)
        later.start()
        with Ledger(f"sqlite:///{file}") as ledger:
            assert ledger.names() == []
        later.join()


def test_threads_may_make_different_ledgers_at_the_same_time(tmp_path):
    made = []

    def make(index):
        with Ledger(f"sqlite:///{tmp_path}/{index}.db") as ledger:
            ledger.open("clinic", epsilon=1.0, delta=0.0)
            made.append((ledger.identity, ledger.check()))

    threads = [threading.Thread(target=make, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({identity for identity, _ in made}) == 8
    assert all(damage == [] for _, damage in made)


def refusal(url):
    """The one sentence with which a ledger does not open."""
    with pytest.raises(LedgerUnavailable) as refused:
        Ledger(url)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence
