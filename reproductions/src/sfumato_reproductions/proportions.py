"""Confidence intervals of proportions."""

from __future__ import annotations

__all__ = ["interval"]


def interval(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval (Clopper & Pearson 1934) of a probability, given ``count`` of ``total``."""
    from scipy.stats import binomtest  # slow to import

    found = binomtest(count, total).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)
