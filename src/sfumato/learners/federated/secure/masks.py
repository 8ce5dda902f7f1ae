"""Masks: the AES-256-CTR key stream of a whole 256-bit key, read as integers modulo 2^bits.

The key is the AES key itself: nothing is folded or cut, and every bit of it counts. One key makes one mask of
one session, so the counter may start at zero. That a masked vector looks uniform to whoever lacks the key is
exactly the assumption that AES-256 is a pseudo-random function; no other secrecy is claimed for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.randomness import Stream

__all__ = ["KEY_BYTES", "RINGS", "Ring", "mask", "with_masks"]

Ring = NDArray[np.unsignedinteger]

KEY_BYTES = 32
#: Sizes of the ring in bits; unsigned integers of these sizes wrap by themselves.
RINGS: dict[int, np.dtype[Any]] = {16: np.dtype("<u2"), 32: np.dtype("<u4"), 64: np.dtype("<u8")}
# Words of the key stream that are added at a time; they stay in the processor's cache.
_BLOCK = 1 << 15


def mask(key: bytes, length: int, bits: int = 64) -> Ring:
    """``length`` integers modulo 2^``bits``: the little-endian key stream of ``key`` from its beginning."""
    return with_masks(np.zeros(length, dtype=RINGS[bits]), added=[key], taken=[])


def with_masks(values: Ring, *, added: Sequence[bytes], taken: Sequence[bytes]) -> Ring:
    """``values`` plus the masks of the keys ``added``, minus those of the keys ``taken``, in a new array.

    The type of ``values``, one of ``RINGS``, says what everything is taken modulo.
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
