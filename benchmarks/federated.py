"""Federated MNIST on Flower: 3 clients, rounds of one epoch, with privacy and without, taking turns.

One Flower simulation of 20 rounds. In every second round clients clip and perturb their updates in the mod,
and pay for it in a ledger before that; in the others parameters leave as they are. All else is the same, so
that the medians of both kinds of round can be compared on a machine that is shared. Beside it the best of two
whole runs of each kind by the command, from its start to the kept model.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from sfumato.learners.federated import (
    Federated,
    FlowerClients,
    LocalTraining,
    PrivacyMod,
    federate,
    make_client_app,
)
from sfumato.ledger import Ledger
from sfumato.release import ClientBudgets, Federation
from timing import Row, interleaved

CLIENTS, ROUNDS, EPSILON, DELTA = 3, 10, 1000.0, 1e-5
TARGET = 1.10


def measure() -> list[Row]:
    """The median time of a round with privacy over that of one without."""
    place = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    if not (place / "mnist.npz").exists():
        return [Row("federated: no MNIST; SFUMATO_DATA names its folder", "skipped", 0.0)]
    times = _times(place / "mnist.npz")
    private, plain = times[0::2], times[1::2]
    ratio = median(private) / median(plain)
    name = f"MNIST, {CLIENTS} clients, {ROUNDS} rounds of each kind: with privacy over without"
    runs = {kind: partial(_run, place / "mnist.npz", kind) for kind in ("gaussian", "none")}
    whole = interleaved(runs, rounds=2)
    told = f"{whole['gaussian']:.1f} s a run"
    return [
        Row(name, f"{median(private):.2f} s a round", ratio, at_most=TARGET),
        Row(
            "the same by the command, linear model, 10 rounds: whole runs",
            told,
            whole["gaussian"] / whole["none"],
            at_most=TARGET,
        ),
    ]


def _run(file: Path, mechanism: str) -> None:
    """``sfumato federate`` on Flower's simulation."""
    promise = ("--epsilon", str(EPSILON), "--clip", "1") if mechanism != "none" else ()
    with TemporaryDirectory() as folder:
        data = np.load(file)
        np.savez(f"{folder}/mnist.npz", X=data["x_train"], y=data["y_train"])
        command = [str(Path(sys.executable).with_name("sfumato")), "federate", f"{folder}/mnist.npz"]
        options = ("-o", f"{folder}/model", "--classes", "10", "--clients", "3", "--rounds", "10")
        engine = ("--engine", "simulation", "--mechanism", mechanism, *promise, "--json")
        subprocess.run([*command, *options, *engine], check=True, capture_output=True)


def _times(file: Path) -> list[float]:
    """Seconds of each round; the first and every second one after it are private."""
    data = np.load(file)
    pixels = (data["x_train"].reshape(-1, 784) / 255.0 - 0.5).astype(np.float32)
    labels = data["y_train"].astype(np.int64)
    terms = Federation(
        clients=CLIENTS,
        # Two more, which warm up: processes of Ray import everything in their first round.
        rounds=2 * ROUNDS + 2,
        mechanism="gaussian",
        epsilon=EPSILON,
        delta=DELTA,
        clip=1.0,
        rate=0.1,
        model="cnn",
        shape=(28, 28),
        classes=10,
        factor=2.0,
    ).settled(budget=True)
    shares = {name: (pixels[i::CLIENTS], labels[i::CLIENTS]) for i, name in enumerate(terms.names)}
    ends: list[float] = []
    made: list[Federated] = []
    with TemporaryDirectory() as folder:
        for name, (features, marks) in shares.items():
            np.savez(f"{folder}/{name}.npz", X=features, y=marks)
        budgets = ClientBudgets("mnist", f"sqlite:///{folder}/budget.db", "run")
        with Ledger(f"sqlite:///{folder}/budget.db") as ledger:
            for name in terms.names:
                ledger.open(f"mnist/{name}", EPSILON, DELTA, "client")

        server = ServerApp()

        @server.main()
        def serve(grid: Grid, context: Context) -> None:
            done = federate(
                FlowerClients(grid, terms.names, rounds=terms.rounds, timeout=None),
                terms.initial,
                terms.protection(),
                rounds=terms.rounds,
                each_round=lambda state: ends.append(time.perf_counter()),
            )
            made.append(done)

        logging.getLogger("flwr").setLevel(logging.ERROR)
        run_simulation(
            server,
            _clients(terms, folder, budgets),
            num_supernodes=CLIENTS,
            backend_config={
                "init_args": {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False},
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    assert made[0].rounds == terms.rounds
    assert not made[0].refused
    return np.diff(ends)[1:].tolist()


@lru_cache(maxsize=CLIENTS)
def _training(text: str, name: str, folder: str) -> LocalTraining:
    """The training of one client, kept for the next round."""
    terms = Federation.from_json(text)
    with np.load(f"{folder}/{name}.npz") as held:
        return LocalTraining(terms.classifier().make, held["X"], held["y"], rate=terms.rate)


def _clients(terms: Federation, folder: str, budgets: ClientBudgets) -> Any:
    """The app of the clients; they protect what they send in odd rounds."""
    text = terms.to_json()

    def name_of(context: Context) -> str:
        return terms.names[int(context.node_config["partition-id"])]

    def mod_of(context: Context) -> Any:
        name = name_of(context)

        def pay(number: int, guarantee: Any) -> None:
            budgets.pay(name, number, guarantee)

        private = PrivacyMod(terms.protection(), name=name, pay=pay)

        def mod(message: Message, context: Context, call_next: Any) -> Message:
            odd = int(message.content.config_records["config"]["server-round"]) % 2
            return private(message, context, call_next) if odd else call_next(message, context)

        return mod

    return make_client_app(lambda context: _training(text, name_of(context), folder), mod_of)


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value}, ratio {row.ratio:.3f} ({row.target})")
