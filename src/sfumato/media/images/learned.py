"""A small convolutional network that corrects the Wiener estimate of luma, in NumPy alone.

It sees the noisy averages, the Wiener estimate, the logarithm of the deviation of the noise and its law, for
each block, and answers with a correction for each quarter of a block. Its weights were trained on public
photographs by ``benchmarks/picture_training.py``, which lists them; it is applied to what is already
released, so it costs no privacy.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["correction"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_WEIGHTS = Path(__file__).with_name("learned.npz")
#: What 255ths of white are divided by before the network sees them.
SCALE = 64.0
# Values of one layer that are worked on at once; more would leave the cache.
_AT_ONCE = 1 << 20


def correction(noisy: Single, estimate: Single, deviation: Array, laplace: bool) -> Single:
    """What to add to an estimate of quarters of blocks, of shape (n, 2·rows, 2·columns).

    ``noisy`` and ``estimate`` are averages (n, rows, columns) less the public mean, where 255 is white, and
    ``deviation`` (rows, columns) is that of the noise.
    """
    values = np.empty((*noisy.shape, 4), dtype=np.float32)
    values[..., 0] = noisy * np.float32(1.0 / SCALE)
    values[..., 1] = estimate * np.float32(1.0 / SCALE)
    values[..., 2] = seen_deviation(deviation)
    values[..., 3] = 1.0 if laplace else 0.0
    first, *middle, last = _layers()
    values = np.maximum(_convolved(values, *first), 0.0)
    for layer in middle:
        values += np.maximum(_convolved(values, *layer), 0.0)
    quarters = _convolved(values, *last) * np.float32(SCALE)
    count, rows, columns, _ = quarters.shape
    parted = quarters.reshape(count, rows, columns, 2, 2).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(parted).reshape(count, 2 * rows, 2 * columns)


def seen_deviation(deviation: Array) -> Array:
    """The deviation of the noise as the network sees it; beyond what it was trained on, the nearest."""
    return 0.5 * np.log(np.clip(deviation, 1.0, 300.0)) - 1.5


@lru_cache(maxsize=1)
def _layers() -> list[tuple[Single, Single]]:
    """Weights (9 · inputs, outputs), neighbours from top left to bottom right, and offsets of each layer."""
    with np.load(_WEIGHTS) as stored:
        count = len(stored.files) // 2
        return [
            (stored[f"weights{i}"].astype(np.float32), stored[f"offsets{i}"].astype(np.float32))
            for i in range(count)
        ]


def _convolved(values: Single, weights: Single, offsets: Single) -> Single:
    """A 3 × 3 convolution of ``values`` (n, rows, columns, inputs); the edge is repeated beyond itself."""
    count, rows, columns, inputs = values.shape
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    out = np.empty((count, rows, columns, weights.shape[1]), dtype=np.float32)
    height = max(1, _AT_ONCE // (9 * inputs * columns * count))
    for top in range(0, rows, height):
        bottom = min(top + height, rows)
        around = np.empty((count, bottom - top, columns, 9, inputs), dtype=np.float32)
        for place in range(9):
            down, across = divmod(place, 3)
            around[:, :, :, place] = padded[:, top + down : bottom + down, across : across + columns]
        made = around.reshape(-1, 9 * inputs) @ weights
        made += offsets
        out[:, top:bottom] = made.reshape(count, bottom - top, columns, -1)
    return out
