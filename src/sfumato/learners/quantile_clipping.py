"""A clip that follows a quantile of the gradients' lengths, privately, and pays for it in the same step.

In every step each example that was taken also gives one bit: was its gradient at most C_t long? The bits,
each less 1/2, are summed with noise, and C_{t+1} = C_t·exp(−η(b̃ − quantile)), where b̃ is the noisy share of
ones: the sum over the *expected* number of examples, plus 1/2 (Andrew, Thakkar, McMahan & Ramaswamy 2021,
Algorithm 1; there an average over users, here Poisson samples).

**Guarantee.** Unit: record, zero-out neighbours. Where the record is taken, it adds to the step's release the
vector (g̃, b − 1/2) with ‖g̃‖ ≤ C_t and |b − 1/2| = 1/2; the null record in its place adds (0, 0). With noise
of z_Δ·C_t on the first and σ_b on the second, both divided by their deviation, the record moves the pair by
at most

    √(1/z_Δ² + 1/(2σ_b)²) = 1/z,

so the two releases of a step together are one Gaussian mechanism of multiplier z, and on a Poisson sample the
Poisson-sampled Gaussian of multiplier z. C_{t+1} is a function of what was released; a later step's clip may
be chosen so, since the multiplier z does not depend on it. With ``share`` s of 1/z² paid for the bit,
z_Δ = z/√(1 − s) and 2σ_b = z/√s. The bound is attained by a gradient of length C_t or more, with either bit.

Bits are summed as whole numbers ±1 in steps of 2⁻²⁰ with noise rounded to such a step, so no slack is left.
A gradient that is not finite adds to neither sum.

**Edge cases.** The clip never leaves [C_0·2⁻²⁰, C_0·2²⁰].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.noisy_sum import RADIUS, ClippedSum, clip_and_multiplier
from sfumato.mechanisms.parameters import positive, shown
from sfumato.noise import NORMAL, Rounded, Stream

__all__ = ["QuantileStep", "QuantileSum", "gradient_stretch"]

_FURTHEST = 2.0**20
# Above the last digits of the roots and quotients below.
_HAIR = 1.0 + 2.0**-48


def gradient_stretch(share: float) -> float:
    """z_Δ/z = 1/√(1 − ``share``): how much more noise gradients get, so that the bit can be paid."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 1e-6 <= share <= 0.999:
        raise BadInput(
            f"`share` was {shown(share)}: the bit's part of a step's budget lies in [1e-6, 0.999].",
            parameter="share",
        )
    return _HAIR / math.sqrt(1.0 - share)


@dataclass(frozen=True)
class QuantileStep:
    """How counts of bits are released and move clips toward ``quantile``; ``pace`` is η.

    ``expected`` is the public number of examples expected in a step, ``share`` the counts' part of 1/z².
    """

    expected: float
    quantile: float
    share: float
    pace: float

    def __post_init__(self) -> None:
        quantile = self.quantile
        if isinstance(quantile, bool) or not isinstance(quantile, int | float) or not 0.0 < quantile < 1.0:
            raise BadInput(
                f"`quantile` was {shown(quantile)}: it must lie above 0 and below 1.", parameter="quantile"
            )
        for name in ("expected", "pace"):
            positive(name, getattr(self, name))
        gradient_stretch(self.share)

    def check(self, first: float) -> None:
        """Refuse a clip from which gradients could not be summed wherever it moves."""
        clip_and_multiplier(first / _FURTHEST, 1.0)
        clip_and_multiplier(first * _FURTHEST, 1.0)

    def released(self, bits: Sequence[int], multiplier: float, stream: Stream) -> tuple[float, ...]:
        """The noisy share of ones for each sum of ±1 in ``bits``, under a deviation of 2σ_b.

        ``multiplier`` is √L·z for L counts: 2σ_b is that over √share.
        """
        # Of the sum of ±1, which is twice that of the shifted bits.
        deviation = math.nextafter(multiplier / math.sqrt(self.share) * _HAIR * RADIUS, math.inf)
        noise = Rounded(NORMAL, [deviation]).draw(stream, len(bits))[0]
        return tuple(
            0.5 + 0.5 * (count + float(drawn) / RADIUS) / self.expected
            for count, drawn in zip(bits, noise, strict=True)
        )

    def moved(self, clip: float, first: float, inside: float) -> float:
        """The next clip, where the share ``inside`` was released of ``clip``; ``first`` says its range."""
        # An exponent beyond this reaches the end of the range from anywhere in it.
        change = min(max(-self.pace * (inside - self.quantile), -30.0), 30.0)
        return min(max(clip * math.exp(change), first / _FURTHEST), first * _FURTHEST)


class QuantileSum(ClippedSum):
    """Sums clipped gradients, and after each step moves the clip toward ``quantile`` of their lengths.

    :meth:`exact` counts the bits of what it sums, and :meth:`advance` releases them and begins a new step.
    ``expected`` is the public number of examples expected in a step, ``clip`` the first clip, ``pace`` is η.
    """

    def __init__(
        self,
        clip: float,
        *,
        expected: float,
        stream: Stream,
        quantile: float = 0.5,
        share: float = 0.01,
        pace: float = 0.2,
    ) -> None:
        super().__init__(clip)
        self._quantile = QuantileStep(expected, quantile, share, pace)
        self._quantile.check(self.clip)
        self.first, self.share = self.clip, share
        self._stream = stream
        self._bits = 0

    def advance(self, multiplier: float) -> float:
        """Release the bits of the step, of which the whole has ``multiplier`` z, and set the next clip.

        Returns the noisy share of gradients that were at most as long as the clip.
        """
        multiplier = clip_and_multiplier(1.0, multiplier)[1]
        (inside,) = self._quantile.released([self._bits], multiplier, self._stream)
        self._bits = 0
        self.clip = self._quantile.moved(self.clip, self.first, inside)
        return inside

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        finite = lengths[torch.isfinite(lengths)]
        self._bits += 2 * int((finite <= self.clip).sum()) - len(finite)
        return super()._of_lengths(lengths)
