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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.bounds import check_fits, check_inside, two_bounds
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import one_of, positive, shown
from sfumato.mechanisms.records import finite
from sfumato.mechanisms.tensors import UNITS, TensorMechanism, flattened
from sfumato.mechanisms.transition import MOST_LEVELS, Transition
from sfumato.noise import Randomness, Stream
from sfumato.privacy import Claim, Guarantee, Neighbours, Unit
from sfumato.privacy.defaults import REQUIRED, TENSORS

__all__ = ["GridTensorLDP", "best_channel"]

Array = NDArray[np.float64]

# The rounding of counts to 2⁻⁶⁴ moves ε by far less than this; asked for that much less, it never exceeds.
_MARGIN = 1e-9
# Beyond this many levels of scale the noise is uniform to a part in a million.
_UNIFORM = 1e6
# Counts of 2⁻⁶⁴ end any loss at 44.4.
_LARGEST_LOSS = 100.0
# Where 1 − p is tried, as shares of its range.
_SHARES = np.linspace(0.0, 1.0, 33)


class GridTensorLDP(TensorMechanism):
    """Releases each component as one of ``levels`` public levels between the bounds.

    ``epsilon`` is for one component, or with ``unit="tensor"`` (the default) for the whole tensor. Released
    values are levels, so their mean is pulled toward the middle; :meth:`unbiased` undoes that for sums.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        bounds: Any = (0.0, 255.0),
        levels: int = 256,
        *,
        unit: str = TENSORS.unit,
        outside: str = "refuse",
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.levels = levels
        self.unit = unit
        self.outside = outside
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the paper says of its method, which this one repairs."""
        return Claim(
            text="ε-LDP for tensors",
            source="TLDP, theorem 1, repaired on a grid",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
            unit=Unit(self.unit),
            neighbours=Neighbours.REPLACE,
        )

    def channel(self, columns: int) -> Transition:
        """What each component of a tensor of ``columns`` components goes through."""
        return best_channel(self._share(columns), self._levels())[2]

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of what is added, on average over the levels."""
        step = self._step()
        error = math.sqrt(_squared_error(self.channel(columns).matrix)) * step
        return (ExpectedError("each value", "root mean square error", error),)

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse what is not finite and, unless it is to be clipped, what lies outside the bounds."""
        super().check(X, first)
        check_inside(X, first, two_bounds(self.bounds), self.outside)

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
        whole = isinstance(self.levels, int | np.integer) and not isinstance(self.levels, bool)
        if not whole or not 2 <= self.levels <= MOST_LEVELS:
            raise BadInput(
                f"`levels` must be a whole number from 2 to {MOST_LEVELS}, not {shown(self.levels)}.",
                parameter="levels",
            )
        return int(self.levels)

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
