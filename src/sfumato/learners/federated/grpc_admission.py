"""Who counts as a client over gRPC: whoever proves to know the secret of a client's name.

Any process of a machine can connect to a port of it. So the server asks everybody who connects for a name and
a proof of it (see ``credentials``). Who proves nothing is no client: it is disconnected, and never asked to
train.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock, Thread

from flwr.common import Code, GetPropertiesIns
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.superlink.fleet.grpc_bidi.grpc_client_proxy import GrpcClientProxy

from sfumato.learners.federated.credentials import CHALLENGE, new_secret, proven_name

__all__ = ["Admission"]


class Admission(SimpleClientManager):
    """Flower's clients by their names, each from when it has proven to know the secret of its name.

    ``known`` holds the secrets by name. Who proves nothing within ``patience`` seconds, or proves a name that
    was proven before, is disconnected: a name is given to one connection in a run.
    """

    def __init__(self, known: Mapping[str, str], patience: float) -> None:
        super().__init__()
        self._known, self._patience = dict(known), patience
        self._one = Lock()

    def register(self, client: ClientProxy) -> bool:
        """Ask ``client`` who it is; it counts when it has answered."""
        assert isinstance(client, GrpcClientProxy)  # what the service makes for a connection
        Thread(target=self._ask, args=(client,), daemon=True).start()
        return True

    def _ask(self, client: GrpcClientProxy) -> None:
        challenge = new_secret()
        try:
            answer = client.get_properties(GetPropertiesIns({CHALLENGE: challenge}), self._patience, None)
        except Exception:  # it hung up, took too long, or sent bytes that Flower stumbles over
            client.bridge.close()
            return
        with self._one:
            said = answer.properties if answer.status.code == Code.OK else {}
            name = proven_name(said, challenge, self._known)
            if name is not None:
                del self._known[name]
        if name is None:
            client.bridge.close()
            return
        client.cid = name
        super().register(client)
