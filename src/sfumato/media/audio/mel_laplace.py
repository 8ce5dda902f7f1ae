"""The noise that the adaptive multimedia paper adds to mel spectrograms, and what it proves.

Section 3.2.1: Laplace noise on mel levels, shaped by equal loudness, N(f) = N₀·A(f), and fading away from a
moment t₀, y_t = x_t + n_t·exp(−|t − t₀|/τ) with τ = 50 ms; Table 2: scale 0.4Δ/ε with Δ = 2.

**Guarantee.** Levels are put on [−1, 1] (−80 to 0 dB), so one of them moves by at most 2, and level (t, f)
costs 2/b(t, f) with b(t, f) = 0.8·A(f)·exp(−|t − t₀|/τ)/ε. A unit costs the sum over every level it reaches:
all 128 of each frame whose 93 ms it meets. So the factor 0.4 alone makes one level cost 2.5ε at 1 kHz, a
window costs hundreds of levels, and where the noise has faded, e^{|t − t₀|/τ} as much: seconds away from t₀
nothing is protected. With ``phase="keep"`` the clean phase is released as it is, and nothing is proven.

**Edge cases.** Several channels are mixed to one and come back alike. A clip is held whole, so at most two
minutes are taken. Other rates are resampled to 22.05 kHz and back; the filter's reach is part of the unit.

**Mel spectrograms** are those of the paper (section 4.1.1). At 22.05 kHz: Hann windows of 2048 samples every
512, power spectra summed into 128 triangles that are equally wide on the mel scale, decibels with a floor at
−80. Full scale is 0 dB, not the loudest frame: a reference read off the recording would be a release of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    LARGEST,
    Epsilon,
    ExpectedError,
    Parameter,
    one_of,
    positive,
    shown,
)
from sfumato.media.audio.audio_mechanism import (
    PARTS,
    Passage,
    SoundMechanism,
    SoundShape,
    SoundUnit,
    sound_unit,
    window_samples,
)
from sfumato.media.audio.loudness import hertz, mel, noise_weight
from sfumato.noise import LAPLACE, Rounded, Stream, grid_step
from sfumato.privacy import AUDIO, REQUIRED, Claim, Guarantee, Unit

__all__ = ["MelLaplace"]

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
    """Return the number of frames of a sound: one is centred at every multiple of ``HOP`` samples."""
    return 1 + samples // HOP


def stft(sound: Array) -> Spectra:
    """Return spectra (frames, FFT/2 + 1) of a sound (n,), padded with silence at both ends."""
    padded = np.pad(sound, (FFT // 2, FFT // 2 + HOP))
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][: frames_of(sound.size)]
    return np.asarray(np.fft.rfft(windows * _HANN, axis=1))


def inverse_stft(spectra: Spectra, samples: int) -> Array:
    """Return the sound (``samples``,) with the spectra nearest to ``spectra`` (Griffin & Lim 1984, eq. 6)."""
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
    """Return a sound (``samples``,) with spectra of about ``sizes`` (frames, bins); its phases are public."""
    turn = np.random.default_rng(MEL_RATE).uniform(0.0, 2.0 * np.pi, sizes.shape)
    phase = np.exp(1j * turn)
    for _ in range(rounds):
        again = stft(inverse_stft(sizes * phase, samples))
        phase = again / np.maximum(np.abs(again), 1e-12)
    return inverse_stft(sizes * phase, samples)


def decibels(spectra: Spectra) -> Array:
    """Return mel levels (frames, MELS) in decibels, between the floor and 0."""
    power = np.square(np.abs(spectra)) @ _filters().T / _FULL
    return np.asarray(np.clip(10.0 * np.log10(np.maximum(power, 1e-12)), _FLOOR, 0.0))


def magnitudes(levels: Array) -> Array:
    """Return sizes of spectra (frames, bins) with mel levels near ``levels``, by least squares."""
    power = 10.0 ** (levels / 10.0) * _FULL
    return np.asarray(np.sqrt(np.maximum(power @ _inverse().T, 0.0)))


@lru_cache(maxsize=1)
def _filters() -> Array:
    """Return triangles (MELS, bins) of height 1; one that falls between two bins takes the nearest bin."""
    bins = np.arange(FFT // 2 + 1) * (MEL_RATE / FFT)
    low, peak, high = _EDGES[:-2, None], _EDGES[1:-1, None], _EDGES[2:, None]
    rows = np.maximum(0.0, np.minimum((bins - low) / (peak - low), (high - bins) / (high - peak)))
    for row in np.flatnonzero(rows.sum(axis=1) == 0.0):
        rows[row, int(np.argmin(np.abs(bins - MEL_CENTRES[row])))] = 1.0
    return np.asarray(rows)


@lru_cache(maxsize=1)
def _inverse() -> Array:
    """Return the pseudo-inverse (bins, MELS) of the filters."""
    return np.asarray(np.linalg.pinv(_filters()))


_FACTOR, _SENSITIVITY = 0.4, 2.0  # Table 2, MFCC features
PHASES = ("griffin-lim", "keep")
_LONGEST = 120.0  # seconds
# scipy's resample_poly: ten zero crossings of the slower rate on either side.
_CROSSINGS = 10
# Noise that has faded below e^−500 of itself is none, and what it costs is told as e^500.
_FADED = 500.0
_HALF_RANGE = 40.0  # decibels


@dataclass(eq=False, repr=False)
class MelLaplace(SoundMechanism):
    """The paper's mel-spectrogram noise at its claimed ``epsilon``; the proven column says what that costs.

    ``decay`` is τ in milliseconds, None for noise that does not fade; ``moment`` is t₀ in milliseconds, by
    default the middle of the clip. ``phase`` is ``"griffin-lim"`` (recovered from the noisy levels) or
    ``"keep"`` (the clean one, which proves nothing). ``rate`` and ``shape`` are those of the clips.

    **Guarantee.** The true ε of the paper's noise under replace; nothing while the phase is kept.
    """

    kinds = ("sound", "video")

    epsilon: Epsilon = REQUIRED
    unit: SoundUnit = AUDIO.unit
    _: KW_ONLY
    decay: Annotated[float | None, Parameter("How fast the noise fades, in milliseconds.")] = 50.0
    moment: Annotated[
        float | None, Parameter("Where the noise is largest, in milliseconds; the middle unless given.")
    ] = None
    phase: Annotated[
        str,
        Parameter("Recovered from the noisy levels, or the clean one, which proves nothing.", choices=PHASES),
    ] = "griffin-lim"

    def proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        """Return the sum of 2/b over the levels that ``unit`` reaches at worst; nothing with the phase."""
        self._checked(shape)
        if self.phase == "keep":
            return Guarantee.nothing("the clean phase of every frame is released as it is", sound_unit(unit))
        reached = min(self._frames_reached(sound_unit(unit), shape), self._frames(shape))
        running = np.concatenate([[0.0], np.cumsum(1.0 / self._fading(shape))])
        worst = float((running[reached:] - running[:-reached]).max()) * (1.0 + 1e-9)
        level = float(np.sum(_SENSITIVITY / self._scales()))
        return Guarantee.pure(
            worst * level,
            unit=unit,
            theorem=f"Laplace mechanism on {MELS} levels of each of {reached} frames, faded noise included"
            if self.decay is not None
            else f"Laplace mechanism on {MELS} levels of each of {reached} frames",
        )

    def claim(self) -> Claim:
        """Return the paper's words and numbers."""
        return Claim(
            text="Laplace noise of scale 0.4Δ/ε with Δ = 2 on mel features, N(f) = N₀·A(f), "
            "y_t = x_t + n_t·exp(−|t − t₀|/τ), τ = 50 ms, is ε-DP",
            source="Adaptive multimedia DP, section 3.2.1 and Table 2",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def level_epsilon(self) -> float:
        """Return ε of the mel level with the least noise, at the moment t₀."""
        return float((_SENSITIVITY / self._scales()).max())

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the deviation of a mel level near 1 kHz at the moment t₀, in decibels."""
        self._checked(self._clip(columns))
        place = int(np.argmin(np.abs(MEL_CENTRES - 1000.0)))
        deviation = float(self._scales()[place]) * math.sqrt(2.0) * _HALF_RANGE
        return (ExpectedError("each mel level near 1 kHz, in dB", "root mean square error", deviation),)

    def passage(self, shape: SoundShape, first: int) -> Passage:
        """Return the way of clip ``first``; see :meth:`SoundMechanism.passage`."""
        self._checked(shape)
        self._rounded(self._step())
        return _Whole(lambda clip: self._released(clip, shape, first))

    def _released(self, clip: Array, shape: SoundShape, first: int) -> Array:
        """Return the released clip (channels, samples)."""
        from scipy.signal import resample_poly  # slow to import

        up, down = self._ratio()
        sound = resample_poly(np.clip(clip, -1.0, 1.0).mean(axis=0), up, down)
        spectra = stft(sound)
        step = self._step()
        # A level in [−1, 1] stays there when it is rounded, so that it still moves by at most 2.
        cells = np.rint((decibels(spectra) / _HALF_RANGE + 1.0) / step)
        stream = self._streams(first * PARTS, cells.reshape(1, -1))[0]
        noisy = (cells + self._noise(stream, shape, step)) * step
        # Projected onto the feasible set, as the paper does.
        sizes = magnitudes(np.clip(noisy - 1.0, -2.0, 0.0) * _HALF_RANGE)
        if self.phase == "keep":
            quiet = np.maximum(np.abs(spectra), 1e-12)
            heard = inverse_stft(sizes * spectra / quiet, sound.size)
        else:
            heard = griffin_lim(sizes, sound.size)
        back = np.zeros(shape[0])
        again = resample_poly(heard, down, up)[: shape[0]]
        back[: again.size] = again
        return np.tile(back, (shape[1], 1))

    def _noise(self, stream: Stream, shape: SoundShape, step: float) -> Array:
        """Return whole numbers of steps (frames, MELS)."""
        scales = self._scales()
        factors = np.outer(self._fading(shape), scales / float(scales.max()))
        noise = self._rounded(step).draw(stream, factors.size, relative=factors.ravel())[0]
        return np.asarray(noise.reshape(factors.shape))

    def _step(self) -> float:
        return grid_step(float(self._scales().min()), 1.0)

    def _rounded(self, step: float) -> Rounded:
        return Rounded(LAPLACE, [float(self._scales().max()) * (1.0 + 2.0**-50) / step])

    def _checked(self, shape: SoundShape) -> None:
        positive("epsilon", self.epsilon)
        one_of("phase", self.phase, PHASES)
        if self.decay is not None:
            positive("decay", self.decay)
        moment = self.moment
        if moment is not None and (
            isinstance(moment, bool) or not isinstance(moment, int | float) or not abs(moment) <= LARGEST
        ):
            raise BadInput(
                f"`moment` must be a number of milliseconds, or None, not {shown(moment)}.",
                parameter="moment",
            )
        if shape[0] > _LONGEST * self._rate():
            raise BadInput(
                f"a clip of {shape[0] / self._rate():.0f} seconds was given, and MelLaplace holds a clip "
                f"whole: at most {_LONGEST:g} seconds are accepted."
            )

    def _scales(self) -> Array:
        """Return b(f) at the moment t₀."""
        epsilon = positive("epsilon", self.epsilon)
        return np.asarray(_FACTOR * _SENSITIVITY / epsilon * noise_weight(MEL_CENTRES))

    def _ratio(self) -> tuple[int, int]:
        common = math.gcd(self._rate(), MEL_RATE)
        return MEL_RATE // common, self._rate() // common

    def _frames(self, shape: SoundShape) -> int:
        up, down = self._ratio()
        return frames_of(-(-shape[0] * up // down))

    def _frames_reached(self, unit: Unit, shape: SoundShape) -> int:
        """Return frames whose samples a unit can change, after resampling."""
        up, down = self._ratio()
        window = -(-window_samples(unit, self._rate(), shape[0]) * up // down)
        if up != down:
            window += 2 * -(-_CROSSINGS * max(up, down) // down) + 1
        return (window + FFT - 2) // HOP + 1

    def _fading(self, shape: SoundShape) -> Array:
        """Return the factor on the noise of each frame."""
        count = self._frames(shape)
        if self.decay is None:
            return np.ones(count)
        time = np.arange(count) * (1000.0 * HOP / MEL_RATE)
        middle = 500.0 * shape[0] / self._rate() if self.moment is None else self.moment
        return np.asarray(np.exp(-np.minimum(np.abs(time - middle) / self.decay, _FADED)))


class _Whole:
    """A clip that is held until all of it is there."""

    def __init__(self, released: Callable[[Array], Array]) -> None:
        self._released = released
        self._pieces: list[Array] = []

    def feed(self, samples: Array) -> Array:
        """Keep ``samples``, and return none yet."""
        self._pieces.append(samples)
        return np.asarray(samples[:, :0])

    def finish(self) -> Array:
        """Return the whole release."""
        return self._released(np.concatenate(self._pieces, axis=1))
