"""Mechanisms for audio."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.audio.audio_mechanism import SoundMechanism as SoundMechanism
    from sfumato.media.audio.audio_mechanism import window_samples as window_samples
    from sfumato.media.audio.band_noise import BandNoise as BandNoise
    from sfumato.media.audio.loudness import hertz as hertz
    from sfumato.media.audio.loudness import mel as mel
    from sfumato.media.audio.mel_laplace import MelLaplace as MelLaplace

__all__ = ["BandNoise", "MelLaplace", "SoundMechanism", "hertz", "mel", "window_samples"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__,
        {
            "SoundMechanism": "audio_mechanism",
            "window_samples": "audio_mechanism",
            "BandNoise": "band_noise",
            "hertz": "loudness",
            "mel": "loudness",
            "MelLaplace": "mel_laplace",
        },
    )
