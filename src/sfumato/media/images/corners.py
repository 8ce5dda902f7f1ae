"""The worst colours of pixels that may change: corners of the cube of colour differences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["at_corners", "dearest", "largest"]

Array = NDArray[np.float64]


def at_corners(colour: Sequence[float]) -> Array:
    """c·v for every corner v ∈ {−1, 1}^channels, one of each pair ±v; the first has all signs positive."""
    corners = [(1.0, *signs) for signs in itertools.product((1.0, -1.0), repeat=len(colour) - 1)]
    return np.asarray(np.array(corners) @ np.array(colour, dtype=np.float64))


def dearest(strengths: Sequence[Array], costs: Sequence[Array]) -> Array:
    """max_v Σ_i strengths[i][v] · costs[i], place by place; corner by corner, so that memory stays small."""
    worst: Array | None = None
    for corner in zip(*strengths, strict=True):
        total = corner[0] * costs[0]
        for strength, cost in zip(corner[1:], costs[1:], strict=True):
            total = total + strength * cost
        worst = total if worst is None else np.maximum(worst, total)
    return np.asarray(worst)


def largest(values: Array, counts: NDArray[np.int64], wanted: int) -> float:
    """The sum of the ``wanted`` largest values, each of which is there ``counts`` times."""
    order = np.argsort(values, axis=None)[::-1]
    ordered, each = values.ravel()[order], counts.ravel()[order]
    taken = np.clip(wanted - (np.cumsum(each) - each), 0, each)
    return float((ordered * taken).sum())
