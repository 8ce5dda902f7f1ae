"""Squared distances between rows by matrix products, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.learners.examples import Floats

__all__ = ["squared_distances", "within"]

# Distances held at once: 32 MB of them.
_CELLS = 1 << 22


def squared_distances(
    rows: NDArray[np.floating], points: NDArray[np.floating]
) -> Iterator[tuple[slice, Floats]]:
    """Blocks (where, ‖row − point‖²) that cover all ``rows`` (n, p) against all ``points`` (m, p).

    Computed in float64 around the mean of the points, so that features far from the origin lose no digits.
    """
    centre = points.mean(axis=0, dtype=np.float64)
    around = points - centre
    lengths = np.einsum("ij,ij->i", around, around)
    size = max(1, _CELLS // len(points))
    for first in range(0, len(rows), size):
        where = slice(first, min(first + size, len(rows)))
        block = rows[where] - centre
        found = block @ around.T
        found *= -2.0
        found += lengths
        found += np.einsum("ij,ij->i", block, block)[:, None]
        yield where, np.maximum(found, 0.0, out=found)


def within(points: NDArray[np.floating]) -> Floats:
    """The distances of all pairs of different ``points`` (m, p), m(m − 1)/2 of them."""
    first, second = np.triu_indices(len(points), 1)
    whole = np.concatenate([block for _, block in squared_distances(points, points)])
    return np.asarray(np.sqrt(whole[first, second]))
