"""Sound released in bands, with pure ε or (ε, δ) for any short stretch of time.

**Guarantee.** Unit: every stretch of so many milliseconds in all channels (``window``), a ``channel``, or the
whole ``clip``; neighbours: replace, the unit's samples take any values within ±clip. With ``keep="shapes"``:
k-ary randomised response about each kept block; a unit answers for the kept blocks that it reaches, whose
number is exact. With ``keep="coefficients"``: the Laplace mechanism (δ = 0) or the analytic Gaussian (δ > 0)
on rounded coefficients, at the certified sensitivity of :mod:`~sfumato.media.audio.windows`, over every
placement.

**Which to keep.** A window of 20 ms at 8 kHz is 160 samples that may all change: Gaussian noise at ε = 4
would stand 50 dB above speech. A few bits about each 30 ms survive instead: its nearest public shape. So
shapes are the default; coefficients are for much shorter windows, or a much larger ε.

**Edge cases.** Silence is a shape like any other. A clip shorter than a block is one block. Several channels
have one shape together and come back alike; coefficients are kept channel by channel. Samples beyond the
declared clip are clipped, NaN and infinities refused. Nothing above 4 kHz comes back as shapes, and below a
rate of 8 kHz the upper bands are empty, so that shapes fit less well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import ExpectedError
from sfumato.mechanisms.parameters import one_of, positive, shown
from sfumato.media.audio.audio_mechanism import (
    PARTS,
    Passage,
    SoundMechanism,
    SoundShape,
    sound_unit,
    window_samples,
)
from sfumato.media.audio.band_coefficients import CoefficientsPassage, ScaledNoise
from sfumato.media.audio.band_levels import BandLevels, band_levels
from sfumato.media.audio.band_shapes import Answers, ShapesPassage, kept_touched, smallest_stride
from sfumato.media.audio.loudness import noise_weight
from sfumato.media.audio.speech import SIZES, Weighting, best_size
from sfumato.media.audio.windows import Norm, rounding_share, window_sensitivity
from sfumato.noise import LAPLACE, NORMAL, Randomness, Stream
from sfumato.privacy import Claim, Guarantee, Unit, gaussian_mu
from sfumato.privacy.defaults import AUDIO, REQUIRED

__all__ = ["BandNoise"]

Array = NDArray[np.float64]
Keep = Literal["shapes", "coefficients"]

# The stride of kept blocks where the unit is no window.
_USUAL = Unit("window", 20.0)
# Rounding to the grid may take this share of the budget.
_ROUNDING = 2.0**-10


class BandNoise(SoundMechanism):
    """Releases sounds by their bands; ``epsilon`` is the promise for one ``unit``.

    ``rate`` is that of the samples in hertz. ``clip`` is the declared bound on their size: samples beyond it
    are clipped, and loudness is measured against it. ``keep`` says what is released of each block:
    ``"shapes"``, which public shape of speech it is nearest to (``shapes`` of them: 2, 4, … 256, by default
    as many as ε can tell apart), or ``"coefficients"``, each MDCT coefficient up to ``cutoff`` hertz with
    Laplace noise, or Gaussian where ``delta`` is positive. ``weighting`` is ``"iso226"``, where bands count
    by how well they are heard, or ``"flat"``. ``restore`` is ``"wiener"``, the posterior mean under public
    statistics of speech, or ``"none"``. ``shape`` is (samples,) or (samples, channels) of one clip.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = 0.0,
        unit: str | Unit = AUDIO.unit,
        *,
        rate: int | None = None,
        clip: float = 1.0,
        keep: str = "shapes",
        shapes: int | None = None,
        cutoff: float = 4000.0,
        weighting: str = "iso226",
        restore: str = "wiener",
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.rate = rate
        self.clip = clip
        self.keep = keep
        self.shapes = shapes
        self.cutoff = cutoff
        self.weighting = weighting
        self.restore = restore
        self.shape = shape
        self.randomness = randomness

    def proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        """What is proven of ``unit``: exactly for shapes, by a certified sensitivity for coefficients."""
        self._checked()
        if self._keep() == "shapes":
            return self._shapes_proven(sound_unit(unit), shape)
        return self._coefficients_proven(sound_unit(unit), shape)

    def claim(self) -> Claim | None:
        """None: the method is this package's own."""
        return None

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """How often a shape is told wrongly, or the deviation of the noise on a coefficient at 1 kHz."""
        shape = self._clip(columns)
        if self._keep() == "shapes":
            answers = self._answers(shape)
            wrong = 1.0 - answers.threshold / 2.0**64
            return (ExpectedError("each kept block's shape", "share of wrong answers", wrong),)
        noise, bands = self._noise(shape), self._bands()
        place = int(np.argmin(np.abs(bands.frequencies[: len(noise.scales)] - 1000.0)))
        deviation = noise.scales[place] * noise.law.deviation
        return (ExpectedError("each coefficient near 1 kHz", "root mean square error", deviation),)

    def passage(self, shape: SoundShape, first: int) -> Passage:
        """The way of clip ``first``; see :meth:`SoundMechanism.passage`."""
        self._checked()
        clip, restore = positive("clip", self.clip), self.restore == "wiener"

        def streams(part: int, content: NDArray[Any]) -> Stream:
            return self._streams(first * PARTS + part, content.reshape(1, -1).astype(np.float64))[0]

        if self._keep() == "shapes":
            weighting = cast(Weighting, self.weighting)
            return ShapesPassage(self._bands(), self._answers(shape), weighting, clip, shape, streams)
        noise = self._noise(shape)
        _ = noise.rounded  # refused now, where it cannot be drawn
        return CoefficientsPassage(self._bands(), noise, restore, clip, shape, streams)

    def _checked(self) -> None:
        """Refuse parameters that are out of range, whichever of them are used."""
        positive("epsilon", self.epsilon)
        positive("clip", self.clip)
        one_of("weighting", self.weighting, ("iso226", "flat"))
        one_of("restore", self.restore, ("wiener", "none"))
        if isinstance(self.delta, bool) or not isinstance(self.delta, int | float) or not 0 <= self.delta < 1:
            raise BadInput(
                f"`delta` must be a number from 0 to below 1, not {shown(self.delta)}.", parameter="delta"
            )
        if self.shapes is not None and self.shapes not in SIZES:
            raise BadInput(
                f"`shapes` must be one of {', '.join(map(str, SIZES))}, not {shown(self.shapes)}.",
                parameter="shapes",
            )

    def _keep(self) -> Keep:
        return cast(Keep, one_of("keep", self.keep, ("shapes", "coefficients")))

    def _bands(self) -> BandLevels:
        return band_levels(self._rate())

    def _window(self, unit: Unit, shape: SoundShape) -> int:
        return window_samples(unit, self._rate(), shape[0])

    def _stride(self) -> int:
        """Of how many blocks one is kept: so many that the window asked for reaches one; public."""
        asked = sound_unit(self.unit)
        unit = asked if asked.name == "window" else _USUAL
        # A window is cut to the length of no clip here: clips of all lengths share the stride.
        return smallest_stride(self._bands().transform, window_samples(unit, self._rate(), 1 << 62))

    def _answers(self, shape: SoundShape) -> Answers:
        # Beyond the last block a longer stride keeps what this one keeps: the first.
        stride = min(self._stride(), self._bands().transform.blocks(shape[0]))
        window = self._window(sound_unit(self.unit), shape)
        reached = kept_touched(self._bands().transform, stride, window, shape[0])
        each = positive("epsilon", self.epsilon) / reached
        size = best_size(each) if self.shapes is None else self.shapes
        # Dividing and multiplying again must not end above what was asked for.
        each = each if each * reached <= self.epsilon else math.nextafter(each, 0.0)
        return Answers(size, each, stride, self.restore == "wiener")

    def _shapes_proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        answers = self._answers(shape)
        window = self._window(unit, shape)
        reached = kept_touched(self._bands().transform, answers.stride, window, shape[0])
        return Guarantee.pure(
            answers.epsilon * reached,
            unit=unit,
            theorem=f"k-ary randomised response, {reached} kept block{'s' if reached > 1 else ''} reached",
            at_delta=float(self.delta),
        )

    def _noise(self, shape: SoundShape) -> ScaledNoise:
        """The noise at which the unit asked for costs what was asked for."""
        relative, step, base = self._calibrated(shape)
        law = NORMAL if self.delta > 0 else LAPLACE
        return ScaledNoise(law, tuple(base * scale for scale in relative), step)

    def _calibrated(self, shape: SoundShape) -> tuple[tuple[float, ...], float, float]:
        """Relative scales of the coefficients, the step of the grid, and what the scales are multiples of."""
        epsilon, delta = positive("epsilon", self.epsilon), float(self.delta)
        weighting = cast(Weighting, self.weighting)
        relative = _relative(self._rate(), positive("cutoff", self.cutoff), weighting, delta > 0.0)
        target = gaussian_mu(epsilon, delta) if delta > 0.0 else epsilon
        loss, rounding = self._unit_loss(relative, sound_unit(self.unit), shape)
        base = loss / (target * (1.0 - _ROUNDING))
        # The largest power of two whose rounding costs at most its share, and no coarser than noise is drawn.
        finest = min(target * _ROUNDING * base / (1.01 * rounding), min(relative) * base / 2.0**12)
        return relative, 2.0 ** math.floor(math.log2(finest)), base

    def _unit_loss(self, relative: tuple[float, ...], unit: Unit, shape: SoundShape) -> tuple[float, float]:
        """Sensitivity of ``unit`` over the relative scales, and what each step of the grid adds to it."""
        window, channels = self._window(unit, shape), 1 if unit.name == "channel" else shape[1]
        norm: Norm = "l2" if self.delta > 0.0 else "l1"
        several = math.sqrt(channels) if norm == "l2" else float(channels)
        where = (self._bands().transform, relative, window, shape[0], norm)
        loss = 2.0 * positive("clip", self.clip) * window_sensitivity(*where)
        return several * loss, several * rounding_share(*where)

    def _coefficients_proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        relative, step, base = self._calibrated(shape)
        loss, rounding = self._unit_loss(relative, unit, shape)
        total = (loss + step * rounding) / base
        if self.delta > 0.0:
            return Guarantee.gaussian(
                1.0 / total,
                unit=unit,
                theorem="analytic Gaussian on MDCT coefficients",
                at_delta=float(self.delta),
            )
        return Guarantee.laplace(1.0 / total, unit=unit, theorem="Laplace mechanism on MDCT coefficients")


@lru_cache(maxsize=64)
def _relative(rate: int, cutoff: float, weighting: Weighting, gaussian: bool) -> tuple[float, ...]:
    """Noise scales of the coefficients up to ``cutoff``, relative to one another.

    Laplace: the audible power Σ s²/A² is least, at a given Σ 1/s², where s ∝ √A. Gaussian: a window may put
    all of its change into one band, so the smallest scale decides, and larger ones elsewhere gain nothing.
    """
    frequencies = band_levels(rate).frequencies
    kept = frequencies[frequencies <= max(cutoff, float(frequencies[0]))]
    if gaussian or weighting == "flat":
        return (1.0,) * kept.size
    return tuple(float(scale) for scale in np.sqrt(noise_weight(kept)))
