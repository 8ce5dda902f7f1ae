"""The public grid, and Gaussian and Laplace noise that has exactly the distribution of rounded real noise.

**Grid.** The step is a power of two chosen from declared parameters alone. Values are rounded toward zero,
so that a record inside the ball stays inside it; the norm is then checked in integers.

**Noise.** A 64-bit word w stands for all uniforms u in [w, w+1)/2⁶⁴. Three attempts, each for what the one
before could not decide:

1. Lines near the quantile function from a table, finer toward the tails, with a bound on their error.
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
import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.errors import BadInput
from sfumato.noise.keyed import Keyed
from sfumato.noise.randomness import Randomness, Secure, Stream, each_block

if TYPE_CHECKING:
    import mpmath

__all__ = [
    "LAPLACE",
    "MAX_SCALE",
    "NORMAL",
    "Law",
    "Rounded",
    "gaussian_noise",
    "grid_step",
    "laplace_noise",
    "mpmath_context",
    "onto_grid",
]

Words = NDArray[np.uint64]
Where = slice | NDArray[np.intp]

_own = threading.local()
# scipy's ndtri and numpy's log err by less than half of this on a dense sample, checked against mpmath by
# the tests.
_DOUBLE_ERROR = 2.0**-46
#: Largest noise scale, in steps of the grid, that is drawn; beyond it double precision rarely decides.
MAX_SCALE = 2.0**40
_TOP_BIT = np.uint64(1 << 63)
# The table: cells of equal width within each octave of p.
_CELL_BITS = 11
_CELL_SHIFT = np.uint64(52 - _CELL_BITS)
# Words with a p below 2⁻²⁴ are left to the second attempt: further out, one word is too wide for the table.
_OCTAVES = range(40, 63)
# In steps of the grid: how close to a half-integer the table's answer may come at most before it is doubted.
_MOST_DOUBT = 1.0 / 16.0
_BLOCK = 1 << 16
# How many draws are worked on at once, so that they stay in the cache of a processor.
_CACHED = 1 << 15
# How many values of an array one thread draws at a time.
_ARRAY_BLOCK = 1 << 20
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
    """Return lines near q in all cells, as their values at 0 and slopes by signed word, and their error.

    Let s be a word read as a signed number: p lies within 1 of |s|, in units of 2⁻⁶⁴, and the draw is
    negative where s is positive. Cell i holds all s whose float64 begins with the bits i: the sign, the
    exponent and the first eleven bits of the mantissa. So a cell is found by one shift, and most cells stand
    for no word at all: they are address space that takes no memory. NaN stands for words that the table does
    not hold.
    """
    if law.name not in _tables:
        cells = 1 << _CELL_BITS
        octaves = [np.ldexp(1.0 + np.arange(cells) / cells, octave - 64) for octave in _OCTAVES]
        p = np.append(np.concatenate(octaves), 0.5)
        z = law.quantile(p)
        z[-1] = 0.0
        width, slope = np.diff(p), np.diff(z) / np.diff(p)
        # A chord lies below q, by at most Δ²/8·max|q″|; lifted by half of that it errs by as much both ways.
        # p errs by a relative 2⁻⁴⁰, and once more for the rounding of s.
        lift = np.square(width) / 16.0 * law.curvature(p[:-1])
        error = lift + 2.0 * law.error(z[:-1]) + 1.1 * law.steepness * 2.0 ** (1 - _OCTAVES[0])
        value = z[:-1] - slope * p[:-1] + lift
        negative = 1 << (_CELL_BITS + 11)
        values, slopes = (np.frombuffer(mmap.mmap(-1, 16 * negative)) for _ in range(2))
        values[0] = np.nan
        for sign, first in ((1.0, 0), (-1.0, negative)):
            values[first + 1023 * cells : first + 1087 * cells] = np.nan
            held = slice(first + (1023 + _OCTAVES[0]) * cells, first + (1024 + _OCTAVES[-1]) * cells)
            values[held], slopes[held] = sign * value, slope * 2.0**-64
        _tables[law.name] = values, slopes, float(error.max())
    return _tables[law.name]


class Rounded:
    """Exactly rounded noise of ``law`` with one scale, or with nested scales, in steps of the grid.

    ``scales`` are those of the rungs: tier i is the rounded sum of rungs 0…i.
    """

    def __init__(self, law: Law, scales: Sequence[float]) -> None:
        for scale in scales:
            if not 0.0 < scale <= MAX_SCALE:
                raise BadInput(
                    f"a noise scale of {scale:g} grid steps cannot be drawn; choose a grid for which it lies "
                    f"in (0, {MAX_SCALE:g}]."
                )
        self.law = law
        self.scales = tuple(float(scale) for scale in scales)
        self._asked = 0

    def draw(
        self, stream: Stream, count: int, *, relative: Array | None = None, out: Array | None = None
    ) -> Array:
        """Return integers, held in float64, of shape (tiers, count); written into ``out`` where given.

        ``relative``, of shape (count,), multiplies every scale draw by draw; each factor lies in (0, 1].
        """
        drawn = np.empty((len(self.scales), count)) if out is None else out

        def write(tier: int, where: Where, noise: Array) -> None:
            drawn[tier, where] = noise

        self._draw(stream, count, relative, write)
        return drawn

    def add(
        self,
        stream: Stream,
        cells: Array,
        step: float,
        out: Sequence[NDArray[Any]],
        *,
        relative: Array | None = None,
    ) -> None:
        """Write (``cells`` + noise of tier i)·``step`` into ``out[i]``, of any floating-point type.

        ``cells`` are integers of shape (count,), of which −0 becomes 0: a released zero would otherwise have
        the sign of its cell. ``relative`` is as for :meth:`draw`.
        """
        np.add(cells, 0.0, out=cells)

        def write(tier: int, where: Where, noise: Array) -> None:
            np.add(noise, cells[where], out=noise)
            if isinstance(where, slice):
                np.multiply(noise, step, out=out[tier][where], casting="same_kind")
            else:
                out[tier][where] = noise * step

        self._draw(stream, cells.size, relative, write)

    def _draw(
        self,
        stream: Stream,
        count: int,
        relative: Array | None,
        write: Callable[[int, Where, Array], None],
    ) -> None:
        """Call ``write(tier, where, noise)`` for all draws of all tiers; undecided ones are written twice."""
        rungs, undecided, their_words = len(self.scales), [], []
        self._asked += count
        table_pays = self._asked >= _TABLE_WORTH or self.law.name in _tables
        if count and table_pays and self._doubts()[-1] <= _MOST_DOUBT:
            # Several units draw in one block, as each would draw alone.
            size = _BLOCK if stream.units == 1 else count
            assert count <= stream.units * _BLOCK or stream.units == 1
            scratch = _scratch(rungs * min(count, size))
            for start in range(0, count, size):
                words = stream.rungs(rungs, min(size, count - start), into=scratch.words)
                for first in range(0, words.shape[1], _CACHED):
                    own = words[:, first : first + _CACHED]
                    where = slice(start + first, start + first + own.shape[1])
                    factor = None if relative is None else relative[where]
                    for tier, noise in enumerate(self._from_table(own, factor, scratch)):
                        write(tier, where, noise)
                    doubtful = np.flatnonzero(~scratch.sure[: own.shape[1]])
                    undecided.append(doubtful + where.start)
                    their_words.append(own[:, doubtful])
        else:
            undecided.append(np.arange(count))
            their_words.append(stream.rungs(rungs, count))
        rest = np.concatenate(undecided)
        factor = np.ones(rest.size) if relative is None else relative[rest]
        words = np.concatenate(their_words, axis=1)
        for tier, noise in enumerate(self._from_doubles(words, factor, stream, rest, count)):
            write(tier, rest, noise)

    def _doubts(self) -> list[float]:
        """Return a bound on the error of the first attempt for each tier, in steps."""
        error = 1.25 * _table(self.law)[2]  # with room for rounding
        return [error * total for total in accumulate(self.scales)]

    def _from_table(self, words: Words, factor: Array | None, scratch: _Scratch) -> Iterator[Array]:
        """Make the first attempt, tier by tier; ``scratch.sure`` then says which draws it decided."""
        values, slopes, _ = _table(self.law)
        count = words.shape[1]
        word, part, value, total = scratch.floats[:, :count]
        cell, sure = scratch.cell[:count], scratch.sure[:count]
        sure.fill(True)
        for rung, (scale, doubt) in enumerate(zip(self.scales, self._doubts(), strict=True)):
            np.copyto(word, words[rung].view(np.int64))
            np.right_shift(word.view(np.uint64), _CELL_SHIFT, out=cell)
            # Every index lies in the table: of all modes this one is the fastest.
            slopes.take(cell.view(np.int64), out=part, mode="wrap")
            values.take(cell.view(np.int64), out=value, mode="wrap")
            np.multiply(part, word, out=part)
            np.add(part, value, out=part)
            np.multiply(part, scale if factor is None else scale * factor, out=part if rung else total)
            if rung:
                np.add(total, part, out=total)
            whole = np.rint(total, out=word)
            np.subtract(total, whole, out=part)
            np.abs(part, out=part)
            sure &= part < 0.5 - doubt  # NaN is not sure
            yield whole

    def _from_doubles(
        self, words: Words, factor: Array, stream: Stream, where: NDArray[np.intp], count: int
    ) -> Array:
        """Make the second attempt, of shape (tiers, n); what it cannot decide is decided exactly.

        ``words``, of shape (rungs, n), are those of the draws at the positions ``where`` among ``count``.
        """
        scales = np.outer(self.scales, factor)
        upper = words >= _TOP_BIT
        rank = np.where(upper, ~words, words).astype(np.float64)
        # Half a cell, and the rounding of the 64-bit rank to a double, relative to p.
        spread = 0.5 / (rank + 0.5) + 2.0**-52
        z = self.law.quantile((rank + 0.5) * 2.0**-64)
        total = np.cumsum(np.where(upper, -z, z) * scales, axis=0)
        doubt = scales * (self.law.error(z) + 1.1 * self.law.steepness * spread) + 2.0**-51 * np.abs(total)
        out: Array = np.rint(total)
        doubtful = np.abs(total - out) >= 0.5 - np.cumsum(doubt, axis=0)
        doubtful |= rank < 8.0  # where the bound on the spread would not hold
        for draw in np.flatnonzero(doubtful.any(axis=0)):
            owner = stream.owner(int(where[draw]), count)
            out[:, draw] = _exactly(self.law, words[:, draw].tolist(), scales[:, draw].tolist(), owner)
        return out


class _Scratch:
    """Arrays that one thread works in, draw after draw: memory that was just used is fast."""

    def __init__(self, words: int) -> None:
        self.words = np.empty(words + 2, dtype=np.uint64)
        self.floats = np.empty((4, _CACHED))
        self.cell = np.empty(_CACHED, dtype=np.uint64)
        self.sure = np.empty(_CACHED, dtype=bool)


def _scratch(words: int) -> _Scratch:
    """Return the arrays of the calling thread, with room for ``words`` words."""
    held: _Scratch | None = getattr(_own, "scratch", None)
    if held is None or held.words.size < words + 2:
        held = _own.scratch = _Scratch(words)
    return held


def _exactly(law: Law, words: list[int], scales: Sequence[float], stream: Stream) -> list[int]:
    """Make the third attempt, for one draw: more bits until every tier's rounding is certain."""
    bits, mp = 64, mpmath_context()
    while True:
        with mp.workprec(2 * bits + 64):
            low, high, rounded = mp.mpf(0), mp.mpf(0), []
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
    return np.asarray(np.vecdot(cells, cells))


def _square_floor(ratio: float) -> float:
    """Return ⌊ratio²⌋, computed exactly, as a float: it is compared with sums held in floats."""
    square = Fraction(ratio) ** 2
    return float(square.numerator // square.denominator)


def gaussian_noise(
    sigma: float,
    size: int | tuple[int, ...],
    *,
    grid: float | None = None,
    randomness: Randomness | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return N(0, σ²) noise rounded to multiples of ``grid``, a power of two (default: about σ/4096)."""
    return _noise(NORMAL, sigma, size, grid, randomness, threads)


def laplace_noise(
    scale: float,
    size: int | tuple[int, ...],
    *,
    grid: float | None = None,
    randomness: Randomness | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return Laplace noise of ``scale`` rounded to multiples of ``grid`` (default: about scale/4096)."""
    return _noise(LAPLACE, scale, size, grid, randomness, threads)


def _noise(
    law: Law,
    scale: float,
    size: int | tuple[int, ...],
    grid: float | None,
    randomness: Randomness | None,
    threads: int | None,
) -> NDArray[np.float64]:
    if not (math.isfinite(scale) and scale > 0):
        raise BadInput(f"a noise scale must be a positive number, not {scale!r}.")
    step = grid_step(scale, scale) if grid is None else grid
    if not step > 0 or math.frexp(step)[0] != 0.5:
        raise BadInput(f"a grid must be a power of two such as 2**-10, not {grid!r}.")
    if isinstance(randomness, Keyed):
        # The same draw at two scales would give away what it was added to.
        raise BadInput("keyed noise belongs to the content of a unit: release it by a mechanism.")
    source = Secure() if randomness is None else randomness
    rounded = Rounded(law, [scale / step])
    out = np.empty(size)
    flat = out.reshape(1, -1)

    def draw(block: int) -> None:
        part = flat[:, block * _ARRAY_BLOCK : (block + 1) * _ARRAY_BLOCK]
        rounded.draw(source.stream(block.to_bytes(8, "little")), part.shape[1], out=part)
        np.multiply(part, step, out=part)

    each_block(draw, -(-flat.shape[1] // _ARRAY_BLOCK), threads)
    return out
