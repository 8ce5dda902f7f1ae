"""Frames of a clip through an image mechanism, with noise that may be correlated over time, and a filter.

**Guarantee.** Noise on different frames is independent (or, with ``beta``, equivalent to independent noise on
the innovations, see below), so a unit inside one frame, or a whole ``frame``, costs what it costs
in one picture. A change of all frames composes over them: T times the loss of a whole picture under Laplace
noise, √T times its μ under Gaussian noise. That holds of the unit ``clip``, and of the ``channel`` that the
pictures are. The number of frames, their size and their times are public. The filter over time sees released
frames only: post-processing.

**Edge cases.** A clip of one frame is a picture. ``region(m)`` and ``pixels(m)`` lie in one frame; what is
proven where they change in every frame at once stands in the notes of the statement.

**Correlated noise** is Gaussian and exact, on a grid of whole numbers. Noise of the first-order
autoregression n_t = βn_{t−1} + √(1−β²)·σw_t cannot be drawn frame by frame and rounded without error, since
n_{t−1} is real. But y_t = x_t + n_t is the same release as its innovations y_t − βy_{t−1} = (x_t − βx_{t−1})
+ √(1−β²)·σw_t, because each can be computed from the other. So the whole numbers

    e_0 = c·x_0,    e_t = 128·x_t − k·x_{t−1} + 255·k    (β = k/128, c = ⌊√(128² − k²)⌋)

are released with independent noise, exactly, as pictures of 16 bits; y_0 = ẽ_0/c and
y_t = βy_{t−1} + (ẽ_t − 255·k)/128 are post-processing. c makes the first frame as noisy as all others.

**Guarantee.** Let independent noise on pictures in [0, 65535] be μ-GDP for a unit, with a bound that is
proportional to the size of the change, as that of exact sums is; 65535 = 257·255. One frame takes part in two
innovations, as 128 and as −k times itself (the first as c and −k, and c² + k² ≤ 128²; the last as 128), so a
change of one frame costs at most μ·√(128² + k²)/257. If the unit changes in all T frames at once, e_0 changes
by c and every other e_t by at most 128 + k times as much: μ·√(c² + (T−1)(128+k)²)/257. Relative to noise of
the same size without correlation these are the factors √((1+β²)/(1−β²)) and, for long clips,
√T·√((1+β)/(1−β)).

**Filter.** Where frames are released as noisy averages over blocks, the filter works on these, before pixels
are made of them: their noise is known exactly, and what the filter leaves of it is what pixels are restored
from. With any other mechanism it works on the released pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    ExpectedError,
    Mechanism,
    Parameter,
    RandomSource,
    Release,
    as_array,
    delta_between,
    one_of,
    positive,
    shown,
)
from sfumato.media.images.image_mechanism import (
    PictureMechanism,
    Shape,
    picture_rows,
    picture_shape,
    picture_unit,
    white,
    within,
)
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.restoration import Noise, restored
from sfumato.media.video.temporal_filter import FOLLOWS, SteadyFilter, memory, temporal_filter
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee, Unit, format_delta, format_upper, gaussian_epsilon, gaussian_mu

__all__ = ["FrameNoise"]

Single = NDArray[np.float32]

# Steps of β; the white of 8 bits; and how many times that white the white of 16 bits is.
_STEPS, _WHITE, _ROOM = 128, 255, 257


class Innovations:
    """Frames of 8 bits to innovations of 16 bits, and noisy averages of these back to those of frames."""

    def __init__(self, beta: float) -> None:
        number = isinstance(beta, int | float) and not isinstance(beta, bool) and math.isfinite(beta)
        self.k = round(_STEPS * beta) if number else 0
        if not 0 < self.k < _STEPS:
            raise BadInput(
                "`beta` must be 0, or lie between 1/128 and 127/128 (it is rounded to 128ths), not "
                f"{shown(beta)}.",
                parameter="beta",
            )
        self.c = math.isqrt(_STEPS**2 - self.k**2)
        self._previous: NDArray[np.uint8] | None = None
        self._means: list[Single] | None = None

    @property
    def beta(self) -> float:
        """The correlation of the noise of one frame with that of the next."""
        return self.k / _STEPS

    @property
    def frame_factor(self) -> float:
        """What a change in one frame costs, relative to the same change of a 16-bit picture."""
        return math.sqrt(_STEPS**2 + self.k**2) / _ROOM

    def clip_factor(self, frames: int) -> float:
        """Return the cost of a change in each of ``frames`` frames over that in one 16-bit picture."""
        return math.sqrt(self.c**2 + (frames - 1) * (_STEPS + self.k) ** 2) / _ROOM

    @property
    def deviation_factor(self) -> float:
        """The deviation of the noise of a frame over that of an innovation, where white is 255 in both."""
        return _ROOM / self.c

    def encode(self, frames: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """Return innovations (n, h, w, c) of the next ``frames``, which come after those of earlier calls."""
        made = np.empty(frames.shape, dtype=np.uint16)
        for place, frame in enumerate(frames):
            now = frame.astype(np.int32)
            if self._previous is None:
                made[place] = self.c * now
            else:
                made[place] = _STEPS * now + self.k * (_WHITE - self._previous.astype(np.int32))
            self._previous = frame
        self._previous = None if self._previous is None else self._previous.copy()
        return made

    def decode(self, means: list[Single]) -> list[Single]:
        """Return averages of the next frame, planes (rows, columns), from noisy ones of its innovation.

        The first plane is one whose weights add up to 1 (luma), those of the others add up to 0.
        """
        levels: list[Any] = [mean * np.float32(_ROOM) for mean in means]
        if self._means is None:
            self._means = [level / np.float32(self.c) for level in levels]
        else:
            levels[0] -= np.float32(_WHITE * self.k)
            self._means = [
                np.float32(self.beta) * before + level / np.float32(_STEPS)
                for before, level in zip(self._means, levels, strict=True)
            ]
        return self._means


#: Units that lie inside one frame, and those that hold all of them.
IN_A_FRAME, WHOLE = Unit.names("picture"), ("channel", "clip", "item")
_UNITS = (*IN_A_FRAME, "frame", *WHOLE)

# More blocks than this take longer to restore than a frame is shown, and hardly show more.
_MOST_BLOCKS = 20_000


def video_unit(unit: str | Unit) -> Unit:
    """Return ``unit``, if it is one that the frames of a clip have."""
    parsed = Unit.parse(unit)
    if parsed.name not in _UNITS:
        raise BadInput(f"frames have the units {Unit.listed(_UNITS)}, not {parsed}.", parameter="unit")
    return parsed


def is_gaussian(values: dict[str, Any]) -> bool:
    """Return whether a mechanism with the parameters ``values`` adds Gaussian noise."""
    return bool(values.get("delta", 0.0)) and values.get("noise", "gaussian") == "gaussian"


def composition_factor(frames: int, gaussian: bool) -> float:
    """Return the cost of a change of ``frames`` frames over that of one: in μ if ``gaussian``, else in ε."""
    return math.sqrt(frames) if gaussian else float(frames)


def epsilon_of_one_picture(values: dict[str, Any], times: float) -> float:
    """Return the ε for one picture, of which ``times`` as much, in ε or in μ, is the ε of ``values``."""
    epsilon = positive("epsilon", values["epsilon"])
    if not is_gaussian(values):
        return epsilon / times
    delta = delta_between(values["delta"])
    return gaussian_epsilon(gaussian_mu(epsilon, delta) / times, delta)


def block_side_for_filter(values: dict[str, Any], epsilon: float, shape: Shape, smoothing: float) -> int:
    """Return blocks for what the filter leaves of the noise of ``epsilon``.

    It leaves √((1−β)/(1+β)) of it where nothing moves, and all of it where all moves. Blocks are for
    half of the way between, in logarithms: finer ones show more, but flicker more.
    """
    gain = ((1.0 + smoothing) / (1.0 - smoothing)) ** 0.25
    sensible = PlaneMeans(**(values | {"epsilon": gain * epsilon})).design(shape).blocks.luma
    return max(sensible, math.ceil(math.sqrt(shape[0] * shape[1] / _MOST_BLOCKS)))


# Deviations are rounded up to so many steps an octave: what is made of equal ones is computed once.
_FRAME_PASSAGE_STEPS = 16.0


class FramePassage(Protocol):
    """Frames go in in their order, a few at a time, and as many come out."""

    def feed(self, frames: NDArray[Any], high: float) -> NDArray[Any]:
        """Return released frames (n, h, w, c) for the next ``frames``, on [0, ``high``], not yet clipped."""


class PixelsPassage:
    """Frames released by any mechanism, filtered as pixels; nothing is filtered where ``smoothing`` is 0."""

    def __init__(self, mechanism: PictureMechanism, smoothing: float) -> None:
        self._mechanism = mechanism
        self._filter = SteadyFilter(smoothing) if smoothing else None
        self._first = 0

    def feed(self, frames: NDArray[Any], high: float) -> NDArray[Any]:
        """See :class:`FramePassage`."""
        soft = self._mechanism.soften(frames, high, self._first)
        self._first += len(frames)
        if self._filter is None:
            return soft
        return np.stack([self._filter.step(frame, 0.0)[0] for frame in soft])


class MeansPassage:
    """Frames released as noisy block averages, which are filtered, and then restored to pixels."""

    def __init__(
        self,
        mechanism: PlaneMeans,
        *,
        smoothing: float,
        follow: str,
        innovations: Innovations | None,
    ) -> None:
        self._mechanism, self._innovations = mechanism, innovations
        self._smoothing, self._follow = smoothing, follow
        self._filters = None if smoothing == 0.0 else [temporal_filter(smoothing, follow) for _ in range(4)]
        self._first = 0

    def feed(self, frames: NDArray[Any], high: float) -> NDArray[Any]:
        """See :class:`FramePassage`."""
        design = self._mechanism.design(frames.shape[1:])
        content, top = frames, high
        if self._innovations is not None:
            content, top = self._innovations.encode(frames), 65_535.0
        means = self._mechanism._noisy(design, content, top, self._first)
        self._first += len(frames)
        soft = np.empty(frames.shape, dtype=np.float32)
        for place in range(len(frames)):
            planes = [plane[place] for plane in means]
            soft[place] = self._restored(planes, design)
        return soft if high == 255.0 else soft * np.float32(high / 255.0)

    def _restored(self, planes: list[Single], design: Any) -> Single:
        noise = design.noise
        if self._innovations is not None:
            planes = self._innovations.decode(planes)
            factor = self._innovations.deviation_factor
            noise = Noise([factor * deviation for deviation in noise.deviations], noise.laplace)
        if self._filters is not None:
            steps = [
                each.step(plane, deviation)
                for each, plane, deviation in zip(self._filters, planes, noise.deviations, strict=False)
            ]
            planes = [estimate for estimate, _ in steps]
            # A mean over several draws is nearly normal, whatever the law of one.
            noise = Noise([_rounded_up(left) for _, left in steps], False)
        stacked = [plane[None] for plane in planes]
        return np.asarray(restored(stacked, noise, design.blocks, self._mechanism.restore)[0])


def _rounded_up(deviation: Single) -> NDArray[np.float64]:
    octaves = np.log2(np.maximum(deviation.astype(np.float64), 1e-9))
    return np.asarray(np.exp2(np.ceil(_FRAME_PASSAGE_STEPS * octaves) / _FRAME_PASSAGE_STEPS))


_ALSO = (*(Unit("pixels", size) for size in (1, 16)), *(Unit("region", size) for size in (8, 32)))
# So much less than asked for, so that what is read back from the noise is at most that.
_HAIR = 1.0 + 1e-9


@dataclass(eq=False, repr=False)
class FrameNoise(Mechanism):
    """A picture mechanism, such as ``PlaneMeans(4.0)``, applied to the frames of clips of ``frames`` frames.

    The mechanism's ``epsilon`` (and ``delta``) is the promise for ``unit``: ``"region(m)"`` or
    ``"pixels(m)"`` of one frame, ``"frame"``, ``"clip"``, ``"channel"``; by default the mechanism's own, an
    item being a frame. ``beta`` is the correlation of the noise of one frame with the next (in 128ths; for
    Gaussian ``PlaneMeans`` and 8-bit frames). ``smoothing`` in [0, 1) is the memory of the filter over time,
    and ``follow`` says whether it follows ``"motion"`` (by default with ``PlaneMeans``, the only mechanism
    with which it can) or ``"nothing"``. ``shape`` is (height, width, channels) of a frame.

    **Guarantee.** That of one frame; of clips by composition; with β > 0 at the sensitivity of the
    innovations. The filter is post-processing.
    """

    kinds = ()
    units = _UNITS

    mechanism: Annotated[PictureMechanism | None, Parameter("Mechanism for one frame.")] = None
    unit: Annotated[
        str | Unit | None, Parameter("Part of a clip that ε is for; that of the mechanism unless given.")
    ] = None
    _: KW_ONLY
    beta: Annotated[float, Parameter("Correlation of the noise of one frame with the next.")] = 0.0
    smoothing: Annotated[float, Parameter("Memory of the filter over time, from 0 to below 1.")] = 0.88
    follow: Annotated[str | None, Parameter("What the filter follows.", choices=FOLLOWS)] = None
    frames: Annotated[int | None, Parameter("Number of frames of a clip.")] = None
    shape: Annotated[Sequence[int] | None, Parameter("Height, width and channels of a frame.")] = None
    randomness: RandomSource = None

    def shaped(self, shape: Sequence[int], frames: int) -> FrameNoise:
        """Return the same mechanism for clips of ``frames`` frames of ``shape``."""
        known = {"shape": tuple(shape), "frames": frames}
        return type(self)(**(self.get_params(deep=False) | known))

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Return what is proven of the unit that was asked for, in clips of the declared shape."""
        return self.proven(self._headline_unit(), self._picture(columns))

    def proven(self, unit: Unit | str, shape: Shape) -> Guarantee:
        """Return what is proven of ``unit`` in clips of ``frames`` frames of ``shape``."""
        unit = video_unit(unit)
        inside = unit if unit.name in IN_A_FRAME else Unit("item")
        return replace(self._proven_inside(inside, shape, unit.name in WHOLE), unit=unit)

    def _proven_inside(self, inside: Unit, shape: Shape, everywhere: bool) -> Guarantee:
        """Return what is proven of ``inside`` in one frame, or in all of them at once."""
        one = self.each(shape).proven(inside, shape)
        innovations = self._innovations()
        if innovations is None:
            if not everywhere:
                return one
            # The δ of composition is the analyst's choice; only what is proven at one δ alone adds up.
            all_of_them = one.times(self._frame_count())
            if all_of_them.proves_nothing or one.slack > 0.0:
                return all_of_them
            return replace(all_of_them, at_delta=max(one.at_delta, all_of_them.revealed))
        factor = innovations.clip_factor(self._frame_count()) if everywhere else innovations.frame_factor
        event = one.event
        if not isinstance(event, GaussianDpEvent):
            raise BadInput(
                "correlated noise (`beta` above 0) is Gaussian: give the mechanism a delta above 0.",
                parameter="beta",
            )
        return replace(
            one,
            event=GaussianDpEvent(event.noise_multiplier / (factor * _HAIR)),
            theorem=f"{one.theorem}; innovations of first-order autoregressive noise",
        )

    def claim(self) -> Claim | None:
        """Return that of the picture mechanism."""
        return self._mechanism().claim()

    def each(self, shape: Shape) -> PictureMechanism:
        """Return the mechanism for each frame or innovation, calibrated for the requested unit."""
        given = self._mechanism()
        values = given.get_params(deep=False) | {"shape": shape}
        if self.randomness is not None:
            values["randomness"] = self.randomness
        headline = self._headline_unit()
        values["unit"] = headline if headline.name in IN_A_FRAME else Unit("item")
        self._check_correlation(values)
        smoothing = memory(self.smoothing)
        if self._follows() == "motion" and values["block"] is None and smoothing:
            frames = self._frame_count() if headline.name in WHOLE else 1
            epsilon = epsilon_of_one_picture(values, composition_factor(frames, is_gaussian(values)))
            values["block"] = block_side_for_filter(values, epsilon, shape, smoothing)
        times = self._cost_factor(headline, is_gaussian(values))
        if times != 1.0:
            if "epsilon" not in values:
                raise BadInput(
                    f"{type(given).__name__} has no epsilon that could be spread over a {headline}."
                )
            values["epsilon"] = epsilon_of_one_picture(values, times * _HAIR)
        made = type(given)(**values)
        if self._innovations() is not None and made.design(shape).white(65_535.0) != 65_535:
            raise BadInput(
                "correlated noise needs a grid finer than noise of this size is drawn on: ask for a larger ε."
            )
        return made

    def _cost_factor(self, headline: Unit, gaussian: bool) -> float:
        """Return how much more the headline unit costs than the same unit of one picture in :meth:`each`."""
        innovations, whole = self._innovations(), headline.name in WHOLE
        if innovations is not None:
            return innovations.clip_factor(self._frame_count()) if whole else innovations.frame_factor
        return composition_factor(self._frame_count(), gaussian) if whole else 1.0

    def passage(self, shape: Shape) -> FramePassage:
        """Return the way of one clip whose frames are of ``shape``."""
        mechanism, smoothing = self.each(shape), memory(self.smoothing)
        if isinstance(mechanism, PlaneMeans):
            return MeansPassage(
                mechanism, smoothing=smoothing, follow=self._follows(), innovations=self._innovations()
            )
        return PixelsPassage(mechanism, smoothing)

    def released(self, frames: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield released frames of one clip, whose ``frames`` come one by one; a few are held in memory."""
        shape, count = self._picture(None), self._frame_count()
        passage, size = self.passage(shape), self.block_rows(math.prod(shape))
        waiting: list[NDArray[Any]] = []
        given = 0
        for frame in frames:
            one = frame.reshape(shape) if frame.size == math.prod(shape) else frame
            if one.shape != shape or given == count:
                raise BadInput(f"a clip was to have {count} frames of shape {shape}; it has others, or more.")
            self._check_type(one)
            waiting.append(one)
            given += 1
            if len(waiting) == size:
                yield from _release_frames(passage, np.stack(waiting))
                waiting = []
        if given != count:
            raise BadInput(f"a clip was to have {count} frames, and {given} came.")
        if waiting:
            yield from _release_frames(passage, np.stack(waiting))

    def release(self, X: Any) -> Release:
        """Return a release of one clip, (T, height, width) or (T, height, width, channels)."""
        clip = as_array(X, "the frames")
        if clip.ndim not in (3, 4) or not clip.size:
            raise BadInput(f"a clip is an array (T, height, width, channels), not one of shape {clip.shape}.")
        shaped = self.shaped(clip.shape[1:], len(clip))
        rows = clip.reshape(len(clip), -1)
        shaped.check(rows)
        statement = shaped.statement(rows.shape[1])
        value = shaped.perturb(rows).reshape(clip.shape)
        return Release(value, statement, {"frames": len(clip), "shape": list(clip.shape[1:])})

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """Return the released rows for ``X``, whose rows are all frames of one clip; so ``first`` is 0."""
        if first != 0:
            raise BadInput("a clip goes through from its first frame on, in one piece: first must be 0.")
        shape = self._picture(X.shape[1])
        out = np.empty_like(X)
        frames = (row.reshape(shape) for row in X)
        for place, frame in enumerate(self.released(frames)):
            out[place] = frame.reshape(-1)
        return out

    def _records(self, X: Any, *, reset: bool) -> NDArray[Any]:
        return picture_rows(self, X, reset=reset)

    def block_rows(self, columns: int) -> int:
        """Return how many frames are worked on at once."""
        return self._mechanism().block_rows(columns)

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse frames that the picture mechanism refuses."""
        self._mechanism().check(X, first)
        self._check_type(X)

    def prepare(self, columns: int, dtype: np.dtype[Any]) -> None:
        """Refuse what could not be drawn of a frame; see :meth:`Mechanism.prepare`."""
        shape = self._picture(columns)
        self._check_type(np.empty(0, dtype=dtype))
        self.passage(shape)
        self.each(shape).prepare(columns, dtype)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return that of one frame before the filter over time, which reduces it where nothing moves."""
        return self.each(self._picture(columns)).expected_error(columns)

    def parameters(self) -> dict[str, Any]:
        """Return everything that shapes the bytes; those of the picture mechanism under ``picture``."""
        values = super().parameters()
        values.pop("mechanism")
        innovations = self._innovations()
        return values | {
            "unit": str(self._headline_unit()),
            "beta": 0.0 if innovations is None else innovations.beta,
            "follow": self._follows(),
        }

    def _nested(self) -> dict[str, Mechanism]:
        return {"picture": self._mechanism() if self.shape is None else self.each(self._picture(None))}

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        if self.shape is None:
            return ()
        shape, headline = self._picture(columns), self._headline_unit()
        units = [*_ALSO, Unit("frame")] + ([] if self.frames is None else [Unit("clip")])
        return tuple(self.proven(unit, shape) for unit in units if unit != headline)

    def _notes(self) -> tuple[str, ...]:
        notes, headline = super()._notes(), self._headline_unit()
        if self.shape is None or self.frames is None or headline.name not in IN_A_FRAME or self.frames == 1:
            return notes
        held = self._proven_inside(headline, self._picture(None), True)
        at = f" at δ={format_delta(held.at_delta)}" if held.at_delta else ""
        where = f"of a {headline} that changes in each of the {self.frames} frames"
        if held.proves_nothing:
            return notes
        return (*notes, f"{where}, ε={format_upper(held.epsilon())}{at} is proven")

    def _mechanism(self) -> PictureMechanism:
        if not isinstance(self.mechanism, PictureMechanism):
            raise BadInput(
                "`mechanism` must be one for pictures, such as PlaneMeans(epsilon=4.0), not "
                f"{shown(self.mechanism)}.",
                parameter="mechanism",
            )
        return self.mechanism

    def _randomness(self) -> Randomness:
        return super()._randomness() if self.randomness is not None else self._mechanism()._randomness()

    def _headline_unit(self) -> Unit:
        if self.unit is not None:
            return video_unit(self.unit)
        own = picture_unit(self._mechanism().unit)
        return Unit("frame") if own.name == "item" else own

    def _innovations(self) -> Innovations | None:
        return None if self.beta == 0 else Innovations(self.beta)

    def _follows(self) -> str:
        able = isinstance(self._mechanism(), PlaneMeans)
        if self.follow is None:
            return "motion" if able else "nothing"
        if one_of("follow", self.follow, FOLLOWS) == "motion" and not able:
            raise BadInput(
                "motion is seen in noisy block averages: `follow='motion'` needs PlaneMeans.",
                parameter="follow",
            )
        return self.follow

    def _check_correlation(self, values: dict[str, Any]) -> None:
        if self._innovations() is None:
            return
        if not isinstance(self._mechanism(), PlaneMeans) or not is_gaussian(values):
            raise BadInput(
                "correlated noise (`beta` above 0) is Gaussian noise on block sums: it needs PlaneMeans "
                "with a "
                "delta above 0; Laplace noise is drawn anew for every frame.",
                parameter="beta",
            )
        if values["shape"][2] not in (1, 3):
            raise BadInput(
                "correlated noise (`beta` above 0) is for frames in grey or in colour, without alpha.",
                parameter="beta",
            )

    def _check_type(self, X: NDArray[Any]) -> None:
        if self._innovations() is not None and X.dtype != np.uint8:
            raise BadInput(
                f"correlated noise (`beta` above 0) is for 8-bit frames, not {X.dtype}.", parameter="beta"
            )

    def _frame_count(self) -> int:
        count = self.frames
        if count is None:
            raise BadInput(
                "a guarantee for a clip depends on how many frames it has: give `frames`.", parameter="frames"
            )
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise BadInput(
                f"`frames` must be a whole number, 1 or more, not {shown(count)}.", parameter="frames"
            )
        return int(count)

    def _picture(self, columns: int | None) -> Shape:
        if self.shape is None:
            raise BadInput(
                "a guarantee for frames depends on their size: give `shape=(height, width, 3)`.",
                parameter="shape",
            )
        shape = picture_shape(self.shape)
        if columns is not None and columns != math.prod(shape):
            raise BadInput(f"frames of shape {tuple(self.shape)} do not have {columns} values.")
        return shape


def _release_frames(passage: FramePassage, frames: NDArray[Any]) -> Iterator[NDArray[Any]]:
    high = white(frames.dtype)
    soft = np.clip(passage.feed(within(frames, high), high), 0.0, high)
    yield from (np.rint(soft) if frames.dtype.kind == "u" else soft).astype(frames.dtype)
