"""Clip values and round them to a public grid.

The step is a power of two chosen from declared parameters alone. Values are rounded toward zero,
so that a record inside the ball stays inside it; the norm is then checked in integers.

Normal and Laplace noise rounded to the integers, with exactly the distribution of rounded real noise.

A 64-bit word w stands for all uniforms u in [w, w+1)/2⁶⁴. Three attempts, each for what the one
before could not decide:

1. Chords of the quantile function from a table, finer toward the tails, with a bound on their error.
2. The quantile function in double precision, with a bound on its error.
3. mpmath, with as many further random bits as it takes.

A draw whose interval, widened by the error bound, holds a half-integer goes on to the next
attempt. So the answer is always the rounding of the true real number, and nothing is left over
as slack. Several *rungs* of noise may be summed before rounding: tier i receives the rounding of
the sum of the real noises of rungs 0…i, each tier rounded once.

**Laws.** A law is symmetric about zero and has unit scale. Only its lower half is described, by the
quantile q(p) for 0 < p ≤ 1/2; the upper half is its mirror. Three bounds make rounding certain:

* ``error(z)``: how far ``quantile`` may be from the true q(p), given its answer z;
* ``steepness``: a constant c with q′(p) ≤ c / p on (0, 1/2];
* ``curvature(p)``: a bound on |q″| on [p, 1/2].

**Threads.** mpmath's own functions share one working precision among all threads: a thread that leaves
``workprec`` would cut the digits of another in the middle of its computation, and an interval that must hold
the true value could miss it. So each thread computes in a context of its own (``mpmath_context``).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.errors import BadInput
from sfumato.noise.randomness import Stream

if TYPE_CHECKING:
    import mpmath

__all__ = ["LAPLACE", "MAX_SCALE", "NORMAL", "Law", "Rounded", "grid_step", "mpmath_context", "onto_grid"]

Words = NDArray[np.uint64]

_own = threading.local()
# scipy's ndtri and numpy's log err by less than half of this on a dense sample, checked against mpmath by
# the tests.
_DOUBLE_ERROR = 2.0**-46
#: Largest noise scale, in steps of the grid, that is drawn; beyond it double precision rarely decides.
MAX_SCALE = 2.0**40
_TOP_BIT = np.uint64(1 << 63)
# The table: cells of equal width within each octave of p. Six bits of the exponent tell 2⁰ … 2⁶³ apart.
_CELL_BITS = 12
_CELL_SHIFT = np.uint64(52 - _CELL_BITS)
_CELL_MASK = np.uint64((1 << (_CELL_BITS + 6)) - 1)
# Words with a p below 2⁻²⁴ are left to the second attempt: further out, one word is too wide for the table.
_OCTAVES = range(40, 63)
# In steps of the grid: how close to a half-integer the table's answer may come at most before it is doubted.
_MOST_DOUBT = 1.0 / 16.0
_BLOCK = 1 << 16
# Below this many draws, building the table costs more than it saves.
_TABLE_WORTH = 1 << 14
_tables: dict[str, tuple[Array, Array, float]] = {}


def mpmath_context() -> Any:
    """Return an mpmath context that belongs to the calling thread, to be used under its ``workprec``."""
    if not hasattr(_own, "context"):
        import mpmath  # for one draw in thousands, and slow to load

        _own.context = mpmath.MPContext()
    return _own.context


class Law(Protocol):
    """A distribution as the exact rounder needs it."""

    name: str
    steepness: float
    deviation: float

    def quantile(self, p: Array) -> Array:
        """Return q(p) in double precision."""

    def error(self, z: Array) -> Array:
        """Return a bound on the error of ``quantile`` where it answered z."""

    def curvature(self, p: Array) -> Array:
        """Return a bound on |q″| between p and 1/2."""

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Return an interval that holds q(p), at the current precision of :func:`mpmath_context`."""


class _Normal:
    """The standard normal law. Its hazard φ(z)/Φ(z) is at least √(2/π) for z ≤ 0, so q′ ≤ 1.2534/p."""

    name = "normal"
    steepness = 1.2534
    deviation = 1.0

    def quantile(self, p: Array) -> Array:
        return np.asarray(ndtri(p), dtype=np.float64)

    def error(self, z: Array) -> Array:
        return _DOUBLE_ERROR * (1.0 + np.abs(z))

    def curvature(self, p: Array) -> Array:
        z = ndtri(p)
        return np.asarray(2.0 * np.pi * np.abs(z) * np.exp(np.square(z)) * (1.0 + 1e-9), dtype=np.float64)

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Take Newton's method from the double answer, then a bracket that is checked, not assumed."""
        mp = mpmath_context()
        tail = p < mp.ldexp(1, -1000)  # beyond what a double can hold
        z = -mp.sqrt(-2 * mp.log(p)) if tail else mp.mpf(float(ndtri(float(p))))
        for _ in range(200):
            step = (mp.ncdf(z) - p) / mp.npdf(z)
            # Far in the tail a full Newton step overshoots; a step of one keeps it convergent.
            step = max(min(step, mp.mpf(1)), mp.mpf(-1))
            z -= step
            if abs(step) < mp.ldexp(1, -mp.prec // 2):
                break
        width = mp.ldexp(1 + abs(z), 24 - mp.prec)
        while not mp.ncdf(z - width) < p < mp.ncdf(z + width):
            width *= 2
        return z - width, z + width


class _Laplace:
    """The Laplace law of scale one: q(p) = log 2p."""

    name = "laplace"
    steepness = 1.0
    deviation = 2.0**0.5

    def quantile(self, p: Array) -> Array:
        return np.log(2.0 * p)

    def error(self, z: Array) -> Array:
        return _DOUBLE_ERROR * (1.0 + np.abs(z))

    def curvature(self, p: Array) -> Array:
        return (1.0 + 1e-9) / np.square(p)

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        mp = mpmath_context()
        z = mp.log(2 * p)
        width = mp.ldexp(1 + abs(z), 8 - mp.prec)
        return z - width, z + width


NORMAL: Law = _Normal()
LAPLACE: Law = _Laplace()


def _table(law: Law) -> tuple[Array, Array, float]:
    """Return chords of q in all cells, as |value at 0| and slope by signed word, and a bound on their error.

    Let s be a word read as a signed number: p lies within 1 of |s|, in units of 2⁻⁶⁴, and the draw is
    negative where s is positive. Cell i holds all s whose float64 has the bits i: six of the exponent, twelve
    of the mantissa. NaN stands for what the table does not hold.
    """
    if law.name not in _tables:
        cells = 1 << _CELL_BITS
        octaves = [np.ldexp(1.0 + np.arange(cells) / cells, octave - 64) for octave in _OCTAVES]
        p = np.append(np.concatenate(octaves), 0.5)
        z = law.quantile(p)
        z[-1] = 0.0
        width, slopes = np.diff(p), np.diff(z) / np.diff(p)
        # A chord errs by at most Δ²/8·max|q″|; p by a relative 2⁻⁴⁰, and once more for the rounding of s.
        error = np.square(width) / 8.0 * law.curvature(p[:-1]) + 2.0 * law.error(z[:-1])
        error += 1.1 * law.steepness * 2.0 ** (1 - _OCTAVES[0])
        values, by_word = np.full((2, cells << 6), np.nan)
        held = slice(cells * (_OCTAVES[0] - 1), cells * (_OCTAVES[-1]))
        values[held], by_word[held] = slopes * p[:-1] - z[:-1], slopes * 2.0**-64
        _tables[law.name] = values, by_word, float(error.max())
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
        self._asked = 0

    def draw(
        self, stream: Stream, count: int, *, relative: Array | None = None, out: Array | None = None
    ) -> Array:
        """Return integers, held in float64, of shape (tiers, count); written into ``out`` where given.

        ``relative``, of shape (count,), multiplies every scale draw by draw; each factor lies in (0, 1].
        """
        rungs = len(self.scales)
        out = np.empty((rungs, count)) if out is None else out
        self._asked += count
        doubt = self._doubt() if self._asked >= _TABLE_WORTH or self.law.name in _tables else 1.0
        if not count or doubt > _MOST_DOUBT:
            words = stream.rungs(rungs, count)
            self._from_doubles(words, relative, out, stream, None)
            return out
        positions, kept = [], []
        # Several units draw in one block, as each would draw alone.
        size = _BLOCK if stream.units == 1 else count
        assert count <= stream.units * _BLOCK or stream.units == 1
        scratch = _scratch(rungs, min(count, size))
        for start in range(0, count, size):
            stop = min(start + size, count)
            words = stream.rungs(rungs, stop - start, into=scratch.words)
            factor = None if relative is None else relative[start:stop]
            doubtful = self._from_table(words, factor, doubt, out[:, start:stop], scratch)
            positions.append(doubtful + start)
            kept.append(words[:, doubtful])
        where = np.concatenate(positions)
        decided = np.empty((rungs, where.size))
        factor = None if relative is None else relative[where]
        self._from_doubles(np.concatenate(kept, axis=1), factor, decided, stream, (where, count))
        out[:, where] = decided
        return out

    def _doubt(self) -> float:
        """Return a bound on the error of the first attempt, in steps of the grid, with room for rounding."""
        return 1.25 * sum(self.scales) * _table(self.law)[2]

    def _from_table(
        self, words: Words, factor: Array | None, doubt: float, out: Array, scratch: _Scratch
    ) -> NDArray[np.intp]:
        """Make the first attempt, into ``out``; return the positions it could not decide."""
        values, slopes, _ = _table(self.law)
        count = words.shape[1]
        word, cell, real = scratch.word[:count], scratch.cell[:count], scratch.real[:count]
        part, total, worst = scratch.part[:count], scratch.total[:count], scratch.worst[:count]
        for rung, scale in enumerate(self.scales):
            np.copyto(word, words[rung].view(np.int64))
            np.right_shift(word.view(np.uint64), _CELL_SHIFT, out=cell)
            np.bitwise_and(cell, _CELL_MASK, out=cell)
            # Every index lies in the table: of all modes this one is the fastest.
            slopes.take(cell.view(np.int64), out=part, mode="wrap")
            values.take(cell.view(np.int64), out=real, mode="wrap")
            np.multiply(part, word, out=part)
            np.copysign(real, word, out=real)
            np.subtract(part, real, out=part)
            np.multiply(part, scale if factor is None else scale * factor, out=part if rung else total)
            if rung:
                np.add(total, part, out=total)
            elif self.shift:
                np.add(total, self.shift, out=total)
            np.rint(total, out=out[rung])
            np.subtract(total, out[rung], out=part)
            np.abs(part, out=part if rung else worst)
            if rung:
                np.maximum(worst, part, out=worst)  # NaN stays
        return np.flatnonzero(~(worst < 0.5 - doubt))

    def _from_doubles(
        self,
        words: Words,
        factor: Array | None,
        out: Array,
        stream: Stream,
        among: tuple[NDArray[np.intp], int] | None,
    ) -> None:
        """Make the second attempt, into ``out``; what it cannot decide is decided exactly.

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
    """Arrays that one thread works in, draw after draw: memory that was just used is fast."""

    def __init__(self, rungs: int, count: int) -> None:
        self.words = np.empty(rungs * count + 2, dtype=np.uint64)
        self.cell = np.empty(count, dtype=np.uint64)
        self.word, self.part, self.real, self.total, self.worst = np.empty((5, count))


def _scratch(rungs: int, count: int) -> _Scratch:
    """Return the arrays of the calling thread, large enough for ``count`` draws of each rung."""
    held: _Scratch | None = getattr(_own, "scratch", None)
    if held is None or held.word.size < count or held.words.size < rungs * count + 2:
        held = _own.scratch = _Scratch(rungs, count)
    return held


def _exactly(law: Law, words: list[int], scales: Sequence[float], shift: float, stream: Stream) -> list[int]:
    """Make the third attempt, for one draw: more bits until every tier's rounding is certain."""
    bits, mp = 64, mpmath_context()
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
    """Return an interval of q for u in [word, word+1)/2^bits; None in an end cell, which is unbounded."""
    upper = word >> (bits - 1)
    rank = (1 << bits) - 1 - word if upper else word
    if rank == 0:
        return None
    low = law.exact(mpmath_context().ldexp(rank, -bits))[0]
    high = law.exact(mpmath_context().ldexp(rank + 1, -bits))[1]
    return (-high, -low) if upper else (low, high)


Array = NDArray[np.float64]

# Steps across one noise scale, and across a typical coordinate. The first makes the rounding of
# noise invisible (it adds 5e-9 of the variance); the second keeps the pull toward zero below 0.2%.
_STEPS_PER_SCALE = 2.0**12
_STEPS_PER_VALUE = 2.0**8
# Multiples of this step, and of any larger one, are no denormal numbers.
_FINEST = 2.0**-960
# float64 holds integers exactly up to 2⁵³, so sums of squares are exact for norms up to 2²⁶.
_MAX_RADIUS = {"l1": 2.0**52, "l2": 2.0**26}


def grid_step(scale: float, typical: float) -> float:
    """Return a power of two fine enough for noise of ``scale`` and for coordinates of size ``typical``."""
    finest = min(scale / _STEPS_PER_SCALE, typical / _STEPS_PER_VALUE)
    if not _FINEST <= finest < math.inf:
        raise BadInput(
            f"noise of scale {scale:g} on values of size {typical:g} needs a grid that double precision does "
            "not hold; rescale the data."
        )
    step = 2.0 ** math.floor(math.log2(finest))
    if scale / step > MAX_SCALE:
        raise BadInput(
            f"noise of scale {scale:g} is too large for the sampler on values of size {typical:g}; ask for a "
            "larger `epsilon` or declare a larger `clip`.",
            parameter="epsilon",
        )
    return step


def onto_grid(values: Array, radius: float, norm: Literal["l1", "l2"], step: float) -> Array:
    """Clip the rows of ``values`` to the ball of ``radius`` and round them toward zero, in grid steps.

    Returns integers held in float64, of the shape (n, d) of ``values``. Every row lies in the ball
    of radius ``radius / step`` by integer arithmetic, whatever floating-point error the norm had.
    """
    if radius / step > _MAX_RADIUS[norm]:
        raise BadInput(
            f"a `clip` of {radius:g} is more than {_MAX_RADIUS[norm]:g} grid steps of {step:g}: the noise is "
            "too small to protect a record; ask for a smaller ε.",
            parameter="clip",
        )
    size = _norms(values, norm)
    with np.errstate(divide="ignore", over="ignore"):  # of rows near zero, which are not scaled
        factor = np.minimum(radius / size, 1.0) / step
    cells = np.multiply(values, factor[:, None])
    np.trunc(cells, out=cells)
    limit = radius / step if norm == "l1" else _square_floor(radius / step)
    outside, less = np.flatnonzero(_integer_norms(cells, norm) > limit), 2.0**-40
    while outside.size:
        # A last-place error, unless radius / size was denormal: less and less, until the integers agree.
        factor[outside] *= 1.0 - less
        less = min(2.0 * less, 0.5)
        cells[outside] = np.trunc(values[outside] * factor[outside, None])
        outside = outside[_integer_norms(cells[outside], norm) > limit]
    return cells


def _norms(values: Array, norm: str) -> Array:
    with np.errstate(over="ignore"):
        if norm == "l1":
            return np.asarray(np.abs(values).sum(axis=1))
        squares = np.einsum("ij,ij->i", values, values)
    # Rows whose squares overflow or vanish are measured relative to their largest entry.
    odd = np.flatnonzero(~((squares > 1e-290) & (squares < 1e290)))
    size = np.sqrt(squares)
    if odd.size:
        largest = np.abs(values[odd]).max(axis=1)
        safe = np.where(largest > 0, largest, 1.0)[:, None]
        with np.errstate(over="ignore"):
            size[odd] = largest * np.sqrt(np.square(values[odd] / safe).sum(axis=1))
    return np.asarray(size)


def _integer_norms(cells: Array, norm: str) -> Array:
    """Return Σ|k| or Σk² of integer rows; exact below 2⁵³, which ``radius / step`` is kept under."""
    if norm == "l1":
        return np.asarray(np.abs(cells).sum(axis=1))
    return np.asarray(np.einsum("ij,ij->i", cells, cells))


def _square_floor(ratio: float) -> float:
    """Return ⌊ratio²⌋, computed exactly, as a float: it is compared with sums held in floats."""
    square = Fraction(ratio) ** 2
    return float(square.numerator // square.denominator)
