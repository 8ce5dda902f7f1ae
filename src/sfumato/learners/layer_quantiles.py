"""Each layer's clip follows a quantile of its own gradients, privately, and pays for it in the same step.

In every step each example that was taken gives one bit for each of L layers: was its part of the gradient at
most C_l long? The bits of each layer are summed with noise of its own, and C_l follows the noisy share of
ones as the one clip of :mod:`sfumato.learners.quantile_clipping` does (Andrew, Thakkar, McMahan & Ramaswamy
2021, one count a layer). Gradients are those of :mod:`sfumato.learners.layer_clipping` with the present
lengths, under noise of z_Δ·C with C = √ΣC_l².

**Guarantee.** Unit: record, zero-out neighbours. Where the record is taken, it adds to the step's release the
vector (g̃, b − ½) with ‖g̃‖ ≤ C and b ∈ {0, 1}^L. Every entry of b − ½ is ½ or −½, so that its length is √L/2,
whatever the bits are: twice the shifted bits, ±1, have an L2 sensitivity of √L. The null record in its place
adds (0, 0). With deviations z_Δ·C of gradients and σ_b of each count, both divided by their deviation, the
record moves the whole by at most

    √(1/z_Δ² + L/(2σ_b)²) = 1/z,

and the releases of a step are together one Gaussian mechanism of multiplier z. With ``share`` s of 1/z² paid
for all counts together z_Δ = z/√(1 − s), as for one count, and 2σ_b = z√L/√s. The bound is attained by a
gradient that is C_l long or longer in every layer l. All C_l are functions of what was released,
and z does not depend on them: on samples, and composed over steps, it is what is proven for one clip.

Bits are summed as whole numbers ±1 in steps of 2⁻²⁰ with noise rounded to such a step. A layer that is not
finite, or longer than layer clipping takes, adds to neither sum, which is a shorter vector.

**Edge cases.** No clip falls or rises by more than 2²⁰ from its first length; after a step none is below 2⁻¹⁰
of the largest (it is lifted there): noise would drown it anyway, and layer clipping scales lengths so near to
each other by normal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from sfumato.learners.layer_clipping import LONGEST, LayerPart, LayerSum
from sfumato.learners.noisy_sum import clip_and_multiplier
from sfumato.learners.quantile_clipping import QuantileStep
from sfumato.noise import Stream

__all__ = ["LayerQuantileSum"]

_LEAST_OF_LARGEST = 2.0**-10


class LayerQuantileSum(LayerSum):
    """Sums layers clipped to lengths of their own, which move toward ``quantile`` after each step.

    :meth:`exact` counts the bits of what it sums, and :meth:`advance` releases them and begins a new step.
    ``clips`` are the first lengths; the rest is as in
    :class:`~sfumato.learners.quantile_clipping.QuantileSum`.
    """

    def __init__(
        self,
        clips: Sequence[float],
        layers: Sequence[Sequence[int]],
        *,
        expected: float,
        stream: Stream,
        quantile: float = 0.5,
        share: float = 0.01,
        pace: float = 0.2,
    ) -> None:
        super().__init__(clips, layers)
        self.first = self.clips
        self._quantile = QuantileStep(expected, quantile, share, pace)
        for clip in self.first:
            self._quantile.check(clip)
        self.share = share
        self._stream = stream

    def advance(self, multiplier: float) -> tuple[float, ...]:
        """Release the bits of the step, of which the whole has ``multiplier`` z, and set the next clips.

        Returns, for each layer, the noisy share of gradients that were at most as long as its clip.
        """
        multiplier = clip_and_multiplier(1.0, multiplier)[1] * math.sqrt(len(self.layers))
        bits = [part.bits for part in self._parts if isinstance(part, _Counted)]
        inside = self._quantile.released(bits, multiplier, self._stream)
        moved = [
            self._quantile.moved(clip, first, share)
            for clip, first, share in zip(self.clips, self.first, inside, strict=True)
        ]
        self._use([max(clip, _LEAST_OF_LARGEST * max(moved)) for clip in moved])
        return inside

    def _part(self, clip: float) -> LayerPart:
        return _Counted(clip, self.clip)


class _Counted(LayerPart):
    """One layer, with the sum of ±1 of the gradients of this step that were up to the clip, or beyond."""

    bits = 0

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        taken = lengths[lengths <= LONGEST]
        self.bits += 2 * int((taken <= self.clip).sum()) - len(taken)
        return super()._of_lengths(lengths)
