"""The privacy loss of one mechanism on its worst pair of neighbours: exact curves, and the PLD of each.

Each class answers for a single run: ``pure`` is the ε at δ = 0 (infinite where there is none), ``delta(ε)``
and ``epsilon(δ)`` are exact, ``spread(count)`` estimates how many units of loss a composition covers (it
chooses a grid, no bound depends on it), and ``distribution(step)`` is a dp-accounting privacy loss
distribution on multiples of ``step`` that lies on or above the true curve everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.privacy.analytic_gaussian import gaussian_delta, gaussian_epsilon

__all__ = ["GaussianLoss", "LaplaceLoss", "Loss", "ResponseLoss", "SampledLoss", "amplified", "unamplified"]

# Losses further out than this many standard deviations have probability below 1e-22.
_DEVIATIONS = 10.0
# Beyond this dp-accounting overflows on a sampled Laplace; randomised response at its ε dominates it.
_LARGEST_SAMPLED = 300.0
_LOG_TAIL = 35.0  # −log of a tail mass of about 1e-15


def _pld() -> Any:
    """dp-accounting's privacy loss distributions, loaded when the first of them is built."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def amplified(epsilon: float, rate: float) -> float:
    """log(1 + q(e^ε − 1)): the ε left after Poisson sampling at rate q (Balle, Barthe & Gaboardi 2018)."""
    if epsilon < 1.0:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon))


def unamplified(epsilon: float, rate: float) -> float:
    """log(1 + (e^ε − 1)/q), the inverse of ``amplified``."""
    if epsilon < 1.0:
        return math.log1p(math.expm1(epsilon) / rate)
    return epsilon + math.log1p((rate - 1.0) * math.exp(-epsilon)) - math.log(rate)


def _raised(epsilon: float, most: float) -> float:
    """Lift a closed form by its own rounding error, so that it errs on the safe side."""
    return 0.0 if epsilon <= 0.0 else min(most, epsilon * (1.0 + 2.0**-51))


def _pure_spread(epsilon: float, count: int) -> float:
    """Width of ``count`` losses in [−ε, ε] added up, by Hoeffding's inequality."""
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
        """δ at ε, exactly."""
        return gaussian_delta(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        """ε at δ > 0, exactly (to rounding, upwards)."""
        return gaussian_epsilon(self.mu, delta)

    def spread(self, count: int) -> float:
        """The loss has mean μ²/2 and deviation μ; dp-accounting lays its grid on both sides of zero."""
        mu = self.mu * math.sqrt(count)
        return mu * (mu + 2.0 * _DEVIATIONS)

    def distribution(self, step: float) -> Any:
        """The unit-sensitivity reading: nothing is doubled."""
        return _pld().from_gaussian_mechanism(1.0 / self.mu, value_discretization_interval=step)


@dataclass(frozen=True)
class LaplaceLoss:
    """Lap(0, 1) against Lap(ε, 1)."""

    pure: float

    def delta(self, epsilon: float) -> float:
        """δ at ε, exactly: 1 − e^{(ε−ε₀)/2} below ε₀."""
        return max(0.0, -math.expm1(0.5 * (epsilon - self.pure)))

    def epsilon(self, delta: float) -> float:
        """ε at δ > 0, exactly (to rounding, upwards)."""
        return _raised(self.pure + 2.0 * math.log1p(-delta), self.pure)

    def spread(self, count: int) -> float:
        """Hoeffding width of the composed loss."""
        return _pure_spread(self.pure, count)

    def distribution(self, step: float) -> Any:
        """The unit-sensitivity reading: nothing is doubled."""
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
        """δ at ε, exactly: (e^{ε₀} − e^ε)/(e^{ε₀} + k − 1) below ε₀."""
        return max(0.0, -math.expm1(epsilon - self.pure) / self._scale)

    def epsilon(self, delta: float) -> float:
        """ε at δ > 0, exactly (to rounding, upwards)."""
        inside = delta * self._scale
        return 0.0 if inside >= 1.0 else _raised(self.pure + math.log1p(-inside), self.pure)

    def spread(self, count: int) -> float:
        """Hoeffding width of the composed loss."""
        return _pure_spread(self.pure, count)

    def distribution(self, step: float) -> Any:
        """Connect-the-dots on the grid points around the three losses −ε₀, 0 and ε₀.

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
        """δ at ε, exactly."""
        return self.rate * self.base.delta(unamplified(epsilon, self.rate))

    def epsilon(self, delta: float) -> float:
        """ε at δ > 0, exactly (to rounding, upwards)."""
        if delta >= self.rate:
            return 0.0
        return _raised(amplified(self.base.epsilon(delta / self.rate), self.rate), self.pure)

    def spread(self, count: int) -> float:
        """Width of the composed loss, from its variance for a Gaussian."""
        if isinstance(self.base, LaplaceLoss):
            return _pure_spread(self.pure, count)
        mu = self.base.mu
        deviation = min(mu, self.rate * math.sqrt(math.expm1(min(mu * mu, 700.0))))
        once = amplified(_DEVIATIONS * mu + 0.5 * mu * mu, self.rate)
        return 2.0 * _DEVIATIONS * deviation * math.sqrt(count) + once

    def distribution(self, step: float) -> Any:
        """Both directions of add/remove, kept apart through composition."""
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
