"""Images, sound and video: what may change in them, what in them is sensitive, and noise that knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.allocation import water_filling
    from sfumato.media.annotated import annotated_map
    from sfumato.media.band_noise import BandNoise
    from sfumato.media.categories import CATEGORIES, category_of
    from sfumato.media.clip import ClipNoise
    from sfumato.media.content_adaptive import ContentAdaptive
    from sfumato.media.decisions import threshold_cost
    from sfumato.media.dp_pix import DPPix
    from sfumato.media.frames import FrameNoise
    from sfumato.media.mel_laplace import MelLaplace
    from sfumato.media.obscured import Blur, Mask, Pixelate
    from sfumato.media.picture import PictureMechanism
    from sfumato.media.plane_bands import PlaneBands
    from sfumato.media.plane_means import PlaneMeans
    from sfumato.media.selective import SelectiveNoise
    from sfumato.media.sensitivity import SensitivityMap
    from sfumato.media.sound import SoundMechanism
    from sfumato.media.spectral import ScaledPixels, SpectralLaplace
    from sfumato.media.thresholds import (
        exponential_threshold,
        functional_threshold,
        projected_gradient_threshold,
    )
    from sfumato.media.uniform_pixels import UniformPixels

__all__ = [
    "CATEGORIES",
    "BandNoise",
    "Blur",
    "ClipNoise",
    "ContentAdaptive",
    "DPPix",
    "FrameNoise",
    "Mask",
    "MelLaplace",
    "PictureMechanism",
    "Pixelate",
    "PlaneBands",
    "PlaneMeans",
    "ScaledPixels",
    "SelectiveNoise",
    "SensitivityMap",
    "SoundMechanism",
    "SpectralLaplace",
    "UniformPixels",
    "annotated_map",
    "category_of",
    "exponential_threshold",
    "functional_threshold",
    "projected_gradient_threshold",
    "threshold_cost",
    "water_filling",
]

__getattr__ = when_used(
    "sfumato.media",
    {
        "BandNoise": "band_noise",
        "Blur": "obscured",
        "CATEGORIES": "categories",
        "ClipNoise": "clip",
        "ContentAdaptive": "content_adaptive",
        "DPPix": "dp_pix",
        "FrameNoise": "frames",
        "Mask": "obscured",
        "MelLaplace": "mel_laplace",
        "PictureMechanism": "picture",
        "Pixelate": "obscured",
        "PlaneBands": "plane_bands",
        "PlaneMeans": "plane_means",
        "ScaledPixels": "spectral",
        "SelectiveNoise": "selective",
        "SensitivityMap": "sensitivity",
        "SoundMechanism": "sound",
        "SpectralLaplace": "spectral",
        "UniformPixels": "uniform_pixels",
        "annotated_map": "annotated",
        "category_of": "categories",
        "exponential_threshold": "thresholds",
        "functional_threshold": "thresholds",
        "projected_gradient_threshold": "thresholds",
        "threshold_cost": "decisions",
        "water_filling": "allocation",
    },
)
