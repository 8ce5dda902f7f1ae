"""``sfumato federate`` as people meet it, as a Flower simulation, and as processes of which one is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import sfumato as sf
from sfumato.ledger import Ledger
from sfumato.release import load_model
from sfumato.reports import KeyRing

SMALL = ("--classes", "10", "--rounds", "3", "--rate", "0.5", "--batch", "32", "--clip", "1")
REPOSITORY = Path(__file__).parents[2]
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
    told = called("verify", "model", "--ledger", url)
    assert told.code == 0
    assert "ledger    holds: client-1 paid for 3 of 3 rounds; client-2 paid for 3 of 3 rounds; " in told.out
    assert "ledger    not checked: no ledger was given\n" in called("verify", "model").out
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
        (("--mechanism", "piecewise", "--epsilon", "8"), "piecewise needs --limit"),
        (("--epsilon", "8", "--clip", "-1"), "--clip must be a positive number"),
        (("--epsilon", "8", "--rate", "nan"), "--rate must be a positive number"),
        (("--epsilon", "8", "--delta", "nan"), "--delta was nan"),
        (("--mechanism", "tldp", "--epsilon", "8", "--span", "1"), "--span was 1"),
        (
            ("--mechanism", "tldp", "--epsilon", "8", "--retain", "x"),
            "--retain must be one of algorithm, proof",
        ),
        (
            ("--mechanism", "tldp", "--epsilon", "8", "--limit", "1", "--levels", "4"),
            "takes no --levels, --limit",
        ),
        (("--epsilon", "8", "--wait", "0"), "--wait was 0.0"),
        ((), "needs --epsilon, the budget of one client over all rounds"),
        (("--epsilon", "8", "--engine", "moon"), "--engine was 'moon'"),
        (("--epsilon", "8", "--sample", "0.5"), "--sample needs --central"),
        (("--epsilon", "8", "--central", "--sample", "0.5", "--neighbours", "replace"), "zero-out"),
        (("--epsilon", "8", "--clients", "4000"), "holds 1200 records"),
        (("--epsilon", "8", "--model", "cnn"), "cnn is for pictures"),
        (("--epsilon", "8", "--levels", "4"), "gaussian takes no --levels"),
    ],
)
def test_refusals_are_one_sentence(called, archive, more, said):
    ran = called("federate", archive, *SMALL, *more, "-o", "model", "--json")
    assert ran.code == 2
    assert said in json.loads(ran.out)["error"]
    assert ran.appeared == frozenset()


@pytest.mark.parametrize("given", ["0", "nan", "inf", "-1"])
@pytest.mark.parametrize("central", [(), ("--central",)])
def test_an_epsilon_that_is_none_is_refused_at_once(called, archive, central, given):
    ran = called("federate", archive, *SMALL, *central, "--epsilon", given, "-o", "model", "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["error"].startswith("--epsilon must be a positive number from ")
    assert ran.appeared == frozenset()


def test_the_examples_of_the_readme_and_of_the_help_run_as_they_are_printed(called, folder, digits):
    (readme,) = re.findall(
        r"^\$ (sfumato federate .*?) +#", (REPOSITORY / "README.md").read_text(), re.MULTILINE
    )
    helped = " ".join(called("federate", "--help").out.split())
    missing = called("federate").err
    example = missing.strip().removeprefix("sfumato: federate needs SOURCE, as in ").removesuffix(".")
    assert example in helped
    for number, words in enumerate((readme, example)):
        sfumato, *given = words.split()
        assert sfumato == "sfumato"
        np.savez(given[1], X=digits[0], y=digits[1])
        output = given.index("-o") + 1
        assert called(*given[:output], f"model-{number}/", *given[output + 1 :]).code == 0


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
    # Ray must not be imported before the command has said how it is kept private.
    if find_spec("ray") is None or find_spec("flwr") is None:
        pytest.skip("Ray or Flower is missing")
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


def test_clients_over_grpc_pay_and_make_the_model_of_one_process(called, archive, folder):
    """As above for the bounds: 0.04 between two models of which each parameter has noise below 0.004."""
    pytest.importorskip("flwr")
    url = f"sqlite:///{folder}/" + "{client}.db"
    budgets(url, clients=2, epsilon=1e6)
    asked = ("federate", archive, *SMALL, "--rounds", "2", "--clients", "2", "--epsilon", "1e6")
    here = called(*asked, "--json", "-o", "rounds").result
    paid = ("--dataset", "clinic", "--ledger", url)
    ran = called(*asked, *paid, "--engine", "grpc", "-o", "grpc")
    assert ran.code == 0, ran.err
    for words in ("after 2 of 2 rounds", "Paid by client-1: 2 rounds", "Paid by client-2: 2 rounds"):
        assert words in ran.out
    assert "Traceback" not in ran.err
    assert "Not used" not in ran.out
    one, other = (load_model(engine, keys=KeyRing()).learner.arrays_ for engine in ("rounds", "grpc"))
    assert here["rounds"] == 2
    for a, b in zip(one, other, strict=True):
        assert not np.array_equal(a, b)
        assert np.abs(a - b).max() < 0.04
    assert not _started()


def test_over_grpc_a_spent_budget_stops_the_run_before_the_round(called, archive, folder):
    """The client finds out in its own ledger, and its refusal keeps its meaning on the way."""
    pytest.importorskip("flwr")
    url = f"sqlite:///{folder}/" + "{client}.db"
    budgets(url, clients=2, epsilon=120.0)
    asked = ("--clients", "2", "--epsilon", "300", "--dataset", "clinic", "--ledger", url)
    ran = called("federate", archive, *SMALL, *asked, "--engine", "grpc", "-o", "model")
    assert ran.code == 0, ran.err
    assert "Stopped: stopped before round " in ran.out
    assert "was asked of 'clinic/client-" in ran.out


# Flower gives a client up that has not been heard for two intervals of 30 seconds; 10 are the least it takes.
OFTEN_HEARD = """
import sys

if any("flwr" in word or "flower" in word for word in sys.orig_argv):
    import flwr.common.constant

    flwr.common.constant.HEARTBEAT_DEFAULT_INTERVAL = 15
"""


@pytest.fixture
def often_heard(tmp_path_factory, monkeypatch):
    """Flower's processes that are started meanwhile say twice as often that they live."""
    place = tmp_path_factory.mktemp("often-heard")
    (place / "sitecustomize.py").write_text(OFTEN_HEARD)
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)


@pytest.mark.parametrize("engine", ["processes", "grpc"])
def test_a_killed_client_has_paid_and_the_others_go_on(archive, folder, engine, often_heard):
    """Two clients in processes of their own; one is killed by signal 9 while it trains, after it has paid."""
    pytest.importorskip("flwr")
    url = f"sqlite:///{folder}/" + "{client}.db"
    budgets(url, clients=2)
    terms = {
        **{"clients": 2, "rounds": 2, "mechanism": "gaussian", "epsilon": 300.0, "delta": 1e-5, "clip": 1.0},
        # So long a training leaves the time to be killed in it.
        **{"epochs": 200, "batch": 16, "rate": 0.05},
    }
    killed: list[int] = []
    telling: list[int] = []

    def kill() -> None:
        with Ledger(url.replace("{client}", "client-2")) as book:
            while not book.balance("clinic/client-2").spends:
                time.sleep(0.02)
        # The URL of a ledger may hold a password, and everybody on a machine can read command lines.
        telling.extend(pid for pid in _processes() if f"sqlite:///{folder}" in _command(pid))
        for pid in _client("client-2", engine):
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    watcher = threading.Thread(target=kill, daemon=True)
    watcher.start()
    terms |= {"classes": 10, "dataset": "clinic", "ledger": url}
    done = sf.federate(archive, "model", engine=engine, wait=150.0, keys=KeyRing(folder / "keys"), **terms)
    watcher.join(1.0)
    assert len(killed) == {"processes": 2, "grpc": 1}[engine]
    assert telling == []
    assert done.made.rounds == 2
    (missed,) = done.made.refused
    assert missed.round == 1
    assert missed.why == f"{missed.client} did not answer."
    # A SuperNode proves its client's name with its first reply; over gRPC it is known from the start.
    assert missed.client == "client-2" or (engine == "processes" and missed.client.startswith("node "))
    # It paid for the round that it was killed in, of which it may have sent something, and for no other.
    with Ledger(url.replace("{client}", "client-2")) as book:
        assert book.balance("clinic/client-2").spends == 1
    assert done.made.paid == {"client-1": 2, "client-2": 1}
    assert done.statement.parameters["rounds_paid"] == 2
    assert not _started()


def test_over_grpc_a_key_pressed_ends_the_clients_too(executable, heeding, archive, folder):
    pytest.importorskip("flwr")
    asked = ("federate", archive, *SMALL, "--clients", "2", "--epsilon", "300", "--epochs", "100000")
    process = subprocess.Popen(
        heeding(executable, *asked, "--engine", "grpc", "-o", "model"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60.0
    while len(_started(process.pid)) < 2:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    clients = _started(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60.0)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert not [pid for pid in clients if "federation_processes" in _command(pid)]
    assert not Path("model").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell of the end")
def test_over_grpc_a_server_that_is_killed_leaves_no_client_and_no_record(executable, archive, folder):
    pytest.importorskip("flwr")
    (folder / "private").mkdir()
    asked = ("federate", archive, *SMALL, "--clients", "2", "--epsilon", "300", "--epochs", "100000")
    process = subprocess.Popen(
        [executable, *asked, "--engine", "grpc", "-o", "model"],
        env=os.environ | {"TMPDIR": str(folder / "private")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 300.0
    while not _under_way(folder / "private"):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    assert {path.name for path in (folder / "private").glob("*/*.npz")} == {"client-1.npz", "client-2.npz"}
    process.kill()
    process.wait()
    until = time.monotonic() + 60.0
    # Torch keeps a folder of its own there, which stays empty.
    while (left := _of_run(folder / "private")) or [
        p for p in (folder / "private").rglob("*") if p.is_file()
    ]:
        assert time.monotonic() < until, [_command(pid) for pid in left]
        time.sleep(0.1)


def _of_run(place: Path) -> list[int]:
    """The processes whose home of Flower is in ``place``: those that a run has started, and theirs."""
    found = []
    for pid in _processes():
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if f"FLWR_HOME={place}/".encode() in told:
            found.append(pid)
    return found


def _under_way(place: Path) -> bool:
    """Whether both clients of the run in ``place`` have begun."""
    return sum("federation_processes" in _command(pid) for pid in _of_run(place)) >= 2


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _started(by: int | None = None) -> list[int]:
    """The processes of Flower, and of clients, that this process or another one has started."""
    ours = [pid for pid in _processes() if _parent(pid) == (by or os.getpid())]
    return [p for p in ours if any(name in _command(p) for name in ("flower-super", "federation_processes"))]


def _client(name: str, engine: str) -> tuple[int, ...]:
    """The process of a client, which is a child of this one; of a SuperNode also the app it has started."""
    (node,) = [pid for pid in _started() if f"/{name}." in _command(pid)]
    if engine == "grpc":
        return (node,)
    for pid in _processes():
        if "flwr-clientapp" not in _command(pid):
            continue
        above = pid
        while above not in (0, 1, node):
            above = _parent(above)
        if above == node:
            return node, pid
    raise AssertionError(f"{name} has no app running")
