"""Many independent components, each with a pure ε of its own, as one tensor: exact composition.

**Theorem.** A mechanism of pure ε is dominated by binary randomised response of that ε (Kairouz, Oh &
Viswanath 2015), and domination survives composition. Of I responses of ε₁ the privacy loss is ε₁(2B − I),
where B is binomial with I trials of probability e^{ε₁}/(1 + e^{ε₁}). So a tensor whose I components are
released independently, each with pure ε₁, is (ε, δ)-LDP for every ε ≥ 0 with

    δ = Σ_b P(B = b)·(1 − e^{ε − ε₁(2b − I)})₊ ,

and for binary randomised response itself no smaller δ holds. Unit: tensor; neighbours: replace.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

__all__ = ["composed_delta", "composed_epsilon", "largest_share"]

# Of logarithms of factorials in double precision; a δ is raised by this share of itself.
_ROUNDING = 1e-9


def composed_delta(share: float, count: int, epsilon: float) -> float:
    """δ at ``epsilon`` of ``count`` components of pure ``share`` each, rounded up."""
    if epsilon >= share * count:
        return 0.0
    ups = np.arange(count + 1.0)
    losses = share * (2.0 * ups - count)
    wrong = math.log1p(math.exp(-share))  # −log of the probability of a true answer
    ways = gammaln(count + 1.0) - gammaln(ups + 1.0) - gammaln(count - ups + 1.0)
    chances = np.exp(ways - count * wrong - share * (count - ups))
    above = losses > epsilon
    delta = float((chances[above] * -np.expm1(epsilon - losses[above])).sum())
    return min(1.0, delta * (1.0 + _ROUNDING))


def composed_epsilon(share: float, count: int, delta: float) -> float:
    """The smallest ε, to a part in 10¹², at which :func:`composed_delta` is at most ``delta``."""
    low, high = 0.0, share * count
    if composed_delta(share, count, low) <= delta:
        return 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2.0
        if composed_delta(share, count, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def largest_share(epsilon: float, delta: float, count: int) -> float:
    """The largest pure ε of a component with which ``count`` of them keep to (``epsilon``, ``delta``).

    To a part in 10⁹; at most 700, beyond which a component is not protected at all.
    """
    low = epsilon / count
    high = min(700.0, max(1.0, 2.0 * low))
    while high < 700.0 and composed_delta(high, count, epsilon) <= delta:
        low, high = high, min(700.0, 2.0 * high)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        if composed_delta(middle, count, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low
