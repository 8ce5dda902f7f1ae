"""Exact confidence bounds on probabilities, given how often events happened (Clopper & Pearson 1934).

With X ~ Bin(n, p), the upper bound is the p at which P(X ≤ count) falls to ``chance``: solved by the inverse
of the regularised incomplete beta function, so the bounds hold at every n and p, not only in the limit. At
the edges 0 of n gives the lower bound 0 and the upper bound 1 − chance^{1/n}; n of n mirrors it.

**Two counts together.** Let X₁ ~ Bin(n₁, α) and X₂ ~ Bin(n₂, β) be independent and let
p₁(α) = P(Bin(n₁, α) ≤ X₁), p₂(β) = P(Bin(n₂, β) ≤ X₂). At the true α and β both are independent and
P(pᵢ ≤ u) ≤ u, so P(p₁·p₂ ≤ q) ≤ q(1 − log q), the law of a product of two uniforms (Fisher's combination).
Let q solve q(1 − log q) = chance. But for ``chance`` then p₁·p₂ > q, which says: for c = p₁(α), a number
in (q, 1], α is the Clopper–Pearson bound at chance c and β lies below the one at chance q/c. A quantity
that falls in α and in β is therefore at least the smallest of its values at these pairs of bounds. That is
sharper than one pair at chance/2 each, because large errors in both counts at once are rarer than in either.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.errors import BadInput

__all__ = [
    "chernoff_upper",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "failure_chance",
    "interval",
    "joint_upper",
]

Array = NDArray[np.float64]
Counts = NDArray[np.integer] | NDArray[np.float64] | list[int]

# How many pairs stand for all of them; neighbouring levels then differ by 3% at chance 0.01.
_PAIRS = 256


@overload
def clopper_pearson_lower(count: int, total: int, chance: float) -> float: ...
@overload
def clopper_pearson_lower(count: Counts, total: int, chance: float) -> Array: ...
def clopper_pearson_lower(count: int | Counts, total: int, chance: float) -> float | Array:
    """Is above the true probability with probability at most ``chance``, for ``count`` of ``total``."""
    counts = _checked(count, total, chance)
    inner = np.maximum(counts, 1.0)
    low = np.where(counts == 0.0, 0.0, special.betaincinv(inner, total - inner + 1.0, chance))
    return float(low) if np.ndim(count) == 0 else low


@overload
def clopper_pearson_upper(count: int, total: int, chance: float) -> float: ...
@overload
def clopper_pearson_upper(count: Counts, total: int, chance: float) -> Array: ...
def clopper_pearson_upper(count: int | Counts, total: int, chance: float) -> float | Array:
    """Is below the true probability with probability at most ``chance``, for ``count`` of ``total``."""
    counts = _checked(count, total, chance)
    inner = np.minimum(counts, total - 1.0)
    high = np.where(counts == total, 1.0, special.betainccinv(inner + 1.0, total - inner, chance))
    return float(high) if np.ndim(count) == 0 else high


def interval(count: int, total: int, confidence: float = 0.99) -> tuple[float, float]:
    """Holds the true probability with at least ``confidence``; either side errs with half of the rest."""
    chance = failure_chance(confidence) / 2.0
    return clopper_pearson_lower(count, total, chance), clopper_pearson_upper(count, total, chance)


def joint_upper(first: tuple[int, int], second: tuple[int, int], chance: float) -> tuple[Array, Array]:
    """Pairs (α, β), one of which lies above both true probabilities, but for ``chance``.

    ``first`` and ``second`` are (count, total) of two independent counts. A function that falls in both
    arguments is, at the true pair, at least its smallest value over the pairs.
    """
    for count, total in (first, second):
        _checked(count, total, chance)
    log_q = -0.5 * float(special.chdtri(4.0, chance))  # −2·log of a product of two uniforms is χ² with 4
    levels = np.exp(np.linspace(log_q, 0.0, _PAIRS + 1))
    # From one level c to the next, the first bound is largest at the lower c, the second at the upper one.
    return _upper(*first, levels[:-1]), _upper(*second, levels[-2::-1])


def chernoff_upper(count: int, total: int, chance: float) -> float:
    """Lies below the mean chance of ``total`` independent coins with probability at most ``chance``.

    The coins may have chances of their own: P(S ≤ s) ≤ e^{−n·KL(s/n ‖ p̄)} for s ≤ n·p̄ (Hoeffding 1963).
    """
    _checked(count, total, chance)
    share, most = count / total, -math.log(chance) / total
    low, high = share, 1.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        away = special.rel_entr(share, middle) + special.rel_entr(1.0 - share, 1.0 - middle)
        low, high = (middle, high) if away <= most else (low, middle)
    return high


def failure_chance(confidence: float) -> float:
    """1 − ``confidence``, or a refusal of what is not strictly between 0 and 1."""
    if isinstance(confidence, bool) or not 0.0 < confidence < 1.0:
        raise BadInput(
            f"`confidence` was {confidence!r}: it must lie strictly between 0 and 1, as 0.99 does.",
            parameter="confidence",
        )
    return 1.0 - float(confidence)


def _upper(count: int, total: int, levels: Array) -> Array:
    if count == total:
        return np.ones_like(levels)
    return np.asarray(special.betainccinv(count + 1.0, float(total - count), levels))


def _checked(count: ArrayLike, total: int, chance: float) -> Array:
    if isinstance(total, bool) or int(total) != total or total < 1:
        raise BadInput(f"the total was {total!r}: a proportion needs a whole number of trials, 1 or more.")
    if not 0.0 < chance < 1.0:
        raise BadInput(f"`chance` was {chance!r}: it must lie strictly between 0 and 1.", parameter="chance")
    counts = np.asarray(count, dtype=np.float64)
    if not ((counts >= 0.0) & (counts <= total) & (counts == np.floor(counts))).all():
        raise BadInput(f"a count lies outside 0 to {total}, or is no whole number: it counts among those.")
    return counts
