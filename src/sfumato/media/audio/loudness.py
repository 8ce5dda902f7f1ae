"""Equal-loudness contours of ISO 226:2003, noise weights read off them, and band levels of a sound.

The standard gives, at 29 frequencies, an exponent α of loudness perception, the magnitude L_U of the transfer
function normalised at 1 kHz, and the threshold of hearing T. A pure tone that sounds as loud as one of 1 kHz
at L_N dB, called L_N phon, has the sound pressure level (equation 1 of the standard)

    L_p = (10/α)·lg A − L_U + 94,   A = 4.47·10⁻³·(10^{0.025·L_N} − 1.15) + (0.4·10^{(T + L_U)/10 − 9})^α.

**Band levels.** Blocks of 10.6 ms go through an MDCT whose neighbours overlap by 0.6 ms on either side. Bands
are equally wide on the mel scale from 80 Hz to 4 kHz, which is where speech is; the level of a band is its
power in decibels, full scale being 0. A sound with given levels has coefficients of random sign and the power
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.media.audio.mdct import Lapped

__all__ = ["hertz", "mel"]

Array = NDArray[np.float64]

#: The number of bands.
BANDS = 12
#: Levels below it, in decibels, are taken for it.
FLOOR = -80.0

_LOWEST, _HIGHEST = 80.0, 4000.0
_HOP, _LAP = 0.010625, 0.000625  # seconds
_EXCITATION = 226  # a public seed: what is drawn from it hides nothing


def mel(frequency: ArrayLike) -> Array:
    """Return hertz on the mel scale (O'Shaughnessy 1987)."""
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(frequency, dtype=np.float64) / 700.0))


def hertz(pitch: ArrayLike) -> Array:
    """Return the inverse of :func:`mel`."""
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
        """Return power of each band, (…, blocks, BANDS), of coefficients (…, blocks, hop)."""
        return np.asarray(np.square(coefficients) @ self.members / self.transform.hop)

    def levels(self, coefficients: Array) -> Array:
        """Return decibels (blocks, BANDS) of coefficients (channels, blocks, hop), averaged over channels."""
        power = self.power(coefficients).mean(axis=0)
        return np.asarray(10.0 * np.log10(np.maximum(power, 10.0 ** (FLOOR / 10.0))))

    def variances(self, levels: Array) -> Array:
        """Return mean squares (blocks, hop) of coefficients of a sound with ``levels`` (blocks, BANDS)."""
        counts = np.maximum(self.members.sum(axis=0), 1.0)
        return np.asarray((10.0 ** (levels / 10.0) * (self.transform.hop / counts)) @ self.members.T)

    def sounding(self, levels: Array, part: int) -> Array:
        """Return coefficients (blocks, hop) with exactly ``levels``, and public signs drawn for ``part``."""
        size = np.sqrt(self.variances(levels))
        signs = np.random.default_rng((_EXCITATION, part)).integers(0, 2, size.shape)
        return np.where(signs == 1, size, -size)


@lru_cache(maxsize=16)
def band_levels(rate: int) -> BandLevels:
    """Return the levels of sounds sampled at ``rate`` hertz."""
    return BandLevels(rate)


# Frequency in Hz, α, L_U in dB, T in dB.
_TABLE = np.array(
    [
        *((20.0, 0.532, -31.6, 78.5), (25.0, 0.506, -27.2, 68.7), (31.5, 0.480, -23.0, 59.5)),
        *((40.0, 0.455, -19.1, 51.1), (50.0, 0.432, -15.9, 44.0), (63.0, 0.409, -13.0, 37.5)),
        *((80.0, 0.387, -10.3, 31.5), (100.0, 0.367, -8.1, 26.5), (125.0, 0.349, -6.2, 22.1)),
        *((160.0, 0.330, -4.5, 17.9), (200.0, 0.315, -3.1, 14.4), (250.0, 0.301, -2.0, 11.4)),
        *((315.0, 0.288, -1.1, 8.6), (400.0, 0.276, -0.4, 6.2), (500.0, 0.267, 0.0, 4.4)),
        *((630.0, 0.259, 0.3, 3.0), (800.0, 0.253, 0.5, 2.2), (1000.0, 0.250, 0.0, 2.4)),
        *((1250.0, 0.246, -2.7, 3.5), (1600.0, 0.244, -4.1, 1.7), (2000.0, 0.243, -1.0, -1.3)),
        *((2500.0, 0.243, 1.7, -4.2), (3150.0, 0.243, 2.5, -6.0), (4000.0, 0.242, 1.2, -5.4)),
        *((5000.0, 0.242, -2.1, -1.5), (6300.0, 0.245, -7.1, 6.0), (8000.0, 0.254, -11.2, 12.6)),
        *((10000.0, 0.271, -10.7, 13.9), (12500.0, 0.301, -3.1, 12.3)),
    ]
)

#: The frequencies of the standard, in hertz.
FREQUENCIES: Array = _TABLE[:, 0].copy()

# The loudness of conversation, in phon.
_USUAL = 60.0


def contour(phon: float = _USUAL) -> Array:
    """Return the sound pressure levels in dB at ``FREQUENCIES`` that sound as loud as ``phon``.

    The standard covers 20 to 90 phon.
    """
    alpha, transfer, threshold = _TABLE[:, 1], _TABLE[:, 2], _TABLE[:, 3]
    floor = (0.4 * 10.0 ** ((threshold + transfer) / 10.0 - 9.0)) ** alpha
    loudness = 4.47e-3 * (10.0 ** (0.025 * phon) - 1.15) + floor
    return np.asarray(10.0 / alpha * np.log10(loudness) - transfer + 94.0)


def sound_pressure(frequency: ArrayLike, phon: float = _USUAL) -> Array:
    """Return the contour at ``frequency`` in hertz: linear in log f, constant beyond 20 Hz and 12.5 kHz."""
    place = np.log(np.maximum(frequency, FREQUENCIES[0]))
    return np.asarray(np.interp(place, np.log(FREQUENCIES), contour(phon)))


def noise_weight(frequency: ArrayLike, phon: float = _USUAL) -> Array:
    """Return A(f), the amplitude at which noise sounds as loud as noise of amplitude 1 at 1 kHz."""
    level = sound_pressure(frequency, phon) - sound_pressure(1000.0, phon)
    return np.asarray(10.0 ** (level / 20.0))
