"""Mel spectrograms of sound and sound with a given mel spectrogram, as the multimedia paper prepares them.

At 22.05 kHz: Hann windows of 2048 samples every 512, power spectra summed into 128 triangles that are equally
wide on the mel scale, decibels with a floor at −80 (section 4.1.1). Full scale is 0 dB, not the loudest
frame: a reference read off the recording would be a release of its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.media.audio.band_levels import hertz, mel

__all__ = [
    "FFT",
    "HOP",
    "MELS",
    "MEL_CENTRES",
    "MEL_RATE",
    "decibels",
    "frames_of",
    "griffin_lim",
    "inverse_stft",
    "magnitudes",
    "stft",
]

Array = NDArray[np.float64]
Spectra = NDArray[np.complex128]

MEL_RATE, FFT, HOP, MELS = 22_050, 2048, 512, 128

_FLOOR = -80.0
_EDGES = hertz(np.linspace(0.0, float(mel(MEL_RATE / 2)), MELS + 2))

#: The frequency at which each mel filter peaks, in hertz.
MEL_CENTRES: Array = _EDGES[1:-1].copy()

_HANN = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(FFT) / FFT)
# The power at which a sine of full scale stands in one bin.
_FULL = (_HANN.sum() / 2.0) ** 2


def frames_of(samples: int) -> int:
    """How many frames a sound of ``samples`` samples has: one is centred at every multiple of ``HOP``."""
    return 1 + samples // HOP


def stft(sound: Array) -> Spectra:
    """Spectra (frames, FFT/2 + 1) of a sound (n,), which is silent before its start and after its end."""
    padded = np.pad(sound, (FFT // 2, FFT // 2 + HOP))
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][: frames_of(sound.size)]
    return np.asarray(np.fft.rfft(windows * _HANN, axis=1))


def inverse_stft(spectra: Spectra, samples: int) -> Array:
    """The sound (``samples``,) whose spectra are nearest to ``spectra`` (Griffin & Lim 1984, equation 6)."""
    parts = np.fft.irfft(spectra, FFT, axis=1) * _HANN
    total, weight = np.zeros((2, (len(spectra) - 1) * HOP + FFT))
    for index, part in enumerate(parts):
        total[index * HOP : index * HOP + FFT] += part
        weight[index * HOP : index * HOP + FFT] += _HANN**2
    sound = np.zeros(samples)
    inner = slice(FFT // 2, FFT // 2 + samples)
    heard = total[inner] / np.maximum(weight[inner], 1e-3)
    sound[: heard.size] = heard
    return sound


def griffin_lim(sizes: Array, samples: int, rounds: int = 32) -> Array:
    """A sound (``samples``,) with spectra of about ``sizes`` (frames, bins), from public random phases."""
    turn = np.random.default_rng(MEL_RATE).uniform(0.0, 2.0 * np.pi, sizes.shape)
    phase = np.exp(1j * turn)
    for _ in range(rounds):
        again = stft(inverse_stft(sizes * phase, samples))
        phase = again / np.maximum(np.abs(again), 1e-12)
    return inverse_stft(sizes * phase, samples)


def decibels(spectra: Spectra) -> Array:
    """Mel levels (frames, MELS) in decibels, between the floor and 0."""
    power = np.square(np.abs(spectra)) @ _filters().T / _FULL
    return np.asarray(np.clip(10.0 * np.log10(np.maximum(power, 1e-12)), _FLOOR, 0.0))


def magnitudes(levels: Array) -> Array:
    """Sizes of spectra (frames, bins) whose mel levels are near ``levels``: least squares, none negative."""
    power = 10.0 ** (levels / 10.0) * _FULL
    return np.asarray(np.sqrt(np.maximum(power @ _inverse().T, 0.0)))


@lru_cache(maxsize=1)
def _filters() -> Array:
    """Triangles (MELS, bins) of height 1; one that falls between two bins takes the nearest bin."""
    bins = np.arange(FFT // 2 + 1) * (MEL_RATE / FFT)
    low, peak, high = _EDGES[:-2, None], _EDGES[1:-1, None], _EDGES[2:, None]
    rows = np.maximum(0.0, np.minimum((bins - low) / (peak - low), (high - bins) / (high - peak)))
    for row in np.flatnonzero(rows.sum(axis=1) == 0.0):
        rows[row, int(np.argmin(np.abs(bins - MEL_CENTRES[row])))] = 1.0
    return np.asarray(rows)


@lru_cache(maxsize=1)
def _inverse() -> Array:
    """The pseudo-inverse (bins, MELS) of the filters."""
    return np.asarray(np.linalg.pinv(_filters()))
