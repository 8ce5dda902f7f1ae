"""Streaming of a video from a source to a sink, frame by frame, with its sound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.media.audio.audio_mechanism import SoundMechanism
from sfumato.media.video.clip_noise import ClipNoise
from sfumato.privacy import Statement

if TYPE_CHECKING:
    from sfumato.io import VideoSink, VideoSource

__all__ = ["soften_video"]

# In seconds: how far sound is written ahead of the frame it belongs to.
_AHEAD = Fraction(1, 2)


def soften_video(
    source: VideoSource,
    sink: VideoSink,
    noise: ClipNoise,
    *,
    report: Callable[[str, float], None] | None = None,
) -> Statement:
    """Read ``source``, add ``noise``, filter, and write frames and sound to ``sink``; returns the statement.

    Memory does not depend on how long the video is. ``report`` is told "frames" and the share that is done.
    """
    shaped = noise.shaped(source)
    statement = shaped.statement()  # first, since it refuses bad parameters in a sentence
    times: deque[int] = deque()

    def frames() -> Iterator[NDArray[np.uint8]]:
        for frame in source.pictures():
            times.append(frame.ticks)
            yield frame.pixels

    sound = _SoundTrack(source, sink, shaped.sound)
    for done, pixels in enumerate(shaped.picture.released(frames()), start=1):
        ticks = times.popleft()
        sound.write_until(ticks * source.time_base + _AHEAD)
        sink.write(pixels, ticks)
        if report is not None:
            report("frames", done / source.frames)
    sound.write_until(None)
    return statement


class _SoundTrack:
    """Released sound, written as far as the pictures have come."""

    def __init__(self, source: VideoSource, sink: VideoSink, mechanism: SoundMechanism | None) -> None:
        self._sink = sink
        self._rate = 1 if source.sound is None else source.sound.rate
        self._blocks = iter(()) if mechanism is None else mechanism.blocks(source.sound_blocks())
        self._written = 0

    def write_until(self, time: Fraction | None) -> None:
        """Write the sound up to ``time`` seconds, or all that is left."""
        while time is None or Fraction(self._written, self._rate) < time:
            block = next(self._blocks, None)
            if block is None:
                return
            self._sink.write_sound(block)
            self._written += len(block)
