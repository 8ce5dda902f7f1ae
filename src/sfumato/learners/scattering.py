"""A scattering transform of pictures by fixed wavelets, and its features; public, nothing in it is trained.

Two layers of Morlet wavelets with a modulus after each, then a Gaussian low-pass over 2^J pixels (Bruna &
Mallat 2013; filters and padding as in Kymatio, Andreux et al. 2020). Every picture is transformed by itself,
so features of a record depend on that record alone. A picture (h, w) becomes 1 + JL + L²J(J − 1)/2 channels
of ⌈h/2^J⌉ × ⌈w/2^J⌉ numbers; channels of colour are transformed one by one.

**Convolution** with complex filters by products of real matrices is faster than an FFT for many small
pictures. A plane of n₁ × n₂ numbers is written in products of cosines and sines. There a filter mixes only
the products of one pair of frequencies, and taking every k-th sample merges only frequencies that fold onto
each other, so the convolution with several filters and its thinning are one small matrix for each pair of
folded frequencies. All arrays have the pictures last: every step multiplies a fixed matrix by columns, and
each column belongs to one picture.

**ScatteringFeatures** are group-normalised: Tramèr & Boneh, "Differentially Private Learning Needs Better
Features (or Much More Data)", ICLR 2021. A scattering transform over two scales, then normalisation inside
each picture, which needs no statistics of other records and so costs no budget. Private linear heads do best
on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, checked_pictures, checked_shape

Floats = NDArray[np.float64]


# Numbers of the widest array held at once: more leaves the cache and is slower.
_HELD = 512_000
# Added to variances of pictures with values from 0 to 1: groups without contrast stay near 0.
_EPSILON = 1e-5


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
    def tables(self) -> tuple[NDArray[np.int64], Floats]:
        found: list[list[tuple[int, float]]] = [[] for _ in range(self.folded // 2 + 1)]
        for frequency in range(self.length // 2 + 1):
            rest = frequency % self.folded
            mirrored = rest > self.folded // 2
            found[self.folded - rest if mirrored else rest].append((frequency, -1.0 if mirrored else 1.0))
        most = max(map(len, found))
        filled = np.array([row + [(0, 0.0)] * (most - len(row)) for row in found])
        return filled[:, :, 0].astype(np.int64), filled[:, :, 1]

    def analysis(self) -> Floats:
        """Return (folded frequencies, sources, cosine and sine, ``length``): coefficients of samples."""
        sources, signs = self.tables
        turns = 2.0 * math.pi / self.length * sources[:, :, None] * np.arange(self.length)
        single = (sources == 0) | (2 * sources == self.length)
        weights = np.abs(signs) * np.where(single, 1.0, 2.0) / self.length
        return np.stack([np.cos(turns), np.sin(turns)], axis=2) * weights[:, :, None, None]

    def synthesis(self) -> Floats:
        """Return (``folded`` samples, folded frequencies · 2): samples of coefficients."""
        angles = np.outer(np.arange(self.folded), np.arange(self.folded // 2 + 1))
        turns = 2.0 * math.pi / self.folded * angles
        return np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(self.folded, -1)


class Convolution:
    """Planes, periodic, with ``filters`` (given by their real Fourier transforms), then every k-th sample.

    ``filters`` is (f, n₁, n₂) with even sides that ``factor`` divides into even ones. ``padding`` holds for
    each axis a matrix (n, given) by which planes are made periodic first.
    """

    def __init__(
        self, filters: Floats, factor: int = 1, padding: tuple[Floats, Floats] | None = None
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
        """Return (n₁/k, n₂/k, f · m): absolute values of ``planes`` (rows, columns, m) with each filter."""
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


def _mixing(filters: Floats, axes: list[_Axis]) -> Floats:
    """Return (pairs of folded frequencies, outputs, inputs) as :meth:`Convolution.moduli` needs them.

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


def _single(matrix: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32))


# Width of wavelets and of the low-pass in pixels at the finest scale, and the finest frequency.
_WIDTH, _FREQUENCY = 0.8, 0.75 * math.pi


@dataclass(frozen=True)
class Scattering:
    """The transform of pictures of ``shape`` over ``scales`` octaves and ``angles`` directions."""

    shape: tuple[int, ...]
    scales: int = 2
    angles: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.scales <= 6 or not 1 <= self.angles <= 64:
            raise BadInput("a scattering transform has 1 to 6 scales and 1 to 64 angles.")
        checked_shape(self.shape, least=2**self.scales)

    @property
    def channels(self) -> int:
        """The number of numbers that each place of one colour has."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.angles + pairs * self.angles**2

    @property
    def features(self) -> tuple[int, int, int]:
        """The shape of what :meth:`transform` gives for one picture: channels, rows, columns."""
        rows, columns = (-(-side // 2**self.scales) for side in self.shape[:2])
        return self.channels * (*self.shape, 1)[2], rows, columns

    def transform(self, pictures: Any) -> NDArray[np.float32]:
        """Return features (n, channels, rows, columns) of ``pictures`` (n, *shape) of finite numbers.

        Planes of one colour go through in blocks of one size, the last one filled up with zeros, and every
        step works on columns of which each is one plane: no picture influences another, not even in its last
        bits.
        """
        given = checked_pictures(pictures, self.shape)
        height, width, colours = (*self.shape, 1)[:3]
        planes = np.moveaxis(given.reshape(-1, height, width, colours), 3, 1).reshape(-1, height, width)
        out = np.empty((len(planes), self.channels, *self.features[1:]), dtype=np.float32)
        block = np.zeros((height, width, self._held), dtype=np.float32)
        for start in range(0, len(planes), self._held):
            part = planes[start : start + self._held]
            block[:, :, : len(part)] = np.moveaxis(part, 0, 2)
            block[:, :, len(part) :] = 0.0
            found = self._columns(torch.from_numpy(block)).permute(3, 0, 1, 2)
            out[start : start + self._held] = found[: len(part)].numpy()
        return out.reshape(-1, *self.features)

    @property
    def _held(self) -> int:
        """The number of planes that go through at once: a power of two whose waves fit the cache."""
        waves = 2 * self.angles * math.prod(side + 2 for side in self._padded)
        return min(32, max(4, 1 << max(0, (_HELD // waves).bit_length() - 1)))

    @property
    def _padded(self) -> tuple[int, int]:
        step = 2**self.scales
        height, width = (((side + step) // step + 1) * step for side in self.shape[:2])
        return height, width

    @cached_property
    def _wavelets(self) -> list[Floats]:
        """Fourier transforms, real, of the wavelets of each scale: (angles, height, width)."""
        turned = [
            (self.angles - self.angles // 2 - 1 - angle) * math.pi / self.angles
            for angle in range(self.angles)
        ]
        return [
            np.stack(
                [
                    _morlet(self._padded, _WIDTH * 2**scale, angle, _FREQUENCY / 2**scale, 4.0 / self.angles)
                    for angle in turned
                ]
            )
            for scale in range(self.scales)
        ]

    @cached_property
    def _padding(self) -> tuple[Floats, Floats]:
        """Matrices (padded side, side) that mirror a picture at its edges."""
        down, across = (
            _mirrored(side, whole) for side, whole in zip(self.shape[:2], self._padded, strict=True)
        )
        return down, across

    @cached_property
    def _first(self) -> list[Convolution]:
        """From pictures to waves of each scale, one sample every 2^scale pixels."""
        return [Convolution(waves, 2**scale, self._padding) for scale, waves in enumerate(self._wavelets)]

    @cached_property
    def _second(self) -> dict[tuple[int, int], Convolution]:
        """From moduli of the first scale to waves of the second, which is coarser."""
        return {
            (first, scale): Convolution(_periodic(self._wavelets[scale], 2**first), 2 ** (scale - first))
            for first in range(self.scales)
            for scale in range(first + 1, self.scales)
        }

    @cached_property
    def _averages(self) -> dict[tuple[int, int], Tensor]:
        """Low-pass matrices by axis and by the scale at which there is a sample; −1 is a picture itself."""
        made = {(axis, scale): self._average(axis, scale) for axis in (0, 1) for scale in range(self.scales)}
        for axis in (0, 1):
            made[axis, -1] = made[axis, 0] @ self._padding[axis]
        return {key: torch.from_numpy(matrix.astype(np.float32)) for key, matrix in made.items()}

    def _average(self, axis: int, scale: int) -> Floats:
        length, step = self._padded[axis], 2**self.scales
        left = (length - self.shape[axis]) // 2
        kept = -(-self.shape[axis] // step)
        places = left + step * np.arange(kept)
        gap = places[:, None] - np.arange(0, length, 2**scale)[None, :]
        width = _WIDTH * 2 ** (self.scales - 1)
        waves = np.sum([np.exp(-((gap + turn * length) ** 2) / (2.0 * width**2)) for turn in range(-2, 3)], 0)
        return np.asarray(waves / (math.sqrt(2.0 * math.pi) * width) * 2**scale)

    def _low_pass(self, values: Tensor, scale: int) -> Tensor:
        """Return (channels, rows, columns, m): averages of ``values`` (height, width, channels · m)."""
        halved = torch.matmul(self._averages[1, scale], values)
        whole = self._averages[0, scale] @ halved.view(len(halved), -1)
        return whole.view(*self.features[1:], -1, self._held).permute(2, 0, 1, 3)

    def _columns(self, planes: Tensor) -> Tensor:
        """Return (channels, rows, columns, m) of the planes (height, width, m)."""
        parts, second = [self._low_pass(planes, -1)], []
        for scale in range(self.scales):
            moduli = self._first[scale].moduli(planes)
            parts.append(self._low_pass(moduli, scale))
            for coarser in range(scale + 1, self.scales):
                for angle in range(self.angles):
                    one = moduli[:, :, angle * self._held : (angle + 1) * self._held]
                    twice = self._second[scale, coarser].moduli(one)
                    second.append(self._low_pass(twice, coarser))
        return torch.cat(parts + second)


def _mirrored(side: int, whole: int) -> Floats:
    left = (whole - side) // 2
    sources = np.pad(np.arange(side), (left, whole - side - left), mode="reflect")
    return np.eye(side)[sources]


def _periodic(filters: Floats, factor: int) -> Floats:
    """Return the transform of a filter that is used on every ``factor``-th sample."""
    count, height, width = filters.shape
    folded = filters.reshape(count, factor, height // factor, factor, width // factor)
    return np.asarray(folded.sum(axis=(1, 3)))


def _morlet(
    size: tuple[int, int], width: float, angle: float, frequency: float, slant: float
) -> NDArray[np.float64]:
    """Return the Fourier transform, real, of a Morlet wavelet on a torus of ``size``."""
    wave, hull = _gabor(size, width, angle, frequency, slant), _gabor(size, width, angle, 0.0, slant)
    return np.real(np.fft.fft2(wave - wave.sum() / hull.sum() * hull))


def _gabor(
    size: tuple[int, int], width: float, angle: float, frequency: float, slant: float
) -> NDArray[np.complex128]:
    cosine, sine = math.cos(angle), math.sin(angle)
    total = np.zeros(size, dtype=np.complex128)
    for down in range(-2, 3):
        for across in range(-2, 3):
            y, x = np.mgrid[down * size[0] : (down + 1) * size[0], across * size[1] : (across + 1) * size[1]]
            along, beside = y * cosine + x * sine, x * cosine - y * sine
            square = along**2 + (slant * beside) ** 2
            total += np.exp(-square / (2.0 * width**2) + 1j * frequency * along)
    return total * (slant / (2.0 * math.pi * width**2))


class ScatteringFeatures(Extractor):
    """Scattering of pictures over ``scales`` octaves in 8 directions, normalised in ``groups`` a colour.

    The channels of each colour are split into ``groups`` groups of consecutive channels; each group is
    brought to mean 0 and deviation 1 over its channels and places within each picture (a group that is
    constant becomes 0), and all d numbers are divided by √d: no picture is longer than 1.
    """

    name = "scattering"
    origin = "Fixed wavelets and a normalisation within each picture; nothing is trained."
    block = 64

    def __init__(self, shape: tuple[int, ...], scales: int = 2, groups: int = 27) -> None:
        self.scattering = Scattering(tuple(shape), scales)
        if not isinstance(groups, int) or groups < 1 or self.scattering.channels % groups:
            raise BadInput(
                f"`groups` was {groups!r}: a whole number that divides the {self.scattering.channels} "
                "channels of one colour is needed.",
                parameter="groups",
            )
        self.shape, self.scales, self.groups = tuple(shape), scales, groups
        self.dimension = math.prod(self.scattering.features)

    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        found = self.scattering.transform(block / np.float32(255.0))
        colours = (*self.shape, 1)[2]
        grouped = found.reshape(len(block), self.groups * colours, -1)
        grouped -= grouped.mean(axis=2, keepdims=True)
        variance = np.einsum("ngk,ngk->ng", grouped, grouped)[:, :, None] / np.float32(grouped.shape[2])
        grouped /= np.sqrt(variance + np.float32(_EPSILON)) * np.float32(math.sqrt(self.dimension))
        return grouped.reshape(len(block), self.dimension)
