"""Clients over gRPC that end when they should not, and children that do not end when they should."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("flwr")

import grpc

from sfumato.errors import BadInput
from sfumato.learners.federated import Credential, new_secret
from sfumato.ledger import Ledger
from sfumato.noise import Keyed
from sfumato.release import federation_processes
from sfumato.release.client_budget import ClientBudgets, Waiting
from sfumato.release.federation import Federation
from sfumato.release.federation_engines import FederatedRun, engine_of
from sfumato.release.federation_processes import ChildProcesses

TERMS = Federation(
    clients=2, rounds=3, mechanism="gaussian", epsilon=50.0, delta=1e-5, clip=1.0, shape=(4,), classes=3
).settled()
# Whoever waited for all of it would take longer than the tests may.
WAITING = Waiting(600.0, 600.0)


@pytest.fixture
def shares():
    rng = np.random.default_rng(0)
    records = rng.normal(size=(20, 4)).astype(np.float32), np.arange(20) % 3
    return dict.fromkeys(TERMS.names, records)


@pytest.fixture
def started(monkeypatch):
    """The processes that a run has started."""
    found = []
    start = ChildProcesses.start

    def remembered(self, name, *command):
        found.append(start(self, name, *command))
        return found[-1]

    monkeypatch.setattr(ChildProcesses, "start", remembered)
    return found


def run(shares, budgets=None, waiting=WAITING, report=lambda stage, share: None, terms=TERMS):
    budgets = budgets or ClientBudgets(None, None)
    return engine_of("grpc")(FederatedRun(terms, shares, budgets, waiting, report))


def test_a_client_that_ends_before_it_connects_is_named_and_not_waited_for(shares, started, monkeypatch):
    monkeypatch.setattr(federation_processes, "_CLIENT", "sfumato.release.no_such_module")
    with pytest.raises(BadInput, match=r"^client-[12] ended with code 1 before the run began\.$"):
        run(shares)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_with_noise_at_the_server_a_client_that_ends_at_once_keeps_no_run_from_beginning(
    shares, started, monkeypatch
):
    start = ChildProcesses.start

    def first_ends(self, name, *command):
        return start(self, name, *(["false"] if name == "client-1" else command))

    monkeypatch.setattr(ChildProcesses, "start", first_ends)
    # The other one is hardly there after a second: with or without it, the run takes its course.
    done = run(shares, waiting=Waiting(1.0, 60.0), terms=replace(TERMS, central=True).settled())
    assert (done.rounds, done.stopped) == (3, None)
    assert str(done.refused[0]).endswith("appeared within 1 seconds: the run began without the others.")


def test_clients_that_do_not_connect_are_missed(shares, started, monkeypatch):
    monkeypatch.setattr(ChildProcesses, "start", _asleep(ChildProcesses.start))
    with pytest.raises(BadInput, match=r"0 of 2 clients appeared within 0\.3 seconds"):
        run(shares, waiting=Waiting(0.3, 1.0))
    assert [process.returncode for process in started] == [-signal.SIGTERM] * 2


def _asleep(start):
    return lambda self, name, *command: start(self, name, sys.executable, "-c", "import time; time.sleep(99)")


def test_a_run_whose_clients_all_end_ends_too(shares, started):
    def kill(stage, share):
        if stage.startswith("round 2"):
            for process in started:
                process.kill()
                process.wait()

    begun = time.monotonic()
    with pytest.raises(BadInput, match="all 2 clients ended before the run did"):
        run(shares, report=kill)
    assert time.monotonic() - begun < 60.0


def test_with_noise_at_the_server_the_end_of_all_clients_does_not_end_a_run():
    """Otherwise the last one of them would decide whether there is a model."""
    ended = SimpleNamespace(present=list, names=["client-1", "client-2"], central=False)
    with pytest.raises(BadInput, match="all 2 clients ended before the run did"):
        federation_processes._check(ended)
    ended.central = True
    federation_processes._check(ended)


def test_what_a_client_is_to_know_is_in_a_file_that_nobody_else_may_read(shares, started, tmp_path):
    """The URL of a ledger may hold a password, and by its secret a client proves its name."""
    url = f"sqlite:///{tmp_path}/very-secret.db"
    with Ledger(url) as book:
        for name in shares:
            book.open(f"ward/{name}", 1e4, 1e-5, "client")
    seen, own = [], []

    def look(stage, share):
        if stage.startswith("round 1"):
            for process in started:
                told = [Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
                settings = Path(process.args[-1])
                logs = [log.read_text() for log in settings.parent.glob("*.log")]
                modes = [stat.S_IMODE(path.stat().st_mode) for path in (settings.parent, settings)]
                given = json.loads(settings.read_text())
                assert given["place"]["ledger"] == url
                own.append(given["secret"])
                seen.append((b"secret" in b"".join(told), "secret" in "".join(logs), *modes))
                assert given["secret"] not in "".join([*map(repr, told), *logs])

    made = run(shares, ClientBudgets("ward", url), report=look)
    assert made.rounds == 3
    assert seen == [(False, False, 0o700, 0o600)] * 2
    assert len(set(own)) == 2
    assert not Path(started[0].args[-1]).parent.exists()


def test_a_server_that_is_cut_off_asks_again_and_clients_answer_as_before(shares, tmp_path):
    """It had the answers to round 2 and had not kept them: they are the same ones, and paid for once."""
    url = f"sqlite:///{tmp_path}/" + "{client}.db"
    for name in shares:
        with Ledger(url.replace("{client}", name)) as book:
            book.open(f"ward/{name}", 1e4, 1e-5, "client")
    folder, states = tmp_path / "run", []
    folder.mkdir(mode=0o700)
    noise = Keyed(bytes(32), dataset="run", version="1", release="r")
    federated = FederatedRun(
        *(TERMS, shares, ClientBudgets("ward", url, "run"), WAITING, lambda stage, share: None),
        keep=lambda state: states.append(state) if not states else _cut(),
        noise=noise,
        folder=folder,
    )
    with pytest.raises(KeyboardInterrupt):
        engine_of("grpc")(federated)
    logs = {name: (folder / f".{name}.run" / "sums").read_bytes() for name in TERMS.names}
    (begun,) = states
    done = engine_of("grpc")(replace(federated, begun=begun, keep=states.append))
    assert [state.rounds for state in states] == [1, 2, 3]
    assert (done.rounds, done.paid, done.refused) == (3, dict.fromkeys(TERMS.names, 3), ())
    for name, log in logs.items():
        later = (folder / f".{name}.run" / "sums").read_bytes()
        assert later.startswith(log)
        assert len(later) == len(log) * 3 // 2  # two answers were kept, and a third one was drawn
        with Ledger(url.replace("{client}", name)) as book:
            assert book.balance(f"ward/{name}").spends == 3


def _cut():
    raise KeyboardInterrupt


def test_a_stranger_that_connects_first_is_no_client(shares, started, monkeypatch):
    """A process of the same machine that found the port, says that it is client-1, and would send a model."""
    heard = []

    def look(stage, share):
        if stage.startswith("starting clients (0 of 2") and not heard:
            address = json.loads(Path(started[0].args[-1]).read_text())["server"]
            proof = tuple(Credential("client-1", new_secret()).answer(address).items())
            with grpc.insecure_channel(address) as channel:
                call = channel.stream_stream("/sfumato.Federation/Join")(iter([]), metadata=proof)
                heard.append(call.code())

    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")
    made = run(shares, report=look)
    assert heard == [grpc.StatusCode.UNIMPLEMENTED]
    assert (made.rounds, made.refused) == (3, ())


def test_a_child_that_does_not_heed_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(federation_processes, "_GRACE", 0.2)
    ignores = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    deaf = f"{ignores}; print('deaf', flush=True); time.sleep(99)"
    with ChildProcesses(tmp_path, {"OWN": "1"}) as run:
        child = run.start("deaf", sys.executable, "-c", deaf)
        until = time.monotonic() + 20.0
        while (tmp_path / "deaf.log").read_text() != "deaf\n":
            assert time.monotonic() < until
            time.sleep(0.01)
        assert os.getsid(child.pid) == child.pid
    assert child.returncode == -signal.SIGKILL


def test_children_end_with_an_interrupt_too(tmp_path):
    children = []

    def interrupted():
        with ChildProcesses(tmp_path, {}) as run:
            children.append(run.start("asleep", sys.executable, "-c", "import time; time.sleep(99)"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert children[0].returncode == -signal.SIGTERM
