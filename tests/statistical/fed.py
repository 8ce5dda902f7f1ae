"""Streams whose words are chosen, and the true quantiles to hold the answers against."""

import mpmath
import numpy as np

from sfumato.noise import Stream


class Fed(Stream):
    """Hands out the given words first, then secret ones; ``further`` counts how many of those."""

    def __init__(self, words):
        super().__init__()
        self._given = np.asarray(words, dtype=np.uint64)
        self.further = 0

    def words(self, count, into=None):
        out = np.empty(count + 2, dtype=np.uint64) if into is None else into
        given, self._given = self._given[:count], self._given[count:]
        out[: given.size] = given
        out[given.size : count] = super().words(count - given.size)
        self.further += count - given.size
        return out[:count]


def true_quantile(law, u, precision=400):
    """q(u) of ``"normal"`` or ``"laplace"`` for a rational u = (numerator, bits), to ``precision`` bits."""
    numerator, bits = u
    with mpmath.workprec(precision + 2 * bits):
        p = mpmath.mpf(numerator) / (1 << bits)
        if law == "normal":
            return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
        return mpmath.log(2 * p) if 2 * p <= 1 else -mpmath.log(2 * (1 - p))


def true_probability(law, z, precision=400):
    """P(Z ≤ z)."""
    with mpmath.workprec(precision):
        z = mpmath.mpf(z)
        if law == "normal":
            return mpmath.ncdf(z)
        return mpmath.exp(z) / 2 if z <= 0 else 1 - mpmath.exp(-z) / 2


def nearest(value):
    """The integer nearest to an mpmath number, which is no half-integer."""
    with mpmath.workprec(800):
        return int(mpmath.floor(value + mpmath.mpf(1) / 2))
