"""Where the rounds run: in this process, as a Flower simulation, or as processes that talk over the network.

All of them take the same steps with the same arithmetic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated.flower_import import require_flower
from sfumato.learners.federated.rounds import Federated, federate
from sfumato.release.federated_run import FederatedRun
from sfumato.release.ray_privacy import keep_ray_private, ray_folder
from sfumato.release.round_payment import BeforeEachRound

__all__ = ["ENGINES", "Engine", "engine_of"]

#: What makes the result of a run.
Engine = Callable[[FederatedRun], Federated]


def engine_of(name: str) -> Engine:
    """The engine of that name, if there is one and what it needs is installed."""
    if name not in ENGINES:
        raise BadInput(f"`engine` was {name!r}", parameter="engine", accepted=", ".join(ENGINES))
    if name != "rounds":
        require_flower(f"`engine={name!r}`")
    return ENGINES[name]


def _rounds(run: FederatedRun) -> Federated:
    from sfumato.release.federated_training import training_of

    terms = run.terms
    clients = {name: training_of(terms, name, *share) for name, share in run.shares.items()}
    return federate(
        clients,
        terms.initial,
        terms.protection(),
        rounds=terms.rounds,
        central=terms.at_server(),
        pay=BeforeEachRound(run.budgets, terms.names),
        report=run.report,
        randomness=terms.randomness,
    )


def _simulation(run: FederatedRun) -> Federated:
    keep_ray_private()  # before Flower imports Ray
    from flwr.simulation import run_simulation

    from sfumato.learners.federated.credentials import new_secret
    from sfumato.learners.federated.server_app import make_server_app
    from sfumato.release.federation_apps import app_of_clients, place_of, strategy_of

    made: list[Federated] = []
    failed: list[SfumatoError] = []
    terms, report, text = run.terms, run.report, run.terms.to_json()
    secrets = {name: new_secret() for name in terms.names}
    with run.apart() as (_, files), ray_folder() as folder, _hushed():
        places = [place_of(name, files[name], run.budgets, terms, secrets[name]) for name in terms.names]
        clients = app_of_clients(
            lambda context: text, lambda context: places[int(context.node_config["partition-id"])]
        )

        def strategy(context: Any) -> Any:
            averaging = strategy_of(
                terms,
                run.budgets,
                waiting=run.waiting,
                secrets=secrets,
                each_round=lambda number, arrays: report(
                    f"round {number} of {terms.rounds}", number / terms.rounds
                ),
            )
            # Clients take turns here: with a deadline, a slow one would leave less time to those after it.
            averaging.timeout = None
            return averaging

        report("starting Ray", None)
        server = make_server_app(
            strategy,
            lambda context, result: made.append(result),
            lambda context, error: failed.append(error),
        )
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
    try:
        from sfumato.release.federation_grpc import run_grpc
    except ImportError as missing:
        raise BadInput(
            f"`engine='grpc'` needs Flower's older gRPC service, which this flwr does not have: {missing}.",
            parameter="engine",
        ) from None

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
