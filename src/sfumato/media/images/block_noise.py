"""Mechanisms that add noise to sums over blocks of pixels; what they share.

**Guarantee.** Block sums are whole numbers on a public grid (see ``planes``). Laplace noise of scale s_B on
each (δ = 0), or Gaussian noise of deviation σ_B (δ > 0), is drawn in real numbers and rounded to that grid,
which is post-processing because the sums are whole. ``placements`` bounds the loss Σ|Δ_B|/s_B, or
√Σ(Δ_B/σ_B)², over every placement of a unit under replacement of its pixels by any colour. What is made of
the noisy sums is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.block_choice import loss
from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.placed_noise import PlacedNoise
from sfumato.media.images.planes import UNITY, Blocks, block_sums, levels_of
from sfumato.media.images.restoration import Noise
from sfumato.noise import LAPLACE, NORMAL, Rounded
from sfumato.noise.rounded import MAX_SCALE
from sfumato.privacy import Unit

__all__ = ["BlockNoise", "Design"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

# The finest grid that floating point is put on.
_FINEST = 65_535


class Design:
    """Blocks and noise for pictures of one shape; ``scales`` are on block sums of pixels in [0, 1]."""

    def __init__(
        self, blocks: Blocks, chroma: float, scales: tuple[float | Array, ...], gaussian: bool
    ) -> None:
        self.blocks, self.chroma, self.scales, self.gaussian = blocks, chroma, scales, gaussian
        self._rounded: dict[int, Rounded] = {}

    @cached_property
    def each(self) -> Array:
        """The scale of every block of every plane, one after the other."""
        sizes = self.blocks.sizes
        return np.asarray(
            np.concatenate([np.broadcast_to(np.ravel(s), n) for s, n in zip(self.scales, sizes, strict=True)])
        )

    @cached_property
    def relative(self) -> Array:
        """Every scale over the largest."""
        return np.asarray(self.each / self.each.max())

    @cached_property
    def noise(self) -> Noise:
        """The noise on block averages."""
        factor = 255.0 if self.gaussian else 255.0 * math.sqrt(2.0)
        each = [factor * scale / self.blocks.counts(plane) for plane, scale in enumerate(self.scales)]
        return Noise(each, not self.gaussian)

    @cached_property
    def counts(self) -> Array:
        """How many pixels every block holds."""
        return np.concatenate([self.blocks.counts(plane).ravel() for plane in range(len(self.scales))])

    def loss(self, unit: Unit) -> float:
        """Certified ε or μ over every placement of ``unit``."""
        return loss(self.blocks, self.scales, unit, self.gaussian)

    def white(self, high: float) -> int:
        """The white of the levels that pixels are put on: that of their type, or less under much noise."""
        white = _FINEST if high == 1.0 else int(high)
        while white > 1 and self.each.max() * white * UNITY > MAX_SCALE:
            white >>= 1
        return white

    def rounded(self, white: int) -> Rounded:
        """The noise with the largest scale, in steps of the grid of ``white`` levels."""
        if white not in self._rounded:
            # A hair more than the scales, for what is lost when they are multiplied out.
            scale = float(self.each.max()) * white * UNITY * (1.0 + 1e-12)
            self._rounded[white] = Rounded(NORMAL if self.gaussian else LAPLACE, [scale])
        return self._rounded[white]


class BlockNoise(PlacedNoise):
    """Base of mechanisms that release noisy block sums; subclasses hold ``epsilon`` and ``delta``."""

    what = "block sums"
    delta: float

    @abstractmethod
    def design(self, shape: Shape) -> Design:
        """Blocks and noise scales for pictures of ``shape``: a pure function of the parameters."""

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """Little for each value of a picture, and much for each block, or where the shape is not known."""
        blocks = columns if self.shape is None else sum(self.design(self._picture(columns)).blocks.sizes)
        return (24 * columns + 180 * blocks) * rows

    def _prepared(self, shape: Shape, high: float) -> None:
        design = self.design(shape)
        design.rounded(design.white(high))

    def _noisy(self, design: Design, pictures: NDArray[Any], high: float, first: int) -> list[Single]:
        """Noisy averages of each plane over blocks, (n, rows, columns), where 255 is white."""
        white = design.white(high)
        sums = block_sums(levels_of(pictures, white), design.blocks, white)
        self._add_noise(sums, design, design.rounded(white), float(white), first)
        sums *= 255.0 / (white * UNITY) / design.counts
        means, ends = sums.astype(np.float32), np.cumsum(design.blocks.sizes)
        return [
            part.reshape(len(sums), *design.blocks.grid(plane))
            for plane, part in enumerate(np.split(means, ends[:-1], axis=1))
        ]
