"""Restoration of pixels from noisy block averages, with public statistics: post-processing, no privacy cost.

- ``"none"``: each pixel is the noisy average of its block.
- ``"smooth"``: straight lines between the centres of blocks.
- ``"wiener"``: the best linear estimate under the public spectrum: each DCT frequency of the averages is kept
  as far as its expected power stands above the noise, and pixels between are the best linear estimate too.
- ``"learned"``: the Wiener estimate with luma corrected by a small network trained on public photographs.

Where noise differs from place to place, the estimate solves (C⁻¹ + N⁻¹)·x = N⁻¹·z, in which z are the noisy
averages less the public mean, C is diagonal over DCT frequencies and N over places: by a matrix for few
blocks, by conjugate gradients for many.

Pictures are restored many at once, by one product of matrices for each picture: what becomes of a picture
does not depend on which others are restored with it, down to the last bit.

**Network.** A small convolutional network, in NumPy alone, corrects the Wiener estimate of luma. It sees the
noisy averages, the Wiener estimate, the logarithm of the deviation of the noise and its law, for each block,
and answers with a correction for each quarter of a block. Its weights were trained on public photographs by
``benchmarks/picture_training.py``, which lists them.

**Statistics of photographs**, known without looking at private ones. The power of a photograph falls with
spatial frequency f (cycles per pixel) as a power law: the mean square of an orthonormal DCT coefficient is
amplitude · f^−slope · (1 + lean·cos 4θ), where θ is the direction; values are in 255ths of white.
``benchmarks/picture_statistics.py`` computed these constants from 28 photographs of COCO val2017 that it
lists, chosen by a hash of their file names; results are measured on 37 others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Parameter
from sfumato.media.images.planes import UNITY, Blocks, plane_names

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
    """Return the matrix (size, ⌈size/block⌉) from block averages to pixels; sparse where it is large.

    ``kind`` is ``"flat"`` (each pixel the average of its block), ``"smooth"`` (straight lines between the
    centres of blocks) or ``"best"`` (the best linear estimate where power falls as 1/f², which keeps the
    averages). With ``halves``, averages are over halves of blocks, two a block. With ``pairs``, pixels are
    averaged two by two, as chroma of a JPEG is: (⌈size/2⌉, …). None where nothing is to be done.
    """
    if block == 1 and not halves and not pairs:
        return None
    count = -(-size // block)
    if size <= _DENSE or count <= 2 * _AROUND:
        matrix = _interpolation_dense(size, block, kind, halves)
        return (_pairs(size) @ matrix if pairs else matrix).astype(np.float32)
    from scipy import sparse

    around, inner, each = _AROUND, _AROUND // 2, 2 if halves else 1
    start = _interpolation_dense(around * block, block, kind, halves)
    end = _interpolation_dense(size - (count - around) * block, block, kind, halves)
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
    """Return ``matrix`` applied along the second axis of ``values`` (n, rows, columns)."""
    if matrix is None:
        return values
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.matmul(matrix, values))
    return np.stack([matrix @ one for one in values])


def across(matrix: Any, values: Single) -> Single:
    """Return ``matrix`` applied along the last axis of ``values`` (…, columns)."""
    if matrix is None:
        return values
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.matmul(values, matrix.T))
    made = (matrix @ values.reshape(-1, values.shape[-1]).T).T
    return np.ascontiguousarray(made).reshape(*values.shape[:-1], -1)


def _interpolation_dense(size: int, block: int, kind: str, halves: bool) -> Array:
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
    averages = shapes @ means.T
    # The ridge is for a last block of one pixel, of which two halves are the same average.
    square = averages.T @ averages
    square += 1e-9 * np.trace(square) / count * np.eye(count)
    return np.asarray(np.linalg.solve(square, averages.T @ shapes).T)


def _pairs(size: int) -> Array:
    """Return averages of pixels two by two; of an odd number, the last stands alone."""
    owner = np.arange(size) // 2
    return np.equal.outer(np.arange(-(-size // 2)), owner) / np.bincount(owner)[:, None]


_WEIGHTS = Path(__file__).with_name("learned.npz")
#: What 255ths of white are divided by before the network sees them.
SCALE = 64.0
# Values of one layer that are worked on at once; more would leave the cache.
_AT_ONCE = 1 << 20


def correction(noisy: Single, estimate: Single, deviation: Array, laplace: bool) -> Single:
    """Return what to add to an estimate of quarters of blocks, of shape (n, 2·rows, 2·columns).

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
    """Return deviation of the noise as the network sees it; beyond what it was trained on, the nearest."""
    return 0.5 * np.log(np.clip(deviation, 1.0, 300.0)) - 1.5


@lru_cache(maxsize=1)
def _layers() -> list[tuple[Single, Single]]:
    """Return weights (9 · inputs, outputs), neighbours from top left to bottom right, and offsets."""
    with np.load(_WEIGHTS) as stored:
        count = len(stored.files) // 2
        return [
            (stored[f"weights{i}"].astype(np.float32), stored[f"offsets{i}"].astype(np.float32))
            for i in range(count)
        ]


def _convolved(values: Single, weights: Single, offsets: Single) -> Single:
    """Return a 3 × 3 convolution of ``values`` (n, rows, columns, inputs); edges are repeated."""
    count, rows, columns, inputs = values.shape
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    out = np.empty((count, rows, columns, weights.shape[1]), dtype=np.float32)
    height = min(rows, max(1, _AT_ONCE // (9 * inputs * columns)))
    some = max(1, _AT_ONCE // (9 * inputs * columns * height))
    for first, top in product(range(0, count, some), range(0, rows, height)):
        which, bottom = slice(first, min(first + some, count)), min(top + height, rows)
        around = np.empty((which.stop - first, bottom - top, columns, 9, inputs), dtype=np.float32)
        for place in range(9):
            down, across = divmod(place, 3)
            around[:, :, :, place] = padded[which, top + down : bottom + down, across : across + columns]
        made = np.matmul(around.reshape(len(around), -1, 9 * inputs), weights)
        made += offsets
        out[which, top:bottom] = made.reshape(*around.shape[:3], -1)
    return out


# Below one cycle in so many pixels, the power law was not observed and is not continued.
_LONGEST = 1024.0


@dataclass(frozen=True)
class Spectrum:
    """The public model of one plane; ``mean`` and ``spread`` are those of the average of a picture."""

    mean: float
    spread: float
    amplitude: float
    slope: float
    lean: float

    def power(self, down: Array, across: Array) -> Array:
        """Return mean squares of DCT coefficients at frequencies ``down`` × ``across``, without the DC."""
        fy, fx = np.maximum(down, 0.0)[:, None], np.maximum(across, 0.0)[None, :]
        square = np.maximum(fy * fy + fx * fx, (0.5 / _LONGEST) ** 2)
        # cos 4θ = 1 − 8 sin²θ cos²θ.
        direction = 1.0 + self.lean * (1.0 - 8.0 * (fy * fx / square) ** 2)
        return np.asarray(self.amplitude * square ** (-0.5 * self.slope) * direction)

    def averaged(self, down: Bands, across: Bands) -> tuple[Array, Array]:
        """Return power of block averages times the side of a block, and covariance with what they stand for.

        Blocks alias: up to three bands of the picture fall on one frequency of averages.
        """
        power = np.zeros((down.index.size, across.index.size))
        for fy, gy in down.bands:
            for fx, gx in across.bands:
                power += self.power(fy, fx) * np.outer(gy * gy, gx * gx)
        covariance = self.power(down.frequency, across.frequency) * np.outer(down.gain, across.gain)
        if down.index[0] == 0 and across.index[0] == 0:
            power[0, 0] = covariance[0, 0] = self.still(down.size * across.size)
        return power, covariance

    def still(self, pixels: int) -> float:
        """Return mean square of the DC coefficient of pictures of so many pixels, less the public mean."""
        return self.spread**2 * pixels


class Bands:
    """DCT frequencies of ``count`` averages over blocks of ``side`` pixels: all, or those of ``index``."""

    def __init__(self, count: int, side: int, index: NDArray[np.int64] | None = None) -> None:
        self.index = np.arange(count) if index is None else index
        self.size, self._side = count * side, side
        folded = (self.index, 2 * count - self.index, 2 * count + self.index)[: min(side, 3)]
        self.bands = [self._band(one) for one in folded]
        self.frequency, self.gain = self.bands[0]

    def _band(self, index: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return frequencies in cycles per pixel, and what averaging leaves of them."""
        frequency = index / (2.0 * self.size)
        angle = np.pi * frequency
        with np.errstate(invalid="ignore"):
            gain = np.sin(angle * self._side) / (self._side * np.sin(angle))
        return frequency, np.where(index == 0, 1.0, gain)


#: One spectrum for each kind of plane.
STATISTICS = {
    "luma": Spectrum(116.1, 35.7, 14.1, 2.43, 0.34),
    "blue": Spectrum(-2.3, 10.4, 0.646, 2.40, 0.31),
    "red": Spectrum(3.0, 10.7, 0.762, 2.45, 0.23),
    # Few photographs have any: opaque on average, and varying as luma does.
    "alpha": Spectrum(255.0, 35.7, 14.1, 2.43, 0.34),
}


#: Names of what may be done to noisy averages.
RESTORES = ("none", "smooth", "wiener", "learned")
ChosenChroma = Annotated[
    float | None,
    Parameter("Share of the budget that both colour differences get; chosen by the size unless given."),
]
ChosenBlock = Annotated[
    int | None, Parameter("Side in pixels of what is averaged; chosen by the size unless given.", symbol="B")
]
RestoreName = Annotated[str, Parameter("What is made of noisy averages; costs no privacy.", choices=RESTORES)]

# Steps of conjugate gradients; few frequencies stand above the noise, and each step takes up some.
_STEPS = 24
# Up to so many blocks of uneven noise, a matrix is faster.
_FEW = 256
_TINY = np.float32(1e-30)
_EXPANSIONS = {"none": "flat", "smooth": "smooth", "wiener": "best", "learned": "best"}
# JPEG's own luma and differences of red, green and blue, without the offset of 128.
_JPEG = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])


@dataclass(frozen=True)
class Noise:
    """Noise on block averages: deviations where 255 is white, an array (rows, columns) a plane; its law."""

    deviations: list[Array]
    laplace: bool


def restored(means: list[Single], noise: Noise, blocks: Blocks, restore: str) -> Single:
    """Return pictures (n, h, w, channels) from noisy averages of planes (n, rows, columns); 255 is white."""
    height, width, channels = blocks.shape
    kind, halves = _EXPANSIONS[restore], restore == "learned"
    coarse = _estimated(means, noise, blocks, restore)
    weights = np.linalg.inv(blocks.weights / UNITY).astype(np.float32)
    wide = across(expansion(width, blocks.luma, kind, halves=halves), _mixed(weights, coarse))
    rows = np.ascontiguousarray(wide.transpose(0, 2, 3, 1)).reshape(*wide.shape[::2], width * channels)
    return down(expansion(height, blocks.luma, kind, halves=halves), rows).reshape(
        -1, height, width, channels
    )


def jpeg_planes(
    means: list[Single], noise: Noise, blocks: Blocks, restore: str
) -> tuple[Single, Single, Single]:
    """Return Y (n, h, w) and halved Cb and Cr (n, ⌈h/2⌉, ⌈w/2⌉) of a JPEG, around 0 to 255."""
    height, width, _ = blocks.shape
    kind, halves = _EXPANSIONS[restore], restore == "learned"
    coarse = _estimated(means, noise, blocks, restore)
    weights = (_JPEG @ np.linalg.inv(blocks.weights / UNITY)[:3]).astype(np.float32)
    mixed = _mixed(weights, coarse)
    luma, chroma = mixed[:, 0], mixed[:, 1:] + np.float32(128.0)
    high = expansion(height, blocks.luma, kind, halves=halves)
    wide = expansion(width, blocks.luma, kind, halves=halves)
    half_high = expansion(height, blocks.luma, kind, halves=halves, pairs=True)
    half_wide = expansion(width, blocks.luma, kind, halves=halves, pairs=True)
    both = chroma.reshape(-1, *chroma.shape[2:])
    halved = down(half_high, across(half_wide, both))
    return down(high, across(wide, luma)), halved[0::2], halved[1::2]


def _mixed(weights: Single, planes: Single) -> Single:
    """Return channels (n, channels, rows, columns) that ``weights`` (channels, planes) make of ``planes``."""
    flat = planes.reshape(*planes.shape[:2], -1)
    return np.asarray(np.matmul(weights, flat)).reshape(len(planes), -1, *planes.shape[2:])


def _estimated(means: list[Single], noise: Noise, blocks: Blocks, restore: str) -> Single:
    """Return all planes on the blocks of luma, or on halves of them, of shape (n, planes, rows, columns)."""
    names, kind = plane_names(blocks.shape[2]), _EXPANSIONS[restore]
    estimating, each = restore in ("wiener", "learned"), 2 if restore == "learned" else 1
    rows, columns = (each * count for count in blocks.grid(0))
    planes = []
    for plane, (name, noisy, deviation) in enumerate(zip(names, means, noise.deviations, strict=True)):
        side = blocks.side(plane)
        mean = np.float32(STATISTICS[name].mean if estimating else 0.0)
        centred = noisy - mean
        coarse = estimate = wiener(centred, deviation, name, side) if estimating else centred
        if (times := each * side // blocks.luma) > 1:
            estimate = down(expansion(rows, times, kind), across(expansion(columns, times, kind), estimate))
        if restore == "learned" and name == "luma":
            estimate = estimate + correction(centred, coarse, deviation, noise.laplace)
        planes.append(estimate + mean)
    return np.stack(planes, axis=1)


def wiener(centred: Single, deviation: Array, name: str, side: int) -> Single:
    """Return best linear estimate of averages (n, rows, columns) over blocks of ``side``; the mean is 0."""
    rows, columns = deviation.shape
    if deviation.max() == deviation.min():
        gain = _gain(name, rows, columns, side, float(deviation.min()))
        return _back(gain * _frequencies(centred))
    if rows * columns <= _FEW:
        matrix = _dense(name, rows, columns, side, deviation.tobytes())
        return np.asarray(np.matmul(centred.reshape(len(centred), 1, -1), matrix)).reshape(centred.shape)
    return _uneven(centred, deviation, _power(name, rows, columns, side))


@lru_cache(maxsize=32)
def _dense(name: str, rows: int, columns: int, side: int, deviation: bytes) -> Single:
    """Return (C + N)⁻¹·C, by which rows of averages are multiplied from the right."""
    noise = np.frombuffer(deviation, dtype=np.float64) ** 2
    waves = _back(np.eye(rows * columns, dtype=np.float32).reshape(-1, rows, columns))
    flat = waves.reshape(rows * columns, -1).astype(np.float64)
    prior = flat.T @ (_power(name, rows, columns, side).reshape(-1, 1) * flat)
    return np.linalg.solve(prior + np.diag(noise), prior).astype(np.float32)


def _uneven(values: Single, deviation: Array, power: Array) -> Single:
    """Solve (1 + C^½N⁻¹C^½)·u = C^½N⁻¹z by conjugate gradients, and return x = C^½u.

    They are preconditioned by what the matrix would be if all blocks had the mean precision: noise that
    differs at the border alone, or by a few shares, then takes a few steps.
    """
    precision: Single = (deviation**-2.0).astype(np.float32)
    root: Single = np.sqrt(power).astype(np.float32)
    easier: Single = (1.0 / (1.0 + power * float(precision.mean()))).astype(np.float32)
    residual = root * _frequencies(precision * values)
    solution, way = np.zeros_like(residual), easier * residual
    product = _products(residual, way)
    for _ in range(_STEPS):
        image = way + root * _frequencies(precision * _back(root * way))
        step = product / np.maximum(_products(way, image), _TINY)
        solution += step[:, None, None] * way
        residual -= step[:, None, None] * image
        eased = easier * residual
        before, product = product, _products(residual, eased)
        way = eased + (product / np.maximum(before, _TINY))[:, None, None] * way
    return _back(root * solution)


def _products(first: Single, second: Single) -> Single:
    return np.asarray(np.einsum("nij,nij->n", first, second))


@lru_cache(maxsize=64)
def _power(name: str, rows: int, columns: int, side: int) -> Array:
    """Return the expected power of block averages at each of their frequencies."""
    return STATISTICS[name].averaged(Bands(rows, side), Bands(columns, side))[0] / side**2


@lru_cache(maxsize=64)
def _gain(name: str, rows: int, columns: int, side: int, deviation: float) -> Single:
    power = _power(name, rows, columns, side)
    return (power / (power + deviation**2)).astype(np.float32)


def _frequencies(values: Single) -> Single:
    """Return the orthonormal DCT of ``values`` (n, rows, columns)."""
    tall, wide = _cosines(values.shape[1]), _cosines(values.shape[2])
    if tall is None or wide is None:
        from scipy.fft import dctn

        return np.asarray(dctn(values, axes=(1, 2), norm="ortho"))
    return np.asarray(np.matmul(tall, values @ wide.T))


def _back(coefficients: Single) -> Single:
    tall, wide = _cosines(coefficients.shape[1]), _cosines(coefficients.shape[2])
    if tall is None or wide is None:
        from scipy.fft import idctn

        return np.asarray(idctn(coefficients, axes=(1, 2), norm="ortho"))
    return np.asarray(np.matmul(tall.T, coefficients @ wide))


@lru_cache(maxsize=64)
def _cosines(count: int) -> Single | None:
    """Return the orthonormal DCT of ``count`` values as a matrix; None where the fast transform is faster."""
    if count > 160:
        return None
    matrix = np.cos(np.pi * np.outer(np.arange(count), np.arange(count) + 0.5) / count)
    matrix *= np.sqrt(2.0 / count)
    matrix[0] = np.sqrt(1.0 / count)
    return matrix.astype(np.float32)
