"""Credentials of clients: a name is proven by a secret, or assigned by the server, and never taken on trust.

A client that could choose its name could take another one's place in a sum. So the server sends a challenge
that it has never used, and a client answers with its name and an HMAC-SHA-256 of both under the secret of
that name, which is never sent. Nobody else can prove that name, and a proof holds for one challenge.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato.learners.federated.flower_records import CONFIG, NAME

if TYPE_CHECKING:
    from flwr.app import Message

__all__ = ["CHALLENGE", "Credential", "challenge_of", "new_secret", "proven_name"]

#: Where the challenge stands in a message of the server; the answer holds a name and a proof.
CHALLENGE, _PROOF = "sfumato-challenge", "sfumato-proof"
_BYTES = 32


def new_secret() -> str:
    """Return 256 bits from the operating system, as text: a secret, or a challenge."""
    return secrets.token_hex(_BYTES)


@dataclass(frozen=True)
class Credential:
    """The public ``name`` of a client and the secret by which it proves that it is the one."""

    name: str
    secret: str = field(repr=False)

    def answer(self, challenge: str) -> dict[str, str]:
        """Return the name, and a proof that holds for this challenge and this name alone."""
        said = f"{challenge}\n{self.name}".encode()
        return {NAME: self.name, _PROOF: hmac.digest(self.secret.encode(), said, "sha256").hex()}


def challenge_of(message: Message) -> str | None:
    """Return the challenge in a message of the server, None where it holds none."""
    settings = message.content.config_records.get(CONFIG)
    challenge = None if settings is None else settings.get(CHALLENGE)
    return challenge if isinstance(challenge, str) else None


def proven_name(answer: Mapping[str, object], challenge: str, known: Mapping[str, str]) -> str | None:
    """Return the name that ``answer`` proves by one of the ``known`` secrets, None where it proves none.

    Proofs are compared in constant time.
    """
    name, proof = answer.get(NAME), answer.get(_PROOF)
    secret = known.get(name) if isinstance(name, str) else None
    if not isinstance(name, str) or secret is None or not isinstance(proof, str):
        return None
    expected = Credential(name, secret).answer(challenge)[_PROOF]
    return name if hmac.compare_digest(proof.encode(), expected.encode()) else None
