"""From averages over blocks back to pixels, along one axis at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["across", "down", "expansion"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

# Up to so many pixels a dense matrix is faster than a sparse one.
_DENSE = 512
# A pixel far from both ends is estimated from so many blocks around it; those beyond weigh less than 1e-4.
_AROUND = 17
# Frequencies are damped below one cycle in so many blocks, so that the average is estimated as it is.
_LEVEL = 1e-3
# Frequencies taken for each block; those beyond have 1/f² of the power of a few thousandths.
_WAVES = 12


@lru_cache(maxsize=64)
def expansion(size: int, block: int, kind: str, *, halves: bool = False, pairs: bool = False) -> Any:
    """The matrix (size, ⌈size/block⌉) from block averages to pixels; sparse where it is large.

    ``kind`` is ``"flat"`` (each pixel the average of its block), ``"smooth"`` (straight lines between the
    centres of blocks) or ``"best"`` (the best linear estimate where power falls as 1/f², which keeps the
    averages). With ``halves``, averages are over halves of blocks, two a block. With ``pairs``, pixels are
    averaged two by two, as chroma of a JPEG is: (⌈size/2⌉, …). None where nothing is to be done.
    """
    if block == 1 and not halves and not pairs:
        return None
    count = -(-size // block)
    if size <= _DENSE or count <= 2 * _AROUND:
        matrix = _dense(size, block, kind, halves)
        return (_pairs(size) @ matrix if pairs else matrix).astype(np.float32)
    from scipy import sparse

    around, inner, each = _AROUND, _AROUND // 2, 2 if halves else 1
    start = _dense(around * block, block, kind, halves)
    end = _dense(size - (count - around) * block, block, kind, halves)
    rows, columns, values = [], [], []
    for owner in range(count):
        first = min(max(owner - inner, 0), count - around)
        source = end if owner >= count - around + inner else start
        low, high = owner * block, min((owner + 1) * block, size)
        rows.append(np.repeat(np.arange(low, high), each * around))
        columns.append(np.tile(np.arange(each * first, each * (first + around)), high - low))
        values.append(source[low - first * block : high - first * block].ravel())
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = sparse.csr_array(entries, shape=(size, each * count))
    return (sparse.csr_array(_pairs(size)) @ matrix if pairs else matrix).astype(np.float32)


def down(matrix: Any, values: Single) -> Single:
    """``matrix`` applied along the second axis of ``values`` (n, rows, columns)."""
    if matrix is None:
        return values
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.matmul(matrix, values))
    return np.stack([matrix @ one for one in values])


def across(matrix: Any, values: Single) -> Single:
    """``matrix`` applied along the last axis of ``values`` (…, columns)."""
    if matrix is None:
        return values
    flat = values.reshape(-1, values.shape[-1])
    made = flat @ matrix.T if isinstance(matrix, np.ndarray) else (matrix @ flat.T).T
    return np.ascontiguousarray(made).reshape(*values.shape[:-1], -1)


def _dense(size: int, block: int, kind: str, halves: bool) -> Array:
    ends = np.append(np.arange(0, size, block), size).astype(np.float64)
    if halves:
        ends = np.sort(np.concatenate([ends, (ends[:-1] + ends[1:]) / 2.0]))
    count, pixels = len(ends) - 1, np.arange(size)
    if kind == "smooth" and count > 1:
        centres = (ends[:-1] + ends[1:] - 1.0) / 2.0
        return np.stack([np.interp(pixels, centres, unit) for unit in np.eye(count)], axis=1)
    # How much of each pixel lies in each block.
    inside = np.minimum(pixels + 1.0, ends[1:, None]) - np.maximum(pixels, ends[:-1, None])
    inside = np.maximum(inside, 0.0)
    if kind == "flat" or ends[1] < 1.0 or count == 1:  # of halves of single pixels, the average is taken
        return np.asarray(inside.T)
    means = inside / np.diff(ends)[:, None]
    waves = np.arange(min(size, _WAVES * count))
    shapes = np.cos(np.pi * np.outer(waves, pixels + 0.5) / size) / np.maximum(waves, _LEVEL * count)[:, None]
    shapes[1:] *= np.sqrt(2.0)
    seen = shapes @ means.T
    # The ridge is for a last block of one pixel, of which two halves are the same average.
    square = seen.T @ seen
    square += 1e-9 * np.trace(square) / count * np.eye(count)
    return np.asarray(np.linalg.solve(square, seen.T @ shapes).T)


def _pairs(size: int) -> Array:
    """Averages of pixels two by two; of an odd number, the last stands alone."""
    owner = np.arange(size) // 2
    return np.equal.outer(np.arange(-(-size // 2)), owner) / np.bincount(owner)[:, None]
