"""What photographs look like on average, known without looking at private ones.

The power of a photograph falls with spatial frequency f (cycles per pixel) as a power law: the mean square of
an orthonormal DCT coefficient is amplitude · f^−slope · (1 + lean·cos 4θ), where θ is the direction; values
are in 255ths of white. ``benchmarks/picture_statistics.py`` computed these constants from 28 photographs of
COCO val2017 that it lists, chosen by a hash of their file names; results are measured on 37 others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["STATISTICS", "Bands", "Spectrum"]

Array = NDArray[np.float64]

# Below one cycle in so many pixels, the power law was not observed and is not continued.
_LONGEST = 1024.0


@dataclass(frozen=True)
class Spectrum:
    """The public model of one plane; ``mean`` and ``spread`` are those of the average of a picture."""

    mean: float
    spread: float
    amplitude: float
    slope: float
    lean: float

    def power(self, down: Array, across: Array) -> Array:
        """Mean squares of DCT coefficients at frequencies ``down`` × ``across``, (0, 0) being no DC."""
        fy, fx = np.maximum(down, 0.0)[:, None], np.maximum(across, 0.0)[None, :]
        square = np.maximum(fy * fy + fx * fx, (0.5 / _LONGEST) ** 2)
        # cos 4θ = 1 − 8 sin²θ cos²θ.
        direction = 1.0 + self.lean * (1.0 - 8.0 * (fy * fx / square) ** 2)
        return np.asarray(self.amplitude * square ** (-0.5 * self.slope) * direction)

    def averaged(self, down: Bands, across: Bands) -> tuple[Array, Array]:
        """Power of block averages times the side of a block, and covariance with what they stand for.

        Blocks alias: up to three bands of the picture fall on one frequency of averages.
        """
        power = np.zeros((down.index.size, across.index.size))
        for fy, gy in down.bands:
            for fx, gx in across.bands:
                power += self.power(fy, fx) * np.outer(gy * gy, gx * gx)
        heard = self.power(down.frequency, across.frequency) * np.outer(down.gain, across.gain)
        if down.index[0] == 0 and across.index[0] == 0:
            power[0, 0] = heard[0, 0] = self.still(down.size * across.size)
        return power, heard

    def still(self, pixels: int) -> float:
        """The mean square of the DC coefficient of pictures of so many pixels, less the public mean."""
        return self.spread**2 * pixels


class Bands:
    """DCT frequencies of ``count`` averages over blocks of ``side`` pixels: all, or those of ``index``."""

    def __init__(self, count: int, side: int, index: NDArray[np.int64] | None = None) -> None:
        self.index = np.arange(count) if index is None else index
        self.size, self._side = count * side, side
        folded = (self.index, 2 * count - self.index, 2 * count + self.index)[: min(side, 3)]
        self.bands = [self._band(one) for one in folded]
        self.frequency, self.gain = self.bands[0]

    def _band(self, index: NDArray[np.int64]) -> tuple[Array, Array]:
        """Frequencies in cycles per pixel, and what averaging leaves of them."""
        frequency = index / (2.0 * self.size)
        angle = np.pi * frequency
        with np.errstate(invalid="ignore"):
            gain = np.sin(angle * self._side) / (self._side * np.sin(angle))
        return frequency, np.where(index == 0, 1.0, gain)


#: One spectrum for each kind of plane.
STATISTICS = {
    "luma": Spectrum(116.1, 35.7, 14.1, 2.43, 0.34),
    "blue": Spectrum(-2.3, 10.4, 0.646, 2.40, 0.31),
    "red": Spectrum(3.0, 10.7, 0.762, 2.45, 0.23),
    # Few photographs have any: opaque on average, and varying as luma does.
    "alpha": Spectrum(255.0, 35.7, 14.1, 2.43, 0.34),
}
