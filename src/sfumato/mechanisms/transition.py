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

# The largest float64 below 2⁶⁴.
_BELOW_ALL = 2.0**64 - 2.0**11


@dataclass(frozen=True, eq=False)
class Transition:
    """q(y|x) = ``counts[x, y]``/2⁶⁴, (k, k) words; rows are inputs.

    No count is 0, so that ε is finite, and every row sums to 2⁶⁴, which in words is 0.
    """

    counts: Words

    @classmethod
    def nearest(cls, probabilities: Array) -> Transition:
        """The channel of ``probabilities`` (k, k), with rows that sum to 1, as closely as float64 tells them.

        All but the largest of a row are rounded up: one rounded down would make ε larger than was meant.
        """
        rows, columns = probabilities.shape if probabilities.ndim == 2 else (0, 0)
        if rows != columns or rows < 2:
            raise BadInput("a transition matrix has equally many rows and columns, two or more.")
        sums = probabilities.sum(axis=1, keepdims=True)
        good = (probabilities >= 0.0).all(axis=1) & (np.abs(sums[:, 0] - 1.0) < 1e-6)
        if not good.all():
            raise BadInput("a row of a transition matrix must hold probabilities that sum to 1.")
        counts = np.clip(np.ceil(probabilities / sums * 2.0**64), 1.0, _BELOW_ALL).astype(np.uint64)
        largest = (np.arange(rows), counts.argmax(axis=1))
        # What rounding added is taken from the largest, which it changes least; words wrap around at 2⁶⁴.
        counts[largest] -= counts.sum(axis=1, dtype=np.uint64)
        return cls(counts)

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.counts)

    @cached_property
    def epsilon(self) -> float:
        """The exact ε of one draw under replace, rounded up."""
        ratios = zip(self.counts.max(axis=0).tolist(), self.counts.min(axis=0).tolist(), strict=True)
        # Logarithms of whole numbers are correct to a few units in the last place.
        return max(math.log(high) - math.log(low) for high, low in ratios) * (1.0 + 1e-14) + 1e-13

    @cached_property
    def matrix(self) -> Array:
        """The probabilities q(y|x), as floats."""
        return np.asarray(self.counts * 2.0**-64)

    def draw(self, stream: Stream, levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """One output level for each input level, all independent."""
        cuts, others, shift = self._table
        words = stream.words(levels.size).reshape(levels.shape)
        column = words >> np.uint64(shift)
        place = levels.astype(np.uint64) << np.uint64(64 - shift)
        place += column
        index = place.view(np.int64)
        words &= np.uint64((1 << shift) - 1)
        stay = words < cuts[index]
        return np.where(stay, column.view(np.int64), others[index])

    @cached_property
    def _table(self) -> tuple[Words, NDArray[np.int64], int]:
        """Alias tables of all rows, end to end: where to cut a column, and what lies above the cut."""
        width = 1 << max(1, (self.levels - 1).bit_length())
        shift = 64 - (width.bit_length() - 1)
        cuts, others = _alias(self.counts, width, np.uint64(1 << shift))
        return cuts.reshape(-1), others.reshape(-1), shift


def _alias(counts: Words, width: int, full: np.uint64) -> tuple[Words, NDArray[np.int64]]:
    """``width`` columns of height ``full`` for each row, each filled with at most two levels.

    Vose's way, in whole numbers, all rows at once: what is missing in a small column is taken from a large
    one, which may become small by that. Levels beyond those of ``counts`` are empty, and never drawn.
    """
    rows = len(counts)
    left = np.zeros((rows, width), dtype=np.uint64)
    left[:, : counts.shape[1]] = counts
    cuts, others = np.full((rows, width), full), np.tile(np.arange(width), (rows, 1))
    # Stacks of levels, one a row; the first entries of each are those that are on it.
    small, large = (np.argsort(~on, axis=1, kind="stable") for on in (left < full, left > full))
    smalls, larges = (left < full).sum(axis=1), (left > full).sum(axis=1)
    while (row := np.flatnonzero(smalls)).size:
        smalls[row] -= 1
        level, giver = small[row, smalls[row]], large[row, larges[row] - 1]
        cuts[row, level], others[row, level] = left[row, level], giver
        rest = left[row, giver] - (full - left[row, level])
        left[row, giver] = rest
        larges[row[rest <= full]] -= 1
        less = row[rest < full]
        small[less, smalls[less]] = giver[rest < full]
        smalls[less] += 1
    return cuts, others
