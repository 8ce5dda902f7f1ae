"""Boxes that clients send each other through the server: ChaCha20-Poly1305, bound to who writes to whom."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sfumato.errors import BadInput

__all__ = ["opened", "sealed"]

_NONCE_BYTES = 12


def sealed(key: bytes, plain: bytes, *, session: bytes, sender: int, receiver: int) -> bytes:
    """``plain`` under ``key``, bound to the session and to who writes to whom."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, _bound(session, sender, receiver))


def opened(key: bytes, box: bytes, *, session: bytes, sender: int, receiver: int) -> bytes:
    """What ``sender`` sealed for ``receiver``; refused if one bit or one name differs."""
    if len(box) >= _NONCE_BYTES:
        try:
            return ChaCha20Poly1305(key).decrypt(
                box[:_NONCE_BYTES], box[_NONCE_BYTES:], _bound(session, sender, receiver)
            )
        except InvalidTag:
            pass
    raise BadInput(
        f"what client {sender} sealed for client {receiver} was changed on the way or is of another session."
    )


def _bound(session: bytes, sender: int, receiver: int) -> bytes:
    return session + sender.to_bytes(8, "big") + receiver.to_bytes(8, "big")
