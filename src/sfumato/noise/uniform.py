"""Exact uniform choices: integers below k, coins of a given weight, and permutations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.randomness import Stream

__all__ = ["below", "coins", "permutation"]


def below(stream: Stream, bound: int, count: int) -> NDArray[np.int64]:
    """``count`` integers, exactly uniform on 0 … bound−1; words that would favour some are redrawn."""
    largest = np.uint64((1 << 64) // bound * bound - 1)
    words = stream.words(count)
    favoured = np.flatnonzero(words > largest)
    while favoured.size:
        words[favoured] = stream.again(favoured, count)
        favoured = favoured[words[favoured] > largest]
    return (words % np.uint64(bound)).astype(np.int64)


def coins(stream: Stream, threshold: int, count: int) -> NDArray[np.bool_]:
    """``count`` coins that fall True with probability exactly ``threshold``/2⁶⁴, 0 ≤ threshold < 2⁶⁴."""
    return stream.words(count) < np.uint64(threshold)


def permutation(stream: Stream, count: int) -> NDArray[np.intp]:
    """A uniform permutation of 0 … count−1: the order of distinct random words."""
    words = stream.words(count)
    while np.unique(words).size < count:
        words = stream.words(count)
    return np.argsort(words)
