"""Frames of a clip through a picture mechanism, one after the other, without flicker.

**Guarantee.** Noise on different frames is independent (or, with ``beta``, equivalent to independent noise on
the innovations: ``correlated_frames``), so a unit inside one frame, or a whole ``frame``, costs what it costs
in one picture. A change of all frames composes over them: T times the loss of a whole picture under Laplace
noise, √T times its μ under Gaussian noise. That holds of the unit ``clip``, and of the ``channel`` that the
pictures are. The number of frames, their size and their times are public. The filter over time sees released
frames only: post-processing.

**Edge cases.** A clip of one frame is a picture. ``region(m)`` and ``pixels(m)`` lie in one frame; what is
proven where they change in every frame at once stands in the notes of the statement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import ExpectedError, Mechanism, Release
from sfumato.mechanisms.parameters import one_of, shown
from sfumato.mechanisms.records import as_array
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
from sfumato.media.video.correlated_frames import Innovations
from sfumato.media.video.frame_budget import (
    IN_A_FRAME,
    WHOLE,
    finer_block,
    is_gaussian,
    repeats,
    spread,
    video_unit,
)
from sfumato.media.video.frame_passage import FramePassage, MeansPassage, PixelsPassage
from sfumato.media.video.temporal_filter import FOLLOWS, memory
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee, Unit
from sfumato.privacy.wording import below_one, upward

__all__ = ["FrameNoise"]

_ALSO = (*(Unit("pixels", size) for size in (1, 16)), *(Unit("region", size) for size in (8, 32)))
# So much less than asked for, so that what is read back from the noise is at most that.
_HAIR = 1.0 + 1e-9


class FrameNoise(Mechanism):
    """A picture mechanism, such as ``PlaneMeans(4.0)``, applied to the frames of clips of ``frames`` frames.

    The mechanism's ``epsilon`` (and ``delta``) is the promise for ``unit``: ``"region(m)"`` or
    ``"pixels(m)"`` of one frame, ``"frame"``, ``"clip"``, ``"channel"``; by default the mechanism's own, an
    item being a frame. ``beta`` is the correlation of the noise of one frame with the next (in 128ths; for
    Gaussian ``PlaneMeans`` and 8-bit frames). ``smoothing`` in [0, 1) is the memory of the filter over time,
    and ``follow`` says whether it follows ``"motion"`` (by default with ``PlaneMeans``, the only mechanism
    with which it can) or ``"nothing"``. ``shape`` is (height, width, channels) of a frame.
    """

    def __init__(
        self,
        mechanism: PictureMechanism | None = None,
        unit: str | Unit | None = None,
        *,
        beta: float = 0.0,
        smoothing: float = 0.88,
        follow: str | None = None,
        frames: int | None = None,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.unit = unit
        self.beta = beta
        self.smoothing = smoothing
        self.follow = follow
        self.frames = frames
        self.shape = shape
        self.randomness = randomness

    def shaped(self, shape: Sequence[int], frames: int) -> FrameNoise:
        """The same mechanism for clips of ``frames`` frames of ``shape``."""
        known = {"shape": tuple(shape), "frames": frames}
        return type(self)(**(self.get_params(deep=False) | known))

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven of the unit that was asked for, in clips of the declared shape."""
        return self.proven(self._asked(), self._picture(columns))

    def proven(self, unit: Unit | str, shape: Shape) -> Guarantee:
        """What is proven of ``unit`` in clips of ``frames`` frames of ``shape``."""
        unit = video_unit(unit)
        inside = unit if unit.name in IN_A_FRAME else Unit("item")
        return replace(self._held(inside, shape, unit.name in WHOLE), unit=unit)

    def _held(self, inside: Unit, shape: Shape, everywhere: bool) -> Guarantee:
        """What is proven of ``inside`` in one frame, or in all of them at once."""
        one = self.each(shape).proven(inside, shape)
        innovations = self._innovations()
        if innovations is None:
            if not everywhere:
                return one
            # The δ of composition is the analyst's choice; only what is proven at one δ alone adds up.
            all_of_them = one.times(self._count())
            if all_of_them.proves_nothing or one.slack > 0.0:
                return all_of_them
            return replace(all_of_them, at_delta=max(one.at_delta, all_of_them.revealed))
        factor = innovations.clip_factor(self._count()) if everywhere else innovations.frame_factor
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
        """That of the picture mechanism."""
        return self._mechanism().claim()

    def each(self, shape: Shape) -> PictureMechanism:
        """The mechanism that each frame, or each innovation, goes through: calibrated for the asked unit."""
        given = self._mechanism()
        values = given.get_params(deep=False) | {"shape": shape}
        if self.randomness is not None:
            values["randomness"] = self.randomness
        asked = self._asked()
        values["unit"] = asked if asked.name in IN_A_FRAME else Unit("item")
        self._check_correlation(values)
        smoothing = memory(self.smoothing)
        if self._follows() == "motion" and values["block"] is None and smoothing:
            frames = self._count() if asked.name in WHOLE else 1
            epsilon = spread(values, repeats(frames, is_gaussian(values)))
            values["block"] = finer_block(values, epsilon, shape, smoothing)
        times = self._times(asked, is_gaussian(values))
        if times != 1.0:
            if "epsilon" not in values:
                raise BadInput(f"{type(given).__name__} has no epsilon that could be spread over a {asked}.")
            values["epsilon"] = spread(values, times * _HAIR)
        made = type(given)(**values)
        if self._innovations() is not None and made.design(shape).white(65_535.0) != 65_535:
            raise BadInput(
                "correlated noise needs a grid finer than noise of this size is drawn on: ask for a larger ε."
            )
        return made

    def _times(self, asked: Unit, gaussian: bool) -> float:
        """How much more the asked unit costs than the same unit of one picture in :meth:`each`."""
        innovations, whole = self._innovations(), asked.name in WHOLE
        if innovations is not None:
            return innovations.clip_factor(self._count()) if whole else innovations.frame_factor
        return repeats(self._count(), gaussian) if whole else 1.0

    def passage(self, shape: Shape) -> FramePassage:
        """The way of one clip whose frames are of ``shape``."""
        mechanism, smoothing = self.each(shape), memory(self.smoothing)
        if isinstance(mechanism, PlaneMeans):
            return MeansPassage(
                mechanism, smoothing=smoothing, follow=self._follows(), innovations=self._innovations()
            )
        return PixelsPassage(mechanism, smoothing)

    def released(self, frames: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """The released frames of one clip, whose ``frames`` come one by one; a few are held in memory."""
        shape, count = self._picture(None), self._count()
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
                yield from _settled(passage, np.stack(waiting))
                waiting = []
        if given != count:
            raise BadInput(f"a clip was to have {count} frames, and {given} came.")
        if waiting:
            yield from _settled(passage, np.stack(waiting))

    def release(self, X: Any) -> Release:
        """A release of one clip, (T, height, width) or (T, height, width, channels)."""
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
        """The released rows for ``X``, whose rows are all frames of one clip; so ``first`` is 0."""
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
        """How many frames are worked on at once."""
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
        """That of one frame before the filter over time, which makes it smaller where nothing moves."""
        return self.each(self._picture(columns)).expected_error(columns)

    def parameters(self) -> dict[str, Any]:
        """Everything that shapes the bytes; those of the picture mechanism under ``picture``."""
        values = super().parameters()
        values.pop("mechanism")
        innovations = self._innovations()
        return values | {
            "unit": str(self._asked()),
            "beta": 0.0 if innovations is None else innovations.beta,
            "follow": self._follows(),
        }

    def _nested(self) -> dict[str, Mechanism]:
        return {"picture": self._mechanism() if self.shape is None else self.each(self._picture(None))}

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        if self.shape is None:
            return ()
        shape, asked = self._picture(columns), self._asked()
        units = [*_ALSO, Unit("frame")] + ([] if self.frames is None else [Unit("clip")])
        return tuple(self.proven(unit, shape) for unit in units if unit != asked)

    def _notes(self) -> tuple[str, ...]:
        notes, asked = super()._notes(), self._asked()
        if self.shape is None or self.frames is None or asked.name not in IN_A_FRAME or self.frames == 1:
            return notes
        held = self._held(asked, self._picture(None), True)
        at = f" at δ={below_one(held.at_delta)}" if held.at_delta else ""
        where = f"of a {asked} that changes in each of the {self.frames} frames"
        if held.proves_nothing:
            return notes
        return (*notes, f"{where}, ε={upward(held.epsilon())}{at} is proven")

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

    def _asked(self) -> Unit:
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

    def _count(self) -> int:
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


def _settled(passage: FramePassage, frames: NDArray[Any]) -> Iterator[NDArray[Any]]:
    high = white(frames.dtype)
    soft = np.clip(passage.feed(within(frames, high), high), 0.0, high)
    yield from (np.rint(soft) if frames.dtype.kind == "u" else soft).astype(frames.dtype)
