"""Images, sound and video: what may change in them, what in them is sensitive, and noise that knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.audio.audio_mechanism import SoundMechanism
    from sfumato.media.audio.band_noise import BandNoise
    from sfumato.media.audio.mel_laplace import MelLaplace
    from sfumato.media.budget_allocation import water_filling
    from sfumato.media.detect.decisions import threshold_cost
    from sfumato.media.detect.thresholds import (
        exponential_threshold,
        functional_threshold,
        projected_gradient_threshold,
    )
    from sfumato.media.images.annotations import annotated_map
    from sfumato.media.images.categories import CATEGORIES, category_of
    from sfumato.media.images.content_adaptive import ContentAdaptive
    from sfumato.media.images.dp_pix import DPPix
    from sfumato.media.images.image_mechanism import PictureMechanism
    from sfumato.media.images.plane_bands import PlaneBands
    from sfumato.media.images.plane_means import PlaneMeans
    from sfumato.media.images.redaction import Blur, Mask, Pixelate
    from sfumato.media.images.selective_noise import SelectiveNoise
    from sfumato.media.images.sensitivity_map import SensitivityMap
    from sfumato.media.images.spectral import ScaledPixels, SpectralLaplace
    from sfumato.media.images.uniform_pixels import UniformPixels
    from sfumato.media.video.clip_noise import ClipNoise
    from sfumato.media.video.frame_noise import FrameNoise

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
        "BandNoise": "audio.band_noise",
        "Blur": "images.redaction",
        "CATEGORIES": "images.categories",
        "ClipNoise": "video.clip_noise",
        "ContentAdaptive": "images.content_adaptive",
        "DPPix": "images.dp_pix",
        "FrameNoise": "video.frame_noise",
        "Mask": "images.redaction",
        "MelLaplace": "audio.mel_laplace",
        "PictureMechanism": "images.image_mechanism",
        "Pixelate": "images.redaction",
        "PlaneBands": "images.plane_bands",
        "PlaneMeans": "images.plane_means",
        "ScaledPixels": "images.spectral",
        "SelectiveNoise": "images.selective_noise",
        "SensitivityMap": "images.sensitivity_map",
        "SoundMechanism": "audio.audio_mechanism",
        "SpectralLaplace": "images.spectral",
        "UniformPixels": "images.uniform_pixels",
        "annotated_map": "images.annotations",
        "category_of": "images.categories",
        "exponential_threshold": "detect.thresholds",
        "functional_threshold": "detect.thresholds",
        "projected_gradient_threshold": "detect.thresholds",
        "threshold_cost": "detect.decisions",
        "water_filling": "budget_allocation",
    },
)
