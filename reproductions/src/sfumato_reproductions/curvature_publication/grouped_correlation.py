"""Pearson's correlation within groups, with a bootstrap interval over records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONFIDENCE", "Estimate", "correlation"]

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
# Resamplings of the bootstrap, and how many numbers of them are held at once.
RESAMPLINGS, HELD = 2000, 4_000_000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval; all three are NaN where there is nothing to correlate."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "–"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})".replace("-", "−")


def correlation(x: Floats, y: Floats, groups: NDArray[Any] | None = None, *, seed: int = 0) -> Estimate:
    """The correlation of ``x`` and ``y``, (n,) both, after the mean of its group was taken off every value.

    Without ``groups`` all records are one. The interval holds the middle 95% of 2,000 resamplings of records;
    what was measured on them, and the attack that was made with others, is taken as given.
    """
    if groups is None:
        groups = np.zeros(len(x), dtype=np.intp)
    numbered = np.unique(groups, return_inverse=True)[1]
    belongs = (numbered[:, None] == np.arange(numbered.max() + 1)).astype(np.float64)
    value = float(_correlations(x, y, belongs, np.ones((1, len(x))))[0])
    rng = np.random.default_rng(seed)
    size = max(1, HELD // len(x))
    even = np.full(len(x), 1.0 / len(x))
    drawn = [
        _correlations(x, y, belongs, rng.multinomial(len(x), even, min(size, left)).astype(np.float64))
        for left in range(RESAMPLINGS, 0, -size)
    ]
    resampled = np.concatenate(drawn)
    resampled = resampled[np.isfinite(resampled)]
    if math.isnan(value) or not resampled.size:
        return Estimate(math.nan, math.nan, math.nan)
    low, high = np.quantile(resampled, ((1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0))
    return Estimate(value, float(low), float(high))


def _correlations(x: Floats, y: Floats, belongs: Floats, weights: Floats) -> Floats:
    """One correlation for each row of weights ``(b, n)``, NaN where nothing varies within groups."""
    x, y = x - x.mean(), y - y.mean()
    counted = weights @ belongs

    def product(a: Floats, b: Floats) -> Floats:
        sums = [weights @ (belongs * part[:, None]) for part in (a, b)]
        between = np.divide(sums[0] * sums[1], counted, out=np.zeros_like(counted), where=counted > 0)
        total: Floats = weights @ (a * b) - between.sum(axis=1)
        return total

    spreads = product(x, x), product(y, y)
    least = [1e-12 * (weights @ part**2) for part in (x, y)]  # below this only rounding is left
    varies = (spreads[0] > least[0]) & (spreads[1] > least[1])
    scale = np.sqrt(np.where(varies, spreads[0] * spreads[1], 1.0))
    return np.where(varies, product(x, y) / scale, np.nan)
