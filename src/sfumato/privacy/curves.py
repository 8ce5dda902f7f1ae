"""From what was run to δ(ε), ε(δ) and the trade-off curve of all of it together.

A ``Curve`` is a multiset of single losses. Closed forms are used wherever there is one: Gaussians only
(their μ add up in squares), or one mechanism alone. Otherwise dp-accounting convolves pessimistic privacy
loss distributions, and the answer is the least of three sound bounds: that convolution, Rényi DP, and
"pure parts add up, the rest is one Gaussian".

Numbers of a convolution. The grid of losses has about 2^17 points, whatever the ε, so that neither memory
nor error explodes. Rounding inside the Fourier transforms is covered by raising every δ by
``_rounding``. For a δ smaller than that, for more than a million runs, and for losses in the hundreds of
thousands, the other two bounds answer alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.analytic_gaussian import gaussian_delta, gaussian_epsilon, gaussian_tradeoff
from sfumato.privacy.losses import GaussianLoss, LaplaceLoss, Loss, ResponseLoss, SampledLoss
from sfumato.privacy.renyi import ORDERS, rdp, rdp_delta, rdp_epsilon

__all__ = ["Curve"]

_GRID_POINTS = 2**17
_COARSEST_STEP = 4.0  # beyond it, an ε above 1e5, there is nothing left to be precise about
_MOST_RUNS = 10**6
# Beyond it e^ε overflows in dp-accounting.
_LARGEST_LOSS = 700.0
_ONE_STAGE = 2000
_FINEST_STEP = 1e-6  # below this the second differences of δ drown in double precision
_TRADEOFF_POINTS = 512
_SMALLEST_DELTA = 1e-300


@dataclass(frozen=True)
class Curve:
    """The privacy of several losses composed; ``parts`` holds each distinct loss with its count."""

    parts: tuple[tuple[Loss, int], ...]

    @classmethod
    def of(cls, losses: Iterable[tuple[Loss, int]]) -> Curve:
        """Merge equal losses and all Gaussians, in an order that does not depend on theirs."""
        counts: Counter[Loss] = Counter()
        squares = []
        for loss, count in losses:
            if isinstance(loss, GaussianLoss):
                squares.append((loss.mu, count))
            elif loss.pure > 0.0:
                counts[loss] += count
        parts: list[tuple[Loss, int]] = sorted(counts.items(), key=repr)
        if len(squares) == 1 and squares[0][1] == 1:
            parts.append((GaussianLoss(squares[0][0]), 1))
        elif squares:
            parts.append((GaussianLoss(math.sqrt(math.fsum(n * mu * mu for mu, n in sorted(squares)))), 1))
        return cls(tuple(parts))

    @property
    def alone(self) -> Loss | None:
        """The one loss of a curve that has a closed form, if there is one."""
        return self.parts[0][0] if len(self.parts) == 1 and self.parts[0][1] == 1 else None

    @property
    def pure(self) -> float:
        """ε at δ = 0: the sum of the pure ε, infinite if one part has none."""
        return math.fsum(loss.pure * count for loss, count in self.parts)

    def renyi(self, orders: Iterable[float]) -> tuple[float, ...]:
        """The Rényi divergence at each of ``orders``, which are among ``renyi.ORDERS``."""
        at = dict(zip(ORDERS, rdp(self.parts), strict=True))
        return tuple(float(at[order]) for order in orders)

    def delta(self, epsilon: float) -> float:
        """An upper bound on δ at ε ≥ 0, exact where there is a closed form."""
        if epsilon >= self.pure:
            return 0.0
        if self.alone is not None:
            return self.alone.delta(epsilon)
        return _delta(self, epsilon)

    def epsilon(self, delta: float) -> float:
        """An upper bound on ε at 0 ≤ δ ≤ 1, exact where there is a closed form."""
        if not self.parts or delta >= 1.0:
            return 0.0
        if delta < _SMALLEST_DELTA:
            return self.pure
        if self.alone is not None:
            return min(self.pure, self.alone.epsilon(delta))
        return _epsilon(self, delta)

    def tradeoff(self, alpha: float, slack: float) -> float:
        """A lower bound on the type II error at type I error α, when δ(ε) + ``slack`` bounds every ε."""
        if isinstance(self.alone, GaussianLoss | LaplaceLoss):
            # H + s for every ε bounds β from below by f(α) − s, and by f(α + s) read the other way round.
            here = _exact_tradeoff(self.alone, alpha) - slack
            there = _exact_tradeoff(self.alone, min(1.0, alpha + slack))
            return max(0.0, here, there)
        epsilons, deltas = _grid(self)
        room = 1.0 - deltas - slack
        with np.errstate(over="ignore"):
            steep = room - np.exp(epsilons) * alpha if alpha > 0.0 else room
        return float(max(0.0, np.max(steep), np.max(np.exp(-epsilons) * (room - alpha))))


def _exact_tradeoff(loss: GaussianLoss | LaplaceLoss, alpha: float) -> float:
    if isinstance(loss, GaussianLoss):
        return gaussian_tradeoff(alpha, loss.mu)
    shrink = math.exp(-loss.pure)
    if alpha <= 0.5 * shrink:
        return 1.0 - alpha / shrink if alpha > 0.0 else 1.0
    return 0.25 * shrink / alpha if alpha <= 0.5 else shrink * (1.0 - alpha)


def _rounding(curve: Curve) -> float:
    """What Fourier transforms in double precision can take off a δ.

    Over thousands of random compositions with exact answers the loss stayed below a sixth of this.
    """
    return 2.0**-52 * (128.0 + 4.0 * sum(count for _, count in curve.parts))


def _loosest(curve: Curve) -> tuple[float, float]:
    """Σ of the pure ε, and the μ of one Gaussian for the rest; sampling only ever shrinks a Gaussian's."""
    pure = math.fsum(loss.pure * count for loss, count in curve.parts if loss.pure < math.inf)
    squares = []
    for loss, count in curve.parts:
        base = loss.base if isinstance(loss, SampledLoss) else loss
        if isinstance(base, GaussianLoss):
            squares.append(count * base.mu**2)
    return pure, math.sqrt(math.fsum(squares))


@lru_cache(maxsize=16)
def _distribution(curve: Curve) -> Any:
    """The convolution of all parts, or None where it would not pay."""
    spread = math.fsum(loss.spread(count) for loss, count in curve.parts)
    step = max(_FINEST_STEP, spread / _GRID_POINTS)
    if step > _COARSEST_STEP or sum(count for _, count in curve.parts) > _MOST_RUNS:
        return None
    if any(_LARGEST_LOSS < loss.pure < math.inf for loss, _ in curve.parts):
        return None
    whole: Any = None
    for loss, count in curve.parts:
        part = _repeated(loss.distribution(step), count)
        whole = part if whole is None else whole.compose(part)
    return whole


def _repeated(part: Any, count: int) -> Any:
    """``count`` compositions of ``part``.

    The library cuts tails by a Chernoff bound that is poor for many copies of a narrow distribution, so
    large counts go in two stages.
    """
    if count == 1:
        return part
    if count <= _ONE_STAGE:
        return part.self_compose(count)
    inner = math.isqrt(count)
    whole = part.self_compose(inner).self_compose(count // inner)
    rest = count % inner
    return whole.compose(_repeated(part, rest)) if rest else whole


def _convolved_delta(curve: Curve, epsilon: float) -> float:
    distribution = _distribution(curve)
    if distribution is None:
        return 1.0
    return float(distribution.get_delta_for_epsilon(epsilon)) + _rounding(curve)


@lru_cache(maxsize=4096)
def _delta(curve: Curve, epsilon: float) -> float:
    pure, mu = _loosest(curve)
    convolved = _convolved_delta(curve, epsilon)
    bounds = [1.0, convolved]
    if convolved < 4.0 * _rounding(curve) or convolved >= 1.0:
        bounds.append(rdp_delta(curve.parts, epsilon))
    if mu > 0.0 and epsilon > pure:
        bounds.append(gaussian_delta(epsilon - pure, mu))
    return min(bounds)


@lru_cache(maxsize=4096)
def _epsilon(curve: Curve, delta: float) -> float:
    pure, mu = _loosest(curve)
    upper = pure + (gaussian_epsilon(mu, delta) if mu > 0.0 else 0.0)
    if _distribution(curve) is None or delta < 4.0 * _rounding(curve):
        upper = min(upper, rdp_epsilon(curve.parts, delta))
    # Bisection on the stable δ(ε) rather than the library's own inverse, whose e^(−loss) overflows.
    if _convolved_delta(curve, upper) > delta:
        return upper
    if _convolved_delta(curve, 0.0) <= delta:
        return 0.0
    lower, best = 0.0, upper
    while best - lower > 1e-12 * best:
        middle = 0.5 * (lower + best)
        if not lower < middle < best:
            break
        if _convolved_delta(curve, middle) <= delta:
            best = middle
        else:
            lower = middle
    return best


@lru_cache(maxsize=64)
def _grid(curve: Curve) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of δ(ε); each gives two lines below the trade-off curve, so any choice of points is sound."""
    if not curve.parts:
        return np.zeros(1), np.zeros(1)
    end = min(curve.pure, curve.epsilon(1e-13))
    epsilons = np.linspace(0.0, end, 2 if isinstance(curve.alone, ResponseLoss) else _TRADEOFF_POINTS)
    return epsilons, np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
