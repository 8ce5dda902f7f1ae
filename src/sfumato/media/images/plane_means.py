"""Noisy block sums of colour planes, restored with public statistics: the default for pictures.

**Guarantee.** That of ``block_noise``: Laplace or Gaussian noise on whole block sums of luma, chroma and
transparency, as much as makes the bound over every placement of the unit the ε that was asked for. All else
is post-processing: pixels are estimated from averages under public statistics, clipped and rounded.

**Edge cases.** A picture smaller than a block is one block. Transparency is a plane of its own with noise of
its own. Floating point is rounded to 65,536 levels first, and 16-bit values lose their last bits where the
noise is so large that the grid would be finer than 2⁻⁴⁰ of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import one_of, proper_share, whole
from sfumato.media.images.block_choice import expected_square, plane_scales, sensible_blocks
from sfumato.media.images.block_noise import BlockNoise, Design
from sfumato.media.images.budget_shares import Shares, shares_of
from sfumato.media.images.image_mechanism import LONGEST_SIDE, Shape, picture_shape, picture_unit
from sfumato.media.images.planes import plane_names
from sfumato.media.images.restoration import RESTORES, jpeg_planes, restored
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Unit
from sfumato.privacy.defaults import IMAGES, REQUIRED

__all__ = ["PlaneMeans", "whole_side"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@lru_cache(maxsize=256)
def _design(
    shape: Shape,
    unit: Unit,
    target: float,
    gaussian: bool,
    block: int | None,
    chroma: float | None,
    shares: Shares | None,
    restore: str,
) -> Design:
    blocks, chroma = sensible_blocks(shape, unit, target, gaussian, block, chroma, restore)
    scales: tuple[float | Array, ...] = plane_scales(blocks, chroma, unit, target, gaussian)
    if shares is not None:
        height, width = shape[:2]
        scales = tuple(
            scale / shares.of_blocks(height, width, blocks.side(plane)) for plane, scale in enumerate(scales)
        )
    return Design(blocks, chroma, scales, gaussian)


class PlaneMeans(BlockNoise):
    """Adds noise to block sums of luma and chroma and restores the picture from them.

    ``epsilon`` (and ``delta``: 0 for Laplace noise, more for Gaussian) is the promise for ``unit``. ``block``
    is the side of luma's blocks; chroma's are a small multiple of it. Left out, both are what promises the
    smallest error under public statistics, and so is ``chroma``, the share of the budget that both
    differences of colour get together. ``shares``, an array (rows, columns) in (0, 1] stretched over the
    picture, is the part of ε that each place gets: noise there is divided by it. It must be public; the
    promise is that of the place with the largest share. ``restore`` is ``"none"``, ``"smooth"``,
    ``"wiener"`` or ``"learned"``: what is made of the noisy averages (see ``restoration``).
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = 0.0,
        unit: str | Unit = IMAGES.unit,
        block: int | None = None,
        *,
        shares: Any = None,
        restore: str = "learned",
        chroma: float | None = None,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.block = block
        self.shares = shares
        self.restore = restore
        self.chroma = chroma
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """None: no paper makes a claim for this mechanism."""
        return None

    def design(self, shape: Shape) -> Design:
        """Blocks and noise scales for pictures of ``shape``."""
        one_of("restore", self.restore, RESTORES)
        return _design(
            shape,
            picture_unit(self.unit),
            self._target(),
            self._delta() > 0.0,
            None if self.block is None else whole_side("block", self.block),
            None if self.chroma is None else proper_share("chroma", self.chroma),
            shares_of(self.shares),
            self.restore,
        )

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Restored pictures; see :meth:`PictureMechanism.soften`."""
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        soft = restored(means, design.noise, design.blocks, self.restore)
        if high != 255.0:
            soft *= np.float32(high / 255.0)
        return soft

    def soften_planes(
        self, pictures: NDArray[Any], high: float, first: int = 0
    ) -> tuple[Single, Single, Single]:
        """Y, Cb and Cr as a JPEG with halved chroma holds them, not yet clipped and rounded; 255 is white.

        The release of colour pictures (n, h, w, 3), in the form (n, h, w) and twice (n, ⌈h/2⌉, ⌈w/2⌉): the
        same noise as :meth:`soften` draws, so only one of the two may be released.
        """
        if pictures.ndim != 4 or pictures.shape[3] != 3:
            raise BadInput(
                f"planes of a JPEG are made of colour pictures (n, h, w, 3), not {pictures.shape}."
            )
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        return jpeg_planes(means, design.noise, design.blocks, self.restore)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The noise on block averages and, under public statistics, the error of a pixel."""
        shape = self._picture(columns)
        design = self.design(shape)
        found = []
        for plane, name in enumerate(plane_names(shape[2])):
            side, scale = design.blocks.side(plane), float(np.max(design.scales[plane]))
            noise = float(design.noise.deviations[plane].max())
            square = expected_square(name, shape, side, scale, design.gaussian, self.restore)
            of = f"{name}, average of a block, in 255ths of white"
            found.append(ExpectedError(of, "root mean square error", noise))
            of = f"{name}, pixel of a photograph, in 255ths of white"
            found.append(ExpectedError(of, "root mean square error", math.sqrt(square)))
        return tuple(found)

    def parameters(self) -> dict[str, Any]:
        """Every parameter but the randomness; a map of shares by its shape, range and digest."""
        values = super().parameters()
        given = shares_of(self.shares)
        values["shares"] = None if given is None else given.named()
        if self.shape is not None:
            design = self.design(self._picture(None))
            values |= {"blocks": [design.blocks.luma, design.blocks.chroma], "chroma_share": design.chroma}
        return values


def whole_side(name: str, value: Any) -> int:
    """``value``, if it is a whole number of pixels, and of no more than any picture has."""
    return whole(name, value, LONGEST_SIDE, "number of pixels")
