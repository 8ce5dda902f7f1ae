"""Upper bounds, in nats, on the information that a private release carries."""

from __future__ import annotations

import math

__all__ = ["gaussian_information", "pure_information"]


def pure_information(epsilon: float) -> float:
    """Return ε·tanh(ε/2): the most that an ε-DP release can say about its unit, whatever the unit's size.

    It is the largest Kullback–Leibler divergence between two ε-indistinguishable laws, hence bounds the
    mutual information with any input. At ε = 1 that is 0.67 bit, for a pixel and for a whole image alike.
    """
    return epsilon * math.tanh(0.5 * epsilon)


def gaussian_information(second_moment: float, dimension: int, sigma: float) -> float:
    """Return (d/2)·log(1 + E‖X‖²/(dσ²)): the most that X + N(0, σ²I) says about X in R^d.

    This is Theorem 4 of TADP-RME.
    """
    return 0.5 * dimension * math.log1p(second_moment / (dimension * sigma * sigma))
