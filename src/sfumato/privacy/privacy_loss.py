"""Privacy loss of single mechanisms and of their composition: δ(ε), ε(δ) and the trade-off curve.

**Single mechanisms.** Each ``…Loss`` class describes one run on its worst pair of neighbours: ``pure`` is
the ε at δ = 0 (infinite where there is none), ``delta(ε)`` and ``epsilon(δ)`` are exact, ``spread(count)``
estimates how many units of loss a composition covers (it chooses a grid, no bound depends on it), and
``distribution(step)`` is a dp-accounting privacy loss distribution on multiples of ``step`` that lies on or
above the true curve everywhere.

**Composition.** A ``Curve`` is a multiset of single losses. Closed forms are used wherever there is one:
Gaussians only (their μ add up in squares), or one mechanism alone. Otherwise dp-accounting convolves
pessimistic privacy loss distributions, and the answer is the least of three sound bounds: that convolution,
Rényi DP, and "pure parts add up, the rest is one Gaussian".

*Numbers of a convolution.* The grid of losses has about 2^17 points, whatever the ε, so that memory and error
stay bounded. Rounding inside the Fourier transforms is covered by raising every δ by ``_rounding``. For a δ
smaller than that, for more than a million runs, and for losses in the hundreds of thousands, only the other
two bounds are used.

**Rényi DP** of a composition is computed by dp-accounting, which reads an event under a neighbouring relation
of its own. Our events describe the worst pair itself, so Gaussian and Laplace noise is read with unit
sensitivity and Poisson sampling as add/remove. A Poisson-sampled Laplace, which dp-accounting has no Rényi
curve for, is bounded by randomised response at its amplified ε, which dominates it. Conversion to (ε, δ) is
that of Canonne, Kamath & Steinke (2020). At small ε we compute ourselves: dp-accounting's differences of
nearly equal numbers lose every digit there, and randomised response at ε = 1e-8 comes out below zero, which a
sum over many runs would count as budget given back.
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

__all__ = ["ORDERS", "Curve", "GaussianLoss"]

# Losses further out than this many standard deviations have probability below 1e-22.
_DEVIATIONS = 10.0
# Beyond this dp-accounting overflows on a sampled Laplace; randomised response at its ε dominates it.
_LARGEST_SAMPLED = 300.0
_LOG_TAIL = 35.0  # −log of a tail mass of about 1e-15
# Written out here: a ledger fixes some of them when a dataset is opened, and must find them ever after.
ORDERS: tuple[float, ...] = (
    *(1.0 + tenths / 10.0 for tenths in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)
_SMALL = 1e-4  # where dp-accounting's Laplace keeps twelve digits
_GRID_POINTS = 2**17
_COARSEST_STEP = 4.0  # beyond it, an ε above 1e5, there is nothing left to be precise about
_MOST_RUNS = 10**6
# Beyond it e^ε overflows in dp-accounting.
_LARGEST_LOSS = 700.0
_ONE_STAGE = 2000
_FINEST_STEP = 1e-6  # below this the second differences of δ drown in double precision
_TRADEOFF_POINTS = 512
_SMALLEST_DELTA = 1e-300


def _pld() -> Any:
    """Return dp-accounting's module of privacy loss distributions, loaded when one is first needed."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def amplified(epsilon: float, rate: float) -> float:
    """Return log(1 + q(e^ε − 1)): ε after Poisson sampling at rate q (Balle, Barthe & Gaboardi 2018)."""
    if epsilon < 1.0:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon))


def unamplified(epsilon: float, rate: float) -> float:
    """Return log(1 + (e^ε − 1)/q), the inverse of ``amplified``."""
    if epsilon < 1.0:
        return math.log1p(math.expm1(epsilon) / rate)
    return epsilon + math.log1p((rate - 1.0) * math.exp(-epsilon)) - math.log(rate)


def _raised(epsilon: float, most: float) -> float:
    """Lift a closed form by its own rounding error, so that it errs on the safe side."""
    return 0.0 if epsilon <= 0.0 else min(most, epsilon * (1.0 + 2.0**-51))


def _pure_spread(epsilon: float, count: int) -> float:
    """Return the width of ``count`` losses in [−ε, ε] added up, by Hoeffding's inequality."""
    return 2.0 * epsilon * min(float(count), math.sqrt(2.0 * count * _LOG_TAIL))


@dataclass(frozen=True)
class GaussianLoss:
    """N(0, 1) against N(μ, 1)."""

    mu: float

    @property
    def pure(self) -> float:
        """Infinite: Gaussian noise has no pure ε."""
        return math.inf

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, exactly."""
        return gaussian_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        """Return ε at δ > 0, exactly (to rounding, upwards)."""
        return gaussian_epsilon(self.mu, delta)

    def spread(self, count: int) -> float:
        """Return the width of a loss of mean μ²/2 and deviation μ; dp-accounting's grid covers both signs."""
        mu = self.mu * math.sqrt(count)
        return mu * (mu + 2.0 * _DEVIATIONS)

    def distribution(self, step: float) -> Any:
        """Return the distribution at unit sensitivity: nothing is doubled."""
        return _pld().from_gaussian_mechanism(1.0 / self.mu, value_discretization_interval=step)


@dataclass(frozen=True)
class LaplaceLoss:
    """Lap(0, 1) against Lap(ε, 1)."""

    pure: float

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, exactly: 1 − e^{(ε−ε₀)/2} below ε₀."""
        return max(0.0, -math.expm1(0.5 * (epsilon - self.pure)))

    def epsilon(self, delta: float) -> float:
        """Return ε at δ > 0, exactly (to rounding, upwards)."""
        return _raised(self.pure + 2.0 * math.log1p(-delta), self.pure)

    def spread(self, count: int) -> float:
        """Return the Hoeffding width of the composed loss."""
        return _pure_spread(self.pure, count)

    def distribution(self, step: float) -> Any:
        """Return the distribution at unit sensitivity: nothing is doubled."""
        return _pld().from_laplace_mechanism(1.0 / self.pure, value_discretization_interval=step)


@dataclass(frozen=True)
class ResponseLoss:
    """Randomised response over ``buckets`` values whose likelihood ratios reach e^ε.

    With two buckets it dominates every ε-DP mechanism (Kairouz, Oh & Viswanath 2015).
    """

    pure: float
    buckets: int

    @property
    def _scale(self) -> float:
        return 1.0 + (self.buckets - 1) * math.exp(-self.pure)

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, exactly: (e^{ε₀} − e^ε)/(e^{ε₀} + k − 1) below ε₀."""
        return max(0.0, -math.expm1(epsilon - self.pure) / self._scale)

    def epsilon(self, delta: float) -> float:
        """Return ε at δ > 0, exactly (to rounding, upwards)."""
        inside = delta * self._scale
        return 0.0 if inside >= 1.0 else _raised(self.pure + math.log1p(-inside), self.pure)

    def spread(self, count: int) -> float:
        """Return the Hoeffding width of the composed loss."""
        return _pure_spread(self.pure, count)

    def distribution(self, step: float) -> Any:
        """Connect the dots on the grid points around the three losses −ε₀, 0 and ε₀.

        dp-accounting's own rounds each loss up to the grid, an error that grows with every composition.
        """
        near, far = math.floor(self.pure / step), math.ceil(self.pure / step)
        if far * step < self.pure:
            far += 1
        grid = np.unique([-far, -near, 0, near, far])
        deltas = [self._delta_anywhere(float(point) * step) for point in grid]
        deltas[-1] = 0.0
        with np.errstate(
            over="ignore"
        ):  # gaps above 709 overflow to an infinite divisor, hence to the right 0
            pmf = _pld().pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, deltas)
        return _pld().PrivacyLossDistribution(pmf)

    def _delta_anywhere(self, epsilon: float) -> float:
        if epsilon >= 0.0:
            return self.delta(epsilon)
        # Below zero the two inputs change roles: δ(−ε) = 1 − e^{−ε} + e^{−ε} δ(ε).
        return -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)


@dataclass(frozen=True)
class SampledLoss:
    """A Gaussian or Laplace mechanism run on a Poisson sample, under add/remove neighbours.

    δ(ε) = q·δ₀(log(1 + (e^ε − 1)/q)), tight (Balle, Barthe & Gaboardi 2018, Theorem 8).
    """

    base: GaussianLoss | LaplaceLoss
    rate: float

    @property
    def pure(self) -> float:
        """The amplified pure ε of a Laplace mechanism, infinite for a Gaussian."""
        return amplified(self.base.pure, self.rate) if self.base.pure < math.inf else math.inf

    def delta(self, epsilon: float) -> float:
        """Return δ at ε, exactly."""
        return self.rate * self.base.delta(unamplified(epsilon, self.rate))

    def epsilon(self, delta: float) -> float:
        """Return ε at δ > 0, exactly (to rounding, upwards)."""
        if delta >= self.rate:
            return 0.0
        return _raised(amplified(self.base.epsilon(delta / self.rate), self.rate), self.pure)

    def spread(self, count: int) -> float:
        """Return the width of the composed loss, from its variance for a Gaussian."""
        if isinstance(self.base, LaplaceLoss):
            return _pure_spread(self.pure, count)
        mu = self.base.mu
        deviation = min(mu, self.rate * math.sqrt(math.expm1(min(mu * mu, 700.0))))
        once = amplified(_DEVIATIONS * mu + 0.5 * mu * mu, self.rate)
        return 2.0 * _DEVIATIONS * deviation * math.sqrt(count) + once

    def distribution(self, step: float) -> Any:
        """Return both directions of add/remove, kept apart through composition."""
        if isinstance(self.base, GaussianLoss):
            return _pld().from_gaussian_mechanism(
                1.0 / self.base.mu, value_discretization_interval=step, sampling_prob=self.rate
            )
        if self.base.pure > _LARGEST_SAMPLED:
            return ResponseLoss(self.pure, 2).distribution(step)
        return _pld().from_laplace_mechanism(
            1.0 / self.base.pure, value_discretization_interval=step, sampling_prob=self.rate
        )


Loss = GaussianLoss | LaplaceLoss | ResponseLoss | SampledLoss


Parts = tuple[tuple[Loss, int], ...]


def response_noise(epsilon: float, buckets: int) -> float:
    """Return the chance of a random answer that gives randomised response its ε; 0 where e^−ε underflows."""
    shrink = math.exp(-epsilon)
    return buckets * shrink / (1.0 + (buckets - 1) * shrink)


def _one(loss: Loss) -> NDArray[np.float64]:
    """Return the Rényi divergence of one run at every order."""
    if isinstance(loss, SampledLoss) and isinstance(loss.base, GaussianLoss):
        # dp-accounting's series for fractional orders may not converge. (α−1)·D_α is a cumulant generating
        # function, hence convex in α and 0 at α = 1: a chord between whole orders is above it.
        whole = [order for order in ORDERS if order == int(order)]
        import dp_accounting as dp

        event = dp.PoissonSampledDpEvent(loss.rate, dp.GaussianDpEvent(1.0 / loss.base.mu))
        at_whole = _accountant(event, whole, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        orders, knots = np.array(ORDERS), np.array([1.0, *whole])
        heights = (knots - 1.0) * np.array([0.0, *at_whole])
        return np.asarray(np.interp(orders, knots, heights) / (orders - 1.0), dtype=np.float64)
    if isinstance(loss, SampledLoss):
        loss = ResponseLoss(loss.pure, 2)
    if isinstance(loss, GaussianLoss):
        return np.asarray(np.array(ORDERS) / (2.0 * (1.0 / loss.mu) ** 2), dtype=np.float64)
    if isinstance(loss, ResponseLoss):
        return _response(loss)
    if loss.pure < _SMALL:
        # A pure ε has divergence at most αε²/2 (Bun & Steinke 2016, Proposition 1.4), nearly tight here.
        return np.asarray(0.5 * loss.pure**2 * np.array(ORDERS), dtype=np.float64)
    import dp_accounting as dp

    event = dp.LaplaceDpEvent(1.0 / loss.pure)
    return _accountant(event, list(ORDERS), dp.NeighboringRelation.REPLACE_ONE)


def _response(loss: ResponseLoss) -> NDArray[np.float64]:
    """Return log(1 + (e^{αε} − 1)(1 − e^{−(α−1)ε})/(e^ε + k − 1))/(α − 1); no cancellation, no overflow."""
    epsilon, orders = loss.pure, np.array(ORDERS)
    if epsilon == 0.0:
        return np.zeros(len(ORDERS))
    grown = orders * epsilon + np.log(-np.expm1(-orders * epsilon))
    shrunk = np.log(-np.expm1(-(orders - 1.0) * epsilon))
    scale = epsilon + math.log1p((loss.buckets - 1) * math.exp(-epsilon))
    divergence = np.logaddexp(0.0, grown + shrunk - scale) / (orders - 1.0)
    return np.asarray(np.minimum(divergence, epsilon), dtype=np.float64)


def _rdp() -> Any:
    """Return dp-accounting's Rényi accountant, loaded when it is first needed."""
    from dp_accounting.rdp import rdp_privacy_accountant

    return rdp_privacy_accountant


def _accountant(event: Any, orders: list[float], relation: Any) -> NDArray[np.float64]:
    accountant = _rdp().RdpAccountant(orders, relation)
    accountant.compose(event)
    return np.asarray(accountant.rdp, dtype=np.float64)


@lru_cache(maxsize=256)
def rdp(parts: Parts) -> NDArray[np.float64]:
    """Return the Rényi divergence of the composition at each of ``ORDERS``."""
    total = np.zeros(len(ORDERS))
    for loss, count in parts:
        total = total + count * _one(loss)
    total.setflags(write=False)  # it is cached
    return total


def rdp_epsilon(parts: Parts, delta: float) -> float:
    """Return ε at δ > 0 by Rényi DP."""
    return float(_rdp().compute_epsilon(ORDERS, rdp(parts), delta)[0])


def rdp_delta(parts: Parts, epsilon: float) -> float:
    """Return δ at ε by Rényi DP."""
    return float(_rdp().compute_delta(ORDERS, rdp(parts), epsilon)[0])


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
        """Return the Rényi divergence at each of ``orders``, which are among ``ORDERS``."""
        at = dict(zip(ORDERS, rdp(self.parts), strict=True))
        return tuple(float(at[order]) for order in orders)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ at ε ≥ 0, exact where there is a closed form."""
        if epsilon >= self.pure:
            return 0.0
        if self.alone is not None:
            return self.alone.delta(epsilon)
        return _delta(self, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on ε at 0 ≤ δ ≤ 1, exact where there is a closed form."""
        if not self.parts or delta >= 1.0:
            return 0.0
        if delta < _SMALLEST_DELTA:
            return self.pure
        if self.alone is not None:
            return min(self.pure, self.alone.epsilon(delta))
        return _epsilon(self, delta)

    def tradeoff(self, alpha: float, slack: float) -> float:
        """Return a lower bound on the type II error at type I error α, if δ(ε) + ``slack`` bounds every ε."""
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
    """Return a bound on what Fourier transforms in double precision can take off a δ.

    Over thousands of random compositions with exact answers the loss stayed below a sixth of this.
    """
    return 2.0**-52 * (128.0 + 4.0 * sum(count for _, count in curve.parts))


def _loosest(curve: Curve) -> tuple[float, float]:
    """Return Σ of the pure ε, and μ of one Gaussian for the rest: sampling never raises a Gaussian's μ."""
    pure = math.fsum(loss.pure * count for loss, count in curve.parts if loss.pure < math.inf)
    squares = []
    for loss, count in curve.parts:
        base = loss.base if isinstance(loss, SampledLoss) else loss
        if isinstance(base, GaussianLoss):
            squares.append(count * base.mu**2)
    return pure, math.sqrt(math.fsum(squares))


@lru_cache(maxsize=16)
def _distribution(curve: Curve) -> Any:
    """Return the convolution of all parts, or None where it would not pay."""
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
    """Return ``count`` compositions of ``part``.

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
    """Return points of δ(ε); each gives two lines below the trade-off curve, so any choice is sound."""
    if not curve.parts:
        return np.zeros(1), np.zeros(1)
    end = min(curve.pure, curve.epsilon(1e-13))
    epsilons = np.linspace(0.0, end, 2 if isinstance(curve.alone, ResponseLoss) else _TRADEOFF_POINTS)
    return epsilons, np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
