"""Key agreement: X25519, then HKDF-SHA-256 to 256-bit keys that belong to one session, purpose and pair."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.errors import BadInput

__all__ = ["MASKING", "PUBLIC_BYTES", "agreed_key", "new_private_key", "public_key_of"]

PUBLIC_BYTES = 32
#: The purpose of a key that makes the mask two clients have in common.
MASKING = b"mask"


def new_private_key() -> bytes:
    """32 bytes from the operating system: an X25519 private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private: bytes) -> bytes:
    """The 32-byte public key of ``private``."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, *, session: bytes, purpose: bytes) -> bytes:
    """The 256-bit key that the owners of ``private`` and of ``public`` both compute.

    Session, purpose and both public keys go into it, so a key made for one use is no key for another.
    """
    own = X25519PrivateKey.from_private_bytes(private)
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise BadInput("a public key was advertised that no key can be agreed with (X25519).") from None
    parties = b"".join(sorted([own.public_key().public_bytes_raw(), public]))
    # Every part has a known length or stands behind its length, so no two different contexts read alike.
    info = (
        b"sfumato secure sum\0" + bytes([len(purpose)]) + purpose + bytes([len(session)]) + session + parties
    )
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)
