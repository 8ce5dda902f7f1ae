"""The modified discrete cosine transform by blocks, as an orthogonal map, and its sensitivity.

The signal is cut into blocks of N samples. At each inner boundary the h samples on either side are mixed by
plane rotations, then each block is transformed by an orthonormal DCT-IV. Rotations and DCT-IV are orthogonal,
so the whole is: sums of squares are kept, and the inverse is the transpose. It is the MDCT of Princen &
Bradley (1986), time-domain aliasing cancellation included, with a sine window that rises over 2h samples; h =
N/2 is full overlap. The two ends of a signal have no boundary, so n samples give ⌈n/N⌉ blocks and no more.

Coefficient k of block t depends on the samples from tN − h up to (t+1)N + h alone, which is what a bound on
the effect of a short stretch of time rests on.

**Sensitivity.** Let A hold the kept rows of the transform, row (t, k) divided by the noise scale s_k. A
change of the samples of a set S, each by at most R, moves the output by at most

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
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Lapped:
    """An MDCT of ``hop`` samples a block whose neighbours overlap by ``lap`` samples on either side.

    ``lap`` is at most ``hop``/2; 0 is a DCT-IV block by block.
    """

    hop: int
    lap: int

    def blocks(self, samples: int) -> int:
        """Return how many blocks a signal of ``samples`` samples has."""
        return -(-samples // self.hop)

    def touched(self, samples: int) -> int:
        """Return largest number of blocks that a stretch of ``samples`` samples anywhere has a part in."""
        return (samples + self.hop + 2 * self.lap - 2) // self.hop + 1 if samples else 0

    def forward(self, signal: Array) -> Array:
        """Return coefficients (…, blocks, hop) of signals (…, n); the last block is filled up with zeros."""
        samples = signal.shape[-1]
        blocks = self.blocks(samples)
        padded = np.zeros((*signal.shape[:-1], blocks * self.hop))
        padded[..., :samples] = signal
        cut = padded.reshape(*signal.shape[:-1], blocks, self.hop)
        _rotate(cut, self.lap, 1.0)
        return np.asarray(dct(cut, type=4, axis=-1, norm="ortho", overwrite_x=True))


def _rotate(cut: Array, lap: int, sign: float) -> None:
    """Mix, in place, the last ``lap`` samples of each block with the first of the next; −1 turns back."""
    if lap == 0 or cut.shape[-2] < 2:
        return
    _turn(cut[..., :-1, :][..., -lap:][..., ::-1], cut[..., 1:, :][..., :lap], sign)


def _turn(left: Array, right: Array, sign: float) -> None:
    """Rotate the pairs (left_j, right_j), both views counted from the boundary outwards, in place."""
    sine, cosine = _angles(left.shape[-1])
    mixed = sine * left - sign * cosine * right
    right *= sine
    right += sign * cosine * left
    left[...] = mixed


@lru_cache(maxsize=64)
def _angles(lap: int) -> tuple[Array, Array]:
    """Return the window on the near and far side of a boundary, from it outwards; s² + c² = 1."""
    angle = (np.arange(lap) + lap + 0.5) * (np.pi / (4.0 * lap))
    return np.sin(angle), np.cos(angle)


class Analysis:
    """The coefficients of one signal of any length, given and taken piece by piece.

    Memory holds one block beyond what was given. The pieces together are exactly ``forward`` of the whole.
    """

    def __init__(self, transform: Lapped, channels: int = 1) -> None:
        self.transform = transform
        # The last complete block waits for its right neighbour; then come samples that fill no block yet.
        self._waiting = np.zeros((channels, 0))

    def feed(self, samples: Array) -> Array:
        """Return the coefficients (channels, blocks, hop) that ``samples`` (channels, k) complete."""
        self._waiting = np.concatenate([self._waiting, samples], axis=1)
        # A block is complete once its right neighbour has brought the samples it is mixed with.
        ready = (self._waiting.shape[1] - max(self.transform.lap, 1)) // self.transform.hop
        return self._take(max(ready, 0), last=False)

    def finish(self) -> Array:
        """Return the coefficients of what is left, the last block filled up with zeros."""
        hop, left = self.transform.hop, self._waiting.shape[1]
        fill = self.transform.blocks(left) * hop - left
        self._waiting = np.pad(self._waiting, ((0, 0), (0, fill)))
        return self._take(self._waiting.shape[1] // hop, last=True)

    def _take(self, count: int, *, last: bool) -> Array:
        hop, lap = self.transform.hop, self.transform.lap
        channels = self._waiting.shape[0]
        if count == 0:
            return np.zeros((channels, 0, hop))
        cut = self._waiting[:, : count * hop].reshape(channels, count, hop)
        self._waiting = self._waiting[:, count * hop :].copy()
        _rotate(cut, lap, 1.0)
        if lap and not last:
            _turn(cut[:, -1, -lap:][:, ::-1], self._waiting[:, :lap], 1.0)
        return np.asarray(dct(cut, type=4, axis=-1, norm="ortho"))


class Synthesis:
    """The signal of coefficients that come piece by piece; the inverse of :class:`Analysis`.

    Memory holds one block beyond what was given.
    """

    def __init__(self, transform: Lapped, channels: int = 1) -> None:
        self.transform = transform
        self._waiting = np.zeros((channels, 0))

    def feed(self, coefficients: Array) -> Array:
        """Return samples (channels, k) that ``coefficients`` (channels, blocks, hop) settle; perhaps none."""
        channels, count, hop = coefficients.shape
        lap = self.transform.lap
        if count == 0:
            return np.zeros((channels, 0))
        fresh = np.asarray(dct(coefficients, type=4, axis=-1, norm="ortho"))
        _rotate(fresh, lap, -1.0)
        if lap and self._waiting.shape[1]:
            _turn(self._waiting[:, ::-1], fresh[:, 0, :lap], -1.0)
        joined = np.concatenate([self._waiting, fresh.reshape(channels, count * hop)], axis=1)
        settled = joined.shape[1] - lap
        self._waiting = joined[:, settled:].copy()
        return np.ascontiguousarray(joined[:, :settled])

    def finish(self) -> Array:
        """Return the samples that were still waiting for a right neighbour."""
        left, self._waiting = self._waiting, self._waiting[:, :0]
        return left


Norm = Literal["l1", "l2"]

# Rounding of the norms, of the transform and of the scales, all in double precision.
_SLACK = 1.0 + 1e-9
# The largest singular value is computed where the matrix has at most so many columns.
_COLUMNS = 320
# Placements that differ by less than a block's eighth are covered by one longer stretch.
_PARTS = 8


@lru_cache(maxsize=512)
def window_sensitivity(
    transform: Lapped, scales: tuple[float, ...], window: int, samples: int, norm: Norm
) -> float:
    """Bound how far ``window`` samples of a clip of ``samples``, each moved by up to 1, move the output.

    The output is coefficient k of every block over ``scales[k]``, for k below the length of ``scales``.
    ``norm`` is that in which the output moves. All placements of the window are covered, the edges included.
    """
    window = min(window, samples)
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
    """Return what a step of 1 of the grid adds to :func:`window_sensitivity`."""
    weights = 1.0 / np.asarray(scales)
    rows = min(transform.touched(min(window, samples)), transform.blocks(samples))
    if norm == "l1":
        return rows * float(weights.sum()) * _SLACK
    return math.sqrt(rows * float(np.sum(weights**2))) * _SLACK


def _column_norms(transform: Lapped, scales: tuple[float, ...], norm: Norm) -> tuple[Array, Array]:
    """Return norms (hop,) of the columns a_i of one block: between two boundaries, and with none."""
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
    """Return norms over the kept rows of one DCT-IV block, for each of its ``hop`` samples."""
    total = np.zeros(hop)
    for first in range(0, len(scales), 256):  # by rows, so that a block of any length fits in memory
        some = np.asarray(scales[first : first + 256])
        rows = np.zeros((some.size, hop))
        rows[np.arange(some.size), first + np.arange(some.size)] = 1.0 / some
        part = np.abs(dct(rows, type=4, axis=1, norm="ortho"))
        total += part.sum(axis=0) if norm == "l1" else np.square(part).sum(axis=0)
    return total if norm == "l1" else np.sqrt(total)


def _rotation(transform: Lapped) -> tuple[Array, Array]:
    """Return sine and cosine at each sample beside a boundary, outwards, read off the transform itself."""
    signal = np.zeros((transform.lap, 2 * transform.hop))
    signal[np.arange(transform.lap), transform.hop + np.arange(transform.lap)] = 1.0
    energy = np.square(transform.forward(signal)).sum(axis=2)
    return np.sqrt(energy[:, 1]), np.sqrt(energy[:, 0])


def _largest_sum(norms: tuple[Array, Array], transform: Lapped, window: int, samples: int) -> float:
    """Return largest sum of ``window`` consecutive column norms anywhere in a clip of ``samples`` samples."""
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
    """Return the largest sum of ``count`` consecutive values."""
    if count <= 0:
        return 0.0
    running = np.concatenate([[0.0], np.cumsum(values)])
    return float((running[count:] - running[:-count]).max())


def _largest_singular(transform: Lapped, scales: tuple[float, ...], window: int, samples: int) -> float:
    """Return a bound on σ_max(A_S) over every stretch S of ``window`` samples; infinite if not computed."""
    step = max(1, transform.hop // _PARTS)
    length = window + step - 1
    if len(set(scales)) == 1 or length > _COLUMNS or transform.hop > _COLUMNS:
        return math.inf  # the bound by orthonormality is as good, or the only one
    # Four blocks more than the stretch have both edges and, between them, every inner placement.
    blocks = min(transform.blocks(samples), 4 + -(-length // transform.hop))
    return _singular(transform, scales, length, step, blocks)


@lru_cache(maxsize=64)
def _singular(transform: Lapped, scales: tuple[float, ...], length: int, step: int, blocks: int) -> float:
    """Return the largest singular value over stretches of ``length`` samples at multiples of ``step``."""
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
