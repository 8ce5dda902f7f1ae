"""The nearest neighbours of every row, exact, and how many of them two spaces share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.utility.distances import Points

__all__ = ["Nearest", "shared"]

_SPARE = 12  # candidates beyond the k that are wanted, so that float32 rarely leaves the k-th open


class Nearest:
    """A visitor of a sweep that finds the nearest neighbours of each row; ``found`` has shape (queries, k).

    For every k in ``sizes`` the first k columns of ``found`` are the k nearest neighbours by the true
    distances, the row itself left out; equal distances are taken in the order of rows. Candidates are chosen
    by float32 distances, and wherever those do not decide who is among the k, float64 decides.
    """

    def __init__(self, points: Points, queries: int, sizes: Sequence[int]) -> None:
        self._points = points
        self._sizes = sorted(sizes)
        self.found = np.empty((queries, self._sizes[-1]), dtype=np.intp)

    def visit(self, squared: NDArray[np.float32], first: int) -> None:
        """Find the neighbours of rows ``first`` … whose squared distances to all rows are ``squared``."""
        here = np.arange(len(squared))
        squared[here, first + here] = np.inf
        others = squared.shape[1] - 1
        kept = min(self._sizes[-1] + _SPARE, others)
        near = np.argpartition(squared, kept - 1, axis=1)[:, :kept]
        value = np.take_along_axis(squared, near, axis=1).astype(np.float64)
        order = np.argsort(value, axis=1)
        near, value = np.take_along_axis(near, order, axis=1), np.take_along_axis(value, order, axis=1)
        kappa, rate = self._points.error
        own = kappa * self._points.norms[first + here, None].astype(np.float64)
        slack = own + rate * value
        low, high = value - slack, value + slack

        # Both ends rise along a row, so all but those that reach into the gap at k are surely in or out.
        undecided = np.zeros(value.shape, dtype=bool)
        for k in self._sizes:
            if k < kept:
                undecided |= (high >= low[:, k, None]) & (low <= high[:, k - 1, None])
        rows, places = np.nonzero(undecided)
        value[rows, places] = self._points.exact(first + rows, near[rows, places])
        order = np.lexsort((near, value), axis=1)
        wanted = self._sizes[-1]
        self.found[first + here] = np.take_along_axis(near, order, axis=1)[:, :wanted]

        # Somebody who is no candidate might be as near as the last one wanted: look at all of the row.
        if kept < others:
            reach = high[:, wanted - 1]
            for row in np.flatnonzero(low[:, -1] <= reach):
                limit = (reach[row] + own[row, 0]) / (1.0 - rate) * (1.0 + 1e-6)
                possible = np.flatnonzero(squared[row] <= limit)
                exact = self._points.exact(np.full(len(possible), first + row), possible)
                self.found[first + row] = possible[np.argsort(exact, kind="stable")[:wanted]]


def shared(one: NDArray[np.intp], other: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """For each row the share of its first k entries in ``one`` that are also among those in ``other``."""
    both = one[:, :k, None] == other[:, None, :k]
    return np.asarray(both.any(axis=2).mean(axis=1))
