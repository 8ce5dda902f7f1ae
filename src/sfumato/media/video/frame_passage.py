"""One clip on its way through a picture mechanism: noise frame by frame, then a filter over what it released.

Where frames are released as noisy averages over blocks, the filter works on these, before pixels are made of
them: their noise is known exactly, and what the filter leaves of it is what pixels are restored from. With
any other mechanism it works on the released pixels.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.image_mechanism import PictureMechanism
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.restoration import Noise, restored
from sfumato.media.video.correlated_frames import Innovations
from sfumato.media.video.temporal_filter import SteadyFilter, temporal_filter

__all__ = ["FramePassage", "MeansPassage", "PixelsPassage"]

Single = NDArray[np.float32]

# Deviations are rounded up to so many steps an octave: what is made of equal ones is computed once.
_STEPS = 16.0


class FramePassage(Protocol):
    """Frames go in in their order, a few at a time, and as many come out."""

    def feed(self, frames: NDArray[Any], high: float) -> NDArray[Any]:
        """Released frames (n, h, w, c) for the next ``frames``, on [0, ``high``] but not yet clipped."""


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
            content, top = self._innovations.taken(frames), 65_535.0
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
            planes = self._innovations.given(planes)
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
    return np.asarray(np.exp2(np.ceil(_STEPS * octaves) / _STEPS))
