"""Exact draws of a point on the far part of a line through the grid, where the grid is normal noise.

A line through whole points in the direction K meets ⟨·, K⟩ in whole numbers s = ‖K‖² apart. Of its points
with ⟨v, K⟩ ≥ b one is to be drawn with probability proportional to

    f(v) = exp(−(1 − h²/12)·h²·⟨v, K⟩²/2s),

and the line itself to be kept with probability proportional to the sum of f over these points. Both at once:
a public table of whole numbers Wᵢ, 2⁶⁴ in sum, says which of them, the i-th from b on; an exact coin then
keeps it with probability C·f(v)/Wᵢ, and drops the line otherwise. C and the table depend on where b lies, in
deviations, and on bounds of ‖K‖ only; they are made so that the coin is at most one: Wᵢ ≥ C·f at every place
where the i-th point of a line can lie. So the i-th point of a line is kept with probability C·f(v)·2⁻⁶⁴,
whatever i is. The coin is decided by further random words where 64 bits leave it open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import Stream
from sfumato.noise.precise import precise

__all__ = ["HalfLine", "half_line"]

Array = NDArray[np.float64]

_WORDS = 2.0**64


@dataclass(frozen=True, eq=False)
class HalfLine:
    """The table for one place where lines begin: ``weights`` Wᵢ, their inner ``edges``, and C = ``scale``."""

    step: float
    edges: NDArray[np.uint64]
    weights: NDArray[np.uint64]
    scale: float
    #: How many lines are needed on average until one is kept.
    tries: float

    def draw(self, stream: Stream, nearest: Array, squares: Array) -> tuple[Array, NDArray[np.bool_]]:
        """For lines whose points have ⟨v, K⟩ = nearest, nearest + s, …: that of one, and whether it is kept.

        ``nearest`` is the first of them that is not below b, and s = ``squares``.
        """
        place = np.searchsorted(self.edges, stream.words(nearest.size), side="right")
        along = nearest + place * squares
        weights = self.weights[place]
        # The exponent is beyond 120 only where the coin is below 2⁻⁵², so this is good to 10⁻¹³.
        exponent = -0.5 * _flatness(self.step) * np.square(along * self.step) / squares
        with np.errstate(under="ignore"):
            coin = np.exp(exponent + math.log(self.scale) - np.log(weights.astype(np.float64)))
        words = stream.words(nearest.size)
        uniform = words.astype(np.float64) * 2.0**-64
        kept = uniform < coin
        # A word stands for one cell of 2⁻⁶⁴, its float for 2⁻⁵³ of it.
        for row in np.flatnonzero(np.abs(uniform - coin) <= coin * 1e-12 + 2.0**-52):
            whole = int(along[row]), int(squares[row]), int(weights[row])
            kept[row] = self._kept_exactly(stream, int(words[row]), *whole)
        return along, kept

    def _kept_exactly(self, stream: Stream, word: int, along: int, square: int, weight: int) -> bool:
        bits, mp = 64, precise()
        while True:
            with mp.workprec(bits + 128):
                exponent = -_flatness(mp.mpf(self.step)) * (mp.mpf(self.step) * along) ** 2 / (2 * square)
                coin = mp.exp(exponent) * mp.mpf(self.scale) / weight
                doubt = mp.ldexp(coin, -bits - 32)
                if mp.ldexp(word + 1, -bits) <= coin - doubt:
                    return True
                if mp.ldexp(word, -bits) >= coin + doubt:
                    return False
            word, bits = (word << 64) | stream.integer(64), bits + 64


@lru_cache(maxsize=64)
def half_line(start: float, farthest: float, step: float, sizes: tuple[float, float]) -> HalfLine:
    """The table for lines that begin at most a whole number from ``start``·‖K‖/``step``.

    ``start`` and ``farthest``, beyond which no point is needed, are in deviations; ‖K‖ lies within ``sizes``.
    """
    shortest, longest = sizes
    stray = 1.01 * step / shortest + 1e-9
    place = np.arange(math.ceil((farthest + stray - start) / (step * shortest)) + 1)
    low = start - stray + place * (step * shortest)
    high = start + stray + (place + 1) * (step * longest)
    # Of all places of the i-th point the one nearest to the middle, where f is largest.
    middle = np.maximum(np.maximum(low, -high), 0.0)
    with np.errstate(under="ignore"):
        most = np.exp(-0.5 * _flatness(step) * np.square(middle))
    # Rounded up, so that no coin exceeds one; what that leaves of 2⁶⁴ goes to the last place.
    scale = _WORDS / float(most.sum()) * (1.0 - 2.0**-20)
    edges = np.cumsum(np.maximum(np.ceil(most * scale), 1.0).astype(np.uint64))[:-1]
    weights = np.diff(edges, prepend=np.uint64(0), append=np.uint64(0))  # the last: what is left of 2⁶⁴
    scale *= 1.0 - 2.0**-40
    beyond = math.sqrt(math.pi / 2.0) * math.erfc(start / math.sqrt(2.0))
    tries = _WORDS / scale * step * 0.5 * (shortest + longest) / beyond
    return HalfLine(step, edges, weights, scale, tries)


def _flatness(step: float) -> float:
    """What rounding to a grid of ``step`` makes of the one in exp(−x²/2)."""
    return 1 - step * step / 12
