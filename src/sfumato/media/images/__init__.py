"""Mechanisms for images, and what in an image is sensitive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.images.content_adaptive import ContentAdaptive
    from sfumato.media.images.dp_pix import DPPix
    from sfumato.media.images.image_mechanism import PictureMechanism
    from sfumato.media.images.plane_bands import PlaneBands
    from sfumato.media.images.plane_means import PlaneMeans
    from sfumato.media.images.plane_tier import PlaneTier
    from sfumato.media.images.redaction import Blur, Mask, Pixelate
    from sfumato.media.images.selective_noise import SelectiveNoise
    from sfumato.media.images.sensitivity_map import SensitivityMap
    from sfumato.media.images.spectral import ScaledPixels, SpectralLaplace
    from sfumato.media.images.uniform_pixels import UniformPixels

__all__ = [
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
]

__getattr__ = when_used(
    __name__,
    {
        "Blur": "redaction",
        "ContentAdaptive": "content_adaptive",
        "DPPix": "dp_pix",
        "Mask": "redaction",
        "PictureMechanism": "image_mechanism",
        "Pixelate": "redaction",
        "PlaneBands": "plane_bands",
        "PlaneMeans": "plane_means",
        "PlaneTier": "plane_tier",
        "ScaledPixels": "spectral",
        "SelectiveNoise": "selective_noise",
        "SensitivityMap": "sensitivity_map",
        "SpectralLaplace": "spectral",
        "UniformPixels": "uniform_pixels",
    },
)
