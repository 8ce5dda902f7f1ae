"""One privacy budget shared out over n elements, each within limits of its own.

The paper (Adaptive multimedia DP, section 3.1.2) maximises Σ uᵢ log(εᵢ/sᵢ) subject to Σ εᵢ ≤ ε_total and
lowᵢ ≤ εᵢ ≤ highᵢ. But Σ uᵢ log(εᵢ/sᵢ) = Σ uᵢ log εᵢ − Σ uᵢ log sᵢ, and the last sum does not depend on ε:
**the sensitivities never move the optimum**. :func:`water_filling` therefore does not take them.
In :func:`sensitivity_aware` they matter.

Both are *water filling*. With a multiplier λ for the total, the Lagrange conditions of Σ uᵢ log εᵢ are
uᵢ/εᵢ = λ, those of −Σ wᵢ/εᵢ² are 2wᵢ/εᵢ³ = λ, up to multipliers of the limits; so with one level t for all,

    εᵢ(t) = min(highᵢ, max(lowᵢ, rᵢ·t)),    rᵢ = uᵢ  or  rᵢ = wᵢ^⅓.

Both problems are concave, so these conditions are enough. Σ εᵢ(t) rises with t in straight pieces, with a
bend where some rᵢ·t reaches lowᵢ or highᵢ; sorting the 2n bends finds the piece on which the total is met,
in O(n log n), and there t is a quotient of two sums. An element with rᵢ = 0 gains nothing and keeps lowᵢ.

Nothing here looks at data. An allocation that is computed *from* private content gives that content away
unless what it was computed from was released privately and paid for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import LARGEST, SMALLEST, numeric, positive

__all__ = ["water_filling"]

Array = NDArray[np.float64]


def water_filling(utility: Any, total: float, low: Any, high: Any) -> Array:
    """Return the εᵢ that maximise Σ uᵢ log εᵢ with Σ εᵢ ≤ ``total`` and ``low`` ≤ εᵢ ≤ ``high``, exactly.

    ``utility`` is (n,) or of any other shape, at least 0; ``low`` and ``high`` are numbers or of that shape.
    The sum of the answer, taken without rounding errors, exceeds neither ``total`` nor, where that is larger
    in its last digits, the sum of ``low``. A total that is truly below the sum of ``low`` is refused;
    of one above the sum of ``high`` the rest is not spent.
    """
    return _filled(_weights("utility", utility), total, low, high)


def sensitivity_aware(weights: Any, total: float, low: Any, high: Any) -> Array:
    """Return the εᵢ that minimise Σ wᵢ/εᵢ², the weighted variance of noise of scale 1/εᵢ, as constrained.

    ``weights`` come from :func:`noise_weights`, limits from the category of each element. Arguments and
    edges are otherwise those of :func:`water_filling`.
    """
    return _filled(np.cbrt(_weights("weights", weights)), total, low, high)


def noise_weights(utility: Any, sensitivity: Any, *, reach: Any = 1.0) -> Array:
    """Return wᵢ = uᵢ·reachᵢ²·(1 − sᵢ): what noise costs where, for :func:`sensitivity_aware`.

    ``reach`` is how far a unit moves the element: its noise has the scale reach/ε. ``sensitivity`` is the
    score of the content in [0, 1]; noise on what should not be seen costs little, and nothing at 1.
    """
    scores = numeric(sensitivity)
    if scores is None or not ((scores >= 0.0) & (scores <= 1.0)).all():
        raise BadInput("`sensitivity` must hold numbers between 0 and 1.", parameter="sensitivity")
    return _weights("utility", utility) * np.square(_weights("reach", reach)) * (1.0 - scores)


def _filled(rates: Array, total: float, low: Any, high: Any) -> Array:
    """Return min(high, max(low, rates·t)) for the largest t at which the sum is at most ``total``."""
    total = positive("total", total)
    least, most = _limits(low, high, rates.shape)
    if _exceeds(least, total):
        floor = math.fsum(least.ravel().tolist())
        if floor > total * (1.0 + 1e-12):
            raise BadInput(
                f"a total of {total:g} cannot be shared out: the lowest budgets alone add up to {floor:.6g}."
            )
        total = floor  # as 0.1 + 0.2 is to 0.3
    level = _level(rates, total, least, most)
    less = 2.0**-52
    while _exceeds(budgets := np.clip(rates * level, least, most), total) and (budgets > least).any():
        # By a few last digits; at level 0 the smallest budgets remain, so this ends.
        level, less = level * (1.0 - less), min(2.0 * less, 1.0)
    return np.asarray(budgets)


def _level(rates: Array, total: float, least: Array, most: Array) -> float:
    """Return the t of water filling, to rounding."""
    growing = rates > 0.0
    rate, bottom, top = rates[growing], least[growing], most[growing]
    left = total - float(least[~growing].sum())
    bends = np.sort(np.concatenate([[0.0], bottom / rate, top / rate]))
    # The last bend at which the budgets add up to no more than what is left.
    before, after = 0, bends.size
    while after - before > 1:
        middle = (before + after) // 2
        within = np.clip(rate * bends[middle], bottom, top).sum() <= left
        before, after = (middle, after) if within else (before, middle)
    if after == bends.size:
        return float(bends[-1])
    inside = 0.5 * (bends[before] + bends[after]) * rate
    rising = (inside > bottom) & (inside < top)
    if not rising.any():  # the two bends differ by their last digits
        return float(bends[before])
    fixed = np.where(inside <= bottom, bottom, top)[~rising].sum()
    return float((left - fixed) / rate[rising].sum())


def _exceeds(values: Array, total: float) -> bool:
    """Return whether Σ values, without rounding errors, is more than ``total``."""
    nearly = float(values.sum())
    if abs(nearly - total) > 1e-9 * total:
        return nearly > total
    return math.fsum([*values.ravel().tolist(), -total]) > 0.0


def _weights(name: str, value: Any) -> Array:
    """Return ``value`` as an array, if it holds numbers from 0 on that can be squared and summed."""
    array = numeric(value)
    if array is None or not array.size or not ((array >= 0.0) & (array <= LARGEST)).all():
        raise BadInput(f"`{name}` must hold finite numbers, 0 or more, at least one of them.", parameter=name)
    return np.where(array < SMALLEST, 0.0, array)


def _limits(low: Any, high: Any, shape: tuple[int, ...]) -> tuple[Array, Array]:
    limits = []
    for name, value in (("low", low), ("high", high)):
        array = _weights(name, value)
        if array.shape not in ((), shape):
            raise BadInput(
                f"`{name}` has the shape {array.shape}: it must be one number or of shape {shape}.",
                parameter=name,
            )
        limits.append(np.broadcast_to(array, shape))
    if (limits[0] > limits[1]).any():
        raise BadInput(
            f"`low` exceeds `high` for {int((limits[0] > limits[1]).sum())} elements.", parameter="low"
        )
    return limits[0], limits[1]
