"""The multimedia paper's noise on mel spectrograms, as it stands there, with what it really proves.

Section 3.2.1: Laplace noise on mel levels, shaped by equal loudness, N(f) = N₀·A(f), and fading away from a
moment t₀, y_t = x_t + n_t·exp(−|t − t₀|/τ) with τ = 50 ms; Table 2: scale 0.4Δ/ε with Δ = 2.

**Guarantee.** Levels are put on [−1, 1] (−80 to 0 dB), so one of them moves by at most 2, and level (t, f)
costs 2/b(t, f) with b(t, f) = 0.8·A(f)·exp(−|t − t₀|/τ)/ε. A unit costs the sum over every level it reaches:
all 128 of each frame whose 93 ms it meets. So the factor 0.4 alone makes one level cost 2.5ε at 1 kHz, a
window costs hundreds of levels, and where the noise has faded, e^{|t − t₀|/τ} as much: seconds away from t₀
nothing is protected. With ``phase="keep"`` the clean phase is released as it is, and nothing is proven.

**Edge cases.** Several channels are mixed to one and come back alike. A clip is held whole, so at most two
minutes are taken. Other rates are resampled to 22.05 kHz and back; the filter's reach is part of the unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import ExpectedError
from sfumato.mechanisms.parameters import LARGEST, one_of, positive, shown
from sfumato.media.audio.audio_mechanism import (
    PARTS,
    Passage,
    SoundMechanism,
    SoundShape,
    sound_unit,
    window_samples,
)
from sfumato.media.audio.loudness import noise_weight
from sfumato.media.audio.mel import (
    FFT,
    HOP,
    MEL_CENTRES,
    MEL_RATE,
    MELS,
    decibels,
    frames_of,
    griffin_lim,
    inverse_stft,
    magnitudes,
    stft,
)
from sfumato.noise import LAPLACE, Randomness, Rounded, Stream, grid_step
from sfumato.privacy import Claim, Guarantee, Unit
from sfumato.privacy.defaults import AUDIO, REQUIRED

__all__ = ["MelLaplace"]

Array = NDArray[np.float64]

_FACTOR, _SENSITIVITY = 0.4, 2.0  # Table 2, MFCC features
_LONGEST = 120.0  # seconds
# scipy's resample_poly: ten zero crossings of the slower rate on either side.
_CROSSINGS = 10
# Noise that has faded below e^−500 of itself is none, and what it costs is told as e^500.
_FADED = 500.0
_HALF_RANGE = 40.0  # decibels


class MelLaplace(SoundMechanism):
    """The paper's mel-spectrogram noise at its claimed ``epsilon``; the proven column says what that costs.

    ``decay`` is τ in milliseconds, None for noise that does not fade; ``moment`` is t₀ in milliseconds, by
    default the middle of the clip. ``phase`` is ``"griffin-lim"`` (recovered from the noisy levels) or
    ``"keep"`` (the clean one, which proves nothing). ``rate`` and ``shape`` are those of the clips.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        unit: str | Unit = AUDIO.unit,
        *,
        rate: int | None = None,
        decay: float | None = 50.0,
        moment: float | None = None,
        phase: str = "griffin-lim",
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.unit = unit
        self.rate = rate
        self.decay = decay
        self.moment = moment
        self.phase = phase
        self.shape = shape
        self.randomness = randomness

    def proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        """The sum of 2/b over the levels that ``unit`` reaches at its worst place; nothing with the phase."""
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
        """The paper's words and numbers."""
        return Claim(
            text="Laplace noise of scale 0.4Δ/ε with Δ = 2 on mel features, N(f) = N₀·A(f), "
            "y_t = x_t + n_t·exp(−|t − t₀|/τ), τ = 50 ms, is ε-DP",
            source="Adaptive multimedia DP, section 3.2.1 and Table 2",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
        )

    def level_epsilon(self) -> float:
        """ε of the mel level whose noise is the least, at the moment t₀: the ear is most sensitive there."""
        return float((_SENSITIVITY / self._scales()).max())

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The deviation of a mel level near 1 kHz at the moment t₀, in decibels."""
        self._checked(self._clip(columns))
        place = int(np.argmin(np.abs(MEL_CENTRES - 1000.0)))
        deviation = float(self._scales()[place]) * math.sqrt(2.0) * _HALF_RANGE
        return (ExpectedError("each mel level near 1 kHz, in dB", "root mean square error", deviation),)

    def passage(self, shape: SoundShape, first: int) -> Passage:
        """The way of clip ``first``; see :meth:`SoundMechanism.passage`."""
        self._checked(shape)
        self._rounded(self._step())
        return _Whole(lambda clip: self._released(clip, shape, first))

    def _released(self, clip: Array, shape: SoundShape, first: int) -> Array:
        """The released clip (channels, samples)."""
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
        """Whole numbers of steps (frames, MELS)."""
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
        one_of("phase", self.phase, ("griffin-lim", "keep"))
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
        """b(f) at the moment t₀."""
        epsilon = positive("epsilon", self.epsilon)
        return np.asarray(_FACTOR * _SENSITIVITY / epsilon * noise_weight(MEL_CENTRES))

    def _ratio(self) -> tuple[int, int]:
        common = math.gcd(self._rate(), MEL_RATE)
        return MEL_RATE // common, self._rate() // common

    def _frames(self, shape: SoundShape) -> int:
        up, down = self._ratio()
        return frames_of(-(-shape[0] * up // down))

    def _frames_reached(self, unit: Unit, shape: SoundShape) -> int:
        """Frames whose samples a unit can change, after resampling."""
        up, down = self._ratio()
        window = -(-window_samples(unit, self._rate(), shape[0]) * up // down)
        if up != down:
            window += 2 * -(-_CROSSINGS * max(up, down) // down) + 1
        return (window + FFT - 2) // HOP + 1

    def _fading(self, shape: SoundShape) -> Array:
        """The factor on the noise of each frame."""
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
        """Nothing yet."""
        self._pieces.append(samples)
        return np.asarray(samples[:, :0])

    def finish(self) -> Array:
        """The whole release."""
        return self._released(np.concatenate(self._pieces, axis=1))
