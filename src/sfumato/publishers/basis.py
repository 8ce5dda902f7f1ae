"""A public basis for pictures: the low cosine frequencies of a picture's shape, and its brightness apart.

A picture x of p values in [0, 1] becomes the coordinates (u, b): u is the direction, of length 1, of its
low two-dimensional cosine coefficients (0 for a picture that has none), and b = 2‖x‖/√p its brightness.
Contrast between pictures then takes no part in the covariance of shapes.

Each row of the coordinates depends on one record alone, to the last bit: pictures are rounded to multiples
of 2⁻¹⁶ and the basis so finely that products of whole numbers add up to less than 2⁵³, exactly and in any
order. Otherwise a matrix product may round a row differently when there is one row more. Coordinates are
rounded to multiples of 2⁻²⁰, so that further products of them can be exact too.

Back from coordinates to a picture: no picture has negative values, so those that coordinates ask for are
grain and tell how large it is. Their root mean square is taken off all values, what is left below 0 is cut,
and the brightness is set again. A picture that the basis holds wholly is given back up to its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from sfumato.errors import BadInput

__all__ = ["CosineBasis", "rounded"]

Array = NDArray[np.float64]

_BLOCK = 4096
# Steps of pictures and of coordinates in bits, and the bits of a sum that is exact in float64.
_PICTURE_BITS, _COORDINATE_BITS, _EXACT_BITS = 16, 20, 52
# What is taken off, relative to the root mean square of negative values.
_GRAIN = 1.0


@dataclass(frozen=True)
class CosineBasis:
    """Coordinates of pictures of ``shape``: the ``kept``×``kept`` lowest frequencies of each channel."""

    shape: tuple[int, ...]
    kept: int = 14

    def __post_init__(self) -> None:
        sizes = len(self.shape) in (2, 3) and all(isinstance(s, int) and s > 0 for s in self.shape)
        if not sizes or min(self.shape[:2]) < 2:
            raise BadInput(
                f"`shape` was {self.shape!r}: a picture is (height, width) or (height, width, channels), "
                "2 pixels or more each way.",
                parameter="shape",
            )
        if isinstance(self.kept, bool) or not isinstance(self.kept, int) or self.kept < 2:
            raise BadInput(
                f"`kept` was {self.kept!r}: a whole number of frequencies, 2 or more, is needed.",
                parameter="kept",
            )

    @property
    def dimension(self) -> int:
        """How many coordinates a picture has."""
        return len(self._matrix()) + 1

    def coordinates(self, pictures: Array) -> Array:
        """The coordinates (n, dimension) of ``pictures``, of shape (n, *shape), values in [0, 1]."""
        values = math.prod(self.shape)
        matrix = rounded(self._matrix(), _EXACT_BITS - _PICTURE_BITS - math.ceil(math.log2(values)))
        out = np.empty((len(pictures), len(matrix) + 1))
        for start in range(0, len(pictures), _BLOCK):
            flat = np.asarray(pictures[start : start + _BLOCK], dtype=np.float64).reshape(-1, values)
            flat = rounded(flat, _PICTURE_BITS)
            rows = flat @ matrix.T
            size = np.linalg.norm(rows, axis=1, keepdims=True)
            part = out[start : start + _BLOCK]
            part[:, :-1] = np.divide(rows, size, out=np.zeros_like(rows), where=size > 0.0)
            part[:, -1] = 2.0 / math.sqrt(values) * np.linalg.norm(flat, axis=1)
        return rounded(out, _COORDINATE_BITS)

    def pictures(self, coordinates: Array) -> Array:
        """Pictures (n, *shape) of ``coordinates``, without their grain, cut to values in [0, 1]."""
        matrix = self._matrix()
        values = math.prod(self.shape)
        out = np.empty((len(coordinates), values))
        for start in range(0, len(coordinates), _BLOCK):
            rows = coordinates[start : start + _BLOCK]
            flat = rows[:, :-1] @ matrix
            below = np.minimum(flat, 0.0)
            grain = np.square(below).sum(axis=1) / np.maximum(np.count_nonzero(below, axis=1), 1)
            flat = np.maximum(flat - _GRAIN * np.sqrt(grain)[:, None], 0.0)
            size = np.linalg.norm(flat, axis=1, keepdims=True)
            length = np.maximum(rows[:, -1:], 0.0) * (0.5 * math.sqrt(values))
            scale = np.divide(length, size, out=np.zeros_like(length), where=size > 0.0)
            out[start : start + _BLOCK] = np.minimum(flat * scale, 1.0)
        return out.reshape(-1, *self.shape)

    def _matrix(self) -> Array:
        """The kept basis pictures as orthonormal rows."""
        height, width, channels = (*self.shape, 1)[:3]
        lines = dct(np.eye(height), norm="ortho", axis=0)[: self.kept]
        columns = dct(np.eye(width), norm="ortho", axis=0)[: self.kept]
        return np.asarray(np.kron(np.kron(lines, columns), np.eye(channels)))


def rounded(values: Array, bits: int) -> Array:
    """``values`` to the nearest multiple of 2^−``bits``: sums of few products of such numbers are exact."""
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, bits)), -bits))
