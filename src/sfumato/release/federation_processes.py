"""A federated run over gRPC: the server in this process, and each client in a process of its own.

What is started here: Flower's gRPC service, on a free port of this machine alone and without encryption, and
for each client ``python -m sfumato.release.federation_processes FILE``, which connects to it and answers until it
is ended. FILE holds JSON: ``server``, the address to connect to; ``secret``, by which the client proves its
name there; ``federation``, the terms of the run; ``place``, where the client stands, as the configuration of
a SuperNode would say it. They stand in a file, since everybody on a machine can read arguments. Who connects
without a secret is no client (see ``grpc_grid``). Flower ships that service and calls its client deprecated:
SuperNodes speak HTTP (``federation_engines``).

A client whose process dies is noticed when its connection closes, which is at once; the others go on. What it
may have sent it has paid for, in its own ledger, before anything was drawn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context, RecordDict
from flwr.client import start_client
from flwr.serverapp import Grid
from grpc import RpcError  # type: ignore[import-untyped]

from sfumato.errors import BadInput
from sfumato.learners.federated import (
    Credential,
    Federated,
    GrpcClient,
    grpc_service,
    new_secret,
)
from sfumato.release.federation import Federation
from sfumato.release.federation_apps import TERMS, FederatedRun, client_app, write_private
from sfumato.release.federation_engines import ChildProcesses

_CLIENT = "sfumato.release.federation_processes"
# A proxy that the environment names for gRPC is none for this machine.
_DIRECT = {"no_grpc_proxy": "127.0.0.1"}


def run_grpc(federated: FederatedRun) -> Federated:
    """A run with a process for each client."""
    terms, report = federated.terms, federated.report
    secrets = {name: new_secret() for name in terms.names}
    # Messages are about as long as a model.
    longest = 2 * sum(array.nbytes for array in terms.initial) + 2**20
    with (
        federated.apart() as (folder, files),
        grpc_service(secrets, federated.waiting.patience, longest) as (address, grid),
        ChildProcesses(folder, _DIRECT) as run,
    ):
        started = {}
        for name in terms.names:
            place, settings = federated.place_of(name, files[name]), folder / f"{name}.json"
            told = {"server": address, "secret": secrets[name], TERMS: terms.to_json(), "place": place}
            write_private(settings, json.dumps(told))
            started[name] = run.start(name, sys.executable, "-P", "-m", _CLIENT, str(settings))

        def each_round(state: Federated) -> None:
            federated.keep(state)
            if state.rounds < terms.rounds:
                _check(grid, terms)
                report(f"round {state.rounds + 1} of {terms.rounds}", state.rounds / terms.rounds)

        made = federated.serve(
            grid,
            known=grid.names,
            appearing=lambda found: _appearing(found, started, federated),
            each_round=each_round,
        )
        if made.stopped is not None and not made.out_of_budget:
            _check(grid, terms)
        return made


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
        done, rounds = 0 if federated.begun is None else federated.begun.rounds, federated.terms.rounds
        federated.report(f"round {done + 1} of {rounds}", done / rounds)


def _check(grid: Grid, terms: Federation) -> None:
    """Raise where no client is left, unless the noise is the server's: the end of one must not end a run."""
    if not terms.central and not grid.get_node_ids():
        raise BadInput(f"all {terms.clients} clients ended before the run did.")


def main(file: str) -> int:
    """Answer the server that ``file`` names until it ends the connection, which is told by a code of 1."""
    told = json.loads(Path(file).read_text("utf-8"))
    config, place = {TERMS: told[TERMS]}, told["place"]
    context = Context(run_id=0, node_id=0, node_config=place, state=RecordDict(), run_config=config)
    client = GrpcClient(client_app, context, Credential(place["name"], told["secret"]))
    try:
        start_client(server_address=told["server"], client=client, insecure=True, max_retries=0)
    except RpcError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
