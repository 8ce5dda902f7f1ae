"""Who counts as a client over gRPC: whoever proves to know the secret of a client's name.

Any process of a machine can connect to a port of it. So the server asks everybody who connects, by a
challenge that it has never used, for a name and an HMAC-SHA-256 of both under that name's secret; the secret
itself is never sent. Who proves nothing is no client: it is disconnected, and never asked to train.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock, Thread

from flwr.common import Code, GetPropertiesIns, GetPropertiesRes, Scalar
from flwr.server import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.superlink.fleet.grpc_bidi.grpc_client_proxy import GrpcClientProxy

from sfumato.learn.federated.flower import NAME

__all__ = ["CHALLENGE", "Admission", "Credential", "new_secret"]

#: Where the challenge stands in a question for properties; the answer holds a name and a proof.
CHALLENGE, _PROOF = "sfumato-challenge", "sfumato-proof"
_BYTES = 32


def new_secret() -> str:
    """A secret of 256 bits from the operating system, as text."""
    return secrets.token_hex(_BYTES)


@dataclass(frozen=True)
class Credential:
    """The public ``name`` of a client and the secret by which it proves that it is the one."""

    name: str
    secret: str = field(repr=False)

    def answer(self, challenge: str) -> dict[str, Scalar]:
        """The name, and a proof that holds for this challenge and this name alone."""
        said = f"{challenge}\n{self.name}".encode()
        return {NAME: self.name, _PROOF: hmac.digest(self.secret.encode(), said, "sha256").hex()}


class Admission(SimpleClientManager):
    """Flower's clients by their names, each from when it has proven to know the secret of its name.

    ``known`` holds the secrets by name. Who proves nothing within ``patience`` seconds, or proves a name that
    was proven before, is disconnected: a name is given to one connection in a run. Proofs are compared in
    constant time.
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
        name = self._proven(answer, challenge)
        with self._one:
            secret = None if name is None else self._known.pop(name, None)
        if name is None or secret is None:
            client.bridge.close()
            return
        client.cid = name
        super().register(client)

    def _proven(self, answer: GetPropertiesRes, challenge: str) -> str | None:
        """The name that ``answer`` proves, None where it proves none."""
        name, proof = answer.properties.get(NAME), answer.properties.get(_PROOF)
        if answer.status.code != Code.OK or not isinstance(name, str) or not isinstance(proof, str):
            return None
        secret = self._known.get(name)
        if secret is None:
            return None
        expected = str(Credential(name, secret).answer(challenge)[_PROOF])
        return name if hmac.compare_digest(proof.encode(), expected.encode()) else None
