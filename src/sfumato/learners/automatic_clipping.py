"""Automatic clipping: every gradient is brought to nearly the same length, so that no clip is chosen.

The gradient g of an example is replaced by g/(‖g‖ + γ) (Bu, Wang, Zha & Karypis 2023, "AUTO-S"), which has a
length below 1 whatever g is; γ keeps the smallest gradients from counting as much as large ones. This is the
baseline *Autoclip* of CompactDP's Table 4.

**Guarantee.** Unit: record, zero-out neighbours. In whole steps of 2⁻²⁰ an example contributes a vector k of
its own alone, with ‖k‖ ≤ 2²⁰: the scale 2²⁰(1 − 2⁻²⁰)/(‖g‖ + γ) is never larger than the one that
:mod:`sfumato.learners.noisy_sum` uses with a clip of ‖g‖, so the bounds on rounding given there hold word for
word, and γ from 1e-30 to 1e30 keeps it a normal float32 number. A sum with noise of multiplier z is therefore
the Gaussian mechanism of multiplier z, and all that is proven of clipped sums holds of these.
"""

from __future__ import annotations

from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.noisy_sum import MARGIN, RADIUS, ClippedSum
from sfumato.mechanisms.parameters import positive, shown

__all__ = ["NormalisedSum"]


class NormalisedSum(ClippedSum):
    """Sums g/(‖g‖ + ``gamma``) over examples; each is shorter than 1, which takes the place of the clip."""

    def __init__(self, gamma: float = 0.01) -> None:
        super().__init__(1.0)
        self.gamma = positive("gamma", gamma)
        if not 1e-30 <= self.gamma <= 1e30:
            raise BadInput(
                f"`gamma` was {shown(gamma)}: it must lie between 1e-30 and 1e30.", parameter="gamma"
            )

    def _of_lengths(self, lengths: Tensor) -> Tensor:
        return RADIUS * MARGIN / (lengths + self.gamma)
