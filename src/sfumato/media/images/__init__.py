"""Mechanisms for images, and what in an image is sensitive."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.images.content_adaptive import ContentAdaptive as ContentAdaptive
    from sfumato.media.images.image_baselines import DPPix as DPPix
    from sfumato.media.images.image_baselines import ScaledPixels as ScaledPixels
    from sfumato.media.images.image_baselines import SpectralLaplace as SpectralLaplace
    from sfumato.media.images.image_baselines import UniformPixels as UniformPixels
    from sfumato.media.images.image_mechanism import PictureMechanism as PictureMechanism
    from sfumato.media.images.image_mechanism import footprint as footprint
    from sfumato.media.images.image_mechanism import picture_shape as picture_shape
    from sfumato.media.images.plane_bands import PlaneBands as PlaneBands
    from sfumato.media.images.plane_means import PlaneMeans as PlaneMeans
    from sfumato.media.images.plane_means import PlaneTier as PlaneTier
    from sfumato.media.images.redaction import Blur as Blur
    from sfumato.media.images.redaction import Mask as Mask
    from sfumato.media.images.redaction import Pixelate as Pixelate
    from sfumato.media.images.selective_noise import SelectiveNoise as SelectiveNoise
    from sfumato.media.images.sensitivity_map import CATEGORIES as CATEGORIES
    from sfumato.media.images.sensitivity_map import SensitivityMap as SensitivityMap
    from sfumato.media.images.sensitivity_map import annotated_map as annotated_map
    from sfumato.media.images.tiles import tiles_of as tiles_of

__all__ = [
    "CATEGORIES",
    "Blur",
    "ContentAdaptive",
    "DPPix",
    "Mask",
    "PictureMechanism",
    "Pixelate",
    "PlaneBands",
    "PlaneMeans",
    "PlaneTier",
    "ScaledPixels",
    "SelectiveNoise",
    "SensitivityMap",
    "SpectralLaplace",
    "UniformPixels",
    "annotated_map",
    "footprint",
    "picture_shape",
    "tiles_of",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "ContentAdaptive": "content_adaptive",
            "DPPix": "image_baselines",
            "ScaledPixels": "image_baselines",
            "SpectralLaplace": "image_baselines",
            "UniformPixels": "image_baselines",
            "PictureMechanism": "image_mechanism",
            "footprint": "image_mechanism",
            "picture_shape": "image_mechanism",
            "PlaneBands": "plane_bands",
            "PlaneMeans": "plane_means",
            "PlaneTier": "plane_means",
            "Blur": "redaction",
            "Mask": "redaction",
            "Pixelate": "redaction",
            "SelectiveNoise": "selective_noise",
            "CATEGORIES": "sensitivity_map",
            "SensitivityMap": "sensitivity_map",
            "annotated_map": "sensitivity_map",
            "tiles_of": "tiles",
        },
    )
