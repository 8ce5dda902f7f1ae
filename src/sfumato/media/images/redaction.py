"""Redaction without noise: blur, pixelation and masks.

**Guarantee.** None: a deterministic function of a picture shows, with certainty, which of two pictures it was
given wherever it gives two answers; blurring can often be undone, and pixelation can be searched. Pixels
under a *public* mask do not reach the release at all: whatever changes under it, the release is the same.
That proves ε = 0 for a unit that cannot stand outside the mask, which is so where it covers the picture.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import ExpectedError, Parameter, numeric, positive, share, shown
from sfumato.media.images.image_mechanism import Block, ImageUnit, PictureMechanism, Shape, whole_side
from sfumato.media.images.planes import Blocks, block_sums, levels_of
from sfumato.privacy import IMAGES, Guarantee, Unit

__all__ = ["Blur", "Mask", "Pixelate"]

_FINEST = 65_535
# A wider blur leaves one colour of any picture there is, and takes ever longer.
_WIDEST = 1000.0


class _Obscured(PictureMechanism):
    """Base of mechanisms without noise; ``unit`` names what is asked about, and nothing is proven of it."""

    _value_bytes: ClassVar[int] = 40

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return that nothing is proven."""
        return Guarantee.nothing("no noise: the release is a deterministic function of the picture", unit)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return no error: there is no noise."""
        return ()


@dataclass(eq=False, repr=False)
class Blur(_Obscured):
    """Averages around each pixel with a Gaussian weight of ``sigma`` pixels; edges are mirrored.

    **Guarantee.** Nothing.
    """

    kinds = ("picture", "video")

    sigma: Annotated[float, Parameter("How far it reaches, in pixels.", symbol="PIXELS")] = 8.0
    _: KW_ONLY
    unit: ImageUnit = IMAGES.unit

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return blurred pictures; see :meth:`PictureMechanism.soften`."""
        from scipy.ndimage import gaussian_filter

        sigma = self._width()
        return np.asarray(
            gaussian_filter(pictures.astype(np.float32), (0.0, sigma, sigma, 0.0), mode="reflect")
        )

    def _prepared(self, shape: Shape, high: float) -> None:
        self._width()

    def _width(self) -> float:
        sigma = positive("sigma", self.sigma)
        if sigma > _WIDEST:
            raise BadInput(
                f"`sigma` must be at most {_WIDEST:g} pixels, not {shown(self.sigma)}.", parameter="sigma"
            )
        return sigma


@dataclass(eq=False, repr=False)
class Pixelate(_Obscured):
    """Shows the average of each square of ``block`` pixels.

    **Guarantee.** Nothing.
    """

    kinds = ("picture", "video")

    block: Block = 16
    _: KW_ONLY
    unit: ImageUnit = IMAGES.unit

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return pixelated pictures; see :meth:`PictureMechanism.soften`."""
        count, height, width, channels = pictures.shape
        side = whole_side("block", self.block)
        blocks = Blocks((height, width, channels), side, side, mixed=False)
        white = _FINEST if high == 1.0 else int(high)
        sums = block_sums(levels_of(pictures, white), blocks, white)
        grid = sums.reshape(count, channels, *blocks.grid(0)) / (256.0 * white / high * blocks.counts(0))
        tall, wide = np.arange(height) // side, np.arange(width) // side
        return np.ascontiguousarray(grid[:, :, tall[:, None], wide].transpose(0, 2, 3, 1))

    def _prepared(self, shape: Shape, high: float) -> None:
        whole_side("block", self.block)


@dataclass(eq=False, repr=False)
class Mask(_Obscured):
    """Paints ``value`` (0 is black, 1 white) over the pixels of a public ``mask``.

    ``mask`` is an array (rows, columns), stretched over the picture; what is not 0 is painted over. None
    paints over everything. A mask that was found by looking at private pictures is not public.

    **Guarantee.** Nothing; behind a public mask that covers the picture, everything.
    """

    kinds = ("picture", "video")

    mask: Annotated[
        Any,
        Parameter(
            "Public array over the picture: what is not 0 is painted over; everything unless given.",
            arity=None,
            array=True,
        ),
    ] = None
    value: Annotated[float, Parameter("What is painted, from 0 for black to 1 for white.")] = 0.5
    _: KW_ONLY
    unit: ImageUnit = IMAGES.unit

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Return ε = 0 where the mask covers the picture; otherwise nothing: a unit may lie outside it."""
        if self._covered(shape[0], shape[1]).all():
            return Guarantee.pure(0.0, unit=unit, theorem="constant: the public mask covers every pixel")
        return Guarantee.nothing("pixels outside the public mask are shown as they are", unit)

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return painted pictures; see :meth:`PictureMechanism.soften`."""
        covered = self._covered(*pictures.shape[1:3])[None, :, :, None]
        painted = np.float64(share("value", self.value) * high)
        return np.where(covered, painted, pictures.astype(np.float64))

    def _prepared(self, shape: Shape, high: float) -> None:
        share("value", self.value)
        self._covered(shape[0], shape[1])

    def _covered(self, height: int, width: int) -> NDArray[np.bool_]:
        """Return whether each pixel is painted over; one that a painted cell of the mask touches is."""
        if self.mask is None:
            return np.ones((height, width), dtype=bool)
        given = np.asarray(self.mask)
        array = numeric(given.astype(np.uint8) if given.dtype == bool else given)
        if array is None or array.ndim != 2 or not array.size:
            raise BadInput(
                "`mask` must be None or an array (rows, columns); what is not 0 is painted over.",
                parameter="mask",
            )
        return _touched(_touched(array != 0.0, height).T, width).T

    def _notes(self) -> tuple[str, ...]:
        return (
            *super()._notes(),
            "pixels under the public mask do not reach the release: nothing that changes there changes it",
        )


def _touched(cells: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Return whether any cell that each of ``size`` pixels touches is set, along the first axis."""
    starts = np.arange(size) * len(cells) // size
    ends = -(-(np.arange(size) + 1) * len(cells) // size)
    return np.stack([cells[a:b].any(axis=0) for a, b in zip(starts, ends, strict=True)])
