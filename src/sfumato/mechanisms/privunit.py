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
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, chdtrc, gammaln, ndtr

from sfumato.errors import BadInput
from sfumato.mechanisms.bounds import check_fits
from sfumato.mechanisms.caps import LONGEST, MOST_COLUMNS, MOST_DIRECTION_COLUMNS, SLACK, STEP, draw_sides
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.parameters import positive
from sfumato.mechanisms.records import finite
from sfumato.noise import Randomness, Stream
from sfumato.privacy import RECORD, Claim, Guarantee, Neighbours
from sfumato.privacy.defaults import REQUIRED

__all__ = ["Cap", "PrivUnit", "PrivUnitG"]

Array = NDArray[np.float64]

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


class _Report(Mechanism):
    """What both share: vectors in the L2 ball of radius ``clip``, one report a record."""

    _source: ClassVar[str]
    _most_columns: ClassVar[int] = MOST_COLUMNS
    version = 2

    def __init__(
        self, epsilon: float = REQUIRED, clip: float = 1.0, *, randomness: Randomness | None = None
    ) -> None:
        self.epsilon = epsilon
        self.clip = clip
        self.randomness = randomness

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
        """The authors' own theorem: here claim and proof agree."""
        return Claim(
            text="ε-LDP for reports of unit vectors",
            source=self._source,
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
            unit=RECORD,
            neighbours=Neighbours.REPLACE,
        )

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square error of one value in one report of a vector on the sphere."""
        cap, clip = self.cap(columns), positive("clip", self.clip)
        each = max(0.0, cap.square / cap.mean**2 - 1.0) / columns
        return (ExpectedError("each value", "root mean square error", clip * math.sqrt(each)),)

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
    """

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
    """

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
