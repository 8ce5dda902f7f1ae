"""PrivUnit and PrivUnitG: near-optimal reports of one vector a user, exactly ε-LDP.

PrivUnit (Bhowmick et al. 2018) reports a random direction: from the cap ⟨V, u⟩ ≥ γ around the user's own unit
vector u with probability p, from the rest of the sphere otherwise. PrivUnitG (Asi, Feldman & Talwar 2022)
does the same with a Gaussian vector in place of a uniform direction. With the best p and cap, no unbiased
ε-LDP report of a unit vector has a smaller squared error, up to a factor that tends to one with d.

**Guarantee.** ``caps`` draws exactly from a public law B, given on which side of the cap C_u a vector falls.
So the probability of a point v is B(v)·p/B(C_u) in the cap and B(v)·(1 − p)/(1 − B(C_u)) outside. Whatever u
is, B(C_u) lies between two numbers l ≤ c: rounding moves ⟨V, u⟩ by at most h√d/2 and ‖V‖ by as much, and the
law of the unrounded ones is known (the length of a normal vector is independent of its direction). The cap is
that of the gridded direction K/‖K‖, itself a unit vector, so l and c hold whatever the grid made of the
record. What B draws again for its length beyond 362 has a probability below e⁻¹⁰⁰⁰⁰; it is in the 10⁻¹⁰ that
l and c are widened by for the rounding of their own computation. Hence for any two vectors and any point the
log ratio of the probabilities is at most

    ε = max(log p(1−l)/(l(1−p)), log c(1−p)/(p(1−c)), log c/l, log (1−l)/(1−c)) + slack of ``caps``,

a pure ε: unit record, neighbours replace. The coin p is the largest multiple of 2⁻⁶⁴ that keeps it to what
was asked. What is reported is a function of v, hence post-processing. A vector inside the ball is first
replaced by ±x/‖x‖ with probability (1 ± ‖x‖/clip)/2, which keeps its mean and costs nothing: what follows
protects every unit vector.

**Edge cases.** A record of zeros has no direction: it takes the first axis and a fair sign. Longer records
are scaled back onto the ball. The mean of a report is the record, turned by at most √d·2⁻¹⁵ by the grid of
directions. PrivUnit's caps are kept so large that a few hundred proposals hit them; that costs accuracy only
where ε is far above 8.

Exact draws of a point on the far part of a line through the grid, where the grid is normal noise.

A line through whole points in the direction K meets ⟨·, K⟩ in whole numbers s = ‖K‖² apart. Of its points
with ⟨v, K⟩ ≥ b one is to be drawn with probability proportional to

    f(v) = exp(−(1 − h²/12)·h²·⟨v, K⟩²/2s),

and the line itself to be kept with probability proportional to the sum of f over these points. Both at once:
a public table of whole numbers Wᵢ, 2⁶⁴ in sum, says which of them, the i-th from b on; an exact coin then
keeps it with probability C·f(v)/Wᵢ, and drops the line otherwise. C and the table depend on where b lies, in
deviations, and on bounds of ‖K‖ only; they are made so that the coin is at most one: Wᵢ ≥ C·f at every place
where the i-th point of a line can lie. So the i-th point of a line is kept with probability C·f(v)·2⁻⁶⁴,
whatever i is. The coin is decided by further random words where 64 bits leave it open.

Exact draws of a public random vector, given on which side of a cap around a private direction it falls.

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
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, chdtrc, gammaln, ndtr

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import check_fits
from sfumato.mechanisms.base import ExpectedError, Mechanism, finite
from sfumato.mechanisms.parameters import Epsilon, Radius, RandomSource, positive
from sfumato.noise import NORMAL, Rounded, Stream, mpmath_context
from sfumato.privacy import REQUIRED, Claim, Guarantee

__all__ = ["PrivUnit", "PrivUnitG"]

Array = NDArray[np.float64]

_WORDS = 2.0**64


@dataclass(frozen=True, eq=False)
class HalfLine:
    """The table for one place where lines begin: ``weights`` Wᵢ, their inner ``edges``, and C = ``scale``."""

    step: float
    edges: NDArray[np.uint64]
    weights: NDArray[np.uint64]
    scale: float
    #: How many lines are needed on average until one is kept.
    tries: float

    def draw(self, stream: Stream, nearest: Array, squares: Array) -> tuple[Array, NDArray[np.bool_]]:
        """For lines whose points have ⟨v, K⟩ = nearest, nearest + s, …: that of one, and whether it is kept.

        ``nearest`` is the first of them that is not below b, and s = ``squares``.
        """
        place = np.searchsorted(self.edges, stream.words(nearest.size), side="right")
        along = nearest + place * squares
        weights = self.weights[place]
        # The exponent is beyond 120 only where the coin is below 2⁻⁵², so this is good to 10⁻¹³.
        exponent = -0.5 * _flatness(self.step) * np.square(along * self.step) / squares
        with np.errstate(under="ignore"):
            coin = np.exp(exponent + math.log(self.scale) - np.log(weights.astype(np.float64)))
        words = stream.words(nearest.size)
        uniform = words.astype(np.float64) * 2.0**-64
        kept = uniform < coin
        # A word stands for one cell of 2⁻⁶⁴, its float for 2⁻⁵³ of it.
        for row in np.flatnonzero(np.abs(uniform - coin) <= coin * 1e-12 + 2.0**-52):
            whole = int(along[row]), int(squares[row]), int(weights[row])
            kept[row] = self._kept_exactly(stream, int(words[row]), *whole)
        return along, kept

    def _kept_exactly(self, stream: Stream, word: int, along: int, square: int, weight: int) -> bool:
        bits, mp = 64, mpmath_context()
        while True:
            with mp.workprec(bits + 128):
                exponent = -_flatness(mp.mpf(self.step)) * (mp.mpf(self.step) * along) ** 2 / (2 * square)
                coin = mp.exp(exponent) * mp.mpf(self.scale) / weight
                doubt = mp.ldexp(coin, -bits - 32)
                if mp.ldexp(word + 1, -bits) <= coin - doubt:
                    return True
                if mp.ldexp(word, -bits) >= coin + doubt:
                    return False
            word, bits = (word << 64) | stream.integer(64), bits + 64


@lru_cache(maxsize=64)
def half_line(start: float, farthest: float, step: float, sizes: tuple[float, float]) -> HalfLine:
    """The table for lines that begin at most a whole number from ``start``·‖K‖/``step``.

    ``start`` and ``farthest``, beyond which no point is needed, are in deviations; ‖K‖ lies within ``sizes``.
    """
    shortest, longest = sizes
    stray = 1.01 * step / shortest + 1e-9
    place = np.arange(math.ceil((farthest + stray - start) / (step * shortest)) + 1)
    low = start - stray + place * (step * shortest)
    high = start + stray + (place + 1) * (step * longest)
    # Of all places of the i-th point the one nearest to the middle, where f is largest.
    middle = np.maximum(np.maximum(low, -high), 0.0)
    with np.errstate(under="ignore"):
        most = np.exp(-0.5 * _flatness(step) * np.square(middle))
    # Rounded up, so that no coin exceeds one; what that leaves of 2⁶⁴ goes to the last place.
    scale = _WORDS / float(most.sum()) * (1.0 - 2.0**-20)
    edges = np.cumsum(np.maximum(np.ceil(most * scale), 1.0).astype(np.uint64))[:-1]
    weights = np.diff(edges, prepend=np.uint64(0), append=np.uint64(0))  # the last: what is left of 2⁶⁴
    scale *= 1.0 - 2.0**-40
    beyond = math.sqrt(math.pi / 2.0) * math.erfc(start / math.sqrt(2.0))
    tries = _WORDS / scale * step * 0.5 * (shortest + longest) / beyond
    return HalfLine(step, edges, weights, scale, tries)


def _flatness(step: float) -> float:
    """What rounding to a grid of ``step`` makes of the one in exp(−x²/2)."""
    return 1 - step * step / 12


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


_COIN = 2.0**64
# Of probabilities computed in double precision.
_ROUNDING = 1e-10
# Smaller caps would give better reports of few columns at a large ε, and take too long to hit.
_MOST_PROPOSALS = 500.0


@dataclass(frozen=True)
class Cap:
    """``threshold`` and coin of a report, the exact ``epsilon`` of both, and E⟨V, u⟩ and E‖V‖² of V."""

    threshold: float
    coin: int
    epsilon: float
    mean: float
    square: float


@dataclass(eq=False, repr=False)
class _Report(Mechanism):
    """What both share: vectors in the L2 ball of radius ``clip``, one report a record."""

    units = ("record",)
    _source: ClassVar[str]
    _most_columns: ClassVar[int] = MOST_COLUMNS
    version = 2

    epsilon: Epsilon = REQUIRED
    clip: Radius = 1.0
    _: KW_ONLY
    randomness: RandomSource = None

    @staticmethod
    @abstractmethod
    def _probability(threshold: float, columns: int) -> tuple[float, float, float]:
        """The probability of the cap, and a lower and an upper bound of it after rounding."""

    @staticmethod
    @abstractmethod
    def _moments(threshold: float, columns: int) -> tuple[float, float]:
        """E⟨V, u⟩ and E⟨V, u⟩² − (that of all V) over the cap, neither divided by its probability."""

    @staticmethod
    @abstractmethod
    def _shortest(columns: int) -> float:
        """The public length below which a vector is drawn again; 0 where lengths do not matter."""

    @staticmethod
    @abstractmethod
    def _largest_threshold(columns: int) -> float:
        """No cap beyond it is worth trying."""

    @classmethod
    def _square(cls, columns: int) -> float:
        """E‖V‖² without a cap."""
        return 1.0 if cls._shortest(columns) else float(columns)

    def cap(self, columns: int) -> Cap:
        """The cap and coin for records of ``columns`` columns; a function of ε and the dimension alone."""
        if not 2 <= columns <= self._most_columns:
            raise BadInput(
                f"{type(self).__name__} reports vectors of 2 to {self._most_columns:,} columns, "
                f"not {columns:,}."
            )
        return _best_cap(type(self), positive("epsilon", self.epsilon), columns)

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Pure ε for one record; that of the coin as it is tossed, where ``columns`` are known."""
        positive("clip", self.clip)
        asked = positive("epsilon", self.epsilon)
        exact = asked if columns is None else self.cap(columns).epsilon
        return Guarantee.pure(exact, theorem=f"{type(self).__name__}, drawn exactly")

    def claim(self) -> Claim | None:
        """Return the authors' own theorem: here claim and proof agree."""
        return self._claimed("ε-LDP for reports of unit vectors", self._source)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square error of one value in one report of a vector on the sphere."""
        cap, clip = self.cap(columns), positive("clip", self.clip)
        each = max(0.0, cap.square / cap.mean**2 - 1.0) / columns
        return (ExpectedError.each_value(clip * math.sqrt(each)),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The reports for ``X``; see :meth:`Mechanism.perturb`."""
        columns = X.shape[1]
        cap, clip = self.cap(columns), positive("clip", self.clip)
        check_fits(clip / cap.mean * (1.0 if self._shortest(columns) else LONGEST), X.dtype)
        out = np.empty(X.shape, dtype=X.dtype)

        def write(stream: Stream, rows: slice, values: Array) -> None:
            out[rows] = self._reports(stream, values, cap, clip)

        self._each_stream(X, first, finite, write, every_bit=True, row_by_row=True)
        return out

    def _reports(self, stream: Stream, values: Array, cap: Cap, clip: float) -> Array:
        directions = _on_the_sphere(stream, values, clip)
        inside = stream.words(len(values)) < np.uint64(cap.coin)
        shortest = self._shortest(values.shape[1])
        drawn = draw_sides(stream, directions, inside, cap.threshold, shortest)
        if shortest:
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn *= clip / cap.mean
        return drawn


class PrivUnitG(_Report):
    """Reports a Gaussian vector from around the record: the fast one, and as good in high dimension.

    Records are scaled back to L2 norm ``clip`` where longer; ``epsilon`` > 0 is the promise for one record.

    **Guarantee.** ε under replace, drawn exactly: Bhowmick et al. 2018; Asi, Feldman & Talwar 2022.
    """

    kinds = ("array",)

    _source = "Asi, Feldman & Talwar 2022, section 4"

    @staticmethod
    def _probability(threshold: float, columns: int) -> tuple[float, float, float]:
        moved = STEP * math.sqrt(columns)  # twice what rounding can move ⟨V, u⟩
        low, middle, high = (float(ndtr(-(threshold + by))) for by in (moved, 0.0, -moved))
        return middle, low, high

    @staticmethod
    def _moments(threshold: float, columns: int) -> tuple[float, float]:
        density = math.exp(-0.5 * threshold * threshold) / math.sqrt(2.0 * math.pi)
        return density, threshold * density

    @staticmethod
    def _shortest(columns: int) -> float:
        return 0.0

    @staticmethod
    def _largest_threshold(columns: int) -> float:
        return 8.0


class PrivUnit(_Report):
    """Reports a direction from around the record: the smallest error of all, unless ε is far above 8.

    Records are scaled back to L2 norm ``clip`` where longer; ``epsilon`` > 0 is the promise for one record.

    **Guarantee.** ε under replace, drawn exactly: Bhowmick et al. 2018; Asi, Feldman & Talwar 2022.
    """

    kinds = ("array",)

    _source = "Bhowmick, Duchi, Freudiger, Kapoor & Rogers 2018, theorem 1"
    _most_columns = MOST_DIRECTION_COLUMNS

    @staticmethod
    def _probability(threshold: float, columns: int) -> tuple[float, float, float]:
        shortest, by = PrivUnit._shortest(columns), STEP * math.sqrt(columns)
        # Rounding moves ⟨V, u⟩ and ‖V‖ by at most by/2 each, so the cosine by at most by/‖V‖; twice that.
        low, middle, high = (
            _beyond(threshold + sign * 2.0 * by / shortest, columns) for sign in (1.0, 0.0, -1.0)
        )
        # Length and direction of a normal vector are independent; rounding can carry a vector over the limit.
        lengths = chdtrc(columns, (shortest + by) ** 2) / chdtrc(columns, max(0.0, shortest - by) ** 2)
        return middle, low * float(lengths), min(1.0, high / float(lengths))

    @staticmethod
    def _moments(threshold: float, columns: int) -> tuple[float, float]:
        log = gammaln(columns / 2.0) - gammaln((columns - 1) / 2.0) - 0.5 * math.log(math.pi)
        tail = 0.5 * (columns - 1) * math.log1p(-threshold * threshold)
        return math.exp(log + tail) / (columns - 1), 0.0

    @staticmethod
    def _shortest(columns: int) -> float:
        # Most vectors are longer; the longer the shortest one, the better a proposal fits the cap.
        return max(math.sqrt(columns) - 2.0, 0.5 * math.sqrt(columns))

    @staticmethod
    def _largest_threshold(columns: int) -> float:
        return min(0.999, 8.0 / math.sqrt(columns))


def _beyond(cosine: float, columns: int) -> float:
    """The probability that a uniform direction has at least this ``cosine`` with a fixed one."""
    cosine = min(1.0, max(-1.0, cosine))
    half = 0.5 * float(betaincc(0.5, (columns - 1) / 2.0, cosine * cosine))
    return half if cosine >= 0.0 else 1.0 - half


@lru_cache(maxsize=256)
def _best_cap(kind: type[_Report], epsilon: float, columns: int) -> Cap:
    """Of the caps that keep to ``epsilon`` the one whose reports have the smallest squared error."""
    most = kind._largest_threshold(columns)
    centre, width = most / 2.0, most / 2.0
    best: Cap | None = None
    for _ in range(8):
        for threshold in np.linspace(max(0.0, centre - width), min(most, centre + width), 33):
            cap = _cap(kind, epsilon, columns, float(threshold))
            if cap is not None and (best is None or cap.square / cap.mean**2 < best.square / best.mean**2):
                best = cap
        if best is None:
            break
        centre, width = best.threshold, width / 8.0
    if best is None:
        raise BadInput(
            f"an `epsilon` of {epsilon:g} is too small for a report of {columns:,} columns.",
            parameter="epsilon",
        )
    return best


def _cap(kind: type[_Report], epsilon: float, columns: int, threshold: float) -> Cap | None:
    """The cap at ``threshold`` with the largest coin that keeps to ``epsilon``; None where there is none."""
    chance, low, high = kind._probability(threshold, columns)
    low, high = low * (1.0 - _ROUNDING), high * (1.0 + _ROUNDING)
    if not 0.0 < low <= high < 1.0:
        return None
    # ``caps`` draws from a half-space that holds the cap until it hits it.
    nearest = threshold * (kind._shortest(columns) or 1.0)
    if chance * _MOST_PROPOSALS < float(ndtr(-nearest)):
        return None
    odds = math.exp(min(epsilon - SLACK - _ROUNDING, 600.0)) * low / (1.0 - low)
    coin = min(int(odds / (1.0 + odds) * _COIN * (1.0 - 2.0**-40)), (1 << 64) - 1)
    exact = _loss(coin / _COIN, low, high)
    if exact > epsilon or coin / _COIN <= chance:
        return None
    p = coin / _COIN
    first, second = kind._moments(threshold, columns)
    tilt = p / chance - (1.0 - p) / (1.0 - chance)
    return Cap(threshold, coin, exact, first * tilt, kind._square(columns) + second * tilt)


def _loss(p: float, low: float, high: float) -> float:
    """The largest log ratio of probabilities for a coin ``p`` and caps of probability ``low`` to ``high``."""
    if not 0.0 < p < 1.0:
        return math.inf
    ratios = (
        p * (1.0 - low) / (low * (1.0 - p)),
        high * (1.0 - p) / (p * (1.0 - high)),
        high / low,
        (1.0 - low) / (1.0 - high),
    )
    return math.log(max(ratios)) + SLACK


def _on_the_sphere(stream: Stream, values: Array, clip: float) -> Array:
    """Unit vectors whose mean is the clipped record over ``clip``."""
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    zero = largest == 0.0
    directions = values / np.where(zero, 1.0, largest)[:, None]
    directions[zero, 0] = 1.0
    norms = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    with np.errstate(over="ignore"):
        share = np.minimum(largest * norms / clip, 1.0)
    ahead = stream.words(len(values)).astype(np.float64) * 2.0**-64 < (1.0 + share) / 2.0
    directions *= (np.where(ahead, 1.0, -1.0) / norms)[:, None]
    return np.asarray(directions)
