"""Mechanisms that add noise to cosine coefficients of planes; what they share.

**Guarantee.** Coefficients are computed in double precision and rounded to the nearest multiple of a public
step, a power of two; noise is drawn in real numbers and rounded to the same grid, which is post-processing
because the rounded coefficients lie on it. ``bands`` bounds the loss over every placement of a unit, with
what rounding and double precision add to it. What is made of noisy coefficients is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.cosine_bands import Band, bands_epsilon, bands_mu, basis
from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.placed_noise import PlacedNoise
from sfumato.noise import LAPLACE, NORMAL, Rounded
from sfumato.noise.rounded import MAX_SCALE
from sfumato.privacy import Unit

__all__ = ["CosineDesign", "CosineNoise", "calibrated", "inverse"]

Array = NDArray[np.float64]

# Steps of the grid across the smallest scale: rounding then adds a few thousandths of a percent to the loss.
_STEPS = 2.0**14


@dataclass(frozen=True, eq=False)
class CosineDesign:
    """Bands of planes of pixels in [0, 1], with noise on each; ``step`` is that of all of them."""

    shape: Shape
    bands: tuple[Band, ...]
    gaussian: bool

    @property
    def step(self) -> float:
        """The step of the grid."""
        return self.bands[0].step

    @cached_property
    def scales(self) -> list[Array]:
        """The scale of the noise on each coefficient of each plane, (rows, columns)."""
        return [np.outer(band.rows, band.columns) for band in self.bands]

    @cached_property
    def deviations(self) -> list[Array]:
        """The deviation of the noise on each coefficient, where 255 is white."""
        return [(255.0 if self.gaussian else 255.0 * math.sqrt(2.0)) * scale for scale in self.scales]

    @cached_property
    def rounded(self) -> Rounded:
        """The noise with the largest scale, in steps of the grid."""
        largest = max(float(scale.max()) for scale in self.scales)
        return Rounded(NORMAL if self.gaussian else LAPLACE, [largest / self.step * (1.0 + 1e-12)])

    @cached_property
    def relative(self) -> Array:
        """Every scale over the largest, one plane after the other."""
        each = np.concatenate([scale.ravel() for scale in self.scales])
        return np.asarray(each / each.max())

    def loss(self, unit: Unit) -> float:
        """Certified ε or μ over every placement of ``unit``."""
        return (bands_mu if self.gaussian else bands_epsilon)(self.bands, unit, self.shape, 1.0)

    def coefficients(self, planes: Array) -> list[Array]:
        """The bands of ``planes`` (planes, n, height, width) of pixels in [0, 1], in steps of the grid."""
        found = []
        for plane, band in zip(planes, self.bands, strict=True):
            tall, wide = basis(self.shape[0], band.kept[0]), basis(self.shape[1], band.kept[1])
            found.append(np.rint(np.matmul(tall, plane @ wide.T) / self.step))
        return found

    def stepped(self) -> CosineDesign:
        """The same with a grid as fine as the noise needs it."""
        finest = min(float(scale.min()) for scale in self.scales) / _STEPS
        largest = max(float(scale.max()) for scale in self.scales)
        step = 2.0 ** math.ceil(math.log2(max(finest, largest / MAX_SCALE)))
        return CosineDesign(self.shape, tuple(replace(band, step=step) for band in self.bands), self.gaussian)

    def scaled(self, factor: float) -> CosineDesign:
        """The same with ``factor`` times the noise, on the same grid."""
        bands = tuple(replace(band, rows=factor * band.rows) for band in self.bands)
        return CosineDesign(self.shape, bands, self.gaussian)


def calibrated(design: CosineDesign, unit: Unit, target: float) -> CosineDesign:
    """``design`` with as much noise of the same shape as loses ``target`` (ε or μ) for ``unit``."""
    rough = design.scaled(design.loss(unit) / target).stepped()
    # On a fixed grid the loss is proportional to 1/scale.
    return rough.scaled(rough.loss(unit) / target)


class CosineNoise(PlacedNoise):
    """Base of mechanisms that release noisy cosine coefficients; subclasses hold ``epsilon``."""

    what = "cosine coefficients"

    @abstractmethod
    def design(self, shape: Shape) -> CosineDesign:
        """Bands and noise for pictures of ``shape``: a pure function of the parameters."""

    def _prepared(self, shape: Shape, high: float) -> None:
        _ = self.design(shape).rounded

    def _noisy(
        self, design: CosineDesign, pictures: NDArray[Any], high: float, weights: Array, first: int
    ) -> list[Array]:
        """Noisy coefficients of the planes that ``weights`` (planes, channels) make, where 255 is white."""
        values = pictures.astype(np.float64) / high
        planes = np.moveaxis(values @ weights.T, -1, 0)
        exact = design.coefficients(planes)
        count = len(pictures)
        flat = np.concatenate([part.reshape(count, -1) for part in exact], axis=1)
        self._add_noise(flat, design, design.rounded, high, first)
        flat *= 255.0 * design.step
        ends = np.cumsum([part[0].size for part in exact])
        parts = np.split(flat, ends[:-1], axis=1)
        return [part.reshape(known.shape) for part, known in zip(parts, exact, strict=True)]


def inverse(coefficients: Array, shape: Sequence[int]) -> Array:
    """Planes (n, height, width) from their lowest coefficients (n, rows, columns)."""
    tall, wide = basis(shape[0], coefficients.shape[1]), basis(shape[1], coefficients.shape[2])
    return np.asarray(np.matmul(tall.T, coefficients @ wide))
