"""What a stretch of time can do to kept, scaled MDCT coefficients: certified over every placement.

Let A hold the kept rows of the transform, row (t, k) divided by the noise scale s_k. A change of the samples
of a set S, each by at most R, moves the output by at most

    L2:  R·min(√|S|·σ_max(A_S), Σ_{i∈S} ‖a_i‖₂),    L1:  R·min(Σ_{i∈S} ‖a_i‖₁, √(|S|·Σ_rows 1/s²)),

where the last term is Cauchy–Schwarz over the rows that S touches. Sample i enters at most two blocks, with
the rotation's sine and cosine, so the norms of a_i are computed exactly from those of one block; they repeat
from block to block but for the edges, and the sums over every placement are sliding sums. The transform is
orthonormal, so σ_max(A_S) ≤ 1/min s_k, with equality for a flat, full band: there the L2 bound R·√|S|/s is
attained. Where blocks are short, σ_max is computed for stretches that cover every placement.

Coefficients are rounded to the nearest multiple of a step, so two roundings differ by one step more than what
they are roundings of: step·Σ 1/s_k over touched rows (L1), step·√(Σ 1/s_k²) (L2).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from sfumato.errors import BadInput
from sfumato.media.audio.mdct import Lapped

__all__ = ["Norm", "rounding_share", "window_sensitivity"]

Array = NDArray[np.float64]
Norm = Literal["l1", "l2"]

# Rounding of the norms, of the transform and of the scales, all in double precision.
_SLACK = 1.0 + 1e-9
# The largest singular value is computed where the matrix has at most so many columns.
_COLUMNS = 320
# Placements that differ by less than a block's eighth are covered by one longer stretch.
_PARTS = 8


def window_sensitivity(
    transform: Lapped, scales: tuple[float, ...], window: int, samples: int, norm: Norm
) -> float:
    """A bound on how far ``window`` samples of a clip of ``samples``, each moved by up to 1, move the output.

    The output is coefficient k of every block over ``scales[k]``, for k below the length of ``scales``.
    ``norm`` is that in which the output moves. All placements of the window are covered, the edges included.
    """
    _check(transform, scales, window, samples)
    return _sensitivity(transform, scales, min(window, samples), samples, norm)


@lru_cache(maxsize=512)
def _sensitivity(
    transform: Lapped, scales: tuple[float, ...], window: int, samples: int, norm: Norm
) -> float:
    weights = 1.0 / np.asarray(scales)
    apart = _largest_sum(_column_norms(transform, scales, norm), transform, window, samples)
    rows = min(transform.touched(window), transform.blocks(samples))
    top = float(weights.max())
    if norm == "l1":
        # ‖u‖₁ ≤ √(Σw²)·‖T_S v‖ by Cauchy–Schwarz, and ‖T_S v‖ ≤ √|S|.
        joint = math.sqrt(window) * math.sqrt(rows * float(np.sum(weights**2)))
        return min(apart, joint) * _SLACK
    together = math.sqrt(window) * min(top, _largest_singular(transform, scales, window, samples))
    return min(apart, together) * _SLACK


def rounding_share(
    transform: Lapped, scales: tuple[float, ...], window: int, samples: int, norm: Norm
) -> float:
    """What a step of 1 of the grid adds to :func:`window_sensitivity`."""
    _check(transform, scales, window, samples)
    weights = 1.0 / np.asarray(scales)
    rows = min(transform.touched(min(window, samples)), transform.blocks(samples))
    if norm == "l1":
        return rows * float(weights.sum()) * _SLACK
    return math.sqrt(rows * float(np.sum(weights**2))) * _SLACK


def _column_norms(transform: Lapped, scales: tuple[float, ...], norm: Norm) -> tuple[Array, Array]:
    """Norms of the columns a_i of one block, (hop,): between two boundaries, and with none on either side."""
    alone = _block_norms(transform.hop, scales, norm)
    inner = alone.copy()
    lap = transform.lap
    if lap:
        sine, cosine = _rotation(transform)
        left, right = alone[:lap], alone[::-1][:lap]  # counted from the boundary outwards
        # What a boundary mixes lies in two blocks, whose rows are apart.
        if norm == "l1":
            inner[:lap], inner[::-1][:lap] = sine * left + cosine * right, sine * right + cosine * left
        else:
            inner[:lap] = np.hypot(sine * left, cosine * right)
            inner[::-1][:lap] = np.hypot(sine * right, cosine * left)
    return inner, alone


@lru_cache(maxsize=64)
def _block_norms(hop: int, scales: tuple[float, ...], norm: Norm) -> Array:
    """Norms over the kept rows of one DCT-IV block, for each of its ``hop`` samples."""
    total = np.zeros(hop)
    for first in range(0, len(scales), 256):  # by rows, so that a block of any length fits in memory
        some = np.asarray(scales[first : first + 256])
        rows = np.zeros((some.size, hop))
        rows[np.arange(some.size), first + np.arange(some.size)] = 1.0 / some
        part = np.abs(dct(rows, type=4, axis=1, norm="ortho"))
        total += part.sum(axis=0) if norm == "l1" else np.square(part).sum(axis=0)
    return total if norm == "l1" else np.sqrt(total)


def _rotation(transform: Lapped) -> tuple[Array, Array]:
    """Sine and cosine at each sample beside a boundary, outwards, read off the transform itself."""
    signal = np.zeros((transform.lap, 2 * transform.hop))
    signal[np.arange(transform.lap), transform.hop + np.arange(transform.lap)] = 1.0
    energy = np.square(transform.forward(signal)).sum(axis=2)
    return np.sqrt(energy[:, 1]), np.sqrt(energy[:, 0])


def _largest_sum(norms: tuple[Array, Array], transform: Lapped, window: int, samples: int) -> float:
    """The largest sum of ``window`` consecutive column norms anywhere in a clip of ``samples`` samples."""
    inner, alone = norms
    hop, blocks = transform.hop, transform.blocks(samples)
    missing = blocks * hop - samples  # of the last block, which silence fills up
    # Whole inner blocks in the middle of a long window add the same wherever it stands.
    whole = max(0, min(window // hop - 2, blocks - 4))
    window, blocks = window - whole * hop, blocks - whole
    shown = min(blocks, window // hop + 4)
    cut = np.tile(inner, (shown, 1))
    half = hop // 2  # a lap is at most half a block, so each half feels one boundary only
    cut[0, :half], cut[-1, half:] = alone[:half], alone[half:]
    return whole * float(inner.sum()) + _slide(cut.ravel()[: cut.size - missing], window)


def _slide(values: Array, count: int) -> float:
    """The largest sum of ``count`` consecutive values."""
    if count <= 0:
        return 0.0
    running = np.concatenate([[0.0], np.cumsum(values)])
    return float((running[count:] - running[:-count]).max())


def _largest_singular(transform: Lapped, scales: tuple[float, ...], window: int, samples: int) -> float:
    """A bound on σ_max(A_S) over every stretch S of ``window`` samples; infinite where it is not computed."""
    step = max(1, transform.hop // _PARTS)
    length = window + step - 1
    if len(set(scales)) == 1 or length > _COLUMNS or transform.hop > _COLUMNS:
        return math.inf  # the bound by orthonormality is as good, or the only one
    # Four blocks more than the stretch have both edges and, between them, every inner placement.
    blocks = min(transform.blocks(samples), 4 + -(-length // transform.hop))
    return _singular(transform, scales, length, step, blocks)


@lru_cache(maxsize=64)
def _singular(transform: Lapped, scales: tuple[float, ...], length: int, step: int, blocks: int) -> float:
    """The largest singular value over stretches of ``length`` samples that start at multiples of ``step``."""
    total = blocks * transform.hop
    last = max(total - length, 0)
    weights = 1.0 / np.asarray(scales)
    largest = 0.0
    for start in sorted({*range(0, last + 1, step), last}):
        signal = np.zeros((min(length, total), total))
        signal[np.arange(len(signal)), start + np.arange(len(signal))] = 1.0
        rows = transform.forward(signal)[..., : weights.size] * weights
        matrix = rows.reshape(len(signal), -1)
        largest = max(largest, float(np.linalg.eigvalsh(matrix @ matrix.T)[-1]))
    return math.sqrt(largest)


def _check(transform: Lapped, scales: tuple[float, ...], window: int, samples: int) -> None:
    if not 1 <= len(scales) <= transform.hop or not all(0.0 < scale < math.inf for scale in scales):
        raise BadInput(f"a block of {transform.hop} samples has 1 to {transform.hop} positive noise scales.")
    if window < 1 or samples < 1:
        raise BadInput(f"a window of {window} samples in a clip of {samples} was given: 1 or more of each.")
