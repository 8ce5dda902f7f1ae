"""Shamir's secret sharing of 32-byte secrets: any ``threshold`` shares give the secret, fewer give nothing.

The field has p = 2²⁵⁶ + 297 elements, the smallest prime above 2²⁵⁶, so that every 256-bit secret is one of
them. The polynomial's other coefficients are uniform; any threshold − 1 shares then have the same
distribution whatever the secret is (Shamir 1979), without any assumption about computing power.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from sfumato.errors import BadInput

__all__ = ["PRIME", "SHARE_BYTES", "secret_of", "shares_of"]

PRIME = 2**256 + 297
SHARE_BYTES = 33
_SECRET_BYTES = 32


def shares_of(secret: bytes, holders: Iterable[int], threshold: int) -> dict[int, bytes]:
    """A share of ``secret`` for each of ``holders``, which are different whole numbers below 2⁶⁴."""
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
    """The secret behind ``shares``, from ``threshold`` of them.

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
    """Where the polynomial is taken for ``name``; never 0, where the secret is."""
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
