"""Noise and sound mechanisms are those of the package itself, drawn as its users draw them.

Broken mechanisms take their noise from here too, unless the noise is the mistake: so each of them has the one
mistake it is named after. NumPy's floating-point noise would be a second one, and the audit sees it: on
noise of 0.3Δ/ε drawn that way, true ε 3.3, the rounding of the scores alone let it report 4.6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.audits.zoo.suspect import Array
from sfumato.mechanisms import Mechanism
from sfumato.noise import Randomness, Seeded, gaussian_noise, laplace_noise

__all__ = ["FINE", "drawn", "laplace", "normal", "randomness", "released"]

#: The grid of the broken mechanisms' noise. Their inputs lie on it, so that it gives nothing away; it is so
#: fine that two draws are never equal by chance in as many games as anybody plays.
FINE = 2.0**-30


def randomness(seed: int | None) -> Randomness | None:
    """The operating system's randomness, as in a real release, or a run that can be repeated."""
    return None if seed is None else Seeded(seed)


def normal(sigma: float, size: int | tuple[int, ...], seed: int | None) -> Array:
    """Gaussian noise of standard deviation ``sigma`` on the grid of ``FINE`` steps."""
    return gaussian_noise(sigma, size, grid=FINE, randomness=randomness(seed))


def laplace(scale: float, size: int | tuple[int, ...], seed: int | None) -> Array:
    """Laplace noise of ``scale`` on the grid of ``FINE`` steps."""
    return laplace_noise(scale, size, grid=FINE, randomness=randomness(seed))


def released(mechanism: Mechanism, dataset: Array, games: int, seed: int | None) -> Array:
    """``games`` releases of ``dataset``, of shape (records, columns); one a row."""
    fresh = type(mechanism)(**(mechanism.get_params(deep=False) | {"randomness": randomness(seed)}))
    return np.asarray(fresh.release(np.tile(dataset, (games, 1))).value).reshape(games, -1)


def drawn(mechanism: Mechanism, first: Array, second: Array) -> Callable[[bool, int, int | None], Array]:
    """How a suspect draws that is ``mechanism`` on the datasets ``first`` and ``second``."""

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return released(mechanism, second if neighbour else first, games, seed)

    return draw
