"""One tier of a picture's nested releases: block sums with rungs of Gaussian noise, restored.

**Guarantee.** All tiers share the blocks and the shares of the planes that are sensible for the most trusted
one. With these fixed, the deviations of all blocks are one vector r times a number: tier i, which promises
(ε_i, δ) or μ_i of the unit, has σ_i·r with σ_i = σ₀·μ₀/μ_i, since the loss √Σ(Δ_B/σ_B)² of ``block_noise``
is inversely proportional to that number for every placement of every unit. Tier i adds the noises of rungs
0…i to the same whole block sums, rung 0 of deviations σ₀·r and rung j of √(σ²_j − σ²_{j−1})·r, all
independent; sums of independent normals are normal, so it has N(0, σ²_i·r²) noise and proves what
``PlaneMeans`` with these deviations proves. Noisy sums S + N₀ + … + N_i are rounded once, to the grid that S
stands on; then come restoring, clipping and rounding to pixels.

Together: given S + N₀ in real numbers, everything else is made of noise that does not depend on the picture:
S + N₀ + N₁ adds an independent N₁, and so on. Rounding, restoring and clipping are post-processing too. So
all tiers together prove what the most trusted one proves, for every unit. Under keyed noise the rungs are a
function of the secret, of the block sums and of the list of all tiers, not of the tier that is drawn, so this
holds for tiers that are drawn one at a time.

**Edge cases.** Those of ``PlaneMeans``. Noise must be keyed and δ > 0: sums of Laplace noises have another
law than Laplace noise, and are not nested here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.declaration import Parameter
from sfumato.mechanisms.parameters import delta_between, epsilon_range, shown
from sfumato.mechanisms.tiers import Tier
from sfumato.media.images.block_noise import Design
from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.planes import UNITY
from sfumato.noise import NORMAL, Randomness, Rounded, Stream
from sfumato.privacy import Unit
from sfumato.privacy.defaults import DELTA, IMAGES, REQUIRED

__all__ = ["PlaneTier"]

Array = NDArray[np.float64]

# For what is lost when rungs are multiplied out and squares are taken apart.
_HAIR = 1.0 + 1e-12


class PlaneTier(Tier, PlaneMeans):
    """The tier of readers of ``distrust`` among ``levels`` of :class:`PlaneMeans` with Gaussian noise.

    ``epsilon`` is the range (ε_min, ε_max): a tier promises ε_max − distrust·(ε_max − ε_min) of ``unit`` at
    ``delta``. Readers come one at a time, so the noise must be keyed.
    """

    epsilon: Any
    shares = None

    def __init__(
        self,
        distrust: Annotated[float, Parameter(wire="trust")] = 1.0,
        levels: Sequence[float] = (0.0, 1.0),
        epsilon: Sequence[float] = REQUIRED,
        delta: float = DELTA,
        unit: str | Unit = IMAGES.unit,
        block: int | None = None,
        *,
        restore: str = "learned",
        chroma: float | None = None,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.distrust = distrust
        self.levels = levels
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.block = block
        self.restore = restore
        self.chroma = chroma
        self.shape = shape
        self.randomness = randomness

    def design(self, shape: Shape) -> Design:
        """The blocks of the most trusted tier, with the noise of this one."""
        levels, tier = self.ladder()
        delta_between(self.delta)
        low, high = epsilon_range(self.epsilon)
        if len(levels) > 1 and low == high:
            raise BadInput(
                f"tiers differ in their ε, but the range `epsilon` {shown(self.epsilon)} is one value.",
                parameter="epsilon",
            )
        members = [self._member(level) for level in levels]
        # A hair more where divided, so that no tier has less noise than it says.
        factors = [max(1.0, members[0]._target() / member._target() * _HAIR) for member in members]
        return _TierDesign(members[0].design(shape), factors, tier)

    def _target(self) -> float:
        return self._member(self.distrust)._target()

    def _member(self, level: float) -> PlaneMeans:
        """The mechanism that a tier would be alone; its blocks may be others."""
        low, high = epsilon_range(self.epsilon)
        return PlaneMeans(
            high - float(level) * (high - low),
            self.delta,
            self.unit,
            self.block,
            restore=self.restore,
            chroma=self.chroma,
            shape=self.shape,
        )

    def _notes(self) -> tuple[str, ...]:
        levels, _ = self.ladder()
        notes = super()._notes()
        if self.shape is None:
            return notes
        parameters = self.get_params(deep=False) | {"distrust": levels[0]}
        together = PlaneTier(**parameters).guarantee()
        return (*notes, f"one of {len(levels)} nested tiers; all {len(levels)} together: {together}")


class _TierDesign(Design):
    """A tier's noise on the blocks of ``base``: ``factors`` are the deviations of all tiers over its own."""

    def __init__(self, base: Design, factors: Sequence[float], tier: int) -> None:
        scales = tuple(scale * factors[tier] for scale in base.scales)
        super().__init__(base.blocks, base.chroma, scales, base.gaussian)
        self._base, self._factors, self._tier = base, factors, tier

    def white(self, high: float) -> int:
        """One grid for all tiers: that which the noise of the least trusted one can be drawn on."""
        widest = tuple(scale * self._factors[-1] for scale in self._base.scales)
        return Design(self.blocks, self.chroma, widest, self.gaussian).white(high)

    def rounded(self, white: int) -> Rounded:
        """The rungs up to this tier, in steps of the grid."""
        first = float(self._base.each.max()) * white * UNITY
        deviations = [first * factor for factor in self._factors]
        steps = [math.sqrt((b - a) * (b + a)) * _HAIR for a, b in pairwise(deviations)]
        return _OneTier([deviations[0] * _HAIR, *steps], self._tier)


class _OneTier(Rounded):
    """Nested noise of which one tier is given away; all rungs are drawn, since they share one stream."""

    def __init__(self, scales: Sequence[float], tier: int) -> None:
        super().__init__(NORMAL, scales)
        self._tier = tier

    def draw(
        self, stream: Stream, count: int, *, relative: Array | None = None, out: Array | None = None
    ) -> Array:
        """Integers, held in float64, of shape (1, count)."""
        return super().draw(stream, count, relative=relative, out=out)[self._tier : self._tier + 1]
