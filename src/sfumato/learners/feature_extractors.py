"""Extractors by the name that a command line or a saved model gives them, and raw pixels as features."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.backbones import BACKBONES, Backbone, LocalBackbone
from sfumato.learners.extractor import Extractor, checked_shape
from sfumato.learners.scattering import ScatteringFeatures
from sfumato.learners.whitening import Whitened

__all__ = ["EXTRACTORS", "make_extractor"]

_Shape = tuple[int, ...]


class Pixels(Extractor):
    """(x/255 − 1/2) · 2/√d for each of the d values x of a picture: black is −1/√d, white is 1/√d.

    Values below 0 or above 255 count as 0 and 255, so that no picture is longer than 1.
    """

    name = "pixels"
    origin = "The pixels themselves; nothing is trained."

    block = 1024

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = checked_shape(shape)
        self.dimension = math.prod(shape)

    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        flat = block.reshape(len(block), -1).astype(np.float64)
        return ((flat / 255.0 - 0.5) * (2.0 / math.sqrt(self.dimension))).astype(np.float32)


# What is made without weights of a package.
_PLAIN: dict[str, Callable[[_Shape], Extractor]] = {
    "whitened-scattering": lambda shape: Whitened(ScatteringFeatures(shape)),
    "scattering": ScatteringFeatures,
    "pixels": Pixels,
}

# Names that need no files of one's own.
EXTRACTORS = (*_PLAIN, *BACKBONES)


def make_extractor(name: str, shape: _Shape) -> Extractor:
    """Return the extractor called ``name`` (one of ``EXTRACTORS``) for pictures of ``shape``.

    Any other name is taken as a folder with the weights of a transformers model (ViT, DINOv2, ResNet).
    """
    if name in _PLAIN:
        return _PLAIN[name](shape)
    if name in BACKBONES:
        return Backbone(name, shape)
    if Path(name).is_dir():
        return LocalBackbone(name, shape)
    raise BadInput(
        f"`extractor` was {name!r}: it is one of {', '.join(EXTRACTORS)}, or a folder with config.json and "
        "the weights of a ViT, DINOv2 or ResNet.",
        parameter="extractor",
    )
