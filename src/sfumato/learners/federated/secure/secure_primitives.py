"""Cryptography of secure sums: key agreement, masks, sealed boxes, Shamir's shares, and signatures.

**Key agreement**: X25519, then HKDF-SHA-256 to 256-bit keys that belong to one session, purpose and pair.

**Masks**: the AES-256-CTR key stream of a whole 256-bit key, read as integers modulo 2^bits. The key is the
AES key itself: nothing is folded or cut, and every bit of it counts. One key makes one mask of one session,
so the counter may start at zero. That a masked vector looks uniform to whoever lacks the key is exactly the
assumption that AES-256 is a pseudo-random function; no other secrecy is claimed for it.

**Sealed boxes** that clients send each other through the server: ChaCha20-Poly1305, bound to sender and
receiver.

**Shamir's secret sharing** of 32-byte secrets: any ``threshold`` shares give the secret, fewer give nothing.
The field has p = 2²⁵⁶ + 297 elements, the smallest prime above 2²⁵⁶, so that every 256-bit secret is one of
them. The polynomial's other coefficients are uniform; any threshold − 1 shares then have the same
distribution whatever the secret is (Shamir 1979), without any assumption about computing power.

**Signatures** (optional): Ed25519 on advertised keys, for clients that know each other's public keys
beforehand. Without them a server that does not follow the protocol may put its own keys in the place of a
client's and read what is meant for that client. An honest-but-curious server does not do so.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise import Stream

Ring = NDArray[np.unsignedinteger]

KEY_BYTES = 32
#: Sizes of the ring in bits; unsigned integers of these sizes wrap by themselves.
RINGS: dict[int, np.dtype[Any]] = {16: np.dtype("<u2"), 32: np.dtype("<u4"), 64: np.dtype("<u8")}
# Words of the key stream that are added at a time; they stay in the processor's cache.
_BLOCK = 1 << 15
_NONCE_BYTES = 12
PRIME = 2**256 + 297
SHARE_BYTES = 33
_SECRET_BYTES = 32
PUBLIC_BYTES = 32
#: The purpose of a key that makes the mask two clients have in common.
MASKING = b"mask"
_SIGNATURE_BYTES = 64
#: How long advertised keys may be: two public keys, with or without a signature behind them.
ADVERTISED_BYTES = (2 * PUBLIC_BYTES, 2 * PUBLIC_BYTES + _SIGNATURE_BYTES)


def with_masks(values: Ring, *, added: Sequence[bytes], taken: Sequence[bytes]) -> Ring:
    """Return ``values`` plus the masks of keys ``added``, minus those of keys ``taken``, in a new array.

    The mask of a key is its key stream from byte 0 as little-endian integers of the type of ``values``, one
    of ``RINGS``, which says what everything is taken modulo.
    """
    if values.dtype not in RINGS.values():
        raise BadInput(f"masks are added to unsigned integers of {', '.join(map(str, RINGS))} bits.")
    for key in (*added, *taken):
        if len(key) != KEY_BYTES:
            raise BadInput(f"a mask takes a key of {KEY_BYTES} bytes, and one of {len(key)} bytes was given.")
    total = values.copy()
    a_word = 8 // total.itemsize
    buffer = np.empty(_BLOCK + 2, dtype=np.uint64)
    streams = [(Stream(key), np.add) for key in added] + [(Stream(key), np.subtract) for key in taken]
    for start in range(0, total.size, _BLOCK * a_word):
        block = total[start : start + _BLOCK * a_word]
        for stream, change in streams:
            words = stream.words(-(-block.size // a_word), into=buffer)
            change(block, words.view(total.dtype)[: block.size], out=block)
    return total


def sealed(key: bytes, plain: bytes, *, session: bytes, sender: int, receiver: int) -> bytes:
    """Return ``plain`` encrypted under ``key``, bound to the session, the sender and the receiver."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, plain, _bound(session, sender, receiver))


def opened(key: bytes, box: bytes, *, session: bytes, sender: int, receiver: int) -> bytes:
    """Return what ``sender`` sealed for ``receiver``; refuse if one bit or one name differs."""
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


def shares_of(secret: bytes, holders: Iterable[int], threshold: int) -> dict[int, bytes]:
    """Return a share of ``secret`` for each of ``holders``, which are different whole numbers below 2⁶⁴."""
    names = list(holders)
    if len(secret) != _SECRET_BYTES:
        raise BadInput(f"a secret of {_SECRET_BYTES} bytes is shared, and {len(secret)} bytes were given.")
    if not 1 <= threshold <= len(names):
        raise BadInput(f"a threshold of {threshold} cannot be met by {len(names)} holders of shares.")
    if len(set(names)) < len(names):
        raise BadInput("two holders of shares have the same number.")
    polynomial = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {name: _value(polynomial, _place(name)).to_bytes(SHARE_BYTES, "big") for name in names}


def secret_of(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret behind ``shares``, from ``threshold`` of them.

    Shares that do not belong together give some other secret or, nearly always where it does not fit into
    32 bytes, an error: whoever can check the secret against something public must do so.
    """
    if len(shares) < threshold:
        raise BadInput(f"{len(shares)} shares were given, and {threshold} are needed to find a secret.")
    used = dict(sorted(shares.items())[:threshold])
    places = [_place(name) for name in used]
    total = 0
    for name, share in used.items():
        at = _place(name)
        above = below = 1
        for other in places:
            if other != at:
                above = above * other % PRIME
                below = below * (other - at) % PRIME
        total += _number(share) * above * pow(below, -1, PRIME)
    total %= PRIME
    if total >> 256:
        raise BadInput("the shares that were given do not belong to one secret.")
    return total.to_bytes(_SECRET_BYTES, "big")


def _place(name: int) -> int:
    """Return the point at which the polynomial is taken for ``name``; never 0, where the secret is."""
    if not 0 <= name < 2**64:
        raise BadInput(f"a holder of shares has the number {name}: numbers from 0 to 2⁶⁴ − 1 are taken.")
    return name + 1


def _value(polynomial: list[int], at: int) -> int:
    total = 0
    for coefficient in reversed(polynomial):
        total = (total * at + coefficient) % PRIME
    return total


def _number(share: bytes) -> int:
    number = int.from_bytes(share, "big")
    if len(share) != SHARE_BYTES or number >= PRIME:
        raise BadInput(
            f"a share is a number below the prime, in {SHARE_BYTES} bytes; something else was given."
        )
    return number


def new_private_key() -> bytes:
    """Return 32 bytes from the operating system: an X25519 private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private: bytes) -> bytes:
    """Return the 32-byte public key of ``private``."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, *, session: bytes, purpose: bytes) -> bytes:
    """Return the 256-bit key that the owners of ``private`` and of ``public`` both compute.

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


def signature_of(identity: bytes, *, session: bytes, sender: int, keys: bytes) -> bytes:
    """Return the signature by the 32-byte Ed25519 private key ``identity`` on what ``sender`` advertises."""
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
