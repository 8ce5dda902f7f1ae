"""What extractors by a trained network have in common: resizing, colours, blocks and layer normalisation."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, Report, checked_pictures
from sfumato.learners.rowwise import in_blocks

__all__ = ["NetworkExtractor"]

# Pictures of a block: this many of 96 × 96 pixels or fewer, and as many pixels of larger ones.
_BLOCK, _SIDE = 16, 96
_EPSILON = 1e-5


class NetworkExtractor(Extractor):
    """Pooled features of a network whose weights stand still, normalised within each picture.

    Pictures (height, width), grey, or (height, width, 1 or 3) are resized to ``size`` × ``size`` pixels
    (bilinear), scaled by ``mean`` and ``deviation`` of each colour, and taken through the network; the d
    features of a picture are brought to mean 0 and deviation 1 and divided by √d: no row is longer than 1.

    **Guarantee passes through.** The network answers in evaluation mode, where its batch normalisations are
    fixed numbers, and always in blocks of one size (:mod:`sfumato.learners.rowwise`): on one machine with one
    number of threads a row is the same, bit by bit, whatever the other pictures are.
    """

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    def __init__(self, shape: tuple[int, ...], size: int) -> None:
        sides = len(shape) in (2, 3) and all(isinstance(side, int) and side > 0 for side in shape)
        if not sides or (*shape, 1)[2] not in (1, 3):
            raise BadInput(
                f"`shape` was {shape!r}: {self.name} takes pictures (height, width) or (height, width, 1 "
                "or 3).",
                parameter="shape",
            )
        if not isinstance(size, int) or not 32 <= size <= 1024:
            raise BadInput(
                f"`size` was {size!r}: {self.name} looks at 32 to 1024 pixels a side.", parameter="size"
            )
        self.shape, self.size = tuple(shape), size

    @abstractmethod
    def _pooled(self, pictures: Tensor) -> Tensor:
        """Features (n, ``dimension``) of scaled ``pictures`` (n, 3, ``size``, ``size``)."""

    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Features (n, d) of ``pictures`` (n, *``shape``), values from 0 to 255."""
        given = checked_pictures(pictures, self.shape)
        held = max(1, _BLOCK * min(self.size, _SIDE) ** 2 // self.size**2)
        return in_blocks(
            self._rows, given, size=held, dimension=self.dimension, stage=self.name, report=report
        )

    def scaled(self, pictures: NDArray[Any]) -> Tensor:
        """``pictures`` (n, *``shape``) as the network sees them: (n, 3, ``size``, ``size``)."""
        height, width, colours = (*self.shape, 1)[:3]
        planes = torch.from_numpy(pictures.astype(np.float32)).reshape(-1, height, width, colours)
        small = torch.nn.functional.interpolate(
            planes.permute(0, 3, 1, 2), (self.size, self.size), mode="bilinear", antialias=True
        )
        mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in (self.mean, self.deviation))
        return (small.expand(-1, 3, -1, -1) / 255.0 - mean) / deviation

    @torch.inference_mode()
    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        found = self._pooled(self.scaled(block))
        normal = torch.nn.functional.layer_norm(found, (self.dimension,), eps=_EPSILON)
        return np.asarray(normal.numpy() / np.float32(math.sqrt(self.dimension)))
