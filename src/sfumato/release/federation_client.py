"""A client of a federated run over gRPC, as a process: ``python -m sfumato.release.federation_client FILE``.

FILE holds JSON: ``server``, the address to connect to; ``secret``, by which the client proves its name there;
``federation``, the terms of the run; ``place``, where the client stands, as the configuration of a SuperNode
would say it. They stand in a file, and not among the arguments, since everybody on a machine can read those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flwr.app import Context, RecordDict
from flwr.client import start_client
from grpc import RpcError  # type: ignore[import-untyped]

from sfumato.learners.federated.credentials import Credential
from sfumato.learners.federated.grpc_client import GrpcClient
from sfumato.release.federation_apps import TERMS, client_app

__all__ = ["main"]


def main(file: str) -> int:
    """Answer the server that ``file`` names until it ends the connection, which is told by a code of 1."""
    told = json.loads(Path(file).read_text("utf-8"))
    context = Context(
        run_id=0,
        node_id=0,
        node_config=told["place"],
        state=RecordDict(),
        run_config={TERMS: told[TERMS]},
    )
    try:
        start_client(
            server_address=told["server"],
            client=GrpcClient(client_app, context, Credential(told["place"]["name"], told["secret"])),
            insecure=True,
            max_retries=0,
        )
    except RpcError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
