"""What a stretch of pixels shares with the blocks that an axis is cut into.

Two axes of such stretches make every square that can be the worst one: see ``placements`` for why it is
enough to look where an end of a stretch meets an end of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Axis", "Stretches"]

Array = NDArray[np.float64]
Whole = NDArray[np.int64]


class Axis:
    """``size`` pixels cut into pieces wherever a block of any of the sizes ``blocks`` begins.

    ``edges`` (pieces + 1,) are the cuts and both ends; ``owners`` holds, for each size, the index of the
    block that each piece lies in, and ``ends`` where that block begins and ends.
    """

    def __init__(self, size: int, blocks: Sequence[int]) -> None:
        cuts = [np.arange(0, size, block, dtype=np.int64) for block in set(blocks)]
        self.edges: Whole = np.unique(np.concatenate([*cuts, np.array([size], dtype=np.int64)]))
        self.lengths: Whole = np.diff(self.edges)
        self.owners: list[Whole] = [self.edges[:-1] // block for block in blocks]
        self.ends: list[tuple[Whole, Whole]] = [
            (owner * block, np.minimum((owner + 1) * block, size))
            for owner, block in zip(self.owners, blocks, strict=True)
        ]


class Stretches:
    """Stretches of ``size`` pixels inside an axis, from every start where one of their ends meets a cut.

    A ``size`` beyond the axis means all of it. ``last`` leaves out the starts beyond it. ``pieces``
    (starts, k) holds the pieces that each stretch touches, ``overlap`` (starts, k) how many pixels of each.
    """

    def __init__(self, axis: Axis, size: int, last: int | None = None) -> None:
        self._axis, whole = axis, int(axis.edges[-1])
        self.size = min(size, whole)
        latest = whole - self.size if last is None else min(last, whole - self.size)
        starts = np.unique(np.concatenate([axis.edges, axis.edges - self.size]))
        self.starts: Whole = starts[(starts >= 0) & (starts <= latest)]
        first = np.searchsorted(axis.edges, self.starts, side="right") - 1
        after = np.searchsorted(axis.edges, self.starts + self.size, side="left")
        reach = first[:, None] + np.arange(int((after - first).max()))
        self.pieces = np.minimum(reach, len(axis.lengths) - 1)
        inside = self._shared(axis.edges[:-1], axis.edges[1:])
        self.overlap: Array = np.where(reach < len(axis.lengths), inside, 0.0)

    def of_blocks(self, kind: int) -> Array:
        """How many pixels each stretch shares with the block, of the size number ``kind``, of each piece."""
        return self._shared(*self._axis.ends[kind])

    def sums(self, values: Array) -> Array:
        """Σ overlap · value over the pieces that each stretch touches; ``values`` is (pieces, columns)."""
        return self._sums(self.overlap, values)

    def square_sums(self, values: Array) -> Array:
        """Σ overlap² · value over the pieces that each stretch touches; ``values`` is (pieces, columns)."""
        return self._sums(np.square(self.overlap), values)

    def _sums(self, weights: Array, values: Array) -> Array:
        # Sums of positive terms; differences of running sums would be faster but lose digits to cancellation.
        total = np.zeros((len(self.starts), values.shape[1]))
        for weight, piece in zip(weights.T, self.pieces.T, strict=True):
            total += weight[:, None] * values[piece]
        return total

    def _shared(self, low: Whole, high: Whole) -> Array:
        start = self.starts[:, None]
        common = np.minimum(high[self.pieces], start + self.size) - np.maximum(low[self.pieces], start)
        return np.asarray(np.maximum(common, 0), dtype=np.float64)
