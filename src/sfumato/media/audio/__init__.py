"""Mechanisms for audio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.audio.audio_mechanism import SoundMechanism
    from sfumato.media.audio.band_noise import BandNoise
    from sfumato.media.audio.mel_laplace import MelLaplace

__all__ = [
    "BandNoise",
    "MelLaplace",
    "SoundMechanism",
]

__getattr__ = when_used(
    __name__,
    {
        "BandNoise": "band_noise",
        "MelLaplace": "mel_laplace",
        "SoundMechanism": "audio_mechanism",
    },
)
