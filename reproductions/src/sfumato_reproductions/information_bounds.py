"""Upper bounds, in nats, on the information that a private release carries."""

from __future__ import annotations

import math

from sfumato.errors import BadInput
from sfumato.privacy.analytic_gaussian import check_epsilon

__all__ = ["pure_information"]


def pure_information(epsilon: float) -> float:
    """Return ε·tanh(ε/2): the most that an ε-DP release can say about its unit, whatever the unit's size.

    It is the largest Kullback–Leibler divergence between two ε-indistinguishable laws, hence bounds the
    mutual information with any input. At ε = 1 that is 0.67 bit, for a pixel and for a whole image alike.
    """
    epsilon = check_epsilon(epsilon)
    return epsilon * math.tanh(0.5 * epsilon)


def gaussian_information(second_moment: float, dimension: int, sigma: float) -> float:
    """Return (d/2)·log(1 + E‖X‖²/(dσ²)): the most that X + N(0, σ²I) says about X in R^d.

    This is Theorem 4 of TADP-RME.
    """
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise BadInput(
            f"`dimension` was {dimension!r}: it must be a whole number, 1 or more.", parameter="dimension"
        )
    if not (math.isfinite(second_moment) and second_moment >= 0.0):
        raise BadInput(
            f"`second_moment` was {second_moment!r}: it must be a finite number, 0 or more.",
            parameter="second_moment",
        )
    if not (math.isfinite(sigma) and sigma > 0.0):
        raise BadInput(f"`sigma` was {sigma!r}: it must be a finite number above 0.", parameter="sigma")
    return 0.5 * dimension * math.log1p(second_moment / (dimension * sigma * sigma))
