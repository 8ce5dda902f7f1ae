# Written by `make index` from the `__all__` of every module.
from .clip_noise import ClipNoise as ClipNoise
from .frame_noise import FrameNoise as FrameNoise
from .video_stream import soften_video as soften_video
