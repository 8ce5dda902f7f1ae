"""From noisy block averages to pixels: post-processing with public statistics, which costs no privacy.

- ``"none"``: each pixel is the noisy average of its block.
- ``"smooth"``: straight lines between the centres of blocks.
- ``"wiener"``: the best linear estimate under the public spectrum: each DCT frequency of the averages is kept
  as far as its expected power stands above the noise, and pixels between are the best linear estimate too.
- ``"learned"``: the Wiener estimate with luma corrected by a small network trained on public photographs.

Where noise differs from place to place, the estimate solves (C⁻¹ + N⁻¹)·x = N⁻¹·z, in which z are the noisy
averages less the public mean, C is diagonal over DCT frequencies and N over places: by a matrix for few
blocks, by conjugate gradients for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.image_statistics import STATISTICS, Bands
from sfumato.media.images.interpolation import across, down, expansion
from sfumato.media.images.learned import correction
from sfumato.media.images.planes import UNITY, Blocks, plane_names

__all__ = ["RESTORES", "Noise", "jpeg_planes", "restored", "wiener"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

#: Names of what may be done to noisy averages.
RESTORES = ("none", "smooth", "wiener", "learned")

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
    """Pictures (n, h, w, channels) from noisy averages of each plane (n, rows, columns); 255 is white."""
    height, width, channels = blocks.shape
    kind, halves = _EXPANSIONS[restore], restore == "learned"
    coarse = _estimated(means, noise, blocks, restore)
    weights = np.linalg.inv(blocks.weights / UNITY).astype(np.float32)
    mixed = np.tensordot(weights, coarse, axes=(1, 0))
    wide = across(expansion(width, blocks.luma, kind, halves=halves), mixed)
    rows = np.ascontiguousarray(wide.transpose(1, 2, 3, 0)).reshape(*coarse.shape[1:3], width * channels)
    return down(expansion(height, blocks.luma, kind, halves=halves), rows).reshape(
        -1, height, width, channels
    )


def jpeg_planes(
    means: list[Single], noise: Noise, blocks: Blocks, restore: str
) -> tuple[Single, Single, Single]:
    """Y, Cb and Cr of a JPEG with halved chroma, around 0 to 255; (n, h, w) and twice (n, ⌈h/2⌉, ⌈w/2⌉)."""
    height, width, _ = blocks.shape
    kind, halves = _EXPANSIONS[restore], restore == "learned"
    coarse = _estimated(means, noise, blocks, restore)
    weights = (_JPEG @ np.linalg.inv(blocks.weights / UNITY)[:3]).astype(np.float32)
    luma, blue, red = np.tensordot(weights, coarse, axes=(1, 0))
    chroma = np.stack([blue, red]) + np.float32(128.0)
    count = len(luma)
    chroma = down(
        expansion(height, blocks.luma, kind, halves=halves, pairs=True),
        across(expansion(width, blocks.luma, kind, halves=halves, pairs=True), chroma).reshape(
            2 * count, luma.shape[1], -1
        ),
    )
    return (
        down(
            expansion(height, blocks.luma, kind, halves=halves),
            across(expansion(width, blocks.luma, kind, halves=halves), luma),
        ),
        chroma[:count],
        chroma[count:],
    )


def _estimated(means: list[Single], noise: Noise, blocks: Blocks, restore: str) -> Single:
    """All planes on the blocks of luma, or on halves of them, of shape (planes, n, rows, columns)."""
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
    return np.stack(planes)


def wiener(centred: Single, deviation: Array, name: str, side: int) -> Single:
    """The best linear estimate of averages (n, rows, columns) over blocks of ``side``; the mean is 0."""
    rows, columns = deviation.shape
    if deviation.max() == deviation.min():
        gain = _gain(name, rows, columns, side, float(deviation.min()))
        return _back(gain * _frequencies(centred))
    if rows * columns <= _FEW:
        matrix = _dense(name, rows, columns, side, deviation.tobytes())
        return (centred.reshape(len(centred), -1) @ matrix).reshape(centred.shape)
    return _uneven(centred, deviation, _power(name, rows, columns, side))


@lru_cache(maxsize=32)
def _dense(name: str, rows: int, columns: int, side: int, deviation: bytes) -> Single:
    """(C + N)⁻¹·C, by which rows of averages are multiplied from the right."""
    noise = np.frombuffer(deviation, dtype=np.float64) ** 2
    waves = _back(np.eye(rows * columns, dtype=np.float32).reshape(-1, rows, columns))
    flat = waves.reshape(rows * columns, -1).astype(np.float64)
    prior = flat.T @ (_power(name, rows, columns, side).reshape(-1, 1) * flat)
    return np.linalg.solve(prior + np.diag(noise), prior).astype(np.float32)


def _uneven(values: Single, deviation: Array, power: Array) -> Single:
    """With x = C^½u, u solves (1 + C^½N⁻¹C^½)·u = C^½N⁻¹z, by conjugate gradients.

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
    """The expected power of block averages at each of their frequencies."""
    return STATISTICS[name].averaged(Bands(rows, side), Bands(columns, side))[0] / side**2


@lru_cache(maxsize=64)
def _gain(name: str, rows: int, columns: int, side: int, deviation: float) -> Single:
    power = _power(name, rows, columns, side)
    return (power / (power + deviation**2)).astype(np.float32)


def _frequencies(values: Single) -> Single:
    """The orthonormal DCT of ``values`` (n, rows, columns)."""
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
    """The orthonormal DCT of ``count`` values as a matrix; None where the fast transform is faster."""
    if count > 160:
        return None
    matrix = np.cos(np.pi * np.outer(np.arange(count), np.arange(count) + 0.5) / count)
    matrix *= np.sqrt(2.0 / count)
    matrix[0] = np.sqrt(1.0 / count)
    return matrix.astype(np.float32)
