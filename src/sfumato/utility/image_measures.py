"""Image and video measures: PSNR and SSIM of each picture, flicker and lag of a clip.

Flicker is measured where nothing moves, lag where something does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import finite_array

__all__ = ["flicker", "lag", "psnr", "ssim"]

Array = NDArray[np.float64]

_CHUNK = 1 << 21  # values that are filtered at a time


def flicker(frames: Any, region: tuple[slice, slice] | None = None) -> float:
    """Return the mean absolute difference between one frame and the next, in ``region`` (rows, columns).

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
    """Return how many frames late ``frames`` show what ``reference`` showed; both (T, height, width, …).

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


def psnr(original: Any, released: Any, *, data_range: float) -> NDArray[np.float64]:
    """10·log₁₀(``data_range``² / mean squared error) in dB, for each picture; infinite where nothing changed.

    Pictures are (n, height, width) or, with colours last, (n, height, width, channels). ``data_range`` is the
    span from black to white, 255 for bytes. Values beyond it are compared as they are, not clipped.
    """
    first, second = _pictures(original, released, data_range)
    errors = np.empty(len(first))
    for row, (one, other) in enumerate(zip(first, second, strict=True)):
        gap = one.astype(np.float64) - other.astype(np.float64)
        errors[row] = np.mean(gap * gap)
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * (2.0 * math.log10(data_range) - np.log10(errors)))


def ssim(original: Any, released: Any, *, data_range: float) -> NDArray[np.float64]:
    """Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004) for each picture; 1 where nothing changed.

    Shapes and ``data_range`` are those of :func:`psnr`; of colours, the mean over channels is taken. Local
    means and variances are weighted by a Gaussian of 1.5 pixels cut off at 3.5 deviations (11 × 11 pixels),
    K₁ = 0.01, K₂ = 0.03, and windows that reach over the edge are left out; smaller pictures than one window
    are refused.
    """
    from scipy.ndimage import gaussian_filter

    first, second = _pictures(original, released, data_range)
    height, width = first.shape[1:3]
    if min(height, width) < 11:
        raise BadInput(f"pictures of {height} × {width} pixels are smaller than the window of 11 × 11.")
    inner = (slice(None), slice(5, height - 5), slice(5, width - 5))

    def local(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(gaussian_filter(values, 1.5, truncate=3.5, axes=(1, 2)))[inner]

    low, high = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    found = np.empty(len(first))
    step = max(1, _CHUNK // first[0].size)
    for start in range(0, len(first), step):
        x = first[start : start + step].astype(np.float64)
        y = second[start : start + step].astype(np.float64)
        mean_x, mean_y = local(x), local(y)
        spread = local(x * x) + local(y * y) - mean_x**2 - mean_y**2
        shared = local(x * y) - mean_x * mean_y
        likeness = (2.0 * mean_x * mean_y + low) * (2.0 * shared + high)
        likeness /= (mean_x**2 + mean_y**2 + low) * (spread + high)
        found[start : start + step] = likeness.reshape(len(x), -1).mean(axis=1)
    return found


def _pictures(original: Any, released: Any, data_range: float) -> tuple[NDArray[Any], NDArray[Any]]:
    if not 0.0 < data_range < math.inf:
        raise BadInput(
            f"`data_range` was {data_range}; give the span from black to white, 255 for bytes.",
            parameter="data_range",
        )
    first = finite_array(original, "the original pictures")
    second = finite_array(released, "the released pictures")
    if first.shape != second.shape:
        raise BadInput(
            f"original pictures have shape {first.shape} and released ones {second.shape}; both must agree."
        )
    if first.ndim not in (3, 4):
        raise BadInput(
            f"pictures have shape {first.shape}; expected (n, height, width) or (n, height, width, channels)."
        )
    return first, second
