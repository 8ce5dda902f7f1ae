"""Confidence intervals of proportions."""

from __future__ import annotations

__all__ = ["interval"]


def interval(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval (Clopper & Pearson 1934) of a probability, given ``count`` of ``total``."""
    from scipy.special import betaincinv  # slow to import

    tail = (1.0 - confidence) / 2.0
    low = betaincinv(count, total - count + 1, tail) if count > 0 else 0.0
    high = betaincinv(count + 1, total - count, 1.0 - tail) if count < total else 1.0
    return float(low), float(high)
