"""Every column of every row, edited, deleted or added behind the ledger's back, is found and named."""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.ledger.entries import Entry
from sfumato.privacy import Guarantee

ENTRY = ("kind", "at", "previous", "purpose", "key", "refers_to", "guarantee", "prices", "hash")
ACCOUNT = ("spent", "entries", "spends", "holds", "state", "head", "at")

LAST = 8


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A ledger with every kind of entry, closed so that all of it is in one file."""
    file = tmp_path_factory.mktemp("original") / "budget.db"
    with Ledger(f"sqlite:///{file}") as ledger:
        for name in ("clinic", "school"):
            ledger.open(name, epsilon=8.0, delta=1e-6)
            ledger.spend(name, Guarantee.gaussian(4.0), purpose="first", key="k")
            kept, back = (ledger.hold(name, Guarantee.laplace(2.0)).number for _ in range(2))
            ledger.commit(name, kept)
            ledger.release_hold(name, back)
            ledger.spend(name, Guarantee.pure(0.5))
            ledger.close(name)
        assert ledger.check() == []
    return file


@pytest.fixture
def file(original, tmp_path):
    return shutil.copy(original, tmp_path / "budget.db")


@pytest.fixture
def found(file):
    """What ``check`` finds once ``statements`` have been run on a copy of the ledger."""

    def run(*statements):
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0, statement
        with Ledger(f"sqlite:///{file}") as ledger:
            damage = ledger.check()
        assert all(one.what in str(one) and repr(one.dataset) in str(one) for one in damage)
        return damage

    return run


def test_an_untouched_ledger_is_whole(found):
    assert found() == []


EDITS = ["{c} || 'x'", "'[]'", "'{{}}'", "x'00ff'", "'open'", "-1", "2.5"]


@pytest.mark.parametrize("number", [1, 2, 3, 6, LAST])
@pytest.mark.parametrize("column", ENTRY)
def test_an_edited_entry_is_named(original, file, found, column, number):
    where = f"WHERE dataset = 1 AND number = {number}"
    before = value(original, f"SELECT {column} FROM entries {where}")
    for edit in EDITS if before is not None else ["'x'", "7"]:
        shutil.copy(original, file)
        new = value(file, f"SELECT {edit.format(c=column)} FROM entries {where}")
        if new == before:
            continue
        damage = found(f"UPDATE entries SET {column} = {edit.format(c=column)} {where}")
        assert ("clinic", number) in {(one.dataset, one.number) for one in damage}, edit
        assert {one.dataset for one in damage} == {"clinic"}


@pytest.mark.parametrize("column", ACCOUNT)
def test_edited_running_totals_are_named_with_their_column(original, file, found, column):
    before, named = value(original, f"SELECT {column} FROM accounts WHERE dataset = 1"), False
    for edit in [*EDITS, "'closed'", "'exhausted'", "'0 0 0 0 0 0 0 0'", "0", "99"]:
        shutil.copy(original, file)
        new = value(file, f"SELECT {edit.format(c=column)}  FROM accounts WHERE dataset = 1")
        if new == before:
            continue
        damage = found(f"UPDATE accounts SET {column} = {edit.format(c=column)} WHERE dataset = 1")
        assert [one.dataset for one in damage] == ["clinic"], edit
        assert "running totals were altered" in damage[0].what
        named = named or f"({column})" in damage[0].what
    assert named


@pytest.mark.parametrize("column", ["id", "digest", "name", "terms"])
def test_edited_terms_are_named(original, file, found, column):
    for edit in [*EDITS[:4], "replace({c}, '8.0', '80.0')", "replace({c}, '0.125', '0.124')", "99"]:
        shutil.copy(original, file)
        before = value(file, f"SELECT {column} FROM datasets WHERE id = 1")
        if value(file, f"SELECT {edit.format(c=column)} FROM datasets WHERE id = 1") == before:
            continue
        if column == "id" and edit != "99":
            continue
        damage = found(f"UPDATE datasets SET {column} = {edit.format(c=column)} WHERE id = 1")
        assert damage, edit
        assert not any(one.dataset == "school" for one in damage)


def test_a_renamed_dataset_with_a_new_digest_is_found(found):
    from sfumato.ledger.entries import digest

    damage = found(f"UPDATE datasets SET name = 'other', digest = '{digest('other')}' WHERE id = 1")
    assert [one.number for one in damage] == list(range(1, LAST + 1))


def test_a_ledger_with_another_identity_does_not_know_its_rows(found):
    assert len(found("UPDATE ledgers SET id = 'x'")) == 2 * LAST


def test_a_deleted_row_is_found_where_it_was(found):
    assert [
        (one.number, one.what) for one in found("DELETE FROM entries WHERE dataset = 1 AND number = 4")
    ] == [(5, "rows before this one are missing")]


@pytest.mark.parametrize("first", [1, 2])
def test_deleted_first_rows_are_found(found, first):
    damage = found(f"DELETE FROM entries WHERE dataset = 1 AND number <= {first}")
    assert (damage[0].number, damage[0].what) == (first + 1, "rows before this one are missing")


@pytest.mark.parametrize("left", [0, 1, LAST - 1])
def test_deleted_newest_rows_are_found(found, left):
    damage = found(f"DELETE FROM entries WHERE dataset = 1 AND number > {left}")
    assert (damage[0].number, damage[0].what) == (LAST, "the newest rows are missing")


def test_swapped_rows_are_found(found):
    damage = found(
        "UPDATE entries SET number = 99 WHERE dataset = 1 AND number = 3",
        "UPDATE entries SET number = 3 WHERE dataset = 1 AND number = 4",
        "UPDATE entries SET number = 4 WHERE dataset = 1 AND number = 99",
    )
    assert {one.number for one in damage} >= {3, 4}


def test_a_row_moved_to_another_dataset_is_found_in_both(found):
    damage = found(f"UPDATE entries SET dataset = 2, number = 99 WHERE dataset = 1 AND number = {LAST}")
    assert {one.dataset for one in damage} == {"clinic", "school"}


def test_a_row_moved_to_no_dataset_is_found(found):
    damage = found("UPDATE entries SET dataset = 99 WHERE dataset = 1 AND number = 4")
    assert {one.dataset for one in damage} == {"clinic", "(99)"}


def test_missing_and_moved_totals_are_found(found, original, file):
    assert [one.dataset for one in found("DELETE FROM accounts WHERE dataset = 1")] == ["clinic"]
    shutil.copy(original, file)
    damage = found("UPDATE accounts SET dataset = 99 WHERE dataset = 1")
    assert {one.dataset for one in damage} == {"clinic", "(99)"}


def test_a_copied_row_at_the_end_is_found(found):
    columns = ", ".join(["dataset", *(name for name in ENTRY if name not in ("key", "refers_to"))])
    damage = found(
        f"INSERT INTO entries (number, {columns}) SELECT number + 1, {columns} FROM entries "
        f"WHERE dataset = 1 AND number = {LAST}"
    )
    assert (damage[0].number, damage[0].what) == (LAST + 1, "the row was altered")


def test_a_forged_row_that_chains_is_found_by_the_totals(file):
    forge(file, Guarantee.pure(0.1), totals=False)
    with Ledger(f"sqlite:///{file}") as ledger:
        damage = ledger.check("clinic")
    assert [(one.number, one.what) for one in damage] == [
        (LAST + 1, "a ledger would not have written this spend"),
        (LAST + 1, "rows were added from here on"),
    ]


@pytest.mark.parametrize("epsilon", [0.1, 50.0])
def test_a_forged_row_that_no_ledger_would_admit_is_found_by_the_rules(tmp_path, epsilon):
    file = tmp_path / "open.db"
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.open("clinic", epsilon=8.0, delta=1e-6)
        ledger.spend("clinic", Guarantee.gaussian(4.0))
    forge(file, Guarantee.pure(epsilon), totals=True)
    with Ledger(f"sqlite:///{file}") as ledger:
        found = [(one.number, one.what) for one in ledger.check()]
    # Within the budget a forger who rewrites rows and totals alike leaves a ledger like any other.
    assert found == ([] if epsilon < 8.0 else [(3, "a ledger would not have written this spend")])


def test_an_altered_row_is_never_used(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE entries SET guarantee = '{}' WHERE dataset = 1 AND number IN (2, 3)")
    with Ledger(f"sqlite:///{file}") as ledger:
        first, paid = ledger.find(value(file, "SELECT hash FROM entries WHERE number = 1")), None
        for use in (
            lambda: ledger.history("clinic"),
            lambda: ledger.commit("clinic", 3),
            lambda: ledger.spend("clinic", Guarantee.gaussian(4.0), key="k"),
        ):
            with pytest.raises(LedgerUnavailable, match=r"`ledger\.check\(\)` names every such place"):
                paid = use()
        assert paid is None
        assert first is not None
        assert ledger.find(value(file, "SELECT hash FROM entries WHERE dataset = 1 AND number = 2")) is None


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE accounts SET spent = '[]'",
        "UPDATE accounts SET state = 'x'",
        "UPDATE accounts SET spends = 'x'",
        "DELETE FROM accounts",
        "UPDATE datasets SET terms = '{}'",
    ],
)
def test_altered_totals_or_terms_are_never_used(file, edit):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(edit)
    with Ledger(f"sqlite:///{file}") as ledger:
        for use in (lambda: ledger.balance("clinic"), lambda: ledger.spend("clinic", Guarantee.pure(0.1))):
            with pytest.raises(LedgerUnavailable, match="changed outside the ledger"):
                use()


def forge(file, guarantee, *, totals):
    """Append a spend to the first dataset with a valid hash, as someone who reads this code could."""
    with Ledger(f"sqlite:///{file}") as ledger:
        last, known = ledger.history("clinic")[-1], ledger._dataset("clinic")
        identity = ledger.identity
    entry = Entry(
        ledger=identity,
        dataset="clinic",
        number=last.number + 1,
        kind="spend",
        at=last.at,
        previous=last.hash,
        guarantee_wire=json.dumps(guarantee.to_dict()),
        prices_wire=" ".join(str(price) for price in known.filter.price(guarantee)),
    )
    assert replace(entry) == entry
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "INSERT INTO entries (dataset, number, kind, at, previous, purpose, guarantee, prices, hash) "
            "VALUES (1, ?, 'spend', ?, ?, '', ?, ?, ?)",
            (entry.number, entry.at, entry.previous, entry.guarantee_wire, entry.prices_wire, entry.hash),
        )
        if totals:
            (spent,) = connection.execute("SELECT spent FROM accounts WHERE dataset = 1").fetchone()
            total = [
                str(int(a) + int(b)) for a, b in zip(spent.split(), entry.prices_wire.split(), strict=True)
            ]
            connection.execute(
                "UPDATE accounts SET spent = ?, entries = ?, spends = spends + 1, head = ? WHERE dataset = 1",
                (" ".join(total), entry.number, entry.hash),
            )


def value(file, query):
    """The one value that ``query`` reads from ``file``."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchone()[0]
