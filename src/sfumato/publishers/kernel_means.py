"""Public random Fourier features of coordinates: their class means are kernel mean embeddings.

φ(v) = √(2/D)·(cos Wv, sin Wv) with D/2 frequencies W, drawn from N(0, 1/h²) by a public seed, half of them
for each of two bandwidths h. E ⟨φ(v), φ(v′)⟩ is the mean of the two Gaussian kernels exp(−‖v − v′‖²/2h²)
(Rahimi & Recht 2007), so the mean of φ over a class embeds it, as in DP-MERF (Harder et al. 2021).

**Guarantee.** ‖φ(v)‖² = (2/D)·Σ(cos² + sin²) = 1 for every v, so that nothing has to be known about records.
Sums of φ and counts over classes are a release of ``CellSums`` without moments and with a clip of 1: with
L = 1 and the constant a = ½ before it, R = √(a² + L²), a record that appears or vanishes moves all blocks
together by R, one that changes its class by √2·R, and one that keeps it by ‖φ − φ′‖ ≤ 2L, which is the
largest. Frequencies depend on the seed, bandwidths on earlier releases alone: the release composes with the
others as the publisher says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.publishers.basis import rounded

__all__ = ["FourierFeatures"]

Array = NDArray[np.float64]

# Any number will do; it is public, and the same for everybody.
_SEED = 20_070_603
_BLOCK = 4096
_FREQUENCY_BITS = 16


@dataclass(frozen=True)
class FourierFeatures:
    """Features (n, ``features``) of vectors by public ``frequencies`` (``features``/2, d)."""

    frequencies: Array

    #: The length of every vector of features.
    LENGTH = 1.0

    @classmethod
    def public(cls, dimension: int, features: int, bandwidths: tuple[float, float]) -> FourierFeatures:
        """An even number of ``features`` of vectors of ``dimension``, half for each of ``bandwidths``."""
        drawn = np.random.default_rng(_SEED).normal(size=(features // 2, dimension))
        drawn[::2] /= bandwidths[0]
        drawn[1::2] /= bandwidths[1]
        # Coordinates are multiples of 2⁻²⁰; with such frequencies their products are exact in any order, and
        # the features of a record do not depend on how many others there are.
        return cls(rounded(drawn, _FREQUENCY_BITS))

    def of(self, vectors: Array) -> Array:
        """Cosine and sine of every frequency, of length 1 in all."""
        out = np.empty((len(vectors), 2 * len(self.frequencies)))
        for start in range(0, len(vectors), _BLOCK):
            angles = vectors[start : start + _BLOCK] @ self.frequencies.T
            part = out[start : start + _BLOCK]
            part[:, : angles.shape[1]], part[:, angles.shape[1] :] = np.cos(angles), np.sin(angles)
        out /= math.sqrt(len(self.frequencies))
        return out
