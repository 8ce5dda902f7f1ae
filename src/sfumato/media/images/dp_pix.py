"""DP-Pix (Fan 2018): averages over blocks of pixels with Laplace noise, shown as flat blocks.

**Guarantee.** m pixels change the sum of a grey picture's blocks by at most 255·m in L1, so noise of scale
255·m/(b²ε) on averages over b × b pixels is ε-DP for ``pixels(m)``. Of several channels all may change at
once, and each gets noise of as many times that scale. What holds of other units is computed over every
placement (see ``block_noise``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import positive
from sfumato.media.images.block_choice import expected_square, loss
from sfumato.media.images.block_noise import BlockNoise, Design
from sfumato.media.images.image_mechanism import Shape, picture_shape, picture_unit
from sfumato.media.images.plane_means import whole_side
from sfumato.media.images.planes import Blocks
from sfumato.media.images.restoration import restored
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Neighbours, Unit
from sfumato.privacy.defaults import REQUIRED

__all__ = ["ChannelMeans", "DPPix"]


@lru_cache(maxsize=256)
def _design(shape: Shape, unit: Unit, target: float, gaussian: bool, block: int) -> Design:
    blocks = Blocks(shape, block, block, mixed=False)
    ones = (1.0,) * shape[2]
    scale = loss(blocks, ones, unit, gaussian) / target
    return Design(blocks, 0.0, (scale,) * shape[2], gaussian)


class ChannelMeans(BlockNoise):
    """Base of mechanisms that show noisy block averages of the channels themselves, as flat blocks."""

    @abstractmethod
    def _side(self) -> int:
        """The side of a block in pixels."""

    def design(self, shape: Shape) -> Design:
        """Blocks and noise scales for pictures of ``shape``."""
        return _design(shape, picture_unit(self.unit), self._target(), self._delta() > 0.0, self._side())

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Flat blocks of noisy averages; see :meth:`PictureMechanism.soften`."""
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        return restored(means, design.noise, design.blocks, "none") * np.float32(high / 255.0)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The noise on block averages and, under public statistics, the error of a grey pixel."""
        shape = self._picture(columns)
        design = self.design(shape)
        noise = float(design.noise.deviations[0].max())
        scale = float(np.max(design.scales[0]))
        square = expected_square("luma", shape, design.blocks.luma, scale, design.gaussian, "none")
        of = ("average of a block, in 255ths of white", "pixel of a photograph, in 255ths of white")
        return (
            ExpectedError(of[0], "root mean square error", noise),
            ExpectedError(of[1], "root mean square error", math.sqrt(square)),
        )


class DPPix(ChannelMeans):
    """Pixelation with Laplace noise: ε-DP for any m pixels, ``unit="pixels(m)"``, in blocks of ``block``."""

    delta = 0.0

    def __init__(
        self,
        epsilon: float = REQUIRED,
        unit: str | Unit = "pixels(16)",
        block: int = 16,
        *,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.unit = unit
        self.block = block
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the paper says, of grey pictures."""
        return Claim(
            text="ε-DP for pictures that differ in at most m pixels; noise of scale 255m/(b²ε) on averages",
            source="Fan 2018, Image Pixelization with Differential Privacy",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
            unit=picture_unit(self.unit),
            neighbours=Neighbours.REPLACE,
        )

    def design(self, shape: Shape) -> Design:
        """Blocks and noise scales; its neighbours are pictures that differ in some pixels, anywhere."""
        if picture_unit(self.unit).name != "pixels":
            raise BadInput(
                f"DP-Pix is calibrated for any m pixels, `unit='pixels(m)'`, not {self.unit}.",
                parameter="unit",
            )
        return super().design(shape)

    def _side(self) -> int:
        return whole_side("block", self.block)
