"""How pictures changed: peak signal-to-noise ratio and structural similarity, one number a picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.paired_records import numbers

__all__ = ["psnr", "ssim"]

_CHUNK = 1 << 21  # values that are filtered at a time


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


def ssim(original: Any, released: Any, *, data_range: float, sigma: float = 1.5) -> NDArray[np.float64]:
    """Structural similarity (Wang, Bovik, Sheikh, Simoncelli 2004) for each picture; 1 where nothing changed.

    Shapes and ``data_range`` are those of :func:`psnr`; of colours, the mean over channels is taken. Local
    means and variances are weighted by a Gaussian of ``sigma`` pixels cut off at 3.5 sigma (11 × 11 pixels by
    default), K₁ = 0.01, K₂ = 0.03, and windows that reach over the edge are left out; smaller pictures than
    one window are refused.
    """
    from scipy.ndimage import gaussian_filter

    first, second = _pictures(original, released, data_range)
    radius = int(3.5 * sigma + 0.5) if sigma > 0.0 else 0
    if radius < 1:
        raise BadInput(f"`sigma` was {sigma}; a window needs at least 0.15 pixels.", parameter="sigma")
    height, width = first.shape[1:3]
    if min(height, width) < 2 * radius + 1:
        raise BadInput(
            f"pictures of {height} × {width} pixels are smaller than the window of {2 * radius + 1} × "
            f"{2 * radius + 1}; give a smaller sigma than {sigma:g}."
        )
    inner = (slice(None), slice(radius, height - radius), slice(radius, width - radius))

    def local(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(gaussian_filter(values, sigma, truncate=3.5, axes=(1, 2)))[inner]

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
    first, second = numbers(original, "original"), numbers(released, "released")
    if first.shape != second.shape:
        raise BadInput(
            f"original pictures have shape {first.shape} and released ones {second.shape}; both must agree."
        )
    if first.ndim not in (3, 4):
        raise BadInput(
            f"pictures have shape {first.shape}; expected (n, height, width) or (n, height, width, channels)."
        )
    return first, second
