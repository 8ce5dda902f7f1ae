"""Public statistics of speech, made without private recordings.

``speech.npz`` holds, for 2, 4, … 256 shapes, band levels that stand for blocks of speech and how often one
follows another. ``benchmarks/speech_statistics.py`` computed it from takes 25 to 49 of the Free Spoken Digit
Dataset (six speakers, CC BY-SA 4.0); the other takes are for tests.

Shapes are compared by :func:`metric`: bands count by how well they are heard (ISO 226); an overall gain,
which says more about a microphone than about a word, counts a tenth; and the directions in which the
long-term averages of the six speakers differ count a twentieth. So shapes tell words apart, not voices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.media.audio.loudness import CENTRES, noise_weight

Array = NDArray[np.float64]
Weighting = Literal["iso226", "flat"]

#: How many shapes a sound may be information in.
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)

_GAIN, _VOICE = 0.1, 0.05
# A pair of shapes that was never seen in a row counts as this much of one sighting of the first.
_UNSEEN = 0.5


@dataclass(frozen=True, eq=False)
class Shapes:
    """``levels`` (k, BANDS) of each shape, ``share`` (k,) of all blocks, ``steps`` (k, k) to the next one."""

    levels: Array
    share: Array
    steps: Array

    def nearest(self, levels: Array, weighting: Weighting) -> NDArray[np.intp]:
        """Return the shape nearest to each row of ``levels`` (n, BANDS)."""
        sound = _stored_metric(weighting)
        ours, theirs = self.levels @ sound, levels @ sound
        # |a − b|² without |a|², which is the same for every shape.
        return np.asarray(np.argmin(np.sum(ours * ours, axis=1) - 2.0 * theirs @ ours.T, axis=1))


def metric(weighting: Weighting, voices: Array | None = None) -> Array:
    """Return map (BANDS, BANDS) after which Euclidean distance says how different two rows of levels sound.

    ``voices`` (speakers, BANDS) are average levels of speakers; by default those of the stored statistics.
    """
    heard = 1.0 / noise_weight(CENTRES) if weighting == "iso226" else np.ones(CENTRES.size)
    heard = heard / heard.mean()
    mean = np.outer(heard, np.ones(CENTRES.size)) / heard.sum()  # levels @ mean: their mean, in every band
    sound = (np.eye(CENTRES.size) - (1.0 - math.sqrt(_GAIN)) * mean) * np.sqrt(heard)
    apart = (_voices() if voices is None else voices) @ sound
    apart = apart - apart.mean(axis=0)
    _, sizes, directions = np.linalg.svd(apart, full_matrices=False)
    personal = directions[sizes > 1e-6 * sizes[0]]
    return np.asarray(sound - (1.0 - math.sqrt(_VOICE)) * sound @ personal.T @ personal)


@lru_cache(maxsize=2)
def _stored_metric(weighting: Weighting) -> Array:
    return metric(weighting)


def _voices() -> Array:
    return _stored("voices") / 10.0


def _stored(name: str) -> Array:
    with (
        resources.files("sfumato.media.audio").joinpath("speech.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        return np.asarray(stored[name], dtype=np.float64)


@lru_cache(maxsize=len(SIZES))
def shapes(size: int) -> Shapes:
    """Return the ``size`` shapes of speech."""
    levels = _stored(f"levels{size}") / 10.0
    seen = _stored(f"pairs{size}") + _UNSEEN / size
    total = seen.sum(axis=1)
    return Shapes(levels, total / total.sum(), seen / total[:, None])


@lru_cache(maxsize=32)
def steps_ahead(size: int, blocks: int) -> Array:
    """Return how likely each of ``size`` shapes is, (size, size), ``blocks`` blocks after each other one."""
    return np.asarray(np.linalg.matrix_power(shapes(size).steps, blocks))


@lru_cache(maxsize=64)
def best_size(epsilon: float) -> int:
    """Return number of shapes that lets randomised response with ``epsilon`` say most about a uniform one.

    Its mutual information is log k − h(p) − (1 − p)·log(k − 1) with p = e^ε/(e^ε + k − 1).
    """

    def information(size: int) -> float:
        wrong = (size - 1) / (math.exp(min(epsilon, 700.0)) + size - 1)
        if wrong == 0.0:
            return math.log(size)
        kept = (1.0 - wrong) * math.log1p(-wrong)
        return math.log(size) + kept + wrong * (math.log(wrong) - math.log(size - 1))

    return max(SIZES, key=information)
