"""A public embedding of tiles that needs no trained network: colours, directions of edges, and coarse form.

Each tile is embedded from its own pixels alone, so that scores of embeddings may stand in a private map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.image_mechanism import white

__all__ = ["DIMENSIONS", "tile_embedding"]

_BINS, _DIRECTIONS, _WAVES = 6, 8, 6
_LUMA = np.array([0.299, 0.587, 0.114])
_BLUE = np.array([-0.169, -0.331, 0.5])
_RED = np.array([0.5, -0.419, -0.081])

#: Length of an embedding: histograms of three planes, of edge directions, moments, and cosine coefficients.
DIMENSIONS = 3 * _BINS + _DIRECTIONS + 6 + _WAVES * _WAVES


def tile_embedding(tiles: NDArray[Any]) -> NDArray[np.float64]:
    """Embeddings (n, :data:`DIMENSIONS`) of ``tiles`` (n, h, w, c); grey tiles have no colour."""
    from scipy.fft import dctn

    values = tiles[..., :3].astype(np.float64) / white(tiles.dtype)
    colour = values if values.shape[-1] == 3 else np.repeat(values[..., :1], 3, axis=-1)
    luma, blue, red = colour @ _LUMA, colour @ _BLUE, colour @ _RED
    down, across = np.gradient(luma, axis=1), np.gradient(luma, axis=2)
    strength = np.hypot(down, across)
    turn = ((np.arctan2(down, across) / np.pi) % 1.0 * _DIRECTIONS).astype(np.intp) % _DIRECTIONS
    # A quarter of white in chroma is already vivid.
    parts = [
        _histogram(luma, 0.0, 1.0, _BINS),
        _histogram(blue, -0.25, 0.25, _BINS),
        _histogram(red, -0.25, 0.25, _BINS),
        _binned(turn, strength, _DIRECTIONS),
        np.stack([each.mean(axis=(1, 2)) for each in (luma, blue, red)], axis=1),
        np.stack([each.std(axis=(1, 2)) for each in (luma, blue, red)], axis=1),
        _waves(dctn(luma, axes=(1, 2), norm="forward")),
    ]
    return np.concatenate(parts, axis=1)


def _histogram(values: NDArray[np.float64], low: float, high: float, bins: int) -> NDArray[np.float64]:
    places = np.clip(((values - low) / (high - low) * bins).astype(np.intp), 0, bins - 1)
    return _binned(places, np.ones_like(values), bins)


def _binned(places: NDArray[np.intp], weights: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """The mean over each tile of the weights that fall into each bin: (n, bins)."""
    count, size = len(places), places[0].size
    flat = places.reshape(count, -1) + bins * np.arange(count)[:, None]
    sums = np.bincount(flat.ravel(), weights.ravel(), minlength=bins * count)
    return np.asarray(sums.reshape(count, bins) / size)


def _waves(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sizes of the lowest coefficients, square-rooted, so that strong ones do not drown the others."""
    low = coefficients[:, :_WAVES, :_WAVES]
    kept = np.zeros((len(low), _WAVES, _WAVES))
    kept[:, : low.shape[1], : low.shape[2]] = np.sqrt(np.abs(low))
    return kept.reshape(len(low), -1)
