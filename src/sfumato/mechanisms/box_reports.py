"""Duchi, Piecewise and Hybrid: ε-LDP reports of records in a box, by a few of their coordinates.

Of d coordinates k are chosen at random; each is reported with ε/k and multiplied by d/k, the others are left
at the centre, so that the mean of a report is the record (Wang et al. 2019, algorithm 4). One coordinate,
scaled to t in [−1, 1], is reported as

- Duchi (Duchi, Jordan & Wainwright 2018): one of two values ±a, the upper one with a probability linear in t;
- Piecewise (Wang et al. 2019, algorithm 2): a value in [−a, a], from a window around t with probability p;
- Hybrid (ibid., section 3.3): Piecewise with probability 1 − e^{−ε/2}, else Duchi; Duchi alone for small ε.

**Guarantee.** Pure ε, unit record, neighbours replace. Which coordinates are chosen does not depend on the
record, and k reports of ε/k compose. Each report is drawn with whole numbers, from which its ε is exact:
Duchi's coin falls up with a probability from 1 − q to q, q a multiple of 2⁻⁶⁴, to which it is held in whole
numbers whatever floats made of the value in between: ε′ = log q/(1 − q). Piecewise chooses one of N = 2²⁰
cells, a cell of the window of w cells with probability p/w and any other with (1 − p)/(N − w), so
ε′ = log p(N − w)/((1 − p)w). Hybrid's choice between them is a public coin.

**Edge cases.** Values outside the bounds are refused, or with ``outside="clip"`` moved to the nearer bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import BoundedMechanism, check_fits, two_bounds
from sfumato.mechanisms.base import ExpectedError, finite
from sfumato.mechanisms.parameters import (
    Epsilon,
    Outside,
    RandomSource,
    StrictBounds,
    positive,
    whole,
)
from sfumato.mechanisms.registry import Parameter
from sfumato.noise import Stream, coins, uniform_integers
from sfumato.privacy import REQUIRED, Claim, Guarantee

__all__ = ["Duchi", "Hybrid", "Piecewise"]

Array = NDArray[np.float64]

_COIN = 1 << 64
_CELLS = 1 << 20
# Where Hybrid begins to mix (Wang et al. 2019, equation 6).
_HYBRID_FROM = 0.61


@dataclass(frozen=True)
class _Two:
    """Duchi's report: ``high`` of 2⁶⁴ is the largest probability of the upper value."""

    high: int

    @property
    def epsilon(self) -> float:
        return _log_ratio(self.high, _COIN - self.high)

    @property
    def size(self) -> float:
        """Both reports, but for the sign."""
        return _COIN / (2 * self.high - _COIN)

    def square(self, t: float) -> float:
        """E of the squared report of t."""
        return self.size**2

    def draw(self, stream: Stream, t: Array) -> Array:
        low = _COIN - self.high
        # As floats these are below 2⁶⁴ and lose less than 2⁻⁵² of a probability, inside the two ends.
        limit = np.clip(low + (self.high - low) * (t + 1.0) / 2.0, float(low), float(self.high))
        threshold = np.minimum(np.maximum(limit.astype(np.uint64), np.uint64(low)), np.uint64(self.high))
        return np.where(stream.words(t.size) < threshold, self.size, -self.size)


@dataclass(frozen=True)
class _Window:
    """Piecewise's report: a window of ``width`` cells, hit with probability ``hit`` of 2⁶⁴."""

    width: int
    hit: int

    @property
    def epsilon(self) -> float:
        return _log_ratio(self.hit * (_CELLS - self.width), (_COIN - self.hit) * self.width)

    @property
    def size(self) -> float:
        """No report is larger."""
        return 1.0 / self._slope

    @property
    def _slope(self) -> float:
        p, rest = self.hit / _COIN, _CELLS - self.width
        return rest / _CELLS * (p - (1.0 - p) * self.width / rest)

    def square(self, t: float) -> float:
        """E of the squared report of t."""
        p, share = self.hit / _COIN, self.width / _CELLS
        centre = t * (1.0 - share)
        window = centre**2 + share**2 / 3.0
        rest = (1.0 / 3.0 - share * window) / (1.0 - share)
        return (p * window + (1.0 - p) * rest) / self._slope**2

    def draw(self, stream: Stream, t: Array) -> Array:
        rest = _CELLS - self.width
        start = np.clip(np.rint((t + 1.0) / 2.0 * rest), 0, rest).astype(np.int64)
        inside = coins(stream, self.hit, t.size)
        far = uniform_integers(stream, rest, t.size)
        far += self.width * (far >= start)
        cell = np.where(inside, start + uniform_integers(stream, self.width, t.size), far)
        return np.asarray(((2.0 * cell + 1.0) / _CELLS - 1.0) / self._slope)


@dataclass(eq=False, repr=False)
class _BoxReport(BoundedMechanism):
    """What all three share: the box, and which coordinates are reported."""

    units = ("record",)
    _source: ClassVar[str]

    epsilon: Epsilon = REQUIRED
    bounds: StrictBounds = (-1.0, 1.0)
    _: KW_ONLY
    coordinates: Annotated[
        int | None,
        Parameter("How many values of a record are reported; chosen from ε unless given.", symbol="K"),
    ] = None
    outside: Outside = "refuse"
    randomness: RandomSource = None

    @abstractmethod
    def _mixture(self, epsilon: float) -> tuple[float, _Window | None, _Two | None]:
        """The probability of a window's report, that report, and Duchi's, for one coordinate."""

    def count(self, columns: int) -> int:
        """How many coordinates of a record are reported."""
        if self.coordinates is None:
            return chosen_coordinates(positive("epsilon", self.epsilon), columns)
        return whole("coordinates", self.coordinates, columns)

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Pure ε for one record; from the whole numbers that are drawn, where ``columns`` are known."""
        asked = positive("epsilon", self.epsilon)
        two_bounds(self.bounds)
        theorem = f"{type(self).__name__}, coordinates sampled"
        if columns is None:
            return Guarantee.pure(asked, theorem=theorem)
        k = self.count(columns)
        _, window, two = self._mixture(asked / k)
        exact = max(part.epsilon for part in (window, two) if part is not None)
        return Guarantee.pure(k * exact, theorem=theorem)

    def claim(self) -> Claim | None:
        """Return the authors' own theorem: here claim and proof agree."""
        return self._claimed("ε-LDP for records in a box", self._source)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square error of a value, for the value that has the largest."""
        low, high = two_bounds(self.bounds)
        k = self.count(columns)
        share, window, two = self._mixture(positive("epsilon", self.epsilon) / k)

        def error(t: float) -> float:
            squares = share * window.square(t) if window else 0.0
            squares += (1.0 - share) * two.square(t) if two else 0.0
            return columns / k * squares - t * t

        worst = max(error(0.0), error(1.0))
        return (ExpectedError.each_value((high - low) / 2.0 * math.sqrt(worst)),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The reports for ``X``; see :meth:`Mechanism.perturb`."""
        self.check(X, first)
        columns = X.shape[1]
        low, high = two_bounds(self.bounds)
        half, k = (high - low) / 2.0, self.count(columns)
        mixture = self._mixture(positive("epsilon", self.epsilon) / k)
        largest = max(part.size for part in mixture[1:] if part is not None)
        check_fits(abs(low) + half * (1.0 + columns / k * largest), X.dtype)
        out = np.empty(X.shape, dtype=X.dtype)

        def read(block: NDArray[Any], at: int) -> Array:
            values = np.clip(finite(block, at), low, high)
            return np.clip((values - low) / half - 1.0, -1.0, 1.0)

        def write(stream: Stream, rows: slice, values: Array) -> None:
            out[rows] = low + half * (_report(stream, values, k, mixture) + 1.0)

        self._each_stream(X, first, read, write, every_bit=True)
        return out


class Duchi(_BoxReport):
    """Reports each chosen coordinate as one of two values; best where ε is small.

    ``bounds`` is (low, high) for every column; ``coordinates`` is k, by default chosen from ε.

    **Guarantee.** ε under replace, by k of d coordinates: Duchi, Jordan & Wainwright 2018.
    """

    kinds = ("array",)

    _source = "Duchi, Jordan & Wainwright 2018"

    def _mixture(self, epsilon: float) -> tuple[float, _Window | None, _Two | None]:
        return 0.0, None, _two(epsilon)


class Piecewise(_BoxReport):
    """Reports each chosen coordinate as a value of an interval; best where ε is large.

    ``bounds`` is (low, high) for every column; ``coordinates`` is k, by default chosen from ε.

    **Guarantee.** ε under replace, by k of d coordinates: Wang et al. 2019.
    """

    kinds = ("array",)

    _source = "Wang et al. 2019, algorithm 2"

    def _mixture(self, epsilon: float) -> tuple[float, _Window | None, _Two | None]:
        return 1.0, _window(epsilon), None


class Hybrid(_BoxReport):
    """Reports each chosen coordinate by Piecewise or by Duchi, whichever a public coin says.

    ``bounds`` is (low, high) for every column; ``coordinates`` is k, by default chosen from ε.

    **Guarantee.** ε under replace, by k of d coordinates: Duchi et al. 2018; Wang et al. 2019.
    """

    kinds = ("array",)

    _source = "Wang et al. 2019, section 3.3"

    def _mixture(self, epsilon: float) -> tuple[float, _Window | None, _Two | None]:
        if epsilon <= _HYBRID_FROM:
            return 0.0, None, _two(epsilon)
        # A coin of 64 bits, as a float: never certain.
        share = min(-math.expm1(-epsilon / 2.0), 1.0 - 2.0**-53)
        return share, _window(epsilon), _two(epsilon)


def chosen_coordinates(epsilon: float, columns: int) -> int:
    """How many of ``columns`` coordinates to report: one for each 2.5 of ε (Wang et al. 2019, eq. 12)."""
    return max(1, min(columns, int(epsilon / 2.5)))


def _log_ratio(more: int, less: int) -> float:
    """The logarithm of ``more``/``less``, two whole numbers, rounded up by 10⁻¹⁴ of it."""
    return math.log1p((more - less) / less) * (1.0 + 1e-14)


@lru_cache(maxsize=256)
def _two(epsilon: float) -> _Two:
    """The largest coin that keeps to ``epsilon``."""
    high = int(_COIN / (1.0 + math.exp(-epsilon * (1.0 - 1e-12))) * (1.0 - 2.0**-50))
    made = _Two(min(high, _COIN - 1))
    if 2 * made.high <= _COIN or made.epsilon > epsilon:
        raise BadInput(
            f"an `epsilon` of {epsilon:g} for one coordinate is too small for a coin of 64 bits.",
            parameter="epsilon",
        )
    return made


@lru_cache(maxsize=256)
def _window(epsilon: float) -> _Window:
    """The window of Wang et al. with the largest probability that keeps to ``epsilon``."""
    # (C − 1)/2C with C = (e^{ε/2} + 1)/(e^{ε/2} − 1).
    width = min(max(1, round(_CELLS / (math.exp(min(epsilon / 2.0, 700.0)) + 1.0))), _CELLS // 2)
    log_odds = epsilon * (1.0 - 1e-12) + math.log(width) - math.log(_CELLS - width)
    hit = int(_COIN / (1.0 + math.exp(-log_odds)) * (1.0 - 2.0**-45))
    made = _Window(width, min(hit, _COIN - 1))
    if made.epsilon > epsilon or made._slope <= 0.0:
        raise BadInput(
            f"an `epsilon` of {epsilon:g} for one coordinate is too small for {_CELLS:,} cells.",
            parameter="epsilon",
        )
    return made


def _report(stream: Stream, t: Array, k: int, mixture: tuple[float, _Window | None, _Two | None]) -> Array:
    """One report for each row of ``t``, zero where a coordinate was not chosen."""
    rows, columns = t.shape
    share, window, two = mixture
    if k == columns:
        chosen = np.broadcast_to(np.arange(columns), (rows, columns))
    else:
        # The k smallest of independent words are a uniform choice; equal words have probability 2⁻⁶⁴·d².
        words = stream.words(rows * columns).reshape(rows, columns)
        chosen = np.argpartition(words, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(t, chosen, axis=1).reshape(-1)
    if window is None or two is None:
        drawn = (window or two).draw(stream, values)  # type: ignore[union-attr]
    else:
        mixed = coins(stream, int(share * _COIN), values.size)
        drawn = np.where(mixed, window.draw(stream, values), two.draw(stream, values))
    out = np.zeros_like(t)
    np.put_along_axis(out, chosen, (columns / k * drawn).reshape(rows, -1), axis=1)
    return out
