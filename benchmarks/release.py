"""A release of 60,000 × 784 float32 records against adding NumPy's noise to them, in processor time."""

from __future__ import annotations

import time

import numpy as np

import sfumato as sf
from timing import Row, interleaved

SHAPE = (60_000, 784)


def measure() -> list[Row]:
    generator = np.random.default_rng()
    X = generator.random(SHAPE, dtype=np.float32)
    mechanism = sf.TrustAdaptive(distrust=0.4, epsilon=(1.0, 8.0), delta=1e-6, clip=1.0)
    tiers = mechanism.tiers([0.0, 0.5, 1.0])
    names = ("X + standard_normal", "TrustAdaptive.release", "three tiers at once")
    seconds = interleaved(
        {
            names[0]: lambda: X + generator.standard_normal(X.shape),
            names[1]: lambda: mechanism.release(X),
            names[2]: lambda: tiers.release(X),
        },
        rounds=4,
        clock=time.process_time,
    )
    limits = {names[1]: 2.0, names[2]: 2.2}
    return [Row(n, f"{s:.2f} s", s / seconds[names[0]], at_most=limits.get(n)) for n, s in seconds.items()]
