"""A federated run over gRPC: the server in this process, and each client in a process of its own.

What is started here: Flower's gRPC service, on a free port of this machine alone and without encryption, and
for each client ``federation_client``, which connects to it and answers until it is ended. Flower ships that
service and calls its client deprecated: SuperNodes speak HTTP (see ``federation_processes``).

A client whose process dies is noticed when its connection closes, which is at once; the others go on. What it
may have sent it has paid for, in its own ledger, before anything was drawn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from flwr.app import Context, RecordDict
from flwr.common import GRPC_MAX_MESSAGE_LENGTH
from flwr.server import SimpleClientManager
from flwr.server.superlink.fleet.grpc_bidi.grpc_server import start_grpc_server

from sfumato.errors import BadInput
from sfumato.learn.federated.grpc_grid import GrpcGrid, as_server
from sfumato.learn.federated.parameters import Arrays
from sfumato.learn.federated.rounds import Federated
from sfumato.learn.federated.server_app import make_server_app
from sfumato.pipeline.child_processes import ChildProcesses
from sfumato.pipeline.client_budget import ClientBudgets
from sfumato.pipeline.federation import Federation
from sfumato.pipeline.federation_apps import TERMS, place_of, strategy_of
from sfumato.pipeline.protected import Report
from sfumato.pipeline.waiting import Waiting

__all__ = ["run_grpc"]

_CLIENT = "sfumato.pipeline.federation_client"
_POLL = 0.05
# A proxy that the environment names for gRPC is none for this machine.
_DIRECT = {"no_grpc_proxy": "127.0.0.1"}


def run_grpc(
    terms: Federation,
    files: Mapping[str, Path],
    budgets: ClientBudgets,
    waiting: Waiting,
    report: Report,
) -> Federated:
    """Run ``terms`` with a process for each client; ``files`` are the clients' records."""
    made: list[Federated] = []
    with (
        TemporaryDirectory(prefix="sfumato-federation-") as place,
        _listening(terms) as (address, grid),
        ChildProcesses(Path(place), _DIRECT) as run,
        as_server(),
    ):
        started = {}
        for name in terms.names:
            settings = Path(place) / f"{name}.json"
            stands = place_of(name, files[name], budgets, terms)
            told = {"server": address, TERMS: terms.to_json(), "place": stands}
            settings.write_text(json.dumps(told), "utf-8")
            started[name] = run.start(name, sys.executable, "-P", "-m", _CLIENT, str(settings))
        _connected(grid, started, waiting.patience, report)
        report(f"round 1 of {terms.rounds}", 0.0)

        def each_round(number: int, arrays: Arrays) -> None:
            if number < terms.rounds:
                _check(grid, terms)
                report(f"round {number + 1} of {terms.rounds}", number / terms.rounds)

        strategy = strategy_of(terms, budgets, waiting=waiting, each_round=each_round)
        server = make_server_app(lambda context: strategy, lambda context, result: made.append(result))
        server(grid, Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={}))
        if made[0].stopped is not None and not made[0].out_of_budget:
            _check(grid, terms)
        return made[0]


@contextmanager
def _listening(terms: Federation) -> Iterator[tuple[str, GrpcGrid]]:
    """Flower's service on a free port: a connection for each client, and messages of about a model's size."""
    most = 2 * sum(array.nbytes for array in terms.initial) + 2**20
    manager = SimpleClientManager()
    server = start_grpc_server(
        manager,
        "127.0.0.1:0",
        max_concurrent_workers=terms.clients,
        max_message_length=min(most, GRPC_MAX_MESSAGE_LENGTH),
    )
    try:
        yield server.bound_address, GrpcGrid(manager)
    finally:
        server.stop(None).wait()


def _connected(
    grid: GrpcGrid, started: Mapping[str, subprocess.Popen[bytes]], patience: float, report: Report
) -> None:
    """Wait until all clients are connected; raise where one of them ends before, or takes too long."""
    until = time.monotonic() + patience
    while len(found := grid.get_node_ids()) < len(started):
        for name, process in started.items():
            if process.poll() is not None:
                raise BadInput(f"{name} ended with code {process.returncode} before the run began.")
        report(f"starting clients ({len(found)} of {len(started)} connected)", None)
        if time.monotonic() > until:
            raise BadInput(f"{len(found)} of {len(started)} clients appeared within {patience:g} seconds.")
        time.sleep(_POLL)


def _check(grid: GrpcGrid, terms: Federation) -> None:
    """Raise where no client is left."""
    if not grid.get_node_ids():
        raise BadInput(f"all {terms.clients} clients ended before the run did.")
