"""Keyed noise against fresh noise, on short rows and on long ones, with idle and with busy processors.

Processor time is compared: beside other work the clock on the wall says who had a turn.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import sfumato as sf
from sfumato.mechanisms import Mechanism
from sfumato.noise import processors
from timing import Row, interleaved

SHAPES = ((60_000, 1), (60_000, 2), (60_000, 5), (60_000, 20), (6_000, 784), (20, 100_000))
LIMIT = 3.0
#: Of one column, keying takes more blocks than noise does.
FROM_COLUMNS = 2


def measure() -> list[Row]:
    rows = _rows("")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processors())]
    try:
        return rows + _rows(", busy processors")
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _rows(state: str) -> list[Row]:
    rows = []
    for shape in SHAPES:
        X = np.random.default_rng(1).random(shape)
        kinds: dict[str, tuple[np.ndarray, Callable[[sf.Keyed | None], Mechanism]]] = {
            "Gaussian": (X, lambda noise: sf.Gaussian(1.0, 1e-6, 1.0, randomness=noise)),
        }
        if shape == (60_000, 20):
            kinds |= {
                "Laplace": (X, lambda noise: sf.Laplace(1.0, bounds=(0.0, 1.0), randomness=noise)),
                "randomised response": (
                    np.floor(4.0 * X),
                    lambda noise: sf.RandomisedResponse(5.0, 4, randomness=noise),
                ),
            }
        for name, (data, make) in kinds.items():
            seconds = interleaved(
                {
                    "fresh": lambda data=data, make=make: make(None).perturb(data),
                    "keyed": lambda data=data, make=make: make(_keyed()).perturb(data),
                },
                rounds=9,
                clock=time.process_time,
            )
            ratio = seconds["keyed"] / seconds["fresh"]
            label = f"{name}, {shape[0]:,} × {shape[1]:,}{state}"
            limit = LIMIT if shape[1] >= FROM_COLUMNS else None
            rows.append(Row(label, f"{1e3 * seconds['keyed']:.1f} ms", ratio, at_most=limit))
    return rows


def _keyed() -> sf.Keyed:
    return sf.Keyed(bytes(32), dataset="d", version="1", release="r")
