# Written by `make index` from the `__all__` of every module.
from .audio_mechanism import SoundMechanism as SoundMechanism
from .audio_mechanism import window_samples as window_samples
from .band_noise import BandNoise as BandNoise
from .loudness import hertz as hertz
from .loudness import mel as mel
from .mel_laplace import MelLaplace as MelLaplace
