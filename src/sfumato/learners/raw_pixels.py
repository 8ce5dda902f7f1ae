"""Raw pixels as features: the plainest public map there is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, Report, checked_pictures
from sfumato.learners.rowwise import in_blocks

__all__ = ["Pixels"]

_BLOCK = 1024


class Pixels(Extractor):
    """(x/255 − 1/2) · 2/√d for each of the d values x of a picture: black is −1/√d, white is 1/√d.

    Values below 0 or above 255 count as 0 and 255, so that no picture is longer than 1.
    """

    name = "pixels"
    origin = "The pixels themselves; nothing is trained."

    def __init__(self, shape: tuple[int, ...]) -> None:
        if len(shape) not in (2, 3) or not all(isinstance(side, int) and side > 0 for side in shape):
            raise BadInput(
                f"`shape` was {shape!r}: a picture is (height, width) or (height, width, channels), each ≥ "
                "1.",
                parameter="shape",
            )
        self.shape = tuple(shape)
        self.dimension = math.prod(shape)

    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Features (n, d) of ``pictures`` (n, *``shape``), values from 0 to 255."""
        given = checked_pictures(pictures, self.shape)
        return in_blocks(
            self._rows, given, size=_BLOCK, dimension=self.dimension, stage=self.name, report=report
        )

    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        flat = block.reshape(len(block), -1).astype(np.float64)
        return ((flat / 255.0 - 0.5) * (2.0 / math.sqrt(self.dimension))).astype(np.float32)
