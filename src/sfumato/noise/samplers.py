"""Arrays of Gaussian and Laplace noise on a public grid, and exact discrete Laplace and Gaussian noise.

Noise on the grid has exactly the distribution of rounded real noise (see ``rounded``).

The discrete Laplace law with P(k) ∝ exp(−|k|/t) is read off continuous Laplace noise rounded down:
⌊tL⌋ = k ≥ 0 and ⌊tL⌋ = −1−k both have probability ∝ exp(−k/t), so ⌊tL⌋ stands for k on one side
and, moved up by one, for −k on the other; one of the two zeros is redrawn. The discrete Gaussian
is drawn from it by rejection (Canonne, Kamath & Steinke 2020, algorithm 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.noise.grid import LAPLACE, MAX_SCALE, NORMAL, Law, Rounded, grid_step, mpmath_context
from sfumato.noise.keyed import Keyed
from sfumato.noise.parallel import each_block
from sfumato.noise.randomness import Randomness, Secure, Stream

__all__ = ["gaussian_noise", "laplace_noise"]
_BLOCK = 1 << 20


def discrete_laplace(stream: Stream, scale: float, count: int) -> NDArray[np.int64]:
    """Return ``count`` integers with P(k) ∝ exp(−|k|/scale), 0 < scale ≤ 2⁴⁰."""
    floored = Rounded(LAPLACE, [scale], shift=-0.5)
    draws = floored.draw(stream, count)[0]
    zeros = np.flatnonzero(draws == -1.0)
    while zeros.size:
        draws[zeros] = floored.draw(stream, zeros.size)[0]
        zeros = zeros[draws[zeros] == -1.0]
    return np.asarray(np.where(draws < 0, draws + 1.0, draws), dtype=np.int64)


def discrete_gaussian(stream: Stream, sigma: float, count: int) -> NDArray[np.int64]:
    """Return ``count`` integers with P(k) ∝ exp(−k²/2σ²), 0 < σ ≤ 2³⁰."""
    if not 0.0 < sigma <= math.sqrt(MAX_SCALE) * 2**10:
        raise BadInput(f"a discrete Gaussian of σ = {sigma:g} cannot be drawn; σ must lie in (0, 2**30].")
    spread = math.floor(sigma) + 1
    out = np.empty(count, dtype=np.int64)
    waiting = np.arange(count)
    while waiting.size:
        proposal = discrete_laplace(stream, float(spread), waiting.size)
        accepted = _accept(stream, np.abs(proposal).astype(np.float64), sigma, spread)
        out[waiting[accepted]] = proposal[accepted]
        waiting = waiting[~accepted]
    return out


def _accept(stream: Stream, size: NDArray[np.float64], sigma: float, spread: int) -> NDArray[np.bool_]:
    """Return True with probability exp(−(size − σ²/t)²/2σ²), exactly."""
    words = stream.words(size.size)
    uniform = words.astype(np.float64) * 2.0**-64
    centre = sigma * sigma / spread
    weight = np.exp(-np.square(size - centre) / (2.0 * sigma * sigma))
    # Rounding moves the exponent by at most 2⁻⁵⁰(size+centre)²/σ², and a word by one cell.
    doubt = weight * 2.0**-48 * (1.0 + np.square((size + centre) / sigma)) + 2.0**-52
    accepted = uniform < weight
    for position in np.flatnonzero(np.abs(uniform - weight) <= doubt):
        accepted[position] = _accept_exactly(stream, int(words[position]), int(size[position]), sigma, spread)
    return accepted


def _accept_exactly(stream: Stream, word: int, size: int, sigma: float, spread: int) -> bool:
    bits, mp = 64, mpmath_context()
    while True:
        with mp.workprec(2 * bits + 64):
            variance = mp.mpf(sigma) ** 2
            exponent = -((size - variance / spread) ** 2) / (2 * variance)
            weight = mp.exp(exponent)
            doubt = weight * mp.ldexp(1 + abs(exponent), 16 - mp.prec)
            if mp.ldexp(word + 1, -bits) <= weight - doubt:
                return True
            if mp.ldexp(word, -bits) >= weight + doubt:
                return False
        word, bits = (word << 64) | stream.integer(64), bits + 64


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
