"""Exact draws from a law P(k) ∝ exp(−xₖ) over finitely many choices: the exponential mechanism's sampler.

A 64-bit word w stands for all uniforms in [w, w+1)/2⁶⁴. Double precision decides where it is sure; where the
interval, widened by the error of the weights, holds a boundary between two choices, mpmath decides with as
many further random bits as it takes. So the law is the stated one exactly, and no slack is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import Stream
from sfumato.noise.precise import precise

__all__ = ["exponential_choice"]

# Double-precision weights err by less than 2⁻⁴³ each (at most 745·2⁻⁵³ and the error of exp).
_WEIGHT_ERROR = 2.0**-42


def exponential_choice(exponents: Sequence[Fraction], stream: Stream, count: int = 1) -> NDArray[np.intp]:
    """``count`` independent indices k with P(k) ∝ exp(−exponents[k]), exactly."""
    least = min(exponents)
    above = [exponent - least for exponent in exponents]
    weights = np.exp(-np.array([float(x) for x in above]))
    ends = np.cumsum(weights)
    words = stream.words(count)
    place = words.astype(np.float64) * (2.0**-64 * ends[-1])
    chosen = np.minimum(np.searchsorted(ends, place, side="right"), len(above) - 1)
    # The weights before an end, the total, the sums of both, and the word's own cell and rounding.
    doubt = 4.0 * len(above) * _WEIGHT_ERROR + 2.0**-50 * ends[-1]
    low = np.where(chosen > 0, ends[chosen - 1], -np.inf)
    high = np.where(chosen < len(above) - 1, ends[chosen], np.inf)
    for i in np.flatnonzero((place - low <= doubt) | (high - place <= doubt)):
        chosen[i] = _exactly(above, int(words[i]), stream)
    return np.asarray(chosen, dtype=np.intp)


def _exactly(above: Sequence[Fraction], word: int, stream: Stream) -> int:
    bits, mp = 64, precise()
    while True:
        with mp.workprec(2 * bits + 64):
            ends, total = [], mp.mpf(0)
            for exponent in above:
                total += mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator)
                ends.append(total)
            # x·exp(−x) ≤ 1, so every weight errs by a few units of 2^−prec, and the total is at least 1.
            doubt = mp.ldexp(16 * (len(above) + 2) * total, -mp.prec)
            low, high = mp.ldexp(word * total, -bits) - doubt, mp.ldexp((word + 1) * total, -bits) + doubt
            before = -mp.inf
            for index, end in enumerate(ends):
                after = mp.inf if index == len(ends) - 1 else end
                if before + doubt <= low and high <= after - doubt:
                    return index
                before = end
        word, bits = (word << 64) | stream.integer(64), bits + 64
