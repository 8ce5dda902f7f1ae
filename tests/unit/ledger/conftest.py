"""A new ledger in a file of its own, and that file's rows by raw SQL."""

import sqlite3
from contextlib import closing

import pytest

from sfumato.ledger import Ledger


@pytest.fixture
def file(tmp_path):
    """Where the ledger lives."""
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(file):
    """A new, empty ledger."""
    with Ledger(f"sqlite:///{file}") as made:
        yield made


@pytest.fixture
def sql(file):
    """Runs one statement on the ledger's file behind its back."""

    def run(statement, *values):
        with closing(sqlite3.connect(file, isolation_level=None, timeout=60)) as connection:
            return connection.execute(statement, values).fetchall()

    return run
