"""Real noise, rounded to the integers, with exactly the distribution of the rounded real noise.

A 64-bit word w stands for all uniforms u in [w, w+1)/2⁶⁴. Three attempts, each for what the one
before could not decide:

1. Linear interpolation in a table of the quantile function, with a bound on its error.
2. The quantile function in double precision, with a bound on its error.
3. mpmath, with as many further random bits as it takes.

A draw whose interval, widened by the error bound, holds a half-integer goes on to the next
attempt. So the answer is always the rounding of the true real number, and nothing is left over
as slack. Several *rungs* of noise may be summed before rounding: tier i receives the rounding of
the sum of the real noises of rungs 0…i, each tier rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.laws import Law
from sfumato.noise.precise import precise
from sfumato.noise.randomness import Stream

if TYPE_CHECKING:
    import mpmath

__all__ = ["MAX_SCALE", "Rounded"]

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

#: Largest noise scale, in steps of the grid, that is drawn; beyond it double precision rarely decides.
MAX_SCALE = 2.0**40

_INDEX_BITS = 16
_REST_BITS = np.uint64(64 - _INDEX_BITS)
_REST_MASK = np.uint64((1 << (64 - _INDEX_BITS)) - 1)
_REST_UNIT = 2.0 ** -(64 - _INDEX_BITS)
_TOP_BIT = np.uint64(1 << 63)
_BLOCK = 1 << 16
# In steps of the grid: how close to a half-integer the table's answer may come before it is doubted.
_DOUBT = 1.0 / 256.0
# Below this many draws, building the table costs more than it saves.
_TABLE_WORTH = 1 << 14

_tables: dict[str, tuple[Array, Array, Array]] = {}


def _table(law: Law) -> tuple[Array, Array, Array]:
    """Knots q(i/2¹⁶), their differences, and an error bound for each cell; all for unit scale."""
    if law.name not in _tables:
        half = 1 << (_INDEX_BITS - 1)
        p = np.arange(1, half + 1) / (2.0 * half)
        lower = law.quantile(p)
        knots = np.concatenate([[-np.inf], lower, -lower[-2::-1], [np.inf]])
        knots[half] = 0.0
        # Linear interpolation of q on a cell of width Δ errs by at most Δ²/8·max|q″|.
        bend = 2.0 ** (-2 * _INDEX_BITS) / 8.0 * law.curvature(p)
        error = bend + 2.0 * law.error(lower)
        # Cell i of the lower half runs from knot i to knot i+1; its worst point is the outer knot i.
        error = np.concatenate([[np.inf], error[:-1]])
        with np.errstate(invalid="ignore"):
            _tables[law.name] = (knots[:-1], np.diff(knots), np.concatenate([error, error[::-1]]))
    return _tables[law.name]


class Rounded:
    """Exactly rounded noise of ``law`` with one scale, or with nested scales, in steps of the grid.

    ``scales`` are those of the rungs: tier i is the rounded sum of rungs 0…i. A ``shift`` is added
    to the real noise before rounding; −1/2 turns rounding to the nearest into rounding down.
    """

    def __init__(self, law: Law, scales: Sequence[float], shift: float = 0.0) -> None:
        for scale in scales:
            if not 0.0 < scale <= MAX_SCALE:
                raise BadInput(
                    f"a noise scale of {scale:g} grid steps cannot be drawn; choose a grid for which it lies "
                    f"in (0, {MAX_SCALE:g}]."
                )
        self.law = law
        self.scales = tuple(float(scale) for scale in scales)
        self.shift = shift
        self._prepared: list[tuple[Array, Array]] | None = None

    def draw(
        self, stream: Stream, count: int, *, relative: Array | None = None, out: Array | None = None
    ) -> Array:
        """Integers, held in float64, of shape (tiers, count); written into ``out`` where given.

        ``relative``, of shape (count,), multiplies every scale draw by draw; each factor lies in (0, 1].
        """
        rungs = len(self.scales)
        out = np.empty((rungs, count)) if out is None else out
        if count < _TABLE_WORTH:
            words = stream.rungs(rungs, count)
            self._from_doubles(words, relative, out, stream, None)
            return out
        positions, kept = [], []
        # Several units draw in one block, as each would draw alone.
        size = _BLOCK if stream.units == 1 else count
        assert count <= stream.units * _BLOCK or stream.units == 1
        scratch = _Scratch(rungs, min(count, size))
        for start in range(0, count, size):
            stop = min(start + size, count)
            words = stream.rungs(rungs, stop - start, into=scratch.words)
            factor = None if relative is None else relative[start:stop]
            doubtful = self._from_table(words, factor, out[:, start:stop], scratch)
            positions.append(doubtful + start)
            kept.append(words[:, doubtful])
        where = np.concatenate(positions)
        decided = np.empty((rungs, where.size))
        factor = None if relative is None else relative[where]
        self._from_doubles(np.concatenate(kept, axis=1), factor, decided, stream, (where, count))
        out[:, where] = decided
        return out

    def _scaled_tables(self) -> list[tuple[Array, Array]]:
        """The table in grid steps for each rung; a cell that is too coarse there holds NaN."""
        if self._prepared is None:
            knots, steps, error = _table(self.law)
            share = 0.9 * _DOUBT / len(self.scales)
            self._prepared = [
                (np.where(error * scale <= share, knots * scale, np.nan), steps * (scale * _REST_UNIT))
                for scale in self.scales
            ]
        return self._prepared

    def _from_table(
        self, words: Words, factor: Array | None, out: Array, scratch: _Scratch
    ) -> NDArray[np.intp]:
        """First attempt, into ``out``; returns the positions it could not decide."""
        count = words.shape[1]
        cell, real, part = scratch.cell[:count], scratch.real[:count], scratch.part[:count]
        total, near, sure = scratch.total[:count], scratch.near[:count], scratch.sure[:count]
        index = cell.view(np.int64)
        sure[:] = True
        for rung, (knots, steps) in enumerate(self._scaled_tables()):
            np.right_shift(words[rung], _REST_BITS, out=cell)
            np.take(knots, index, out=real, mode="clip")
            np.take(steps, index, out=part, mode="clip")
            np.bitwise_and(words[rung], _REST_MASK, out=cell)
            np.multiply(part, index, out=part)
            np.add(real, part, out=real)
            if factor is not None:
                np.multiply(real, factor, out=real)
            if rung:
                np.add(total, real, out=total)
            else:
                real, total = total, real
                if self.shift:
                    np.add(total, self.shift, out=total)
            np.rint(total, out=out[rung])
            np.subtract(total, out[rung], out=part)
            np.abs(part, out=part)
            np.greater_equal(0.5 - _DOUBT, part, out=near)  # False for NaN
            np.logical_and(sure, near, out=sure)
        return np.flatnonzero(~sure)

    def _from_doubles(
        self,
        words: Words,
        factor: Array | None,
        out: Array,
        stream: Stream,
        among: tuple[NDArray[np.intp], int] | None,
    ) -> None:
        """Second attempt, into ``out``; what it cannot decide is decided exactly.

        ``among`` says where these draws stand among how many; None where they are all.
        """
        where, count = (np.arange(words.shape[1]), words.shape[1]) if among is None else among
        total, doubt = np.full(words.shape[1], self.shift), np.zeros(words.shape[1])
        doubtful = np.zeros(words.shape[1], dtype=bool)
        for rung, rung_scale in enumerate(self.scales):
            upper = words[rung] >= _TOP_BIT
            rank = np.where(upper, ~words[rung], words[rung]).astype(np.float64)
            # Half a cell, and the rounding of the 64-bit rank to a double, relative to p.
            spread = 0.5 / (rank + 0.5) + 2.0**-52
            z = self.law.quantile((rank + 0.5) * 2.0**-64)
            scale = rung_scale if factor is None else rung_scale * factor
            total += np.where(upper, -z, z) * scale
            doubt += scale * (self.law.error(z) + 1.1 * self.law.steepness * spread)
            doubt += 2.0**-51 * np.abs(total)
            np.rint(total, out=out[rung])
            doubtful |= np.abs(total - out[rung]) >= 0.5 - doubt
            doubtful |= rank < 8.0  # where the bound on the spread would not hold
        for position in np.flatnonzero(doubtful):
            scales = self.scales if factor is None else [s * float(factor[position]) for s in self.scales]
            bits = [int(word) for word in words[:, position]]
            owner = stream.owner(int(where[position]), count)
            out[:, position] = _exactly(self.law, bits, scales, self.shift, owner)


class _Scratch:
    """Arrays one thread works in, block after block."""

    def __init__(self, rungs: int, count: int) -> None:
        self.words = np.empty(rungs * count + 2, dtype=np.uint64)
        self.cell = np.empty(count, dtype=np.uint64)
        self.real, self.part, self.total = np.empty(count), np.empty(count), np.empty(count)
        self.near, self.sure = np.empty(count, dtype=bool), np.empty(count, dtype=bool)


def _exactly(law: Law, words: list[int], scales: Sequence[float], shift: float, stream: Stream) -> list[int]:
    """Third attempt, for one draw: more bits until every tier's rounding is certain."""
    bits, mp = 64, precise()
    while True:
        with mp.workprec(2 * bits + 64):
            low, high, rounded = mp.mpf(shift), mp.mpf(shift), []
            for word, scale in zip(words, scales, strict=True):
                ends = _ends(law, word, bits)
                if ends is None:
                    break
                low, high = low + ends[0] * scale, high + ends[1] * scale
                nearest = mp.nint(low)
                if not (nearest - 0.5 < low and high < nearest + 0.5):
                    break
                rounded.append(int(nearest))
            if len(rounded) == len(scales):
                return rounded
        words = [(word << 64) | stream.integer(64) for word in words]
        bits += 64


def _ends(law: Law, word: int, bits: int) -> tuple[mpmath.mpf, mpmath.mpf] | None:
    """Where q lies when u lies in [word, word+1)/2^bits; None in an end cell, which is unbounded."""
    upper = word >> (bits - 1)
    rank = (1 << bits) - 1 - word if upper else word
    if rank == 0:
        return None
    low = law.exact(precise().ldexp(rank, -bits))[0]
    high = law.exact(precise().ldexp(rank + 1, -bits))[1]
    return (-high, -low) if upper else (low, high)
