"""Tensors and reports of 60,000 × 784 float32 records against adding NumPy's noise to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import sfumato as sf
from timing import Row, interleaved

SHAPE = (60_000, 28, 28)
REFERENCE = "X + standard_normal"


def measure() -> list[Row]:
    generator = np.random.default_rng()
    pixels = np.floor(256.0 * generator.random(SHAPE, dtype=np.float32))
    flat = pixels.reshape(len(pixels), -1)
    directions = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    mechanisms = {
        "TensorLDP, ε = 1": (sf.TensorLDP(1.0, (0.0, 256.0)), pixels, 3.0),
        "TensorLDP, Gaussian noise, ε = 1": (sf.TensorLDP(1.0, (0.0, 256.0), noise="gaussian"), pixels, 3.0),
        "WeightedTensorLDP, grey weights": (
            sf.WeightedTensorLDP(1.0, (0.0, 256.0), weights="grey"),
            pixels,
            None,
        ),
        "GridTensorLDP, 256 levels, ε = 1 a component": (
            sf.GridTensorLDP(1.0, (0.0, 255.0), unit="component"),
            pixels,
            6.0,
        ),
        "GridTensorLDP, 256 levels, ε = 1 a tensor": (sf.GridTensorLDP(1.0, (0.0, 255.0)), pixels, 6.0),
        **{f"PrivUnitG, ε = {e:g}": (sf.PrivUnitG(e), directions, 6.0) for e in (1.0, 2.0, 4.0, 8.0)},
        **{f"PrivUnit, ε = {e:g}": (sf.PrivUnit(e), directions, None) for e in (1.0, 8.0)},
        "Hybrid, ε = 8": (sf.Hybrid(8.0, (0.0, 256.0)), flat, None),
    }
    for mechanism, records, _ in mechanisms.values():
        mechanism.release(records[:2])  # channels and caps are found once
    work: dict[str, Callable[[], object]] = {
        REFERENCE: lambda: flat + generator.standard_normal(flat.shape),
        **{
            name: lambda made=made, records=records: made.release(records)
            for name, (made, records, _) in mechanisms.items()
        },
    }
    seconds = interleaved(work, rounds=3)
    limits = {name: most for name, (_, _, most) in mechanisms.items()}
    return [
        Row(name, f"{value:.2f} s", value / seconds[REFERENCE], at_most=limits.get(name))
        for name, value in seconds.items()
    ]
