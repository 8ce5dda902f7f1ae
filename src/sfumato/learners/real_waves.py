"""Convolution with complex filters by products of real matrices: for many small pictures faster than an FFT.

A plane of n₁ × n₂ numbers is written in products of cosines and sines. There a filter mixes only the products
of one pair of frequencies, and taking every k-th sample merges only frequencies that fold onto each other, so
the convolution with several filters and its thinning are one small matrix for each pair of folded
frequencies. All arrays have the pictures last: every step multiplies a fixed matrix by columns, and each
column belongs to one picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Convolution"]

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class _Axis:
    """Folding of ``length`` samples to every ``factor``-th: both even, ``factor`` divides ``length``.

    Frequency ``sources[f, a]`` of the long axis is the a-th that folds to f, its sine with sign
    ``signs[f, a]``; a sign of 0 fills the table up where fewer fold to f.
    """

    length: int
    factor: int

    @property
    def folded(self) -> int:
        return self.length // self.factor

    @property
    def tables(self) -> tuple[NDArray[np.int64], Matrix]:
        found: list[list[tuple[int, float]]] = [[] for _ in range(self.folded // 2 + 1)]
        for frequency in range(self.length // 2 + 1):
            rest = frequency % self.folded
            mirrored = rest > self.folded // 2
            found[self.folded - rest if mirrored else rest].append((frequency, -1.0 if mirrored else 1.0))
        most = max(map(len, found))
        filled = np.array([row + [(0, 0.0)] * (most - len(row)) for row in found])
        return filled[:, :, 0].astype(np.int64), filled[:, :, 1]

    def analysis(self) -> Matrix:
        """(folded frequencies, sources, cosine and sine, ``length``): coefficients of samples."""
        sources, signs = self.tables
        turns = 2.0 * math.pi / self.length * sources[:, :, None] * np.arange(self.length)
        single = (sources == 0) | (2 * sources == self.length)
        weights = np.abs(signs) * np.where(single, 1.0, 2.0) / self.length
        return np.stack([np.cos(turns), np.sin(turns)], axis=2) * weights[:, :, None, None]

    def synthesis(self) -> Matrix:
        """(``folded`` samples, folded frequencies · 2): samples of coefficients."""
        angles = np.outer(np.arange(self.folded), np.arange(self.folded // 2 + 1))
        turns = 2.0 * math.pi / self.folded * angles
        return np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(self.folded, -1)


class Convolution:
    """Planes, periodic, with ``filters`` (given by their real Fourier transforms), then every k-th sample.

    ``filters`` is (f, n₁, n₂) with even sides that ``factor`` divides into even ones. ``padding`` holds for
    each axis a matrix (n, given) by which planes are made periodic first.
    """

    def __init__(
        self, filters: Matrix, factor: int = 1, padding: tuple[Matrix, Matrix] | None = None
    ) -> None:
        self._filters, axes = len(filters), [_Axis(length, factor) for length in filters.shape[1:]]
        forward = [axis.analysis() for axis in axes]
        if padding is not None:
            forward = [each @ pad for each, pad in zip(forward, padding, strict=True)]
        self._shape = [(each.shape[0], each.shape[1] * 2) for each in forward]
        self._forward = [_single(each.reshape(-1, each.shape[-1])) for each in forward]
        self._back = [_single(axis.synthesis()) for axis in axes]
        self._mixing = _single(_mixing(filters, axes))

    def moduli(self, planes: Tensor) -> Tensor:
        """(n₁/k, n₂/k, f · m): absolute values of ``planes`` (rows, columns, m) with each filter."""
        rows, columns, m = planes.shape
        (down, high), (across, wide) = self._shape
        half = (self._forward[0] @ planes.reshape(rows, columns * m)).view(-1, columns, m)
        spectrum = torch.matmul(self._forward[1], half).view(down, high, across, wide * m)
        inputs = spectrum.transpose(1, 2).reshape(down * across, high * wide, m)
        mixed = torch.bmm(self._mixing, inputs).view(down, across, 2, 2 * 2 * self._filters * m)
        lined = mixed.transpose(1, 2).reshape(down * 2, across * 2, 2 * self._filters * m)
        half = torch.matmul(self._back[1], lined)
        waves = self._back[0] @ half.view(down * 2, -1)
        parts = waves.view(len(waves), half.shape[1], 2, self._filters * m).square_()
        return (parts[:, :, 0] + parts[:, :, 1]).sqrt_()


def _mixing(filters: Matrix, axes: list[_Axis]) -> Matrix:
    """(pairs of folded frequencies, outputs, inputs) as :meth:`Convolution.moduli` needs them.

    Inputs are (source, cosine or sine) down, then across; outputs (cosine or sine) down and across, then real
    and imaginary part, then filter.
    """
    (rows, row_signs), (columns, column_signs) = (axis.tables for axis in axes)
    # Coefficients of e^{iωx} and e^{−iωx} from those of cosine and sine, and back.
    split = np.array([[0.5, -0.5j], [0.5, 0.5j]])
    joined = np.array([[1.0, 1.0], [1.0j, -1.0j]])
    both = np.array([1, -1])
    kept = filters[:, (rows[:, :, None] * both)[:, :, :, None, None, None], columns[:, :, None] * both]
    # A sine whose frequency is mirrored by folding changes its sign.
    flips = [np.stack([np.abs(signs), signs], axis=-1) for signs in (row_signs, column_signs)]
    down = np.einsum("op,pi,uao->uaopi", joined, split, flips[0])
    across = np.einsum("rq,qj,vbr->vbrqj", joined, split, flips[1])
    mixed = np.einsum("fuapvbq,uaopi,vbrqj->uvorfaibj", kept, down, across, optimize=True)
    parts = np.stack([mixed.real, mixed.imag], axis=4)
    pairs, outputs = parts.shape[0] * parts.shape[1], 8 * len(filters)
    return parts.reshape(pairs, outputs, -1)


def _single(matrix: Matrix) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32))
