"""Log-densities of independent noise, up to what both worlds share; their difference is the best score."""

from __future__ import annotations

import math

import numpy as np

from sfumato.audits.zoo.suspect import Array

__all__ = ["laplace_ratio", "normal_ratio"]


def normal_ratio(
    outputs: Array, first: Array, second: Array, sigma: float | Array, second_sigma: float | None = None
) -> Array:
    """The log-likelihood of the second input less that of the first, for normal noise.

    ``sigma`` is one number or one a column; ``second_sigma``, a number, where the worlds differ in it.
    """
    other = sigma if second_sigma is None else second_sigma
    near = np.square((outputs - second) / other).sum(axis=1)
    far = np.square((outputs - first) / sigma).sum(axis=1)
    ratio = 0.5 * (far - near)
    if second_sigma is not None:
        ratio += outputs.shape[1] * (math.log(float(sigma)) - math.log(second_sigma))
    return np.asarray(ratio)


def laplace_ratio(
    outputs: Array, first: Array, second: Array, scale: float, second_scale: float | None = None
) -> Array:
    """The same for Laplace noise."""
    other = scale if second_scale is None else second_scale
    ratio = np.abs(outputs - first).sum(axis=1) / scale - np.abs(outputs - second).sum(axis=1) / other
    if second_scale is not None:
        ratio += outputs.shape[1] * (math.log(scale) - math.log(second_scale))
    return np.asarray(ratio)
