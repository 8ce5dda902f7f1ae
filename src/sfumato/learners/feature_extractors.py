"""The extractors by name: what a command line or a kept model calls them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.learners.backbones import BACKBONES, Backbone
from sfumato.learners.extractor import Extractor
from sfumato.learners.local_backbone import LocalBackbone
from sfumato.learners.raw_pixels import Pixels
from sfumato.learners.scattering_features import ScatteringFeatures
from sfumato.learners.whitening import Whitened

__all__ = ["EXTRACTORS", "make_extractor"]

_Shape = tuple[int, ...]
# What is made without weights of a package.
_PLAIN: dict[str, Callable[[_Shape], Extractor]] = {
    "whitened-scattering": lambda shape: Whitened(ScatteringFeatures(shape)),
    "scattering": ScatteringFeatures,
    "pixels": Pixels,
}

# Names that need no files of one's own.
EXTRACTORS = (*_PLAIN, *BACKBONES)


def make_extractor(name: str, shape: _Shape) -> Extractor:
    """The extractor called ``name`` (one of ``EXTRACTORS``) for pictures of ``shape``.

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
        "the "
        "weights of a ViT, DINOv2 or ResNet.",
        parameter="extractor",
    )
