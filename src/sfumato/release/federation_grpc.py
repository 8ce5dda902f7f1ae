"""A federated run over gRPC: the server in this process, and each client in a process of its own.

What is started here: Flower's gRPC service, on a free port of this machine alone and without encryption, and
for each client ``federation_client``, which connects to it and answers until it is ended. Each client has a
secret of the run, in the file that it reads; who connects without one is no client (see ``grpc_admission``).
Flower ships that service and calls its client deprecated: SuperNodes speak HTTP (``federation_processes``).

A client whose process dies is noticed when its connection closes, which is at once; the others go on. What it
may have sent it has paid for, in its own ledger, before anything was drawn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flwr.app import Context, RecordDict
from flwr.common import GRPC_MAX_MESSAGE_LENGTH
from flwr.server.superlink.fleet.grpc_bidi.grpc_server import start_grpc_server

from sfumato.errors import BadInput
from sfumato.learners.federated.credentials import new_secret
from sfumato.learners.federated.grpc_admission import Admission
from sfumato.learners.federated.grpc_grid import GrpcGrid, as_server
from sfumato.learners.federated.parameter_vectors import Arrays
from sfumato.learners.federated.rounds import Federated
from sfumato.learners.federated.server_app import make_server_app
from sfumato.release.federated_run import FederatedRun
from sfumato.release.federation import Federation
from sfumato.release.federation_apps import TERMS, place_of, strategy_of
from sfumato.release.process_group import ChildProcesses

__all__ = ["run_grpc"]

_CLIENT = "sfumato.release.federation_client"
# Connections of others that do not keep clients from connecting, until they are told to go.
_STRANGERS = 16
# A proxy that the environment names for gRPC is none for this machine.
_DIRECT = {"no_grpc_proxy": "127.0.0.1"}


def run_grpc(federated: FederatedRun) -> Federated:
    """A run with a process for each client."""
    terms, budgets, report = federated.terms, federated.budgets, federated.report
    secrets = {name: new_secret() for name in terms.names}
    made: list[Federated] = []
    with (
        federated.apart() as (folder, files),
        _listening(terms, Admission(secrets, federated.waiting.patience)) as (address, grid),
        ChildProcesses(folder, _DIRECT) as run,
        as_server(),
    ):
        started = {}
        for name in terms.names:
            stands = place_of(name, files[name], budgets, terms)
            told = {"server": address, "secret": secrets[name], TERMS: terms.to_json(), "place": stands}
            settings = folder / f"{name}.json"
            settings.touch(mode=0o600)
            settings.write_text(json.dumps(told), "utf-8")
            started[name] = run.start(name, sys.executable, "-P", "-m", _CLIENT, str(settings))

        def each_round(number: int, arrays: Arrays) -> None:
            if number < terms.rounds:
                _check(grid, terms)
                report(f"round {number + 1} of {terms.rounds}", number / terms.rounds)

        strategy = strategy_of(
            terms,
            budgets,
            waiting=federated.waiting,
            known=grid.names,
            appearing=lambda found: _appearing(found, started, federated),
            each_round=each_round,
        )
        server = make_server_app(lambda context: strategy, lambda context, result: made.append(result))
        server(grid, Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={}))
        if made[0].stopped is not None and not made[0].out_of_budget:
            _check(grid, terms)
        return made[0]


@contextmanager
def _listening(terms: Federation, admission: Admission) -> Iterator[tuple[str, GrpcGrid]]:
    """Flower's service on a free port: a connection for each client, and messages of about a model's size."""
    most = 2 * sum(array.nbytes for array in terms.initial) + 2**20
    server = start_grpc_server(
        admission,
        "127.0.0.1:0",
        max_concurrent_workers=terms.clients + _STRANGERS,
        max_message_length=min(most, GRPC_MAX_MESSAGE_LENGTH),
    )
    try:
        yield server.bound_address, GrpcGrid(admission, terms.names)
    finally:
        server.stop(None).wait()


def _appearing(found: int, started: Mapping[str, subprocess.Popen[bytes]], federated: FederatedRun) -> None:
    """Tell how many clients are there; raise where one of them has ended before the run began.

    Not where the noise is the server's: the end of one must not keep a run from beginning.
    """
    for name, process in started.items():
        if process.poll() is not None and not federated.terms.central:
            raise BadInput(f"{name} ended with code {process.returncode} before the run began.")
    if found < len(started):
        federated.report(f"starting clients ({found} of {len(started)} connected)", None)
    else:
        federated.report(f"round 1 of {federated.terms.rounds}", 0.0)


def _check(grid: GrpcGrid, terms: Federation) -> None:
    """Raise where no client is left, unless the noise is the server's: the end of one must not end a run."""
    if not terms.central and not grid.get_node_ids():
        raise BadInput(f"all {terms.clients} clients ended before the run did.")
