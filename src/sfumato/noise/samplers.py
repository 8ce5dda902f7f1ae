"""Arrays of Gaussian and Laplace noise, with exactly the distribution of real noise rounded to a grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.grid import LAPLACE, NORMAL, Law, Rounded, grid_step
from sfumato.noise.keyed import Keyed
from sfumato.noise.parallel import each_block
from sfumato.noise.randomness import Randomness, Secure

__all__ = ["gaussian_noise", "laplace_noise"]
_BLOCK = 1 << 20


def gaussian_noise(
    sigma: float,
    size: int | tuple[int, ...],
    *,
    grid: float | None = None,
    randomness: Randomness | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return N(0, σ²) noise rounded to multiples of ``grid``, a power of two (default: about σ/4096)."""
    return _noise(NORMAL, sigma, size, grid, randomness, threads)


def laplace_noise(
    scale: float,
    size: int | tuple[int, ...],
    *,
    grid: float | None = None,
    randomness: Randomness | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Return Laplace noise of ``scale`` rounded to multiples of ``grid`` (default: about scale/4096)."""
    return _noise(LAPLACE, scale, size, grid, randomness, threads)


def _noise(
    law: Law,
    scale: float,
    size: int | tuple[int, ...],
    grid: float | None,
    randomness: Randomness | None,
    threads: int | None,
) -> NDArray[np.float64]:
    if not (math.isfinite(scale) and scale > 0):
        raise BadInput(f"a noise scale must be a positive number, not {scale!r}.")
    step = grid_step(scale, scale) if grid is None else grid
    if not step > 0 or math.frexp(step)[0] != 0.5:
        raise BadInput(f"a grid must be a power of two such as 2**-10, not {grid!r}.")
    if isinstance(randomness, Keyed):
        # The same draw at two scales would give away what it was added to.
        raise BadInput("keyed noise belongs to the content of a unit: release it by a mechanism.")
    source = Secure() if randomness is None else randomness
    rounded = Rounded(law, [scale / step])
    out = np.empty(size)
    flat = out.reshape(1, -1)

    def draw(block: int) -> None:
        part = flat[:, block * _BLOCK : (block + 1) * _BLOCK]
        rounded.draw(source.stream(block.to_bytes(8, "little")), part.shape[1], out=part)
        np.multiply(part, step, out=part)

    each_block(draw, -(-flat.shape[1] // _BLOCK), threads)
    return out
