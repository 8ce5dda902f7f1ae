"""``sfumato federate`` as people meet it, as a Flower simulation, and as processes of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from sfumato.ledger import Ledger
from sfumato.pipeline.kept_model import load_model
from sfumato.report import KeyRing

SMALL = ("--classes", "10", "--rounds", "3", "--rate", "0.5", "--batch", "32", "--clip", "1")
MODEL = {"model.safetensors", "model.json", "manifest.json", "manifest.json.cert.json"}


@pytest.fixture
def archive(folder, digits):
    np.savez(folder / "digits.npz", X=digits[0][:1200], y=digits[1][:1200])
    np.savez(folder / "later.npz", X=digits[0][1200:], y=digits[1][1200:])
    return "digits.npz"


def budgets(url, *, clients=3, epsilon=300.0):
    for number in range(1, clients + 1):
        with Ledger(url.replace("{client}", f"client-{number}")) as book:
            book.open(f"clinic/client-{number}", epsilon, 1e-5, "client")


def test_a_model_is_trained_together_verified_and_asked(called, archive, folder, statement_beside):
    url = f"sqlite:///{folder}/budget.db"
    # So much that three noisy rounds on 1,200 digits learn whatever is drawn; guessing would be a tenth.
    budgets(url, epsilon=30_000.0)
    ran = called(
        *("federate", archive, *SMALL, "--epsilon", "30000", "-o", "model", "--test", "later.npz"),
        *("--dataset", "clinic", "--ledger", url),
    )
    assert ran.code == 0, ran.err
    assert {name for name in ran.appeared if not name.startswith("budget.db")} == {"model"}
    assert {path.name for path in Path("model").iterdir()} == MODEL
    assert "each client spends ε = " in ran.err
    for words in ("per client", "after 3 of 3 rounds", "Paid by client-2: 3 rounds", "measured on later.npz"):
        assert words in ran.out
    statement, document = statement_beside("model/manifest.json")
    assert str(statement.proven.unit) == "client"
    assert document["dataset"] == "clinic"
    assert called("verify", "model").code == 0
    later = np.load("later.npz")
    assert (load_model("model").predict(later["X"]) == later["y"]).mean() > 0.5


def test_a_plan_tells_the_cost_of_each_client_and_writes_nothing(called, archive, folder):
    url = f"sqlite:///{folder}/budget.db"
    budgets(url, epsilon=8.0)
    asked = ("federate", archive, *SMALL, "--epsilon", "8", "--plan", "--dataset", "clinic", "--ledger", url)
    ran = called(*asked)
    assert (ran.code, ran.appeared) == (0, frozenset())
    assert "clinic/client-3: admits 3 of 3 rounds" in ran.out
    told = called(*asked, "--json").result
    assert [client["admitted"] for client in told["clients"]] == [3, 3, 3]
    assert told["statement"]["proven"]["unit"] == "client"


def test_more_rounds_than_budget_keep_the_model_of_the_last_paid_round(called, archive, folder):
    url = f"sqlite:///{folder}/budget.db"
    budgets(url, epsilon=120.0)
    asked = ("federate", archive, *SMALL, "--epsilon", "300", "--dataset", "clinic", "--ledger", url)
    ran = called(*asked, "-o", "model")
    assert ran.code == 0
    assert "of 3 rounds: the run will stop there" in ran.err
    assert "Stopped: stopped before round " in ran.out
    again = called(*asked, "-o", "second")
    assert (again.code, again.appeared) == (3, frozenset())
    assert "was asked of 'clinic/client-1'" in again.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--epsilon", "8", "--mechanism", "gausian"), "there is no mechanism 'gausian' for clients"),
        (("--mechanism", "piecewise", "--epsilon", "8"), "piecewise needs limit"),
        ((), "needs --epsilon, the budget of one client over all rounds"),
        (("--epsilon", "8", "--engine", "moon"), "--engine was 'moon'"),
        (("--epsilon", "8", "--sample", "0.5"), "--sample needs --central"),
        (("--epsilon", "8", "--central", "--sample", "0.5", "--neighbours", "replace"), "zero-out"),
        (("--epsilon", "8", "--clients", "4000"), "holds 1200 records"),
        (("--epsilon", "8", "--model", "cnn"), "cnn is for pictures"),
        (("--epsilon", "8", "--levels", "4"), "gaussian takes no levels"),
    ],
)
def test_refusals_are_one_sentence(called, archive, more, said):
    ran = called("federate", archive, *SMALL, *more, "-o", "model", "--json")
    assert ran.code == 2
    assert said in json.loads(ran.out)["error"]
    assert ran.appeared == frozenset()


@pytest.mark.parametrize("options", [("tensor-ldp",), ("dphsgd", "--curvature", "own")])
def test_what_proves_nothing_is_made_and_cannot_be_charged(called, archive, folder, options):
    asked = ("federate", archive, *SMALL, "--mechanism", *options, "--epsilon", "100", "-o", "model")
    assert "proven of any client" in called(*asked).err
    url = f"sqlite:///{folder}/budget.db"
    budgets(url)
    charged = called(*asked[:-1], "second", "--dataset", "clinic", "--ledger", url)
    assert charged.code in (2, 3)
    assert charged.appeared == frozenset()


@pytest.mark.filterwarnings("ignore")
def test_a_flower_simulation_gives_the_model_of_one_process(called, archive, folder):
    """Ray's processes train, pay and draw; at so large an ε both models are the same but for a little noise.

    Each of 650 parameters has noise of deviation below 0.004 in both; 0.04 is passed below once in 10²⁰.
    """
    pytest.importorskip("ray")
    pytest.importorskip("flwr")
    url = f"sqlite:///{folder}/budget.db"
    budgets(url, clients=2, epsilon=1e6)
    asked = ("federate", archive, *SMALL, "--rounds", "2", "--clients", "2", "--epsilon", "1e6", "--json")
    here = called(*asked, "-o", "rounds").result
    paid = ("--dataset", "clinic", "--ledger", url)
    there = called(*asked, *paid, "--engine", "simulation", "-o", "simulation").result
    assert here["rounds"] == there["rounds"] == 2
    assert {name: len(rows) for name, rows in there["spends"].items()} == {"client-1": 2, "client-2": 2}
    one, other = (load_model(engine, keys=KeyRing()).learner.arrays_ for engine in ("rounds", "simulation"))
    for a, b in zip(one, other, strict=True):
        assert not np.array_equal(a, b)
        assert np.abs(a - b).max() < 0.04


def test_a_killed_client_has_paid_and_the_others_go_on(archive, folder):
    """Two clients in processes of their own; one is killed by signal 9 while it trains, after it has paid."""
    pytest.importorskip("flwr")
    from sfumato.pipeline.federating import federate, open_federation
    from sfumato.pipeline.waiting import Waiting

    url = f"sqlite:///{folder}/" + "{client}.db"
    budgets(url, clients=2)
    terms = {
        **{"clients": 2, "rounds": 2, "mechanism": "gaussian", "epsilon": 300.0, "delta": 1e-5, "clip": 1.0},
        # So long a training leaves the time to be killed in it.
        **{"epochs": 200, "batch": 16, "rate": 0.05},
    }
    prepared = open_federation(archive, terms, classes=10, dataset="clinic", ledger=url)
    killed: list[int] = []

    def kill() -> None:
        with Ledger(url.replace("{client}", "client-2")) as book:
            while not book.balance("clinic/client-2").spends:
                time.sleep(0.02)
        for pid in _client("client-2"):
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    watcher = threading.Thread(target=kill, daemon=True)
    watcher.start()
    done = federate(
        prepared,
        "model",
        engine="processes",
        waiting=Waiting(150.0, 150.0, 2.0),
        keys=KeyRing(folder / "keys"),
    )
    watcher.join(1.0)
    assert len(killed) == 2
    assert done.made.rounds == 2
    (missed,) = done.made.refused
    assert missed.round == 1
    assert missed.why.endswith("did not answer, and is not asked again.")
    # It paid for the round that it was killed in, of which it may have sent something, and for no other.
    with Ledger(url.replace("{client}", "client-2")) as book:
        assert book.balance("clinic/client-2").spends == 1
    assert done.made.paid == {"client-1": 2, "client-2": 1}
    assert done.statement.parameters["rounds_paid"] == 2
    assert not [
        pid for pid in _processes() if "flower-super" in _command(pid) and str(folder) in _command(pid)
    ]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _client(name: str) -> tuple[int, int]:
    """The SuperNode of a client, which is a child of this process, and the app that it has started."""
    (node,) = [p for p in _processes() if _parent(p) == os.getpid() and f'name="{name}"' in _command(p)]
    for pid in _processes():
        if "flwr-clientapp" not in _command(pid):
            continue
        above = pid
        while above not in (0, 1, node):
            above = _parent(above)
        if above == node:
            return node, pid
    raise AssertionError(f"{name} has no app running")
