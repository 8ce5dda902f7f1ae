"""Federated runs that are interrupted: what is paid, what is drawn, and what a resumed run leaves."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated import Federated, LocalTraining
from sfumato.ledger import Ledger
from sfumato.privacy import Guarantee
from sfumato.release import checkpoint
from sfumato.release.checkpoint import Checkpoint
from sfumato.release.client_budget import ClientBudgets, RoundPayment
from sfumato.release.federated_release import federate, open_federation, plan_federation
from sfumato.release.stored_model import load_model
from sfumato.reports import KeyRing

pytestmark = pytest.mark.filterwarnings("ignore:ε =")
TERMS = {
    **{"clients": 2, "rounds": 3, "mechanism": "gaussian", "epsilon": 30.0, "delta": 1e-5, "clip": 1.0},
    **{"rate": 0.5, "batch": 8},
}
MODES = {"local": {}, "central": {"central": True}}
WRITES = [
    *((Ledger, "spend", number) for number in range(1, 7)),
    *((checkpoint._Log, "append", number) for number in range(1, 4)),
    *((Ledger, "bind", number) for number in range(1, 7)),
    *((Ledger, "keep_certificate", number) for number in (1, 2)),
    (checkpoint.Checkpoint, "_write", 1),
    (checkpoint.Checkpoint, "_remove", 2),
]


class PowerCut(BaseException):
    """What ends a run in the middle of its work, as far as one process can."""


@pytest.fixture(autouse=True)
def one_seed(monkeypatch):
    """All runs of a test draw from one seed, so that their models can be compared."""
    write = Checkpoint._write

    def seeded(self, record):
        record |= {"seed": "5a" * 32, "id": "run-" + "0" * 32}
        write(self, record)

    monkeypatch.setattr(Checkpoint, "_write", seeded)


@pytest.fixture
def place(tmp_path):
    """Makes a folder with records and, where ``epsilon`` says so, a ledger with budgets of two clients."""

    def made(name, epsilon=30.0):
        folder = tmp_path / name
        folder.mkdir()
        rng = np.random.default_rng(0)
        np.savez(folder / "x.npz", x=rng.normal(size=(24, 4)), y=np.arange(24) % 2)
        if epsilon is not None:
            with Ledger(f"sqlite:///{folder}/book.db") as book:
                for client in ("client-1", "client-2"):
                    book.open(f"ward/{client}", epsilon, 1e-5, "client")
        return folder

    return made


def run(folder, *, output="model", engine="rounds", charged=True, **more):
    budgets = {"dataset": "ward", "ledger": f"sqlite:///{folder}/book.db"} if charged else {}
    opened = open_federation(folder / "x.npz", {**TERMS, **more}, classes=2, **budgets)
    return federate(opened, folder / output, engine=engine, keys=KeyRing(folder / "keys"))


def cut_run(monkeypatch, folder, owner, at, number, *, before=False, **more):
    """The run is cut off at the ``number``-th call of ``at`` of ``owner``, ``before`` it or after it."""
    called, calls = getattr(owner, at), []

    def cut(*given, **words):
        calls.append(given)
        found = None if before and len(calls) == number else called(*given, **words)
        if len(calls) == number:
            raise PowerCut
        return found

    monkeypatch.setattr(owner, at, cut)
    with pytest.raises(PowerCut):
        run(folder, **more)
    monkeypatch.setattr(owner, at, called)


def rows(folder):
    """The spends of each client, and the certificates beside them."""
    with Ledger(f"sqlite:///{folder}/book.db") as book:
        spends = {
            name: [entry for entry in book.history(name) if entry.kind == "spend"] for name in book.names()
        }
        return spends, [text for name in spends for text in book.certificates(name).values()]


def arrays(folder, output="model"):
    return load_model(folder / output, keys=KeyRing(folder / "keys")).learner.arrays_


def assert_same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_is_cut_off_at_any_write_is_paid_once_and_leaves_the_model_of_a_whole_run(
    place, monkeypatch, mode, before
):
    more = {**MODES[mode], "epsilon": 300.0}
    whole = place("whole", 300.0)
    run(whole, **more)
    expected = arrays(whole)
    for owner, at, number in WRITES if before else WRITES[:-1]:  # after the last one the run has ended
        folder = place(f"{at}-{number}", 300.0)
        cut_run(monkeypatch, folder, owner, at, number, before=before, **more)
        done = run(folder, **more)
        assert_same(arrays(folder), expected)
        spends, certificates = rows(folder)
        assert {name: len(found) for name, found in spends.items()} == dict.fromkeys(spends, 3), (at, number)
        assert Counter(certificates) == {done.certified.certificate_file.read_text(): 2}, (at, number)
        assert (done.made.rounds, done.made.stopped) == (3, None)
        assert not [name for name in os.listdir(folder) if name.endswith((".run", ".gone", ".lock"))]


def test_a_run_whose_budgets_are_used_up_is_resumed(place, monkeypatch):
    """Who has paid for a round needs no budget for it any more, also where the other one has yet to pay."""
    for number in (5, 6):
        folder = place(f"spend-{number}")
        cut_run(monkeypatch, folder, Ledger, "spend", number)
        opened = open_federation(
            folder / "x.npz", TERMS, classes=2, dataset="ward", ledger=f"sqlite:///{folder}/book.db"
        )
        assert plan_federation(opened).warnings
        assert plan_federation(opened, folder / "model").warnings == ()
        assert run(folder).made.rounds == 3
        assert [len(found) for found in rows(folder)[0].values()] == [3, 3]


def test_a_run_that_a_budget_ended_stays_what_it_was(place, monkeypatch):
    folder = place("stopped", 15.0)
    cut_run(monkeypatch, folder, Ledger, "keep_certificate", 1)
    (certificate,) = rows(folder)[1]
    with Ledger(f"sqlite:///{folder}/book.db") as book:  # the budget would now refuse in another sentence
        book.spend("ward/client-1", Guarantee.gaussian(50.0, unit="client"))
    done = run(folder)
    assert done.made.out_of_budget
    assert rows(folder)[1] == [certificate] * 2
    assert done.made.stopped in done.statement.notes


def test_a_new_run_that_no_client_can_pay_for_leaves_nothing(place):
    folder = place("poor", 1.0)
    with pytest.raises(Exception, match="ward/client-1"):
        run(folder)
    assert sorted(os.listdir(folder)) == ["book.db", "x.npz"]


def test_a_run_that_nobody_pays_for_is_resumed_too_with_the_same_coins(place, monkeypatch):
    folder = place("free", None)
    words = {"charged": False, "central": True, "sample": 0.7, "neighbours": "zero-out"}
    run(folder, output="whole", **words)
    cut_run(monkeypatch, folder, checkpoint._Log, "append", 2, **words)
    assert stat.S_IMODE((folder / ".model.run").stat().st_mode) == 0o700
    run(folder, **words)
    assert_same(arrays(folder), arrays(folder, "whole"))
    # What changed is begun anew, since nobody loses anything by that.
    cut_run(monkeypatch, folder, checkpoint._Log, "append", 2, output="other", **words)
    assert run(folder, output="other", **words | {"rounds": 2}).made.rounds == 2


def test_another_request_does_not_go_on_with_a_run(place, monkeypatch):
    folder = place("one")
    cut_run(monkeypatch, folder, checkpoint._Log, "append", 2)
    for changed in ({"rounds": 4}, {"engine": "grpc"}):
        with pytest.raises(BadInput, match="the request changed since"):
            run(folder, **changed)
    assert run(folder).made.rounds == 3


@pytest.fixture
def failing(monkeypatch):
    """Lets the training of one client fail once in round 2, so that what is drawn then is another thing."""

    def fail():
        trained, calls = LocalTraining.trained, []

        def failed(self, arrays, *, round=0):
            if round == 2 and not calls:
                calls.append(round)
                raise MemoryError
            return trained(self, arrays, round=round)

        monkeypatch.setattr(LocalTraining, "trained", failed)

    return fail


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ended", [False, True], ids=["interrupted", "ended"])
def test_a_copy_of_a_run_draws_nothing_else(place, monkeypatch, failing, mode, ended):
    """The copy was made after round 1; the run went on to the end, or was cut off when round 2 was bound."""
    folder, more, copied = place("one", 300.0), MODES[mode] | {"epsilon": 300.0}, []
    append = checkpoint._Log.append

    def copying(self, array):
        append(self, array)
        if not copied:
            copied.append(shutil.copytree(folder / ".model.run", folder / "copy" / ".model.run"))

    monkeypatch.setattr(checkpoint._Log, "append", copying)
    if ended:
        run(folder, **more)
    else:
        cut_run(monkeypatch, folder, Ledger, "bind", 4, **more)
    monkeypatch.setattr(checkpoint._Log, "append", append)
    before = rows(folder)
    failing()
    with pytest.raises(BadInput, match="paid for another output before: one spend has one output"):
        run(folder, output="copy/model", **more)
    assert rows(folder) == before
    assert not (folder / "copy" / "model").exists()


def test_a_copy_of_a_run_that_draws_the_same_leaves_the_same(place, monkeypatch):
    folder = place("one")
    cut_run(monkeypatch, folder, checkpoint._Log, "append", 2)
    shutil.copytree(folder / ".model.run", folder / "copy" / ".model.run")
    run(folder)
    run(folder, output="copy/model")
    assert_same(arrays(folder, "copy/model"), arrays(folder))
    assert [len(found) for found in rows(folder)[0].values()] == [3, 3]


def test_a_record_that_was_edited_pays_for_nothing(place, monkeypatch):
    """The key of a row commits to data, code and request: what was changed in the record finds no row."""
    folder, begin, seen = place("edited", 300.0), Checkpoint.begin, []
    cut_run(monkeypatch, folder, Ledger, "spend", 6)
    with np.load(folder / "x.npz") as held:
        np.savez(folder / "x.npz", x=-held["x"], y=held["y"])

    def told(self, data, request, **words):
        seen.append(data.hex())
        begin(self, data, request, **words)

    monkeypatch.setattr(Checkpoint, "begin", told)
    with pytest.raises(BadInput, match="the data changed since"):
        run(folder)
    record = folder / ".model.run" / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"data": seen[0]}))
    before = rows(folder)
    with pytest.raises(BadInput, match="nothing was paid under it"):
        run(folder)
    assert rows(folder) == before
    assert not (folder / "model").exists()


def test_what_clients_pay_for_a_round_they_pay_once(place):
    folder = place("budgets")
    budgets = ClientBudgets("ward", f"sqlite:///{folder}/book.db", "run", key="a run")
    opened = open_federation(folder / "x.npz", TERMS, classes=2)
    for _ in range(3):
        budgets.pay_all(("client-1", "client-2"), 1, opened.one_round)
    assert [len(found) for found in rows(folder)[0].values()] == [1, 1]


def test_a_round_that_ended_a_run_without_parameters_is_bound_to_none(place):
    folder, names = place("budgets"), ("client-1", "client-2")
    budgets = ClientBudgets("ward", f"sqlite:///{folder}/book.db", "run", key="a run")
    each = open_federation(folder / "x.npz", TERMS, classes=2).one_round
    payment = RoundPayment(budgets, names, each)
    ended = Federated([np.ones(2, np.float32)], 0, each, {}, stopped="no client sent parameters")
    budgets.pay_all(names, 1, each)
    for _ in range(2):
        payment.bind(ended)
    with pytest.raises(BadInput, match="paid for another output before"):
        payment.bind(replace(ended, rounds=1, stopped=None))


def test_a_run_stays_where_a_ledger_that_paid_for_it_went_away(place, monkeypatch):
    folder, spend = place("one", 300.0), Ledger.spend

    def gone(self, *given, **words):
        found = spend(self, *given, **words)
        (folder / "book.db").rename(folder / "away.db")
        return found

    monkeypatch.setattr(Ledger, "spend", gone)
    with pytest.raises(SfumatoError):
        run(folder, epsilon=300.0)
    monkeypatch.setattr(Ledger, "spend", spend)
    (folder / "away.db").rename(folder / "book.db")
    assert (folder / ".model.run" / "record.json").exists()
    run(folder, epsilon=300.0)
    assert [len(found) for found in rows(folder)[0].values()] == [3, 3]
