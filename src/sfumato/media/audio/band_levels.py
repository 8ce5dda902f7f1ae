"""How loud a sound is in each of twelve bands, block by block, and a sound with such levels.

Blocks of 10.6 ms go through an MDCT whose neighbours overlap by 0.6 ms on either side. Bands are equally wide
on the mel scale from 80 Hz to 4 kHz, which is where speech is; the level of a band is its power in decibels,
full scale being 0. A sound with given levels has coefficients of random sign and the power asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.media.audio.mdct import Lapped

__all__ = ["BANDS", "CENTRES", "FLOOR", "BandLevels", "band_levels", "hertz", "mel"]

Array = NDArray[np.float64]

#: The number of bands.
BANDS = 12
#: Levels below it, in decibels, are taken for it.
FLOOR = -80.0

_LOWEST, _HIGHEST = 80.0, 4000.0
_HOP, _LAP = 0.010625, 0.000625  # seconds
_EXCITATION = 226  # a public seed: what is drawn from it hides nothing


def mel(frequency: ArrayLike) -> Array:
    """Hertz on the mel scale (O'Shaughnessy 1987)."""
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(frequency, dtype=np.float64) / 700.0))


def hertz(pitch: ArrayLike) -> Array:
    """The inverse of :func:`mel`."""
    return np.asarray(700.0 * (10.0 ** (np.asarray(pitch, dtype=np.float64) / 2595.0) - 1.0))


_EDGES = np.linspace(float(mel(_LOWEST)), float(mel(_HIGHEST)), BANDS + 1)

#: The middle of each band on the mel scale, in hertz.
CENTRES: Array = hertz((_EDGES[1:] + _EDGES[:-1]) / 2.0)


@dataclass(frozen=True)
class BandLevels:
    """Levels of sounds sampled at ``rate`` hertz; :func:`band_levels` makes one."""

    rate: int

    @cached_property
    def transform(self) -> Lapped:
        """The MDCT that levels are read off; at least two samples a block."""
        hop = max(2, round(_HOP * self.rate))
        return Lapped(hop, min(hop // 2, round(_LAP * self.rate)))

    @cached_property
    def frequencies(self) -> Array:
        """The frequency of each coefficient, in hertz."""
        hop = self.transform.hop
        return np.asarray((np.arange(hop) + 0.5) * (self.rate / (2.0 * hop)), dtype=np.float64)

    @cached_property
    def band(self) -> NDArray[np.intp]:
        """The band of each coefficient; −1 or ``BANDS`` where it is in none."""
        return np.asarray(np.digitize(mel(self.frequencies), _EDGES) - 1)

    @cached_property
    def members(self) -> Array:
        """Coefficients by bands, (hop, BANDS): 1 where one is in the other."""
        return np.asarray(self.band[:, None] == np.arange(BANDS), dtype=np.float64)

    def power(self, coefficients: Array) -> Array:
        """Power of each band, (…, blocks, BANDS), of coefficients (…, blocks, hop)."""
        return np.asarray(np.square(coefficients) @ self.members / self.transform.hop)

    def levels(self, coefficients: Array) -> Array:
        """Decibels of :func:`power`, averaged over channels: (blocks, BANDS) of (channels, blocks, hop)."""
        power = self.power(coefficients).mean(axis=0)
        return np.asarray(10.0 * np.log10(np.maximum(power, 10.0 ** (FLOOR / 10.0))))

    def variances(self, levels: Array) -> Array:
        """The mean square of each coefficient of a sound with ``levels`` (blocks, BANDS): (blocks, hop)."""
        counts = np.maximum(self.members.sum(axis=0), 1.0)
        return np.asarray((10.0 ** (levels / 10.0) * (self.transform.hop / counts)) @ self.members.T)

    def sounding(self, levels: Array, part: int) -> Array:
        """Coefficients (blocks, hop) with exactly ``levels``, their signs drawn publicly for ``part``."""
        size = np.sqrt(self.variances(levels))
        signs = np.random.default_rng((_EXCITATION, part)).integers(0, 2, size.shape)
        return np.where(signs == 1, size, -size)


@lru_cache(maxsize=16)
def band_levels(rate: int) -> BandLevels:
    """The levels of sounds sampled at ``rate`` hertz."""
    return BandLevels(rate)
