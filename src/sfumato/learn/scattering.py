"""A scattering transform: what pictures look like to fixed wavelets; public, nothing in it is trained.

Two layers of Morlet wavelets with a modulus after each, then a Gaussian low-pass over 2^J pixels (Bruna &
Mallat 2013; filters and padding as in Kymatio, Andreux et al. 2020). Every picture is transformed by itself,
so features of a record depend on that record alone. A picture (h, w) becomes 1 + JL + L²J(J − 1)/2 channels
of ⌈h/2^J⌉ × ⌈w/2^J⌉ numbers; channels of colour are transformed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput

__all__ = ["Scattering"]

# Complex numbers held at once; more does not make it faster.
_HELD = 6_000_000
# Width of wavelets and of the low-pass in pixels at the finest scale, and the finest frequency.
_WIDTH, _FREQUENCY = 0.8, 0.75 * math.pi


@dataclass(frozen=True)
class Scattering:
    """The transform of pictures of ``shape`` over ``scales`` octaves and ``angles`` directions."""

    shape: tuple[int, ...]
    scales: int = 2
    angles: int = 8

    def __post_init__(self) -> None:
        sizes = len(self.shape) in (2, 3) and all(isinstance(side, int) and side > 0 for side in self.shape)
        if not sizes or min(self.shape[:2]) < 2**self.scales:
            raise BadInput(
                f"shape was {self.shape!r}: a picture is (height, width) or (height, width, channels) with "
                f"sides of at least {2**self.scales} pixels for {self.scales} scales."
            )
        if not 1 <= self.scales <= 6 or not 1 <= self.angles <= 64:
            raise BadInput("a scattering transform has 1 to 6 scales and 1 to 64 angles.")

    @property
    def channels(self) -> int:
        """How many numbers each place of one colour has."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.angles + pairs * self.angles**2

    @property
    def features(self) -> tuple[int, int, int]:
        """The shape of what :meth:`transform` gives for one picture: channels, rows, columns."""
        rows, columns = (-(-side // 2**self.scales) for side in self.shape[:2])
        return self.channels * (*self.shape, 1)[2], rows, columns

    def transform(
        self, pictures: Any, *, report: Callable[[str, float], None] | None = None
    ) -> NDArray[np.float32]:
        """Features (n, channels, rows, columns) of ``pictures`` (n, *shape) of finite numbers."""
        given = np.asarray(pictures)
        if given.dtype.kind not in "uif" or given.shape[1:] != self.shape:
            raise BadInput(
                f"pictures of shape {given.shape} and type {given.dtype} were given: numbers of shape "
                f"(n, {', '.join(map(str, self.shape))}) are needed."
            )
        height, width, colours = (*self.shape, 1)[:3]
        out = np.empty((len(given), *self.features), dtype=np.float32)
        size = max(1, _HELD // (math.prod(self._padded) * self.angles**2 * colours))
        for start in range(0, len(given), size):
            part = torch.from_numpy(given[start : start + size].astype(np.float32))
            planes = part.reshape(-1, height, width, colours).movedim(3, 1).reshape(-1, height, width)
            found = self._planes(planes)
            out[start : start + size] = found.reshape(-1, *self.features).numpy()
            if report is not None:
                report("scattering", min(1.0, (start + size) / len(given)))
        return out

    @property
    def _padded(self) -> tuple[int, int]:
        step = 2**self.scales
        height, width = (((side + step) // step + 1) * step for side in self.shape[:2])
        return height, width

    @cached_property
    def _wavelets(self) -> list[Tensor]:
        """Fourier transforms, real, of the wavelets of each scale: (angles, height, width)."""
        made = []
        for scale in range(self.scales):
            turned = [
                (self.angles - self.angles // 2 - 1 - angle) * math.pi / self.angles
                for angle in range(self.angles)
            ]
            rows = [
                _morlet(self._padded, _WIDTH * 2**scale, angle, _FREQUENCY / 2**scale, 4.0 / self.angles)
                for angle in turned
            ]
            made.append(torch.from_numpy(np.stack(rows).astype(np.float32)))
        return made

    def _low_pass(self, values: Tensor, scale: int) -> Tensor:
        """Averages, one every 2^scales pixels of the picture, of what is sampled every 2^scale pixels."""
        return self._averages[0, scale] @ values @ self._averages[1, scale].T

    @cached_property
    def _averages(self) -> dict[tuple[int, int], Tensor]:
        return {(axis, scale): self._average(axis, scale) for axis in (0, 1) for scale in range(self.scales)}

    def _average(self, axis: int, scale: int) -> Tensor:
        length, step = self._padded[axis], 2**self.scales
        left = (length - self.shape[axis]) // 2
        kept = -(-self.shape[axis] // step)
        places = left + step * np.arange(kept)
        gap = places[:, None] - np.arange(0, length, 2**scale)[None, :]
        width = _WIDTH * 2 ** (self.scales - 1)
        waves = sum(np.exp(-((gap + turn * length) ** 2) / (2.0 * width**2)) for turn in range(-2, 3))
        return torch.from_numpy((waves / (math.sqrt(2.0 * math.pi) * width) * 2**scale).astype(np.float32))

    def _planes(self, planes: Tensor) -> Tensor:
        """(n, channels, rows, columns) of the grey planes (n, height, width)."""
        spare = [whole - side for whole, side in zip(self._padded, self.shape[:2], strict=True)]
        edges = (spare[1] // 2, spare[1] - spare[1] // 2, spare[0] // 2, spare[0] - spare[0] // 2)
        padded = torch.nn.functional.pad(planes.unsqueeze(1), edges, mode="reflect").squeeze(1)
        spectrum = torch.fft.fft2(padded)
        parts = [self._low_pass(padded, 0).unsqueeze(1)]
        second = []
        for scale in range(self.scales):
            waves = _folded(spectrum.unsqueeze(1) * self._wavelets[scale], 2**scale)
            moduli = torch.fft.ifft2(waves).abs()
            parts.append(self._low_pass(moduli, scale))
            if scale + 1 < self.scales:
                second.append(self._second(torch.fft.fft2(moduli), scale))
        return torch.cat(parts + second, dim=1)

    def _second(self, spectra: Tensor, first: int) -> Tensor:
        """Second-order channels of the moduli of scale ``first``, whose spectra are (n, angles, h, w)."""
        found = []
        for scale in range(first + 1, self.scales):
            narrow = _periodic(self._wavelets[scale], 2**first)
            for angle in range(self.angles):
                waves = _folded(spectra[:, angle].unsqueeze(1) * narrow, 2 ** (scale - first))
                found.append(self._low_pass(torch.fft.ifft2(waves).abs(), scale))
        return torch.cat(found, dim=1)


def _folded(spectrum: Tensor, factor: int) -> Tensor:
    """The spectrum of every ``factor``-th sample."""
    if factor == 1:
        return spectrum
    height, width = spectrum.shape[-2] // factor, spectrum.shape[-1] // factor
    split = spectrum.reshape(*spectrum.shape[:-2], factor, height, factor, width)
    return split.mean(dim=(-4, -2))


def _periodic(filters: Tensor, factor: int) -> Tensor:
    """The transform of a filter that is used on every ``factor``-th sample."""
    return _folded(filters, factor) * factor**2 if factor > 1 else filters


def _morlet(
    size: tuple[int, int], width: float, angle: float, frequency: float, slant: float
) -> NDArray[np.float64]:
    """The Fourier transform, real, of a Morlet wavelet on a torus of ``size``."""
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
