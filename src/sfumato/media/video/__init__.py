"""Mechanisms for video: frames, sound, and both together."""

# Below this line: written by `make index` from the `__all__` of every module.
from typing import TYPE_CHECKING

from sfumato.loading import when_used

if TYPE_CHECKING:
    from sfumato.media.video.clip_noise import ClipNoise as ClipNoise
    from sfumato.media.video.clip_noise import soften_video as soften_video
    from sfumato.media.video.frame_noise import FrameNoise as FrameNoise

__all__ = ["ClipNoise", "FrameNoise", "soften_video"]

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses any other
    __getattr__, __dir__ = when_used(
        __name__, {"ClipNoise": "clip_noise", "soften_video": "clip_noise", "FrameNoise": "frame_noise"}
    )
