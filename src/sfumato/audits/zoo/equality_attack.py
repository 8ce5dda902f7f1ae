"""An attack that knows nothing of the mistake and looks for noise that repeats itself or is missing.

The attacker knows both inputs, as differential privacy allows. Under the true one, what is left after
subtracting it is the noise. Noise that is zero, or the same in two places, does not happen by chance.
"""

from __future__ import annotations

import numpy as np

from sfumato.audits.zoo.suspect import Array

__all__ = ["equality_scores"]

# Rounding moves a sum of numbers near 1 by 1e-16 or so; a grid that noise is drawn on is far coarser.
_EQUAL = 1e-12


def equality_scores(outputs: Array, first: Array, second: Array) -> Array:
    """How many more coincidences the noise shows if ``outputs`` came from ``second``; shape (games,)."""
    return _coincidences(outputs - second) - _coincidences(outputs - first)


def _coincidences(noise: Array) -> Array:
    """Values without noise, and values with the noise of another one, in each row."""
    missing = (np.abs(noise) <= _EQUAL).sum(axis=1)
    repeated = (np.diff(np.sort(noise, axis=1), axis=1) <= _EQUAL).sum(axis=1)
    return np.asarray(missing + repeated, dtype=np.float64)
