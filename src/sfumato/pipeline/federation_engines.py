"""Where the rounds run: in this process, as a Flower simulation, or as processes that talk over the network.

All of them take the same steps with the same arithmetic. Where clients have processes of their own, their
records are written to a folder that only their owner may read, and that is gone afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learn.federated.quiet import require_flower
from sfumato.learn.federated.rounds import Federated, federate
from sfumato.pipeline.client_budget import ClientBudgets
from sfumato.pipeline.federation import Federation
from sfumato.pipeline.paying import BeforeEachRound
from sfumato.pipeline.protected import Report
from sfumato.pipeline.ray_privacy import keep_ray_private, ray_folder
from sfumato.pipeline.waiting import Waiting

__all__ = ["ENGINES", "Shares", "run_federation"]

#: Features and labels of every client, by name.
Shares = Mapping[str, tuple[NDArray[np.floating], NDArray[np.int64]]]


def run_federation(
    engine: str, terms: Federation, shares: Shares, budgets: ClientBudgets, waiting: Waiting, report: Report
) -> Federated:
    """The result of ``terms`` (settled) on the clients' ``shares``, by the engine of that name."""
    if engine not in ENGINES:
        raise BadInput(f"--engine was {engine!r}: accepted are {', '.join(ENGINES)}.")
    if engine != "rounds":
        require_flower(f"--engine {engine}")
    return ENGINES[engine](terms, shares, budgets, waiting, report)


def _rounds(
    terms: Federation, shares: Shares, budgets: ClientBudgets, waiting: Waiting, report: Report
) -> Federated:
    from sfumato.pipeline.federated_training import training_of

    clients = {name: training_of(terms, name, *share) for name, share in shares.items()}
    return federate(
        clients,
        terms.initial,
        terms.protection(),
        rounds=terms.rounds,
        central=terms.at_server(),
        pay=BeforeEachRound(budgets, terms.names),
        report=report,
        randomness=terms.randomness,
    )


def _simulation(
    terms: Federation, shares: Shares, budgets: ClientBudgets, waiting: Waiting, report: Report
) -> Federated:
    keep_ray_private()  # before Flower imports Ray
    from flwr.simulation import run_simulation

    from sfumato.learn.federated.server_app import make_server_app
    from sfumato.pipeline.federation_apps import app_of_clients, place_of, strategy_of

    made: list[Federated] = []
    text = terms.to_json()
    with client_files(shares) as files, ray_folder() as folder, _hushed():
        places = [place_of(name, files[name], budgets, terms) for name in terms.names]
        clients = app_of_clients(
            lambda context: text, lambda context: places[int(context.node_config["partition-id"])]
        )

        def strategy(context: Any) -> Any:
            return strategy_of(
                terms,
                budgets,
                waiting=waiting,
                each_round=lambda number, arrays: report(
                    f"round {number} of {terms.rounds}", number / terms.rounds
                ),
            )

        report("starting Ray", None)
        run_simulation(
            make_server_app(strategy, lambda context, result: made.append(result)),
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
    if not made:
        raise BadInput("the simulation ended without a result; its log says why.")
    return made[0]


def _processes(
    terms: Federation, shares: Shares, budgets: ClientBudgets, waiting: Waiting, report: Report
) -> Federated:
    from sfumato.pipeline.federation_processes import run_processes

    with client_files(shares) as files:
        return run_processes(terms, files, budgets, waiting, report)


def _grpc(
    terms: Federation, shares: Shares, budgets: ClientBudgets, waiting: Waiting, report: Report
) -> Federated:
    try:
        from sfumato.pipeline.federation_grpc import run_grpc
    except ImportError as missing:
        raise BadInput(
            f"--engine grpc needs Flower's older gRPC service, which this flwr does not have: {missing}."
        ) from None

    with client_files(shares) as files, _hushed():
        return run_grpc(terms, files, budgets, waiting, report)


@contextmanager
def client_files(shares: Shares) -> Iterator[dict[str, Path]]:
    """One .npz for each client, in a folder of mode 0700 that is removed at the end."""
    with TemporaryDirectory(prefix="sfumato-clients-") as folder:
        files = {}
        for name, (features, labels) in shares.items():
            files[name] = Path(folder) / f"{name}.npz"
            np.savez(files[name], X=np.asarray(features, dtype=np.float32), y=labels)
        yield files


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


Engine = Callable[[Federation, Shares, ClientBudgets, Waiting, Report], Federated]
ENGINES: Mapping[str, Engine] = {
    "rounds": _rounds,
    "simulation": _simulation,
    "processes": _processes,
    "grpc": _grpc,
}
