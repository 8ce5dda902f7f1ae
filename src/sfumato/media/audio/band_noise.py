"""Band noise: audio released in frequency bands, with pure ε or (ε, δ) for any short stretch of time.

**Guarantee.** Unit: every stretch of so many milliseconds in all channels (``window``), a ``channel``, or the
whole ``clip``; neighbours: replace, the unit's samples take any values within ±clip. With ``keep="shapes"``:
k-ary randomised response about each kept block; a unit answers for the kept blocks that it reaches, whose
number is exact. With ``keep="coefficients"``: the Laplace mechanism (δ = 0) or the analytic Gaussian (δ > 0)
on rounded coefficients, at the certified sensitivity of :mod:`~sfumato.media.audio.mdct`, over every
placement.

**Which to keep.** A window of 20 ms at 8 kHz is 160 samples that may all change: Gaussian noise at ε = 4
would stand 50 dB above speech. A few bits about each 30 ms survive instead: its nearest public shape. So
shapes are the default; coefficients are for much shorter windows, or a much larger ε.

**Edge cases.** Silence is a shape like any other. A clip shorter than a block is one block. Several channels
have one shape together and come back alike; coefficients are kept channel by channel. Samples beyond the
declared clip are clipped, NaN and infinities refused. Nothing above 4 kHz comes back as shapes, and below a
rate of 8 kHz the upper bands are empty, so that shapes fit less well.

**Coefficients.** Every MDCT coefficient below a cutoff gets noise. Coefficients are rounded to the nearest
multiple of a public power of two, noise of scale s_k is drawn on the same grid, and the sum is an integer
sum. Post-processing weighs each coefficient by E[S/(S + noise)], where the power S of its band is taken from
public shapes of speech, each as likely as the noisy block makes it.

**Shapes.** Of every ``stride`` blocks one is kept, and its nearest public shape is released by randomised
response. The window that a guarantee is for then reaches one kept block, since kept blocks are further apart
than it is long, and that block gets all of ε; two blocks with half of ε each would say less. Between kept
blocks nothing of the recording is used. The sound is post-processing of the sequence of answers: levels
follow from the answers and from public statistics of speech (the posterior mean in a hidden Markov model), or
are those of the answers themselves, and coefficients with such levels get public signs. It is speech without
a voice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    Epsilon,
    ExpectedError,
    OptionalDelta,
    Parameter,
    keep_threshold,
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
from sfumato.media.audio.loudness import BANDS, BandLevels, band_levels, noise_weight
from sfumato.media.audio.mdct import Analysis, Lapped, Norm, Synthesis, rounding_share, window_sensitivity
from sfumato.media.audio.speech import SIZES, Shapes, Weighting, best_size, shapes, steps_ahead
from sfumato.noise import LAPLACE, NORMAL, Law, Rounded, Stream, coins, uniform_integers
from sfumato.privacy import AUDIO, REQUIRED, Guarantee, Unit, gaussian_mu

__all__ = ["BandNoise"]

Codes = NDArray[np.intp]
Array = NDArray[np.float64]

# Blocks that draw their noise from one stream.
_PART = 64
# Shapes of speech that a noisy block is compared with.
_COMPARED = 64


@dataclass(frozen=True)
class ScaledNoise:
    """Noise of ``law`` with ``scales[k]`` on coefficient k, in multiples of ``step``; the rest is dropped."""

    law: Law
    scales: tuple[float, ...]
    step: float

    @property
    def rounded(self) -> Rounded:
        """The noise with the largest scale, in steps of the grid."""
        # A factor a hair below 1 must not make the noise smaller than it was declared.
        return Rounded(self.law, [max(self.scales) * (1.0 + 2.0**-50) / self.step])

    def draw(self, stream: Stream, cells: Array) -> Array:
        """Return noisy coefficients (n, kept) of whole numbers of steps (n, kept)."""
        scales = np.asarray(self.scales)
        factors = np.tile(scales / float(scales.max()), len(cells))
        noise = self.rounded.draw(stream, cells.size, relative=factors)[0].reshape(cells.shape)
        return np.asarray((noise + cells) * self.step)


class CoefficientsPassage:
    """One clip on its way; see :class:`~sfumato.media.audio.audio_mechanism.Passage`.

    ``streams(part, cells)`` gives the stream that the noise of the blocks of ``part`` comes from.
    """

    def __init__(
        self,
        bands: BandLevels,
        noise: ScaledNoise,
        restore: bool,
        clip: float,
        shape: tuple[int, int],
        streams: Callable[[int, Array], Stream],
    ) -> None:
        self._bands, self._noise, self._restore, self._clip = bands, noise, restore, clip
        self._streams, self._channels = streams, shape[1]
        self._analysis = Analysis(bands.transform, shape[1])
        self._synthesis = Synthesis(bands.transform, shape[1])
        self._waiting = np.zeros((shape[1], 0, len(noise.scales)))
        self._part = 0

    def feed(self, samples: Array) -> Array:
        """Return released samples that ``samples`` (channels, k) settle."""
        return self._passed(self._analysis.feed(np.clip(samples, -self._clip, self._clip)), last=False)

    def finish(self) -> Array:
        """Return the rest of the release."""
        rest = self._passed(self._analysis.finish(), last=True)
        return np.concatenate([rest, self._synthesis.finish()], axis=1)

    def _passed(self, coefficients: Array, *, last: bool) -> Array:
        kept = len(self._noise.scales)
        self._waiting = np.concatenate([self._waiting, coefficients[..., :kept]], axis=1)
        out = [np.zeros((self._channels, 0))]
        while self._waiting.shape[1] >= _PART or (last and self._waiting.shape[1]):
            own, self._waiting = self._waiting[:, :_PART], self._waiting[:, _PART:]
            cells = np.rint(own / self._noise.step).reshape(-1, kept)
            noisy = self._noise.draw(self._streams(self._part, cells), cells).reshape(own.shape)
            self._part += 1
            full = np.zeros((*own.shape[:2], self._bands.transform.hop))
            full[..., :kept] = self._restored(noisy) if self._restore else noisy
            out.append(self._synthesis.feed(full))
        return np.concatenate(out, axis=1)

    def _restored(self, noisy: Array) -> Array:
        """Return noisy coefficients (channels, blocks, kept), each shrunk as the shapes of speech suggest."""
        kept = noisy.shape[-1]
        public = shapes(_COMPARED)
        spread = np.square(np.asarray(self._noise.scales) * self._noise.law.deviation)
        # Outside of all bands speech is taken to be silent.
        speech = self._bands.variances(public.levels)[:, :kept] * self._clip**2
        total = speech + spread
        # The log-likelihood of a block under each shape, were speech and noise both Gaussian.
        fit = -0.5 * (np.square(noisy) @ (1.0 / total).T + np.log(total).sum(axis=1)) + np.log(public.share)
        fit -= fit.max(axis=-1, keepdims=True)
        weight = np.exp(fit)
        weight /= weight.sum(axis=-1, keepdims=True)
        return np.asarray(noisy * (weight @ (speech / total)))


# Kept blocks that draw their noise from one stream, and answers that are looked ahead at: half a second.
_BAND_SHAPES_PART = 256
_AHEAD = 16


def smallest_stride(transform: Lapped, window: int) -> int:
    """Return the smallest stride at which ``window`` samples anywhere reach one kept block only."""
    return (window + transform.hop + 2 * transform.lap - 2) // transform.hop + 1


def kept_blocks(transform: Lapped, stride: int, samples: int) -> int:
    """Return how many blocks of a clip of ``samples`` samples are kept: the first and every ``stride``-th."""
    return -(-transform.blocks(samples) // stride)


def kept_touched(transform: Lapped, stride: int, window: int, samples: int) -> int:
    """Return the largest number of kept blocks that ``window`` samples anywhere in a clip have a part in.

    Block t depends on the samples from t·hop − lap up to (t + 1)·hop + lap alone.
    """
    reach = window + transform.hop + 2 * transform.lap - 2
    return min(reach // (stride * transform.hop) + 1, kept_blocks(transform, stride, samples))


@dataclass(frozen=True)
class Answers:
    """Randomised response over ``size`` shapes with ``epsilon`` for each kept block, and how it is read.

    ``smooth`` reads the answers together with how speech goes on; else each speaks for itself.
    """

    size: int
    epsilon: float
    stride: int
    smooth: bool

    @property
    def shapes(self) -> Shapes:
        """The shapes that are told apart."""
        return shapes(self.size)

    @property
    def threshold(self) -> int:
        """The coin that keeps a shape, in 2⁻⁶⁴."""
        return _threshold(self.epsilon, self.size)

    def draw(self, stream: Stream, codes: Codes) -> Codes:
        """Return an answer for each of ``codes``."""
        other = uniform_integers(stream, self.size - 1, codes.size)
        other += other >= codes  # of the others, those from the true shape on move up by one
        return np.where(coins(stream, self.threshold, codes.size), codes, other)


@lru_cache(maxsize=64)
def _threshold(epsilon: float, size: int) -> int:
    return keep_threshold(epsilon, size)


class _Reading:
    """Levels of kept blocks from the answers about them, as they come in."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        kept = answers.threshold / 2.0**64
        self._kept, self._other = kept, (1.0 - kept) / (answers.size - 1)
        self._step = steps_ahead(answers.size, answers.stride)
        self._before: Array | None = None  # what is known of the block before the first that waits
        self._waiting: Codes = np.zeros(0, dtype=np.intp)

    def feed(self, answers: Codes, *, last: bool) -> Array:
        """Return levels (k, BANDS) of the blocks that ``answers`` settle: all of them at the ``last``."""
        if not self._answers.smooth:
            return self._answers.shapes.levels[answers]
        self._waiting = np.concatenate([self._waiting, answers])
        count = self._waiting.size
        ready = count if last else max(count - _AHEAD, 0)
        if ready == 0:
            return np.zeros((0, BANDS))
        size = self._answers.size
        likely = np.full((count, size), self._other)
        likely[np.arange(count), self._waiting] = self._kept
        forward = np.empty((count, size))
        for index in range(count):
            known = self._answers.shapes.share if self._before is None else self._before @ self._step
            known = known * likely[index]
            self._before = forward[index] = known / known.sum()
        after = np.ones(size)
        both = forward[:ready].copy()
        for index in range(count - 2, -1, -1):
            after = self._step @ (after * likely[index + 1])
            after /= after.sum()
            if index < ready:
                both[index] *= after
        self._before = forward[ready - 1]
        self._waiting = self._waiting[ready:]
        return np.asarray(both / both.sum(axis=1, keepdims=True) @ self._answers.shapes.levels)


class ShapesPassage:
    """One clip on its way; see :class:`~sfumato.media.audio.audio_mechanism.Passage`.

    ``streams(part, codes)`` gives the stream that the answers about the kept blocks of ``part`` come from.
    """

    def __init__(
        self,
        bands: BandLevels,
        answers: Answers,
        weighting: Weighting,
        clip: float,
        shape: tuple[int, int],
        streams: Callable[[int, Codes], Stream],
    ) -> None:
        self._bands, self._answers, self._weighting, self._clip = bands, answers, weighting, clip
        self._blocks, self._channels = bands.transform.blocks(shape[0]), shape[1]
        self._streams = streams
        self._analysis = Analysis(bands.transform, shape[1])
        self._synthesis = Synthesis(bands.transform)
        self._reading = _Reading(answers)
        self._seen = 0  # blocks of the clip so far
        self._codes: Codes = np.zeros(0, dtype=np.intp)
        self._part = 0
        self._level: Array | None = None  # of the last kept block, where the next one is not known yet
        self._made = 0  # blocks of the release so far
        self._piece = 0

    def feed(self, samples: Array) -> Array:
        """Return released samples that ``samples`` (channels, k) settle."""
        inside = np.clip(samples, -self._clip, self._clip) / self._clip
        self._read(self._analysis.feed(inside))
        return self._answered(last=False)

    def finish(self) -> Array:
        """Return the rest of the release."""
        self._read(self._analysis.finish())
        return self._answered(last=True)

    def _read(self, coefficients: Array) -> None:
        """Find the nearest shapes of those of the next blocks that are kept."""
        first = -self._seen % self._answers.stride
        self._seen += coefficients.shape[1]
        levels = self._bands.levels(coefficients[:, first :: self._answers.stride])
        codes = self._answers.shapes.nearest(levels, self._weighting)
        self._codes = np.concatenate([self._codes, codes])

    def _answered(self, *, last: bool) -> Array:
        """Answer for every complete part, and make the sound that they settle."""
        out = [np.zeros((self._channels, 0))]
        while self._codes.size >= _BAND_SHAPES_PART or (last and self._codes.size):
            codes, self._codes = self._codes[:_BAND_SHAPES_PART], self._codes[_BAND_SHAPES_PART:]
            answers = self._answers.draw(self._streams(self._part, codes), codes)
            self._part += 1
            out.append(self._sound(self._reading.feed(answers, last=False)))
        if last:
            none = np.zeros(0, dtype=np.intp)
            out += [self._sound(self._reading.feed(none, last=True)), self._ending()]
        return np.concatenate(out, axis=1)

    def _sound(self, levels: Array) -> Array:
        """Return samples of kept blocks with ``levels``, and levels interpolated between them."""
        if self._level is not None:
            levels = np.concatenate([self._level, levels])
        if not len(levels):
            return np.zeros((self._channels, 0))
        self._level = levels[-1:]
        steps = np.arange(self._answers.stride)[:, None] / self._answers.stride
        if not self._answers.smooth:
            steps[:] = 0.0
        between = levels[:-1, None] * (1.0 - steps) + levels[1:, None] * steps
        return self._made_of(between.reshape(-1, BANDS))

    def _ending(self) -> Array:
        """Return the blocks from the last kept one on, which all sound like it."""
        if self._level is None:
            return np.zeros((self._channels, 0))
        rest = self._made_of(np.repeat(self._level, self._blocks - self._made, axis=0))
        return np.concatenate([rest, self._spread(self._synthesis.finish())], axis=1)

    def _made_of(self, levels: Array) -> Array:
        self._made += len(levels)
        coefficients = self._bands.sounding(levels, self._piece)
        self._piece += 1
        return self._spread(self._synthesis.feed(coefficients[None]))

    def _spread(self, samples: Array) -> Array:
        """Return the same in every channel, at the loudness that was declared."""
        return np.repeat(samples * self._clip, self._channels, axis=0)


KEEPS, WEIGHTINGS, RESTORES = ("shapes", "coefficients"), get_args(Weighting), ("wiener", "none")

# The stride of kept blocks where the unit is no window.
_USUAL = Unit("window", 20.0)
# Rounding to the grid may take this share of the budget.
_ROUNDING = 2.0**-10


@dataclass(eq=False, repr=False)
class BandNoise(SoundMechanism):
    """Releases sounds by their bands; ``epsilon`` is the promise for one ``unit``.

    ``rate`` is that of the samples in hertz. ``clip`` is the declared bound on their size: samples beyond it
    are clipped, and loudness is measured against it. ``keep`` says what is released of each block:
    ``"shapes"``, which public shape of speech it is nearest to (``shapes`` of them: 2, 4, … 256, by default
    as many as ε can tell apart), or ``"coefficients"``, each MDCT coefficient up to ``cutoff`` hertz with
    Laplace noise, or Gaussian where ``delta`` is positive. ``weighting`` is ``"iso226"``, where bands count
    by how well they are heard, or ``"flat"``. ``restore`` is ``"wiener"``, the posterior mean under public
    statistics of speech, or ``"none"``. ``shape`` is (samples,) or (samples, channels) of one clip.

    **Guarantee.** ε, or (ε, δ), for the asked unit under replace: randomised response on kept blocks;
    certified sensitivity of coefficients.
    """

    kinds = ("sound", "video")
    default_for = ("sound",)

    epsilon: Epsilon = REQUIRED
    delta: OptionalDelta = 0.0
    unit: SoundUnit = AUDIO.unit
    _: KW_ONLY
    clip: Annotated[float, Parameter("Largest size of a sample; larger ones are clipped.")] = 1.0
    keep: Annotated[
        str,
        Parameter(
            "What is released of each block: the nearest public shape of speech, or its coefficients.",
            choices=KEEPS,
        ),
    ] = "shapes"
    shapes: Annotated[
        int | None, Parameter("Number of public shapes; as many as ε can tell apart unless given.")
    ] = None
    cutoff: Annotated[float, Parameter("Highest frequency of coefficients, in hertz.", symbol="HERTZ")] = (
        4000.0
    )
    weighting: Annotated[
        str, Parameter("How bands count: by how well they are heard, or equally.", choices=WEIGHTINGS)
    ] = "iso226"
    restore: Annotated[str, Parameter("What is made of noisy bands; costs no privacy.", choices=RESTORES)] = (
        "wiener"
    )

    def proven(self, unit: Unit, shape: SoundShape) -> Guarantee:
        """Return what is proven of ``unit``: exact for shapes, by certified sensitivity for coefficients."""
        self._checked()
        if self._keep() == "shapes":
            return self._shapes_proven(sound_unit(unit), shape)
        return self._coefficients_proven(sound_unit(unit), shape)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the share of wrong shapes, or the deviation of the noise on a coefficient at 1 kHz."""
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
        """Return the way of clip ``first``; see :meth:`SoundMechanism.passage`."""
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
        one_of("weighting", self.weighting, WEIGHTINGS)
        one_of("restore", self.restore, RESTORES)
        if isinstance(self.delta, bool) or not isinstance(self.delta, int | float) or not 0 <= self.delta < 1:
            raise BadInput(
                f"`delta` must be a number from 0 to below 1, not {shown(self.delta)}.", parameter="delta"
            )
        if self.shapes is not None and self.shapes not in SIZES:
            raise BadInput(
                f"`shapes` must be one of {', '.join(map(str, SIZES))}, not {shown(self.shapes)}.",
                parameter="shapes",
            )

    def _keep(self) -> str:
        return one_of("keep", self.keep, KEEPS)

    def _bands(self) -> BandLevels:
        return band_levels(self._rate())

    def _window(self, unit: Unit, shape: SoundShape) -> int:
        return window_samples(unit, self._rate(), shape[0])

    def _stride(self) -> int:
        """Return the smallest stride of kept blocks at which the requested window reaches one; public."""
        asked = sound_unit(self.unit)
        unit = _USUAL if asked.size is None else asked
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
        """Return the noise at which the unit asked for costs what was asked for."""
        relative, step, base = self._calibrated(shape)
        law = NORMAL if self.delta > 0 else LAPLACE
        return ScaledNoise(law, tuple(base * scale for scale in relative), step)

    def _calibrated(self, shape: SoundShape) -> tuple[tuple[float, ...], float, float]:
        """Return relative scales of the coefficients, the step of the grid, and the factor on the scales."""
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
        """Return the sensitivity of ``unit`` over the relative scales, and what each grid step adds to it."""
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
    """Return noise scales of the coefficients up to ``cutoff``, relative to one another.

    Laplace: the audible power Σ s²/A² is least, at a given Σ 1/s², where s ∝ √A. Gaussian: a window may put
    all of its change into one band, so the smallest scale decides, and larger ones elsewhere gain nothing.
    """
    frequencies = band_levels(rate).frequencies
    kept = frequencies[frequencies <= max(cutoff, float(frequencies[0]))]
    if gaussian or weighting == "flat":
        return (1.0,) * kept.size
    return tuple(float(scale) for scale in np.sqrt(noise_weight(kept)))
