"""Colour planes on an integer grid, summed over square blocks of pixels, exactly.

A picture has the planes luma, blue and red difference (JPEG's Y, Cb and Cr without their offset, in whole
256ths of the channels), or luma alone where it is grey; transparency is a plane of its own. Channels are
summed over blocks first, as whole numbers that floating point holds exactly, and mixed afterwards in
integers, so that a block sum is a point of a public grid and noise rounded to it adds no error.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.image_mechanism import Shape

Array = NDArray[np.float64]

#: Weights of a plane are whole multiples of 1/UNITY.
UNITY = 256

_WEIGHTS = {
    1: ((256,),),
    2: ((256, 0), (0, 256)),
    3: ((77, 150, 29), (-43, -85, 128), (128, -107, -21)),
    4: ((77, 150, 29, 0), (-43, -85, 128, 0), (128, -107, -21, 0), (0, 0, 0, 256)),
}
_NAMES = {1: ("luma",), 2: ("luma", "alpha"), 3: ("luma", "blue", "red"), 4: ("luma", "blue", "red", "alpha")}
# Whole numbers below it are exact in single precision, in whatever order they are added up.
_SINGLE = 2**24
# Up to so many rows, a product with a matrix of zeros and ones is faster than adding them up.
_LONG = 512
_LANES, _BYTE = np.uint64(0x00FF00FF00FF00FF), np.uint64(8)


def plane_names(channels: int) -> tuple[str, ...]:
    """Return the planes of a picture of ``channels`` channels, in order."""
    return _NAMES[channels]


def plane_weights(channels: int) -> NDArray[np.int64]:
    """Return the planes of a pixel in 256ths of its channels, of shape (planes, channels); invertible."""
    return np.array(_WEIGHTS[channels], dtype=np.int64)


def levels_of(pictures: NDArray[Any], white: int) -> NDArray[Any]:
    """Return ``pictures`` as whole numbers from 0 to ``white``: pixel by pixel, so that a unit stays a unit.

    Floating point in [0, 1] is rounded to the nearest level; integers keep their value, or lose their last
    bits where ``white`` is smaller than the white of their type by a power of two.
    """
    if pictures.dtype.kind == "f":
        return np.rint(pictures.astype(np.float64) * white)
    spare = int(np.iinfo(pictures.dtype).max).bit_length() - white.bit_length()
    return pictures >> spare if spare else pictures


@dataclass(frozen=True)
class Blocks:
    """How pictures of ``shape`` are cut into planes and blocks.

    Luma is cut into squares of ``luma`` pixels, chroma of ``chroma``, a multiple of it, and transparency as
    luma is. Where they are not ``mixed``, the channels themselves are the planes, all cut as luma is.
    """

    shape: Shape
    luma: int
    chroma: int
    mixed: bool = True

    @property
    def weights(self) -> NDArray[np.int64]:
        """The planes in 256ths of the channels, of shape (planes, channels)."""
        return plane_weights(self.shape[2]) if self.mixed else UNITY * np.eye(self.shape[2], dtype=np.int64)

    def side(self, plane: int) -> int:
        """Return the side of the blocks of a plane."""
        chroma = self.mixed and plane_names(self.shape[2])[plane] in ("blue", "red")
        return self.chroma if chroma else self.luma

    def grid(self, plane: int) -> tuple[int, int]:
        """Return how many blocks a plane has, down and across."""
        side = self.side(plane)
        return -(-self.shape[0] // side), -(-self.shape[1] // side)

    def counts(self, plane: int) -> Array:
        """Return how many pixels each block of a plane holds, of shape (rows, columns)."""
        side = self.side(plane)
        return np.outer(block_counts(self.shape[0], side), block_counts(self.shape[1], side))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many blocks each plane has."""
        return tuple(rows * columns for rows, columns in map(self.grid, range(len(_NAMES[self.shape[2]]))))


def block_counts(size: int, block: int) -> Array:
    """Return how many of ``size`` pixels each block of ``block`` holds; the last may hold fewer."""
    return np.diff(np.append(np.arange(0, size, block), size)).astype(np.float64)


@lru_cache(maxsize=64)
def _membership(size: int, block: int, single: bool) -> NDArray[Any]:
    """Return 1 where a pixel (column) lies in a block (row), else 0."""
    return np.equal.outer(np.arange(-(-size // block)), np.arange(size) // block).astype(
        np.float32 if single else np.float64
    )


def _summed(values: NDArray[Any], side: int) -> NDArray[Any]:
    """Return sums over ``side`` rows of ``values`` (n, rows, columns), exact in their type."""
    size = values.shape[1]
    if side == 1:
        return values
    if size > _LONG:
        return np.asarray(np.add.reduceat(values, np.arange(0, size, side), axis=1))
    return np.asarray(np.matmul(_membership(size, side, values.dtype == np.float32), values))


def block_sums(levels: NDArray[Any], blocks: Blocks, white: int) -> Array:
    """Return sums over blocks of the planes of pictures (n, h, w, channels), in steps of 1/256.

    Whole numbers in float64, of shape (n, all blocks of the first plane, then of the second, …), each grid
    row by row. Exact: channel sums stay below 2²⁴ in single and 2⁵³ in double precision.
    """
    height, width, channels = blocks.shape
    count, side = len(levels), blocks.luma
    single = min(side, height) * min(side, width) * white < _SINGLE
    values = levels.reshape(count, height, width * channels)
    kind = np.float32 if single else np.float64
    down = _bytes_down(values, side)
    if down is None:
        down = _summed(values.astype(kind, copy=False), side)
    rows = down.shape[1]
    turned = down.reshape(count, rows, width, channels).transpose(0, 2, 1, 3).reshape(count, width, -1)
    sums = _summed(turned, side).astype(np.float64).reshape(count, -1, rows, channels).transpose(0, 2, 1, 3)
    mixed = sums @ blocks.weights.T.astype(np.float64)
    parts = []
    for plane in range(len(plane_names(channels))):
        grid = mixed[..., plane]
        if (times := blocks.side(plane) // side) > 1:
            grid = _summed(_summed(grid, times).transpose(0, 2, 1), times).transpose(0, 2, 1)
        parts.append(grid.reshape(count, -1))
    return np.concatenate(parts, axis=1)


def _bytes_down(values: NDArray[Any], side: int) -> NDArray[np.float32] | None:
    """Return sums of bytes over ``side`` rows, eight columns at a time as lanes of two 64-bit words.

    None where the shape does not allow it. A lane holds at most 256 · 255.
    """
    count, height, width = values.shape
    big = sys.byteorder == "big"
    if values.dtype != np.uint8 or width % 8 or height % side or not 1 < side <= 256 or big:
        return None
    words = np.ascontiguousarray(values).view(np.uint64).reshape(count, height // side, side, width // 8)
    sums = np.empty((count, height // side, width), dtype=np.float32)
    sums[..., 0::2] = np.add.reduce(words & _LANES, axis=2).view(np.uint16)
    sums[..., 1::2] = np.add.reduce((words >> _BYTE) & _LANES, axis=2).view(np.uint16)
    return sums
