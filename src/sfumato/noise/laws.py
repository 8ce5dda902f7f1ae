"""The continuous laws noise is drawn from, each known to double precision and to any precision.

A law is symmetric about zero and has unit scale. Only its lower half is described, by the
quantile q(p) for 0 < p ≤ 1/2; the upper half is its mirror. Three bounds make rounding certain:

* ``error(z)``: how far ``quantile`` may be from the true q(p), given its answer z;
* ``steepness``: a constant c with q′(p) ≤ c / p on (0, 1/2];
* ``curvature(p)``: a bound on |q″| on [p, 1/2].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.noise.precise import precise

if TYPE_CHECKING:
    import mpmath

__all__ = ["LAPLACE", "NORMAL", "Law"]

Array = NDArray[np.float64]

# scipy's ndtri and numpy's log err by less than half of this on a dense sample, checked against mpmath by
# the tests.
_DOUBLE_ERROR = 2.0**-46


class Law(Protocol):
    """What the exact rounder needs to know of a distribution."""

    name: str
    steepness: float
    deviation: float

    def quantile(self, p: Array) -> Array:
        """q(p) in double precision."""

    def error(self, z: Array) -> Array:
        """A bound on the error of ``quantile`` where it answered z."""

    def curvature(self, p: Array) -> Array:
        """A bound on |q″| between p and 1/2."""

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """An interval that holds q(p), at the current precision of :func:`~sfumato.noise.precise.precise`."""


class _Normal:
    """The standard normal law. Its hazard φ(z)/Φ(z) is at least √(2/π) for z ≤ 0, so q′ ≤ 1.2534/p."""

    name = "normal"
    steepness = 1.2534
    deviation = 1.0

    def quantile(self, p: Array) -> Array:
        return np.asarray(ndtri(p), dtype=np.float64)

    def error(self, z: Array) -> Array:
        return _DOUBLE_ERROR * (1.0 + np.abs(z))

    def curvature(self, p: Array) -> Array:
        z = ndtri(p)
        return np.asarray(2.0 * np.pi * np.abs(z) * np.exp(np.square(z)) * (1.0 + 1e-9), dtype=np.float64)

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Newton's method from the double answer, then a bracket that is checked, not assumed."""
        mp = precise()
        tail = p < mp.ldexp(1, -1000)  # beyond what a double can hold
        z = -mp.sqrt(-2 * mp.log(p)) if tail else mp.mpf(float(ndtri(float(p))))
        for _ in range(200):
            step = (mp.ncdf(z) - p) / mp.npdf(z)
            # Far in the tail a full Newton step overshoots; a step of one keeps it convergent.
            step = max(min(step, mp.mpf(1)), mp.mpf(-1))
            z -= step
            if abs(step) < mp.ldexp(1, -mp.prec // 2):
                break
        width = mp.ldexp(1 + abs(z), 24 - mp.prec)
        while not mp.ncdf(z - width) < p < mp.ncdf(z + width):
            width *= 2
        return z - width, z + width


class _Laplace:
    """The Laplace law of scale one: q(p) = log 2p."""

    name = "laplace"
    steepness = 1.0
    deviation = 2.0**0.5

    def quantile(self, p: Array) -> Array:
        return np.log(2.0 * p)

    def error(self, z: Array) -> Array:
        return _DOUBLE_ERROR * (1.0 + np.abs(z))

    def curvature(self, p: Array) -> Array:
        return (1.0 + 1e-9) / np.square(p)

    def exact(self, p: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        mp = precise()
        z = mp.log(2 * p)
        width = mp.ldexp(1 + abs(z), 8 - mp.prec)
        return z - width, z + width


NORMAL: Law = _Normal()
LAPLACE: Law = _Laplace()
