"""Counts, sums and second moments of records in cells, all in one Gaussian release on an integer grid.

Each record lies in one *cell* (its class, or a part of it) with a vector z, clipped to ‖z‖ ≤ C and rounded
toward zero to whole steps: integers k with Σk² ≤ L², checked in integers. A constant a is put before it,
k̃ = (a, k), and the record adds to the block of its cell, and to no other,

    ``moments=False``:  k̃      of length √(a² + ‖k‖²) ≤ √(a² + L²), or
    ``moments=True``:   k̃k̃ᵀ   of Frobenius length a² + ‖k‖² ≤ a² + L².

So a block holds a times the count and the sum, or a² times the count, a times the sum and the second moment.

**Guarantee.** Let R be the bound on the length above and Δ the L2 sensitivity of all blocks together.

- add/remove: one record's contribution appears: Δ = R. Zero-out: the null record lies in no cell: Δ = R.
- replace: contributions v, v′ with ‖v − v′‖² = ‖v‖² + ‖v′‖² − 2⟨v, v′⟩. In different cells ⟨v, v′⟩ = 0, so
  Δ = √2·R, the cost of the label being private. In one cell, with moments, ⟨v, v′⟩ = (k̃·k̃′)² ≥ 0, so it is
  never more; without moments v − v′ = k − k′, of length up to 2L, so Δ = max(√2·R, 2L).

All sums are integers below 2⁵³, hence exact. An entry off the diagonal stands twice in k̃k̃ᵀ: the upper
triangle with these entries times √2 has the same length, so N(0, σ²) there is N(0, σ²/2) on the entry
itself. Rounding an integer plus real noise is post-processing of the real mechanism; no slack is left.
Cells chosen from earlier releases are public here, so several such releases compose adaptively.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise import NORMAL, NoisedSums, Rounded, Stream, onto_grid
from sfumato.privacy import Neighbours

__all__ = ["CellSums", "Sums"]

Array = NDArray[np.float64]
Cells = NDArray[np.intp]

# Steps across the clip, and the constant a in steps: half the clip, which makes counts a fifth of the square
# of a moment block and costs a quarter more noise than no count at all.
_RADIUS = 1 << 12
_CONSTANT = 1 << 11
# Integer sums of this many products of k̃ stay below 2⁵².
_MOST = (1 << 52) // (_RADIUS**2 + _CONSTANT**2)

# Entries beyond it are cut to it first, so that no product of them leaves the numbers.
_FINITE = 1e300

# The noise off the diagonal, relative to that on it: √½, and no less.
_SHARE = math.nextafter(math.sqrt(0.5), 1.0)
# More than the roundings of a root and two products take away.
_HAIR = 1.0 + 2.0**-50


@dataclass(frozen=True)
class Sums:
    """Noisy sums of every cell in the units of the records, and the deviation of the noise in them.

    ``seconds`` and ``second_noise``, that of an entry off the diagonal (√2 more on it), are None and 0
    without moments.
    """

    counts: Array
    firsts: Array
    seconds: Array | None
    count_noise: float
    first_noise: float
    second_noise: float


@dataclass(frozen=True)
class CellSums:
    """The release of sums over ``cells`` cells of vectors clipped to length ``clip``."""

    cells: int
    clip: float
    moments: bool
    neighbours: Neighbours

    def bound(self) -> float:
        """The L2 sensitivity of all blocks together, in steps of the grid; a function of parameters alone."""
        square = float(_CONSTANT**2 + _RADIUS**2)
        length = square if self.moments else math.sqrt(square)
        if self.neighbours is not Neighbours.REPLACE:
            return length
        return math.sqrt(2.0) * length if self.moments else max(math.sqrt(2.0) * length, 2.0 * _RADIUS)

    def exact(self, vectors: Array, cells: Cells) -> Array:
        """The blocks without noise, in whole steps: (cells, 1+d), or (cells, 1+d, 1+d) with moments."""
        if len(vectors) > _MOST:
            raise BadInput(f"{len(vectors)} records were given: sums are exact up to {_MOST}.")
        step = self.clip / _RADIUS
        whole = np.empty((len(vectors), vectors.shape[1] + 1))
        whole[:, 0] = _CONSTANT
        # On a step of 1, so that the radius in steps is a whole number, exactly.
        with np.errstate(over="ignore"):
            scaled = np.clip(vectors / step, -_FINITE, _FINITE)
        whole[:, 1:] = onto_grid(scaled, float(_RADIUS), "l2", 1.0)
        order = np.argsort(cells, kind="stable")
        ends = np.cumsum(np.bincount(cells, minlength=self.cells))[:-1]
        groups = np.split(whole[order], ends)
        if self.moments:
            return np.stack([group.T @ group for group in groups])
        return np.stack([group.sum(axis=0) for group in groups])

    def release(self, vectors: Array, cells: Cells, multiplier: float, source: Stream | NoisedSums) -> Sums:
        """All blocks with noise of deviation ``multiplier`` times the sensitivity, drawn from ``source``."""
        if isinstance(source, Stream):
            return self._sums(self._noised(vectors, cells, multiplier, source), multiplier)
        label = b"cell sums"
        noised = source(lambda drawn: self._noised(vectors, cells, multiplier, drawn.stream(label)))
        return self._sums(noised, multiplier)

    def _noised(self, vectors: Array, cells: Cells, multiplier: float, stream: Stream) -> Array:
        """Noised blocks in whole steps, a row a cell; of moments, their upper triangles."""
        blocks = self.exact(vectors, cells)
        noise = Rounded(NORMAL, [self._sigma(multiplier)])
        if not self.moments:
            return np.asarray(blocks + noise.draw(stream, blocks.size)[0].reshape(blocks.shape))
        rows, columns = np.triu_indices(blocks.shape[1])
        upper = blocks[:, rows, columns]
        factors = np.broadcast_to(np.where(rows == columns, 1.0, _SHARE), upper.shape).reshape(-1)
        return np.asarray(upper + noise.draw(stream, upper.size, relative=factors)[0].reshape(upper.shape))

    def _sums(self, noised: Array, multiplier: float) -> Sums:
        """Noised blocks in the units of the records."""
        step, deviations = self.clip / _RADIUS, self.deviations(multiplier)
        if not self.moments:
            return Sums(noised[:, 0] / _CONSTANT, noised[:, 1:] * step, None, *deviations)
        side = math.isqrt(2 * noised.shape[1])
        rows, columns = np.triu_indices(side)
        blocks = np.empty((len(noised), side, side))
        blocks[:, rows, columns] = noised
        blocks[:, columns, rows] = noised
        return Sums(
            blocks[:, 0, 0] / _CONSTANT**2,
            blocks[:, 0, 1:] * (step / _CONSTANT),
            blocks[:, 1:, 1:] * step**2,
            *deviations,
        )

    def deviations(self, multiplier: float) -> tuple[float, float, float]:
        """The noise in counts, sums and second moments, as :class:`Sums` has it, before anything is drawn."""
        sigma, step = self._sigma(multiplier), self.clip / _RADIUS
        if not self.moments:
            return sigma / _CONSTANT, sigma * step, 0.0
        return sigma / _CONSTANT**2, _SHARE * sigma * step / _CONSTANT, _SHARE * sigma * step**2

    def _sigma(self, multiplier: float) -> float:
        return self.bound() * multiplier * _HAIR
