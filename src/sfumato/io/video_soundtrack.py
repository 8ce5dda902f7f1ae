"""The sound track of a video as blocks of samples, in step with its first frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["SoundTrack", "aligned_sound", "sound_stream"]

# In seconds: time stamps this far off are rounding of the container; a longer silence in one place, or a
# longer track, is a damaged file.
_JITTER, _LONGEST_PAUSE, _LONGEST_TRACK = 0.05, 60.0, 86_400.0
_RATES = range(2_000, 400_001)


@dataclass(frozen=True)
class SoundTrack:
    """A track of ``samples`` samples a channel at ``rate`` a second; one channel, or two."""

    rate: int
    channels: int
    samples: int


def sound_stream(container: Any) -> Any | None:
    """The first sound track of an opened container, or None."""
    return container.streams.audio[0] if container.streams.audio else None


def aligned_sound(container: Any, name: str, start: Fraction) -> Iterator[NDArray[np.float32]]:
    """Blocks (samples, channels) of the first sound track, the first sample at ``start`` seconds.

    More than two channels are mixed down to two. What comes before ``start`` or is there twice is left out,
    and where the track starts later or pauses there is silence. The blocks' values lie within [-1, 1].
    """
    from av import AudioResampler

    stream = sound_stream(container)
    if stream is None or stream.codec_context is None:
        raise BadInput(f"{name} has a sound track in a format that cannot be decoded.")
    rate, channels = int(stream.codec_context.sample_rate), min(int(stream.codec_context.channels), 2)
    if rate not in _RATES or channels < 1:
        raise BadInput(
            f"{name} has a sound track of {rate} samples a second in {channels} channels: "
            f"{_RATES.start} to {_RATES.stop - 1} samples in one channel or more are accepted."
        )
    resampler = AudioResampler("flt", "mono" if channels == 1 else "stereo", rate)
    position, began = 0, False
    for frame in container.decode(stream):
        if frame.is_corrupt:
            raise BadInput(f"{name} has a damaged sound track.")
        when = None if frame.pts is None else frame.pts * Fraction(frame.time_base) - start
        for block in resampler.resample(frame):
            samples = block.to_ndarray().reshape(-1, channels)
            offset = 0 if when is None else round(when * rate) - position
            when = None
            # What lies a little off in the middle of a track is rounding; at its start it counts.
            if began and abs(offset) <= _JITTER * rate:
                offset = 0
            if offset > _LONGEST_PAUSE * rate or position > _LONGEST_TRACK * rate:
                raise BadInput(f"{name} has a sound track whose time stamps cannot be followed.")
            if offset > 0:
                yield np.zeros((offset, channels), dtype=np.float32)
                position += offset
            samples = samples[max(0, -offset) :]
            if len(samples):
                began = True
                position += len(samples)
                yield np.clip(np.nan_to_num(samples), -1.0, 1.0).astype(np.float32, copy=False)
