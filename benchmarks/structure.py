"""Overlap of neighbourhoods and rank correlation of distances beside one distance matrix made by BLAS."""

from __future__ import annotations

import tracemalloc

import numpy as np

from sfumato.utility import structure
from timing import Row, interleaved

SHAPE = (10_000, 784)
MEMORY = 2e9


def measure() -> list[Row]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((SHAPE[0], 20)) @ generator.standard_normal((20, SHAPE[1]))
    X += generator.standard_normal(SHAPE)
    released = X + 2.0 * generator.standard_normal(SHAPE)
    names = ("one distance matrix, float64", "k-NN overlap (5, 10, 20) and Spearman, all pairs")
    seconds = interleaved(
        {names[0]: lambda: distance_matrix(X), names[1]: lambda: structure(X, released)}, rounds=4
    )
    tracemalloc.start()
    structure(X, released)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = [
        Row(name, f"{value:.2f} s", value / seconds[names[0]], at_most=3.0 if name == names[1] else None)
        for name, value in seconds.items()
    ]
    return [*rows, Row("their peak memory over 2 GB", f"{peak / 1e6:.0f} MB", peak / MEMORY, at_most=1.0)]


def distance_matrix(X: np.ndarray) -> np.ndarray:
    """Euclidean distances between all rows: ‖x‖² + ‖y‖² − 2x·y, in place, as fast as NumPy does it."""
    norms = np.einsum("ij,ij->i", X, X)
    distances = X @ X.T
    distances *= -2.0
    distances += norms
    distances += norms[:, None]
    np.maximum(distances, 0.0, out=distances)
    return np.sqrt(distances, out=distances)
