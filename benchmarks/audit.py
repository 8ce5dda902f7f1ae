"""The standard audit of a release of 10,000 × 784, in seconds against its limit of three minutes."""

from __future__ import annotations

import time

import numpy as np

import sfumato as sf
from timing import Row

SHAPE = (10_000, 784)
LIMIT = 180.0


def measure() -> list[Row]:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, SHAPE[0])
    X = generator.standard_normal((10, SHAPE[1]))[labels] + generator.standard_normal(SHAPE)
    release = sf.Gaussian(epsilon=16.0, delta=1e-5, clip=40.0).release(X)
    begun = time.perf_counter()
    sf.audit(release, original=X, labels=labels)
    seconds = time.perf_counter() - begun
    return [Row("standard audit over 3 minutes", f"{seconds:.1f} s", seconds / LIMIT, at_most=1.0)]
