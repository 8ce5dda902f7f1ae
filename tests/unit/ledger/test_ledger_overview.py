"""All datasets at a glance: which there are, what each may still spend, and whether the database answers."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.ledger import Ledger, LedgerUnavailable
from sfumato.privacy import Guarantee


def test_a_dataset_is_known_once_it_was_opened_by_whomever(ledger, file):
    assert not ledger.has("clinic")
    with Ledger(f"sqlite:///{file}") as other:
        other.open("clinic", 8.0, 1e-6)
    assert ledger.has("clinic")
    assert not ledger.has("clinics")
    with pytest.raises(BadInput):
        ledger.has("")


@settings(max_examples=10, deadline=None)
@given(spends=st.lists(st.sampled_from(["a", "b", "c"]), max_size=8))
def test_all_balances_are_those_of_each(tmp_path_factory, spends):
    folder = tmp_path_factory.mktemp("ledger")
    with Ledger(f"sqlite:///{folder}/budget.db") as ledger:
        assert ledger.balances() == {}
        for name, delta in (("b", 1e-6), ("a", 0.0), ("c", 1e-9)):
            ledger.open(name, 8.0, delta)
        for name in spends:
            guarantee = Guarantee.pure(0.5) if name == "a" else Guarantee.gaussian(2.0)
            ledger.hold(name, guarantee)
            assert ledger.balances() == {each: ledger.balance(each) for each in ("b", "a", "c")}
        assert list(ledger.balances()) == ["b", "a", "c"]


def test_totals_by_another_hand_are_refused_here_too(ledger, sql):
    ledger.open("clinic", 8.0, 1e-6)
    sql("UPDATE accounts SET spent = 'nonsense'")
    with pytest.raises(LedgerUnavailable, match="changed outside the ledger"):
        ledger.balances()


def test_whether_the_database_answers(ledger, sql):
    ledger.require_answer()
    sql("UPDATE ledgers SET id = 'another'")
    with pytest.raises(LedgerUnavailable, match="another ledger"):
        ledger.require_answer()
    sql("DELETE FROM ledgers")
    with pytest.raises(LedgerUnavailable, match="another ledger"):
        ledger.require_answer()
    sql("DROP TABLE ledgers")
    with pytest.raises(LedgerUnavailable, match="could not be used"):
        ledger.require_answer()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_was_forked_amid_a_write_takes_turns_of_its_own(ledger):
    lock = ledger._storage._one_thread
    with ledger._storage.writing():
        assert lock().locked()
        child = os.fork()
        if child == 0:
            os._exit(int(lock().locked()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not lock().locked()
