# Written by `make index` from the `__all__` of every module.
from .clip_noise import ClipNoise as ClipNoise
from .clip_noise import soften_video as soften_video
from .frame_noise import FrameNoise as FrameNoise
