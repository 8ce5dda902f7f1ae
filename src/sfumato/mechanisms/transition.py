"""A channel from k levels to k levels, drawn with exactly the probabilities that its ε is computed from.

Every row of the transition matrix is held as whole numbers that sum to 2⁶⁴, and one 64-bit word draws from
it by an alias table (Walker 1977; Vose 1991) whose columns are a power of two in number. So the law of what
is drawn is the matrix itself, to the last bit, and

    ε = log max over y, x, x′ of q(y|x)/q(y|x′)

is the exact pure ε of one draw, under replace: no smaller one holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise import Stream

__all__ = ["MOST_LEVELS", "Transition"]

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

#: Tables of k² entries are held in memory.
MOST_LEVELS = 4096

_TOTAL = 1 << 64


@dataclass(frozen=True, eq=False)
class Transition:
    """q(y|x) = ``counts[x][y]``/2⁶⁴; rows are inputs. Every count is at least 1, so that ε is finite."""

    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def nearest(cls, probabilities: Array) -> Transition:
        """The channel whose counts come closest to ``probabilities``, (k, k) with rows that sum to 1."""
        return cls(tuple(_whole(row) for row in probabilities))

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.counts)

    @cached_property
    def epsilon(self) -> float:
        """The exact ε of one draw under replace, rounded up."""
        columns = list(zip(*self.counts, strict=True))
        ratios = [(max(column), min(column)) for column in columns]
        # Logarithms of whole numbers are correct to a few units in the last place.
        return max(math.log(high) - math.log(low) for high, low in ratios) * (1.0 + 1e-14) + 1e-13

    @cached_property
    def matrix(self) -> Array:
        """The probabilities q(y|x), as floats."""
        return np.array([[count / _TOTAL for count in row] for row in self.counts])

    def draw(self, stream: Stream, levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """One output level for each input level, all independent."""
        cuts, others, shift = self._table
        words = stream.words(levels.size).reshape(levels.shape)
        column = words >> np.uint64(shift)
        place = levels.astype(np.uint64) << np.uint64(64 - shift)
        place += column
        index = place.astype(np.int64)
        words &= np.uint64((1 << shift) - 1)
        stay = words < cuts[index]
        return np.where(stay, column.astype(np.int64), others[index])

    @cached_property
    def _table(self) -> tuple[Words, NDArray[np.int64], int]:
        """Alias tables of all rows, end to end: where to cut a column, and what lies above the cut."""
        width = 1 << max(1, (self.levels - 1).bit_length())
        shift = 64 - (width.bit_length() - 1)
        rows = [_alias(row, width, 1 << shift) for row in self.counts]
        cuts = np.array([cut for row, _ in rows for cut in row], dtype=np.uint64)
        others = np.array([other for _, row in rows for other in row], dtype=np.int64)
        return cuts, others, shift


def _whole(row: Array) -> tuple[int, ...]:
    """Whole numbers of at least 1 that sum to 2⁶⁴ and are nearest to 2⁶⁴ times ``row``."""
    if row.ndim != 1 or not np.isfinite(row).all() or (row < 0.0).any() or not 0.5 < row.sum() < 2.0:
        raise BadInput("a row of a transition matrix must hold probabilities that sum to 1.")
    counts = [max(1, int(share * 2.0**63) * 2) for share in row / row.sum()]
    # What rounding left over goes to the largest, which it changes least.
    counts[counts.index(max(counts))] += _TOTAL - sum(counts)
    return tuple(counts)


def _alias(counts: tuple[int, ...], width: int, full: int) -> tuple[list[int], list[int]]:
    """Columns of height ``full``, each filled with at most two levels: Vose's way, in whole numbers."""
    left = list(counts) + [0] * (width - len(counts))
    cuts, others = [full] * width, list(range(width))
    small = [level for level, count in enumerate(left) if count < full]
    large = [level for level, count in enumerate(left) if count > full]
    while small:
        level, giver = small.pop(), large[-1]
        cuts[level], others[level] = left[level], giver
        left[giver] -= full - left[level]
        if left[giver] <= full:
            large.pop()
            if left[giver] < full:
                small.append(giver)
    return cuts, others
