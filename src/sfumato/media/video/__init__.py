"""Mechanisms for video: frames, sound, and both together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.video.clip_noise import ClipNoise
    from sfumato.media.video.frame_noise import FrameNoise
    from sfumato.media.video.video_stream import soften_video

__all__ = [
    "ClipNoise",
    "FrameNoise",
    "soften_video",
]

__getattr__ = when_used(
    __name__,
    {
        "ClipNoise": "clip_noise",
        "FrameNoise": "frame_noise",
        "soften_video": "video_stream",
    },
)
