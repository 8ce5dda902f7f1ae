"""Temporal filters for released frames: less flicker at no privacy cost, with a small delay of motion.

Noise that is drawn anew for every frame makes a still picture boil. A filter that looks at releases only is
post-processing. :class:`SteadyFilter` is y_t = βy_{t−1} + (1−β)z_t: still noise then flickers (1−β)/√(1+β) as
much as before, and what moves arrives β/(1−β) frames late, everywhere. :class:`MotionFilter` is a Kalman
filter of the same model that doubts it where it fails. The deviation of the noise is public, so released
frames that differ from the estimate by more than noise would, at once or again and again in one direction,
show that something moves there, and there the estimate follows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from sfumato.errors import BadInput
from sfumato.mechanisms import one_of, share, shown

Single = NDArray[np.float32]

#: How a filter may treat motion.
FOLLOWS = ("motion", "nothing")

# Motion is looked for in the mean over so many neighbours, down and across.
_AROUND = 3
# In deviations of that mean under noise alone: what is taken for motion in one frame (Laplace noise has
# heavier tails than Gaussian, hence the 3), and in the recent trend.
_AT_ONCE = 4.0 * math.sqrt(3.0 / _AROUND**2)
_TREND = 2.0 * math.sqrt(2.0 / _AROUND**2)
# How much of the trend is kept from frame to frame, and its variance relative to one frame's.
_KEPT = 0.7
_TREND_VARIANCE = (1.0 - _KEPT) / (1.0 + _KEPT)


class SteadyFilter:
    """y_t = ``beta``·y_{t−1} + (1−``beta``)·z_t, from y_0 = z_0 on."""

    def __init__(self, beta: float) -> None:
        self.beta = memory(beta)
        self._estimate: Single | None = None
        self._variance: Single = np.zeros(0, dtype=np.float32)

    def step(self, frame: Single, deviation: Any) -> tuple[Single, Single]:
        """Return the estimate after ``frame`` (rows, columns), and the deviation of its noise.

        ``deviation``, a number or an array of the shape of the frame, is that of independent noise in it.
        """
        fresh = _variance(frame, deviation)
        if self._estimate is None:
            self._estimate, self._variance = np.array(frame, dtype=np.float32), fresh
        else:
            self._estimate = self._estimate + np.float32(1.0 - self.beta) * (frame - self._estimate)
            self._variance = self.beta**2 * self._variance + (1.0 - self.beta) ** 2 * fresh
        return self._estimate, np.sqrt(self._variance)


class MotionFilter(SteadyFilter):
    """A Kalman filter of each value, whose gain rises where released frames show motion.

    Where nothing moves it averages all frames so far, until the newest weighs 1−``beta``. Where the mean
    square of what surprises it, over 3×3 neighbours, exceeds what noise explains, the excess is taken for the
    variance that motion has added since the last frame.
    """

    def __init__(self, beta: float) -> None:
        super().__init__(beta)
        self._trend: Single = np.zeros(0, dtype=np.float32)

    def step(self, frame: Single, deviation: Any) -> tuple[Single, Single]:
        """See :meth:`SteadyFilter.step`; the deviation takes what was seen of motion into account."""
        if self._estimate is None:
            self._trend = np.zeros(frame.shape, dtype=np.float32)
            return super().step(frame, deviation)
        fresh = _variance(frame, deviation)
        surprise = frame - self._estimate
        expected = self._variance + fresh
        relative = surprise / np.sqrt(expected)
        self._trend = np.float32(_KEPT) * self._trend + np.float32(1.0 - _KEPT) * relative
        at_once = _around(np.square(relative)) - np.float32(1.0 + _AT_ONCE)
        trend = _around(np.square(self._trend)) - np.float32(_TREND_VARIANCE * (1.0 + _TREND))
        moved = np.maximum(np.maximum(at_once, trend), 0.0) * expected
        before = self._variance + moved
        gain = np.maximum(before / (before + fresh), np.float32(1.0 - self.beta))
        self._estimate = self._estimate + gain * surprise
        self._variance = np.square(1.0 - gain) * before + np.square(gain) * fresh
        self._trend *= 1.0 - gain  # what the estimate has followed is no surprise any more
        return self._estimate, np.sqrt(self._variance)


def temporal_filter(beta: float, follow: str) -> SteadyFilter:
    """Return the filter of memory ``beta`` that follows motion, or nothing."""
    motion = one_of("follow", follow, FOLLOWS) == "motion"
    return MotionFilter(beta) if motion else SteadyFilter(beta)


def memory(beta: float) -> float:
    """Return ``beta``, once known to be what a filter can remember: in [0, 1)."""
    if share("smoothing", beta) == 1.0:
        raise BadInput(
            f"`smoothing` must be less than 1, not {shown(beta)}: nothing new would be shown.",
            parameter="smoothing",
        )
    return float(beta)


def _variance(frame: Single, deviation: Any) -> Single:
    return np.array(np.broadcast_to(np.square(np.asarray(deviation, dtype=np.float32)), frame.shape))


def _around(values: Single) -> Single:
    return np.asarray(uniform_filter(values, _AROUND, mode="nearest"))
