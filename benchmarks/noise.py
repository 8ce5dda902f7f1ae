"""Secure, grid-exact noise against NumPy, a NumPy-over-os.urandom control, OpenDP and diffprivlib."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from sfumato.noise import gaussian_noise, laplace_noise, processors
from timing import Row, interleaved

COUNT = 10_000_000
SMALL = 20_000  # for peers that draw one value at a time


def measure() -> list[Row]:
    generator = np.random.default_rng()
    rows = []
    for law, ours, numpy_draw, control, peers in (
        ("Gaussian", gaussian_noise, generator.standard_normal, _urandom_gaussian, _gaussian_peers()),
        ("Laplace", laplace_noise, lambda n: generator.laplace(size=n), _urandom_laplace, _laplace_peers()),
    ):
        work: dict[str, Callable[[], object]] = {
            f"numpy.random {law}": lambda draw=numpy_draw: draw(COUNT),
            f"sfumato {law}, {processors()} threads": lambda draw=ours: draw(1.0, COUNT),
            f"sfumato {law}, 1 thread": lambda draw=ours: draw(1.0, COUNT, threads=1),
            f"NumPy over os.urandom, {law}": lambda draw=control: draw(COUNT),
        }
        seconds = interleaved(work, rounds=5)
        reference = seconds[f"numpy.random {law}"]
        targets = {f"sfumato {law}, {processors()} threads": 1.0, f"sfumato {law}, 1 thread": 0.5}
        for name, value in seconds.items():
            rows.append(
                Row(name, f"{COUNT / value / 1e6:.1f} M/s", reference / value, at_least=targets.get(name))
            )
        for name, draw in peers.items():
            value = interleaved({name: lambda draw=draw: draw(SMALL)}, rounds=1)[name] * COUNT / SMALL
            rows.append(Row(name, f"{COUNT / value / 1e6:.3f} M/s", reference / value))
        rows.append(_memory(law, ours))
    return rows


def _memory(law: str, draw: Callable[..., np.ndarray]) -> Row:
    tracemalloc.start()
    size = draw(1.0, COUNT).nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row(f"sfumato {law}: peak memory over output", f"{peak / 1e6:.0f} MB", peak / size, at_most=3.0)


def _uniforms(count: int) -> np.ndarray:
    words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _urandom_gaussian(count: int) -> np.ndarray:
    return ndtri(_uniforms(count))


def _urandom_laplace(count: int) -> np.ndarray:
    uniform = _uniforms(count) - 0.5
    return -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


def _gaussian_peers() -> dict[str, Callable[[int], object]]:
    import opendp.prelude as dp
    from diffprivlib.mechanisms import GaussianAnalytic

    dp.enable_features("contrib")
    opendp = dp.m.make_gaussian(_vectors(dp), dp.l2_distance(T=float), scale=1.0)
    single = GaussianAnalytic(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    return {
        "OpenDP Gaussian": lambda count: opendp([0.0] * count),
        "diffprivlib Gaussian": lambda count: [single.randomise(0.0) for _ in range(count)],
    }


def _laplace_peers() -> dict[str, Callable[[int], object]]:
    import opendp.prelude as dp
    from diffprivlib.mechanisms import Laplace

    dp.enable_features("contrib")
    opendp = dp.m.make_laplace(_vectors(dp), dp.l1_distance(T=float), scale=1.0)
    single = Laplace(epsilon=1.0, sensitivity=1.0)
    return {
        "OpenDP Laplace": lambda count: opendp([0.0] * count),
        "diffprivlib Laplace": lambda count: [single.randomise(0.0) for _ in range(count)],
    }


def _vectors(dp: object) -> object:
    return dp.vector_domain(dp.atom_domain(T=float, nan=False))  # type: ignore[attr-defined]
