"""Exact draws of a public random vector, given on which side of a cap around a private direction it falls.

The public law B: d independent normals, each rounded to a grid of step h = 2⁻¹⁸ (exactly: see ``noise``),
drawn again while the vector is longer than about 362 (beyond 2¹⁶ columns: than 1024) or, for caps of
directions, shorter than a public length; B₀ is the law of what is drawn at first. A private direction, held
as whole numbers K, splits the grid points v in two by one fixed computation: those with ⟨v, K⟩ ≥ t‖K‖ρ(v)/h
are in the cap; ρ is 1, or for directions h‖v‖. ⟨v, K⟩ and the squares are sums of whole numbers below 2⁵³, so
no order of summation changes them, and roots and products are rounded as IEEE 754 says: the same point is
never in the cap for one draw and outside it for another.

Where ρ is 1 both sides are half-spaces ±⟨v, K⟩ ≥ b with a whole number b; for directions the cap is inside of
one, and what is outside the cap is drawn from B until it is. A half-space is drawn line by line. The lines
w + ℤK divide the grid. Draw w from B₀: that draws its line. On it ``half_lines`` draws a point v of the
half-space with a probability proportional to exp(−(1 − h²/12)·h²·⟨v, K⟩²/2‖K‖²), by the same factor for all
lines, or drops the line; v = w + jK is kept if it is on the right side, not too long and not too short.

This is B(v)/B₀(line) up to a factor that is the same for all v. For the probability of a cell around x is
h·φ(x)·(1 + h²(x² − 1)/24 + …), so that log B₀(v) is a constant minus (1 − h²/12)·h²‖v‖²/2, up to less than
h⁴Σ(x⁴/2800 + x²/300) ≤ 10⁻¹³ for vectors of length 1034 and less. ‖v‖² = ⟨v, K⟩²/‖K‖² + ‖v′‖² with a v′ that
all points of the line share. And the sum of exp(−(1 − h²/12)·(hj‖K‖ + y)²/2) over all j is the same for all
y, up to e⁻⁴⁰⁰⁰, since h‖K‖ is about 1/16 (Poisson's summation); what lies more than 9 from its middle is less
than 10⁻¹⁷ of it (a cell is at most h·φ(x)·exp(x²h²/24) for every x). A w so long that float64 does not hold
its sums is rarer than any point by far more. So a point is drawn with probability B(v)/B(side) up to a factor
e^{±4·10⁻¹³}; two records differ by twice that, which whoever states an ε has to add (``SLACK``).

The sum over a line differs between directions. It cancels because the side is chosen first and kept, and a
dropped line is drawn again as often as it takes.

That B₀ is exactly the rounded normal law rests on the error bound of scipy's ``ndtri``, which is checked on a
dense sample against mpmath and not proven (``noise.laws``).

The sign of a zero is no part of v and is not released: v + jK would have it from K.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.half_lines import half_line
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["LONGEST", "MOST_COLUMNS", "MOST_DIRECTION_COLUMNS", "SLACK", "STEP", "draw_sides"]

Array = NDArray[np.float64]

#: The grid, in deviations of the noise.
STEP = 2.0**-18
#: Beyond it the length of a typical vector comes near the longest.
MOST_COLUMNS = 1 << 18
#: Of caps of directions: beyond it the square of a typical length comes near 2⁵³.
MOST_DIRECTION_COLUMNS = 1 << 16
#: No vector is longer, in deviations.
LONGEST = 1025.0
#: What the log ratio of two probabilities can be off by.
SLACK = 1e-12

_DIRECTION = 2.0**14


def draw_sides(
    stream: Stream, directions: Array, inside: NDArray[np.bool_], threshold: float, shortest: float
) -> Array:
    """For each row of unit vectors ``directions`` a vector inside its cap, or outside, as ``inside`` says.

    With ``shortest`` = 0 a vector V is in the cap where ⟨V, u⟩ ≥ ``threshold`` ≥ 0; otherwise it is at least
    ``shortest`` long, and in the cap where ⟨V, u⟩ ≥ ``threshold``·‖V‖. u is the direction on a grid of 2⁻¹⁴.
    """
    towards = directions * _DIRECTION
    np.rint(towards, out=towards)
    sides = _Sides(towards, inside, threshold, shortest)
    rows, columns = directions.shape
    # A few more than rows at once: vectors are cheaper by the block, and some lines are dropped.
    drawn = _public(stream, rows + sides.dropped(), columns)
    out, spare = drawn[:rows], drawn[rows:]
    waiting = np.flatnonzero(~sides.place(stream, out, slice(None)))
    while waiting.size:
        if len(spare) < waiting.size:
            spare = _public(stream, waiting.size, columns)
        again, spare = spare[: waiting.size], spare[waiting.size :]
        placed = sides.place(stream, again, waiting)
        out[waiting] = again
        waiting = waiting[~placed]
    out *= STEP
    out += 0.0  # −0 becomes 0
    return out


def _public(stream: Stream, rows: int, columns: int) -> Array:
    """Vectors of the public law as it is drawn at first, in whole numbers."""
    return _normals(STEP).draw(stream, rows * columns).reshape(rows, columns)


@lru_cache(maxsize=4)
def _normals(step: float) -> Rounded:
    return Rounded(NORMAL, [1.0 / step])


class _Sides:
    """On which side of which cap each row is to fall."""

    def __init__(self, towards: Array, inside: NDArray[np.bool_], threshold: float, shortest: float) -> None:
        self.towards, self.inside, self.threshold, self.shortest = towards, inside, threshold, shortest
        self.squares = np.einsum("ij,ij->i", towards, towards)
        self.sizes = np.sqrt(self.squares)
        self.signs = np.where(inside, 1.0, -1.0)
        reach = threshold * (self.sizes / STEP)
        if shortest:
            # A whole number that ⟨v, K⟩ is not below on the cap.
            self.begin = np.floor(reach * shortest * (1.0 - 1e-12))
        else:
            # ⟨v, K⟩ ≥ reach is ⟨v, K⟩ ≥ ⌈reach⌉, and the opposite is −⟨v, K⟩ ≥ 1 − ⌈reach⌉.
            self.begin = np.where(inside, np.ceil(reach), 1.0 - np.ceil(reach))
        columns = towards.shape[1]
        turned = math.sqrt(columns) / 2.0 + 1e-6  # the most that rounding changes a size by
        start, sizes = threshold * (shortest or 1.0), (_DIRECTION - turned, _DIRECTION + turned)
        self.lines = {True: half_line(start, LONGEST, STEP, sizes)}
        if not shortest:
            self.lines[False] = half_line(-start, LONGEST, STEP, sizes)

    def dropped(self) -> int:
        """About how many lines will be dropped."""
        rows = {side: np.count_nonzero(self.inside == side) for side in self.lines}
        return int(1.25 * sum(rows[side] * (line.tries - 1.0) for side, line in self.lines.items()))

    def place(self, stream: Stream, v: Array, rows: slice | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Move public vectors ``v``, each on its line, to where ``rows`` are to fall; False: draw again."""
        K, squares, begin = self.towards[rows], self.squares[rows], self.begin[rows]
        inside, signs = self.inside[rows], self.signs[rows]
        found = signs * np.einsum("ij,ij->i", v, K)
        nearest = begin + np.mod(found - begin, squares)  # exact, like all that follows
        along, placed = found.copy(), np.ones(len(v), dtype=bool)
        for side, line in self.lines.items():
            own = np.flatnonzero(inside == side)
            along[own], placed[own] = line.draw(stream, nearest[own], squares[own])
        v += (signs * (along - found) / squares)[:, None] * K
        few = v.shape[1] <= MOST_DIRECTION_COLUMNS
        # So that the sum is below 2⁵³ for every vector that is short enough, it is that of eighths for many.
        parts = v if few else np.rint(v / 8.0)
        lengths = np.einsum("ij,ij->i", parts, parts)
        placed &= lengths < (2.0**17 if few else 2.0**14) / (STEP * STEP)
        if self.shortest:
            length = STEP * np.sqrt(lengths)
            placed &= length >= self.shortest
            reach = self.threshold * (self.sizes[rows] / STEP * length)
            placed &= (signs * along >= reach) == inside
        return placed
