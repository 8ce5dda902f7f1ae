"""The extractors by name: what a command line or a kept model calls them."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import BadInput
from sfumato.learn.extractor import Extractor
from sfumato.learn.pixels import Pixels
from sfumato.learn.scattered import ScatteringFeatures
from sfumato.learn.whitened import Whitened

__all__ = ["EXTRACTORS", "make_extractor"]

# Names that need no files of one's own.
EXTRACTORS = ("whitened-scattering", "scattering", "pixels", "efficientnet-lite0", "mobilenet-v2")


def make_extractor(name: str, shape: tuple[int, ...]) -> Extractor:
    """The extractor called ``name`` (one of ``EXTRACTORS``) for pictures of ``shape``.

    Any other name is taken as a folder with the weights of a transformers model (ViT, DINOv2, ResNet).
    """
    if name == "scattering":
        return ScatteringFeatures(shape)
    if name == "whitened-scattering":
        return Whitened(ScatteringFeatures(shape))
    if name == "pixels":
        return Pixels(shape)
    if name in ("efficientnet-lite0", "mobilenet-v2"):
        from sfumato.learn.backbones import Backbone

        return Backbone(name, shape)
    if Path(name).is_dir():
        from sfumato.learn.local_backbone import LocalBackbone

        return LocalBackbone(name, shape)
    raise BadInput(
        f"extractor was {name!r}: it is one of {', '.join(EXTRACTORS)}, or a folder with config.json and the "
        "weights of a ViT, DINOv2 or ResNet."
    )
