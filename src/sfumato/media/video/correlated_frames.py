"""Gaussian noise that is correlated from frame to frame, exactly, on a grid of whole numbers.

Noise of the first-order autoregression n_t = βn_{t−1} + √(1−β²)·σw_t cannot be drawn frame by frame and
rounded without error, since n_{t−1} is real. But y_t = x_t + n_t is the same release as its innovations
y_t − βy_{t−1} = (x_t − βx_{t−1}) + √(1−β²)·σw_t, because each can be computed from the other. So the whole
numbers

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
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import shown

__all__ = ["Innovations"]

Single = NDArray[np.float32]

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
        """What a change in each of ``frames`` frames costs, relative to that change of one 16-bit picture."""
        return math.sqrt(self.c**2 + (frames - 1) * (_STEPS + self.k) ** 2) / _ROOM

    @property
    def deviation_factor(self) -> float:
        """The deviation of the noise of a frame over that of an innovation, where white is 255 in both."""
        return _ROOM / self.c

    def taken(self, frames: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """The innovations (n, h, w, c) of the next ``frames``, which come after those of earlier calls."""
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

    def given(self, means: list[Single]) -> list[Single]:
        """Averages of frames from noisy ones of their innovations, planes (rows, columns); 255 is white.

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
