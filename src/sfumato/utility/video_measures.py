"""How much a clip flickers where nothing moves, and how late it is where something does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["flicker", "lag"]

Array = NDArray[np.float64]


def flicker(frames: Any, region: tuple[slice, slice] | None = None) -> float:
    """Mean absolute difference between one frame and the next, within ``region`` (rows, columns).

    ``frames`` is (T, height, width) or (T, height, width, channels), two frames or more. It measures noise
    where the region stands still.
    """
    clip = _clip(frames)
    if region is not None:
        clip = clip[:, region[0], region[1]]
    if not clip.size:
        raise BadInput("flicker is measured in a region that lies in the frames and is not empty.")
    total = math.fsum(float(np.abs(clip[t] - clip[t - 1]).mean()) for t in range(1, len(clip)))
    return total / (len(clip) - 1)


def lag(frames: Any, reference: Any, furthest: int = 8) -> float:
    """How many frames late ``frames`` show what ``reference`` showed; both (T, height, width, …).

    The delay at which their changes over time are most alike (correlation, with the mean over time taken off
    each value), between whole frames by a parabola; from −1 to ``furthest``.
    """
    late, early = _clip(frames), _clip(reference)
    if late.shape != early.shape:
        raise BadInput(f"lag compares clips of one shape, not {late.shape} and {early.shape}.")
    if len(late) < 2 * furthest + 2:
        raise BadInput(f"a lag of up to {furthest} frames takes clips of {2 * furthest + 2} frames or more.")
    start, stop = furthest, len(late) - 1
    changes = _changes(late[start:stop])
    alike = []
    for delay in range(-1, furthest + 1):
        shifted = _changes(early[start - delay : stop - delay])
        size = math.sqrt(float(np.vdot(shifted, shifted)) * float(np.vdot(changes, changes)))
        if size == 0.0:
            raise BadInput("lag is measured where something moves: a clip stands still.")
        alike.append(float(np.vdot(shifted, changes)) / size)
    best = int(np.clip(np.argmax(alike), 1, len(alike) - 2))
    before, at, after = alike[best - 1 : best + 2]
    bend = before - 2.0 * at + after
    return best - 1 + (float(np.clip(0.5 * (before - after) / bend, -1.0, 1.0)) if bend < 0.0 else 0.0)


def _changes(clip: Array) -> Array:
    return np.asarray(clip - clip.mean(axis=0))


def _clip(frames: Any) -> Array:
    clip = np.asarray(frames, dtype=np.float64)
    if clip.ndim < 3 or len(clip) < 2:
        raise BadInput(f"a clip of two or more frames (T, height, width, …) is needed, not {clip.shape}.")
    return clip
