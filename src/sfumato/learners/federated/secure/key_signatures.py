"""Optional: Ed25519 signatures on advertised keys, for clients that know each other's public keys beforehand.

Without them a server that does not follow the protocol may put its own keys in the place of a client's and
read what is meant for that client. An honest-but-curious server does not do so.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.key_agreement import PUBLIC_BYTES

__all__ = ["ADVERTISED_BYTES", "check_signature", "signature_of"]

_SIGNATURE_BYTES = 64
#: How long advertised keys may be: two public keys, with or without a signature behind them.
ADVERTISED_BYTES = (2 * PUBLIC_BYTES, 2 * PUBLIC_BYTES + _SIGNATURE_BYTES)


def signature_of(identity: bytes, *, session: bytes, sender: int, keys: bytes) -> bytes:
    """The signature by the 32-byte Ed25519 private key ``identity`` on what ``sender`` advertises."""
    if len(identity) != 32:
        raise BadInput(f"an identity is an Ed25519 private key of 32 bytes, and {len(identity)} were given.")
    return Ed25519PrivateKey.from_private_bytes(identity).sign(_advertised(session, sender, keys))


def check_signature(known: bytes, signature: bytes, *, session: bytes, sender: int, keys: bytes) -> None:
    """Refuse ``keys`` unless the owner of the Ed25519 public key ``known`` signed them for this session."""
    try:
        Ed25519PublicKey.from_public_bytes(known).verify(signature, _advertised(session, sender, keys))
    except (InvalidSignature, ValueError):
        raise BadInput(f"the keys advertised for client {sender} are not signed by that client.") from None


def _advertised(session: bytes, sender: int, keys: bytes) -> bytes:
    return b"sfumato secure sum: keys\0" + session + sender.to_bytes(8, "big") + keys
