"""What a voice and a spoken word look like to a recogniser: statistics of mel cepstra.

Frames of 32 ms every 10 ms, power in 24 triangular mel bands up to 4 kHz, its logarithm, and the first 14
coefficients of a cosine transform (Davis & Mermelstein 1980). A voice is described by their means, deviations
and the deviations of their steps over a recording; a word by their means over twelve equal parts of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from sfumato.errors import BadInput
from sfumato.media.audio.band_levels import hertz, mel

__all__ = ["cepstra", "clips_of", "voice_features", "word_features"]

Floats = NDArray[np.float64]

_FRAME, _STEP = 0.032, 0.010  # seconds
_BANDS, _KEPT, _PARTS = 24, 14, 12
_LOWEST, _HIGHEST = 80.0, 4000.0
# Below the power of the last bit of 16; silence has a logarithm too.
_SILENCE = 1e-9


def cepstra(clip: Floats, rate: int) -> Floats:
    """Mel cepstra (frames, 14) of a clip (n,); one shorter than a frame is followed by silence."""
    size, step = round(_FRAME * rate), round(_STEP * rate)
    padded = np.pad(clip, (0, max(0, size - clip.size)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::step] * np.hanning(size)
    power = np.square(np.abs(np.fft.rfft(frames, axis=1))) @ _filters(size, rate).T / size
    return np.asarray(dct(np.log(power + _SILENCE), type=2, axis=1, norm="ortho")[:, :_KEPT])


def voice_features(clip: Floats, rate: int) -> Floats:
    """What is the same all through a recording: (42,)."""
    rows = cepstra(clip, rate)
    steps = np.diff(rows, axis=0) if len(rows) > 1 else np.zeros((1, rows.shape[1]))
    return np.concatenate([rows.mean(axis=0), rows.std(axis=0), steps.std(axis=0)])


def word_features(clip: Floats, rate: int) -> Floats:
    """How a recording goes on, whatever its length, and its length in seconds: (169,)."""
    rows = cepstra(clip, rate)
    edges = np.linspace(0, len(rows), _PARTS + 1).astype(int)
    parts = [
        rows[min(start, len(rows) - 1) : max(stop, start + 1)].mean(axis=0) for start, stop in pairwise(edges)
    ]
    return np.concatenate([*parts, [clip.size / rate]])


def clips_of(recordings: Sequence[Any], what: str) -> list[Floats]:
    """Recordings as clips (n,), channels averaged; refuses what is empty or not finite."""
    clips = []
    for row, recording in enumerate(recordings):
        clip = np.asarray(recording)
        if clip.dtype.kind in "iu":
            clip = clip / float(np.iinfo(clip.dtype).max)
        if clip.ndim == 2:
            clip = clip.mean(axis=1)
        if clip.ndim != 1 or not clip.size or clip.dtype.kind != "f":
            raise BadInput(
                f"{what} {row} has shape {np.shape(recording)}: samples (n,) or (n, channels) are accepted."
            )
        if not np.isfinite(clip).all():
            raise BadInput(f"{what} {row} holds a value that is no finite number.")
        clips.append(clip.astype(np.float64))
    return clips


@lru_cache(maxsize=8)
def _filters(size: int, rate: int) -> Floats:
    bins = np.arange(size // 2 + 1) * (rate / size)
    high = min(_HIGHEST, rate / 2.0)
    edges = hertz(np.linspace(float(mel(_LOWEST)), float(mel(high)), _BANDS + 2))
    low, peak, top = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    return np.maximum(0.0, np.minimum((bins - low) / (peak - low), (top - bins) / (top - peak)))
