"""Noise on every MDCT coefficient below a cutoff, and what public statistics of speech make of the result.

Coefficients are rounded to the nearest multiple of a public power of two, noise of scale s_k is drawn on the
same grid, and the sum is an integer sum. Post-processing weighs each coefficient by E[S/(S + noise)], where
the power S of its band is taken from public shapes of speech, each as likely as the noisy block makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.media.audio.band_levels import BandLevels
from sfumato.media.audio.mdct import Analysis, Synthesis
from sfumato.media.audio.speech import shapes
from sfumato.noise import Rounded, Stream
from sfumato.noise.laws import Law

__all__ = ["CoefficientsPassage", "ScaledNoise"]

Array = NDArray[np.float64]

# Blocks that draw their noise from one stream.
_PART = 64
# Shapes of speech that a noisy block is compared with.
_COMPARED = 64


@dataclass(frozen=True)
class ScaledNoise:
    """Noise of ``law`` with ``scales[k]`` on coefficient k, in multiples of ``step``; the rest is dropped."""

    law: Law
    scales: tuple[float, ...]
    step: float

    @property
    def rounded(self) -> Rounded:
        """The noise with the largest scale, in steps of the grid."""
        # A factor a hair below 1 must not make the noise smaller than it was declared.
        return Rounded(self.law, [max(self.scales) * (1.0 + 2.0**-50) / self.step])

    def draw(self, stream: Stream, cells: Array) -> Array:
        """Noisy coefficients (n, kept) of whole numbers of steps (n, kept)."""
        scales = np.asarray(self.scales)
        factors = np.tile(scales / float(scales.max()), len(cells))
        noise = self.rounded.draw(stream, cells.size, relative=factors)[0].reshape(cells.shape)
        return np.asarray((noise + cells) * self.step)


class CoefficientsPassage:
    """One clip on its way; see :class:`~sfumato.media.audio.audio_mechanism.Passage`.

    ``streams(part, cells)`` gives the stream that the noise of the blocks of ``part`` comes from.
    """

    def __init__(
        self,
        bands: BandLevels,
        noise: ScaledNoise,
        restore: bool,
        clip: float,
        shape: tuple[int, int],
        streams: Callable[[int, Array], Stream],
    ) -> None:
        self._bands, self._noise, self._restore, self._clip = bands, noise, restore, clip
        self._streams, self._channels = streams, shape[1]
        self._analysis = Analysis(bands.transform, shape[1])
        self._synthesis = Synthesis(bands.transform, shape[1])
        self._waiting = np.zeros((shape[1], 0, len(noise.scales)))
        self._part = 0

    def feed(self, samples: Array) -> Array:
        """Released samples that ``samples`` (channels, k) settle."""
        return self._passed(self._analysis.feed(np.clip(samples, -self._clip, self._clip)), last=False)

    def finish(self) -> Array:
        """The rest of the release."""
        rest = self._passed(self._analysis.finish(), last=True)
        return np.concatenate([rest, self._synthesis.finish()], axis=1)

    def _passed(self, coefficients: Array, *, last: bool) -> Array:
        kept = len(self._noise.scales)
        self._waiting = np.concatenate([self._waiting, coefficients[..., :kept]], axis=1)
        out = [np.zeros((self._channels, 0))]
        while self._waiting.shape[1] >= _PART or (last and self._waiting.shape[1]):
            own, self._waiting = self._waiting[:, :_PART], self._waiting[:, _PART:]
            cells = np.rint(own / self._noise.step).reshape(-1, kept)
            noisy = self._noise.draw(self._streams(self._part, cells), cells).reshape(own.shape)
            self._part += 1
            full = np.zeros((*own.shape[:2], self._bands.transform.hop))
            full[..., :kept] = self._restored(noisy) if self._restore else noisy
            out.append(self._synthesis.feed(full))
        return np.concatenate(out, axis=1)

    def _restored(self, noisy: Array) -> Array:
        """Noisy coefficients (channels, blocks, kept), each shrunk by what the shapes of speech say of it."""
        kept = noisy.shape[-1]
        public = shapes(_COMPARED)
        spread = np.square(np.asarray(self._noise.scales) * self._noise.law.deviation)
        # Outside of all bands speech is taken to be silent.
        speech = self._bands.variances(public.levels)[:, :kept] * self._clip**2
        total = speech + spread
        # The log-likelihood of a block under each shape, were speech and noise both Gaussian.
        fit = -0.5 * (np.square(noisy) @ (1.0 / total).T + np.log(total).sum(axis=1)) + np.log(public.share)
        fit -= fit.max(axis=-1, keepdims=True)
        weight = np.exp(fit)
        weight /= weight.sum(axis=-1, keepdims=True)
        return np.asarray(noisy * (weight @ (speech / total)))
