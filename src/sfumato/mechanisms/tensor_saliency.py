"""Weights read off a tensor itself: its grey values, and where a picture stands out from its own spectrum.

Such weights depend on private data. A mechanism that uses them has to pay for it, or prove nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["grey_weights", "saliency_weights"]

Array = NDArray[np.float64]

# Spectral residual: width of the average of the log spectrum, and of the smoothing of the map, in pixels.
_AVERAGE, _SMOOTH = 3, 2.5
# What counts as no amplitude at all, as a share of the mean one.
_FLOOR = 0.01


def grey_weights(rows: Array, shape: tuple[int, ...]) -> Array:
    """The values themselves, which lie in [0, 1], as weights; ``rows`` is (n, d)."""
    return rows


def saliency_weights(rows: Array, shape: tuple[int, ...]) -> Array:
    """The spectral residual of each picture (Hou & Zhang 2007), scaled to [0, 1]; (n, d) like ``rows``.

    ``shape`` is that of one picture: the first two modes are its sides, further modes share the map of
    their mean. A tensor of order one has no neighbours on a plane and is taken as a picture of one row. In a
    picture of one colour nothing stands out.
    """
    from scipy.ndimage import gaussian_filter, uniform_filter

    sides = shape[:2] if len(shape) > 1 else (1, shape[0])
    pictures = rows.reshape(len(rows), *sides, -1).mean(axis=-1)
    spectrum = np.fft.fft2(pictures)
    size = np.abs(spectrum)
    # Frequencies that a picture does not have at all would drown those it has.
    log = np.log(size + _FLOOR * size.mean(axis=(1, 2), keepdims=True) + 1e-300)
    residual = log - uniform_filter(log, size=(1, _AVERAGE, _AVERAGE), mode="wrap")
    energy = np.abs(np.fft.ifft2(np.exp(residual + 1j * np.angle(spectrum)))) ** 2
    smooth = gaussian_filter(energy, sigma=(0.0, _SMOOTH, _SMOOTH), mode="nearest")
    low, high = smooth.min(axis=(1, 2), keepdims=True), smooth.max(axis=(1, 2), keepdims=True)
    maps = (smooth - low) / np.where(high > low, high - low, 1.0)
    maps[pictures.max(axis=(1, 2)) == pictures.min(axis=(1, 2))] = 0.0
    whole = np.broadcast_to(maps[..., None], (*maps.shape, rows[0].size // (sides[0] * sides[1])))
    return np.ascontiguousarray(whole).reshape(len(rows), -1)
