"""Pictures that are pixelated or blurred, one for each private picture, with its label.

**Guarantee.** None: what is published is a deterministic function of one private picture, so that whoever has
a picture can obscure it in the same way and see whether it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.parameters import positive
from sfumato.noise import Randomness
from sfumato.publishers.image_replacement import ReplacingPublisher
from sfumato.publishers.labelled_images import Labelled
from sfumato.publishers.publisher import Progress, whole

__all__ = ["BlurPublisher", "PixelationPublisher"]

Pictures = NDArray[np.float32]


class PixelationPublisher(ReplacingPublisher):
    """Shows the average of each square of ``block`` × ``block`` pixels; squares at the far edges are cut.

    The paper's "3x3 pixelation" is read as blocks of 3 × 3 pixels: from 28 × 28 pixels 10 × 10 are left, with
    which classifiers can reach its 97 % on MNIST; with 3 × 3 pixels in all they could not.
    """

    one_to_one: bool = True
    unproven = "a deterministic function of each private picture is published"

    def __init__(self, block: int = 3, *, top: float = 255.0, randomness: Randomness | None = None) -> None:
        super().__init__(top=top, randomness=randomness)
        self.block = whole("block", block, 1)

    def parameters(self) -> Mapping[str, Any]:
        """The public parameters."""
        return {"block": self.block, **super().parameters()}

    def _replaced(self, data: Labelled, report: Progress) -> tuple[Pictures, NDArray[np.int64]]:
        averages = _averaged(_averaged(data.pictures, self.block, 1), self.block, 2)
        report("pictures pixelated", 1.0, {})
        return averages, data.labels


class BlurPublisher(ReplacingPublisher):
    """Averages around each pixel with a Gaussian weight, ``radius`` its deviation; edges are mirrored."""

    one_to_one: bool = True
    unproven = "a deterministic function of each private picture is published"

    def __init__(
        self, radius: float = 1.5, *, top: float = 255.0, randomness: Randomness | None = None
    ) -> None:
        super().__init__(top=top, randomness=randomness)
        self.radius = positive("radius", radius)

    def parameters(self) -> Mapping[str, Any]:
        """The public parameters."""
        return {"radius": self.radius, **super().parameters()}

    def _replaced(self, data: Labelled, report: Progress) -> tuple[Pictures, NDArray[np.int64]]:
        from scipy.ndimage import gaussian_filter

        # Beyond a few sizes of the picture a wider blur is the same blur, only slower.
        radius = min(self.radius, 4.0 * max(data.shape[:2]))
        along = (0.0, radius, radius, 0.0)[: data.pictures.ndim]
        blurred = np.asarray(gaussian_filter(data.pictures, along, mode="reflect"), dtype=np.float32)
        report("pictures blurred", 1.0, {})
        return blurred, data.labels


def _averaged(pictures: Pictures, block: int, axis: int) -> Pictures:
    """``pictures`` with each run of ``block`` values along ``axis`` replaced by its mean."""
    size = pictures.shape[axis]
    starts = np.arange(0, size, block)
    lengths = np.minimum(block, size - starts)
    sums = np.add.reduceat(pictures, starts, axis=axis, dtype=np.float32)
    shape = [1] * pictures.ndim
    shape[axis] = len(starts)
    return np.repeat(sums / lengths.astype(np.float32).reshape(shape), lengths, axis=axis)
