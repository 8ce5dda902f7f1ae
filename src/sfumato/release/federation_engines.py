"""What every engine of a federated run is given, the states of a run as bytes, and the engines by name.

All engines take the same steps with the same arithmetic: in this process, as a Flower simulation, or as
processes (``federation_processes``). What the last ones need of Flower is imported when they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import private_folder
from sfumato.learners.federated import (
    Federated,
    LocalTraining,
    Refused,
    federate,
    layers_from_bytes,
    layers_to_bytes,
)
from sfumato.noise import Keyed, Randomness
from sfumato.release.client_budget import ClientBudgets, Waiting
from sfumato.release.federation import Federation
from sfumato.release.path import Report
from sfumato.release.ray_engine import keep_ray_private, ray_folder

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import Grid

    from sfumato.learners.federated import RemoteClients

#: Features and labels of every client, by name.
Shares = Mapping[str, tuple[NDArray[np.floating], NDArray[np.int64]]]
#: Where a client's owner says which terms it answers: their digest.
ACCEPT = "accept"


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """Settled ``terms``, every client's records, what clients pay from, and how long they are waited for.

    A run that can be resumed goes on after the state ``begun``; ``keep`` makes the state after a round
    durable, and is called before anybody uses it. ``noise`` is the server's, and ``folder`` where clients in
    processes of their own keep their answers.
    """

    terms: Federation
    shares: Shares
    budgets: ClientBudgets
    waiting: Waiting
    report: Report
    begun: Federated | None = None
    keep: Callable[[Federated], None] = lambda state: None
    noise: Keyed | None = None
    folder: Path | None = None

    @property
    def done(self) -> int:
        """How many rounds were finished before."""
        return 0 if self.begun is None else self.begun.rounds

    @contextmanager
    def apart(self) -> Iterator[tuple[Path, dict[str, Path]]]:
        """A private folder for processes of clients, and in it an .npz with the records of each of them.

        The folder is gone afterwards, also where this process is killed.
        """
        with private_folder("sfumato-federation-") as folder:
            files = {name: folder / f"{name}.npz" for name in self.shares}
            for name, (features, labels) in self.shares.items():
                np.savez(files[name], X=np.asarray(features, dtype=np.float32), y=labels)
            yield folder, files

    def place_of(self, name: str, file: Path, secret: str = "") -> dict[str, str]:
        """Where the client ``name`` stands, as the configuration of its node says it."""
        place = {"name": name, "file": str(file), ACCEPT: self.terms.digest(), **self.budgets.settings()}
        if secret:
            place["secret"] = secret
        if self.folder is not None and not self.terms.central:
            place["checkpoint"] = str(self.folder / name)
        return place

    def remote(self, **options: Any) -> dict[str, Any]:
        """Return the options of clients in other processes, and further ones."""
        terms = self.terms
        return {"rounds": terms.rounds, "central": terms.central, **asdict(self.waiting), **options}

    def federate(self, clients: Mapping[str, LocalTraining] | RemoteClients, **options: Any) -> Federated:
        """Run all rounds that are left of ``clients``; ``options`` are further ones of ``federate``.

        Clients in other processes pay by themselves, unless it is the server that adds the noise.
        """
        terms = self.terms
        pays = terms.central or isinstance(clients, Mapping)
        return federate(
            clients,
            terms.initial,
            terms.protection(),
            rounds=terms.rounds,
            central=terms.at_server(),
            pay=partial(self.budgets.pay_all, terms.names) if pays else None,
            randomness=terms.randomness or self.noise,
            begun=self.begun,
            **{"each_round": self.keep} | options,
        )


def pack_state(made: Federated) -> bytes:
    """Return the state of a run as bytes; what its terms say is left out."""
    told = {
        "rounds": made.rounds,
        "paid": dict(made.paid),
        "refused": [asdict(one) for one in made.refused],
        "stopped": made.stopped,
        "out_of_budget": made.out_of_budget,
    }
    return layers_to_bytes(told, made.arrays)


def unpack_state(packed: bytes, terms: Federation) -> Federated:
    """Return the state that :func:`pack_state` wrote for a run by ``terms``."""
    told, arrays = layers_from_bytes(packed)
    told["refused"] = tuple(Refused(**one) for one in told["refused"])
    return Federated(arrays=arrays, guarantee=terms.round_guarantee(), **told)


def never_drawn(randomness: Randomness) -> NDArray[Any]:
    """Raise: what is kept is not drawn again."""
    raise AssertionError("what is kept is not drawn again")


Engine = Callable[[FederatedRun], Federated]


def engine_of(name: str) -> Engine:
    """The engine of that name, if there is one and what it needs is installed."""
    if name not in ENGINES:
        raise BadInput(f"`engine` was {name!r}", parameter="engine", accepted=", ".join(ENGINES))
    if name != "rounds":
        from sfumato.learners.federated import require_flower

        require_flower(f"`engine={name!r}`")
    return ENGINES[name]


def training_of(terms: Federation, name: str, features: Any, labels: Any) -> LocalTraining:
    """The training of client ``name`` on its own records."""
    return LocalTraining(
        terms.classifier().make,
        np.asarray(features, dtype=np.float32),
        labels,
        epochs=terms.epochs,
        batch=terms.batch,
        rate=terms.rate,
        seed=terms.seed + terms.names.index(name),
    )


def _rounds(run: FederatedRun) -> Federated:
    terms = run.terms
    clients = {name: training_of(terms, name, *share) for name, share in run.shares.items()}
    return run.federate(clients, report=run.report)


def _simulation(run: FederatedRun) -> Federated:
    keep_ray_private()  # before Flower imports Ray
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from sfumato.learners.federated import FlowerClients, new_secret
    from sfumato.release.federation_apps import app_of_clients

    made: list[Federated] = []
    failed: list[SfumatoError] = []
    terms, report, text = run.terms, run.report, run.terms.to_json()
    secrets = {name: new_secret() for name in terms.names}
    with run.apart() as (_, files), ray_folder() as folder, _hushed():
        places = [run.place_of(name, files[name], secrets[name]) for name in terms.names]
        clients = app_of_clients(
            lambda context: text, lambda context: places[int(context.node_config["partition-id"])]
        )

        def kept(state: Federated) -> None:
            run.keep(state)
            report(f"round {state.rounds} of {terms.rounds}", state.rounds / terms.rounds)

        server = ServerApp()

        @server.main()
        def serve(grid: Grid, context: Context) -> None:
            # Clients take turns here: with a deadline, a slow one would leave less time to those after it.
            found = FlowerClients(grid, terms.names, secrets=secrets, **run.remote(timeout=None))
            try:
                made.append(run.federate(found, each_round=kept))
            except SfumatoError as error:
                failed.append(error)
                raise

        report("starting Ray", None)
        try:
            run_simulation(
                server,
                clients,
                num_supernodes=terms.clients,
                backend_config={
                    "init_args": {
                        "num_cpus": 2,
                        "include_dashboard": False,
                        "log_to_driver": False,
                        "_temp_dir": folder,
                    },
                    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                },
            )
        except Exception:
            # Flower raises an error of its own where the server's app has raised one.
            if not failed:
                raise
    if failed:
        raise failed[0]
    if not made:
        raise BadInput("the simulation ended without a result; its log says why.")
    return made[0]


def _processes(run: FederatedRun) -> Federated:
    from sfumato.release.federation_processes import run_processes

    return run_processes(run)


def _grpc(run: FederatedRun) -> Federated:
    from sfumato.release.federation_processes import run_grpc

    with _hushed():
        return run_grpc(run)


@contextmanager
def _hushed() -> Iterator[None]:
    """What Flower and gRPC tell of a run is for those who run Flower; a lost client is told in a sentence."""
    levels = {logging.getLogger("flwr"): logging.ERROR, logging.getLogger("grpc"): logging.CRITICAL}
    before = {logger: logger.level for logger in levels}
    for logger, level in levels.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


ENGINES: Mapping[str, Engine] = {
    "rounds": _rounds,
    "simulation": _simulation,
    "processes": _processes,
    "grpc": _grpc,
}
