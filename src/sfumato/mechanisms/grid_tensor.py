"""TLDP repaired: components on k public levels, kept or noised by a channel whose ε is known exactly.

**Guarantee.** Each component, put on one of k public levels, goes through q(y|x) = p·[y=x] + (1−p)·t(y|x),
where t is discrete Laplace noise of scale b (in levels) around x, cut off at the ends and normalised. The
law that is drawn is a matrix of whole numbers (see ``transition``), whose ε is exact. Neighbours: replace.
Unit component: that ε. Unit tensor: I times it, since components are drawn independently (pure composition,
exact for the pair of tensors that takes the worst pair in every component).

p and b are chosen from ε and k alone: of all pairs that keep to ε, the one with the smallest squared error,
averaged over levels. For small ε that is p = 0; where ε is large against log k, b grows without bound and
the channel becomes k-ary randomised response.

**Edge cases.** Values between two levels go to the nearer one; beyond the bounds they are refused, or moved
to the nearer bound where asked. The levels include both bounds.

A channel from k levels to k levels, drawn with exactly the probabilities that its ε is computed from.

Every row of the transition matrix is held as whole numbers that sum to 2⁶⁴, and one 64-bit word draws from
it by an alias table (Walker 1977; Vose 1991) whose columns are a power of two in number. So the law of what
is drawn is the matrix itself, to the last bit, and

    ε = log max over y, x, x′ of q(y|x)/q(y|x′)

is the exact pure ε of one draw, under replace: no smaller one holds.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any

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
    one_of,
    positive,
    whole,
)
from sfumato.mechanisms.registry import Parameter
from sfumato.mechanisms.tensors import UNITS, TensorMechanism, TensorShape, TensorUnit, flattened
from sfumato.noise import Stream
from sfumato.privacy import REQUIRED, TENSORS, Claim, Guarantee, Unit

__all__ = ["GridTensorLDP"]

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


# The rounding of counts to 2⁻⁶⁴ moves ε by far less than this; asked for that much less, it never exceeds.
_MARGIN = 1e-9
# Beyond this many levels of scale the noise is uniform to a part in a million.
_UNIFORM = 1e6
# Counts of 2⁻⁶⁴ end any loss at 44.4.
_LARGEST_LOSS = 100.0
# Where 1 − p is tried, as shares of its range.
_SHARES = np.linspace(0.0, 1.0, 33)


@dataclass(eq=False, repr=False)
class GridTensorLDP(TensorMechanism, BoundedMechanism):
    """Releases each component as one of ``levels`` public levels between the bounds.

    ``epsilon`` is for one component, or with ``unit="tensor"`` (the default) for the whole tensor. Released
    values are levels, so their mean is pulled toward the middle; :meth:`unbiased` undoes that for sums.

    **Guarantee.** Under replace, for a component ε, exact from the transition matrix; for a tensor I times
    it.
    """

    kinds = ("array",)
    units = ("component", "tensor")

    epsilon: Epsilon = REQUIRED
    bounds: StrictBounds = (0.0, 255.0)
    levels: Annotated[int, Parameter("Number of public levels between the bounds.", symbol="K")] = 256
    _: KW_ONLY
    unit: TensorUnit = TENSORS.unit
    outside: Outside = "refuse"
    shape: TensorShape = None
    randomness: RandomSource = None

    def claim(self) -> Claim | None:
        """Return what the paper says of its method, which this one repairs."""
        return self._claimed("ε-LDP for tensors", "TLDP, theorem 1, repaired on a grid", unit=Unit(self.unit))

    def channel(self, columns: int) -> Transition:
        """What each component of a tensor of ``columns`` components goes through."""
        return best_channel(self._share(columns), self._levels())[2]

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of what is added, on average over the levels."""
        error = math.sqrt(_squared_error(self.channel(columns).matrix))
        return (ExpectedError.each_value(error * self._step()),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        self.check(X, first)
        columns = X.shape[1]
        channel = self.channel(columns)
        (low, high), step, last = two_bounds(self.bounds), self._step(), self._levels() - 1
        check_fits(max(abs(low), abs(high)), X.dtype)
        out = np.empty(X.shape, dtype=X.dtype)

        def read(block: NDArray[Any], at: int) -> NDArray[np.int64]:
            values = np.clip(finite(block, at), low, high)
            return np.clip(np.rint((values - low) / step), 0, last).astype(np.int64)

        def write(stream: Stream, rows: slice, levels: NDArray[np.int64]) -> None:
            # The last level is the upper bound itself, whatever rounding made of low + last·step.
            out[rows] = np.minimum(low + channel.draw(stream, levels) * step, high)

        self._each_stream(X, first, read, write)
        return out

    def unbiased(self, released: NDArray[Any]) -> Array:
        """Released tensors (n, …) as numbers whose expectation is the level of the true value.

        The channel spreads level x to a mean m(x); the estimate of level y is z(y) with Σ_y q(y|x)z(y) = x,
        the smallest such z. Averages of these estimate averages of tensors without bias. They lie outside
        the bounds, and are no release of their own: this is post-processing.
        """
        rows, shape = flattened(released)
        matrix, step = self.channel(rows.shape[1]).matrix, self._step()
        low = two_bounds(self.bounds)[0]
        places = (rows.astype(np.float64) - low) / step
        index = np.rint(places)
        if not ((np.abs(places - index) < 0.25) & (index >= 0) & (index < len(matrix))).all():
            raise BadInput(f"these are no released values: they lie off the {len(matrix)} levels.")
        levels = np.arange(len(matrix), dtype=np.float64)
        estimate = np.linalg.lstsq(matrix, levels, rcond=None)[0]
        return np.asarray(low + estimate[index.astype(np.int64)] * step).reshape(len(rows), *shape)

    def _proven(self, unit: str, size: int) -> Guarantee:
        epsilon = self.channel(size).epsilon
        return Guarantee.pure(
            epsilon * (size if unit == "tensor" else 1),
            unit=Unit(unit),
            theorem="exact from the transition matrix" + (", all components" if unit == "tensor" else ""),
        )

    def _share(self, columns: int) -> float:
        """The ε of one component."""
        epsilon = positive("epsilon", self.epsilon)
        return epsilon / columns if one_of("unit", self.unit, UNITS) == "tensor" else epsilon

    def _levels(self) -> int:
        return whole("levels", self.levels, MOST_LEVELS, smallest=2)

    def _step(self) -> float:
        low, high = two_bounds(self.bounds)
        return (high - low) / (self._levels() - 1)


@lru_cache(maxsize=256)
def best_channel(epsilon: float, levels: int) -> tuple[float, float, Transition]:
    """(p, b, channel): of all q that keep to ``epsilon``, the one of smallest mean squared error."""
    asked = epsilon * (1.0 - _MARGIN) - 1e-12
    if asked <= 0.0:
        raise BadInput(
            f"an `epsilon` of {epsilon:g} for one component is too small for a coin of 64 bits.",
            parameter="epsilon",
        )
    # k-ary randomised response: all noise uniform. 1 − p is what is searched for, since p may be next to one.
    least = levels / (math.expm1(min(asked, _LARGEST_LOSS)) + levels)
    best = min((_error_at(rest, asked, levels), rest) for rest in least + (1.0 - least) * _SHARES)
    # The error as a function of p need not be convex: the neighbourhood of the best point is searched again.
    around = np.clip(best[1] + (1.0 - least) * (_SHARES - 0.5) / 16.0, least, 1.0)
    rest = float(min(best, min((_error_at(rest, asked, levels), rest) for rest in around))[1])
    scale = _smallest_scale(rest, asked, levels)
    return 1.0 - rest, scale, Transition.nearest(_channel(rest, scale, levels))


def _error_at(rest: float, epsilon: float, levels: int) -> float:
    """E(y − x)² in levels, on average over x, of the best channel with 1 − p = ``rest``."""
    weight = _weights(_smallest_scale(rest, epsilon, levels), levels)
    squares = np.cumsum(weight * np.square(np.arange(levels, dtype=np.float64)))
    return rest * float(((squares + squares[::-1]) / _totals(weight)).mean())


def _smallest_scale(rest: float, epsilon: float, levels: int) -> float:
    """The smallest b with which (p, b) keeps to ``epsilon``; infinite where only uniform noise does."""
    low, high = -20.0, math.log(_UNIFORM * levels)
    if _loss(rest, math.exp(high), levels) > epsilon:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _loss(rest, math.exp(middle), levels) > epsilon else (low, middle)
    return math.exp(high)


def _loss(rest: float, scale: float, levels: int) -> float:
    """The largest log q(y|x)/q(y|x′) over all y, x, x′.

    As x goes one level away from y, t(y|x) = w^|y−x|/Z_x does not grow: its numerator falls by the factor w,
    and Z_x = Σ_z w^|z−x| by no more, since a step of x takes no more than that factor from any of its terms.
    So the largest entry of column y is q(y|y), and the smallest is that of one of the two ends.
    """
    weight = _weights(scale, levels)
    totals = _totals(weight)
    least = rest * np.minimum(weight, weight[::-1]) / totals[0]
    most = (1.0 - rest) + rest / totals
    return math.inf if not least.all() else float((np.log(most) - np.log(least)).max())


def _weights(scale: float, levels: int) -> Array:
    """e^{−d/b} for every distance d between levels."""
    with np.errstate(under="ignore"):
        return np.exp(-np.arange(levels, dtype=np.float64) / scale)


def _totals(weight: Array) -> Array:
    """What each row of the noise sums up to before it is normalised: the weights of both sides of x."""
    sums = np.cumsum(weight)
    return np.asarray(sums + sums[::-1] - 1.0)


def _channel(rest: float, scale: float, levels: int) -> Array:
    """q(y|x) as floats, (k, k)."""
    weight = _weights(scale, levels)
    distance = np.arange(levels)
    noise = weight[np.abs(distance[:, None] - distance[None, :])]
    noise *= rest / _totals(weight)[:, None]
    noise[np.diag_indices(levels)] += 1.0 - rest
    return np.asarray(noise)


def _squared_error(matrix: Array) -> float:
    """E(y − x)² in levels, on average over x."""
    levels = np.arange(len(matrix), dtype=np.float64)
    return float((matrix * np.square(levels[:, None] - levels[None, :])).sum() / len(matrix))
