"""Covariances from noisy second moments whose noise is known.

The pooled second moment W̃ = W + noise is denoised by its eigenvalues: symmetric noise of deviation s off the
diagonal has eigenvalues inside ±2s√d, and moves an eigenvalue λ above s√d to λ + s²d/λ (Benaych-Georges &
Nadakuditi 2011), so the larger root of that equation is taken and the rest is dropped. In the kept directions
each cell departs from the pooled one by dev + noise; how much cells differ at all is read from Σ(dev² − noise
variance), relative to λᵢλⱼ, and every entry is shrunk by signal/(signal + noise), as in empirical Bayes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Covariances", "shrunk"]

Array = NDArray[np.float64]

# The share of a cell's variance that counts as its last part, and what is left of that.
_LAST = 0.1
_LEFT = 0.1


@dataclass(frozen=True)
class Covariances:
    """Covariances ``inner`` (cells, r, r) in the orthonormal columns of ``directions`` (d, r)."""

    directions: Array
    inner: Array

    def smoothed(self) -> Covariances:
        """Without nine tenths of the smallest variances, those that make up the last tenth of each cell.

        They are what noise inflates most, they lie at high frequencies, and in draws they are grain.
        """
        spectrum, turn = np.linalg.eigh(self.inner)
        # In rising order: a direction is among the last if it and all below it stay within their share.
        last = np.cumsum(spectrum, axis=1) <= _LAST * spectrum.sum(axis=1, keepdims=True)
        spectrum = np.where(last, _LEFT * spectrum, spectrum)
        return Covariances(self.directions, (turn * spectrum[:, None, :]) @ np.swapaxes(turn, 1, 2))


def shrunk(seconds: Array, counts: Array, noise: float) -> Covariances:
    """Positive semidefinite covariances of cells with sums ``seconds`` (cells, d, d) of centred squares.

    ``counts`` are positive; ``noise`` is the deviation off the diagonal of each sum, √2 more on it.
    """
    cells, size = seconds.shape[:2]
    total = counts.sum()
    pooled = seconds.sum(axis=0) / total
    values, vectors = np.linalg.eigh(pooled)
    values, vectors = values[::-1], vectors[:, ::-1]
    edge = 2.0 * noise * np.sqrt(cells * size) / total
    kept = max(int((values > max(edge, 1e-12)).sum()), 1)
    values, vectors = np.maximum(values[:kept], max(edge, 1e-12)), vectors[:, :kept]
    values = 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0)))
    own = vectors.T @ (seconds / counts[:, None, None]) @ vectors
    departure = own - vectors.T @ pooled @ vectors
    variance = np.square(noise / counts)[:, None, None] * (1.0 + np.eye(kept))
    variance = variance * np.maximum(1.0 - counts / total, 0.0)[:, None, None]
    typical = np.outer(values, values)
    heavy = (counts / total)[:, None, None]  # large cells know best how much cells differ
    differ = float((heavy * (np.square(departure) - variance)).sum() / typical.sum())
    signal = max(differ, 0.0) * typical
    inner = np.diag(values) + signal / (signal + variance + 1e-300) * departure
    spectrum, turn = np.linalg.eigh(0.5 * (inner + np.swapaxes(inner, 1, 2)))
    spectrum = np.maximum(spectrum, 0.1 * values.min())
    return Covariances(vectors, (turn * spectrum[:, None, :]) @ np.swapaxes(turn, 1, 2))
