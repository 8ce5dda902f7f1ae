"""The Gaussian mechanism on records in an L2 ball or a box.

**Guarantee.** Analytic Gaussian (Balle & Wang 2018, theorem 8): noise of σ = Δ/μ on a value of L2
sensitivity Δ is (ε, δ)-DP exactly when Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) ≤ δ. Unit: record.
Neighbours: replace (Δ = 2·clip) or zero-out (Δ = clip).
"""

from __future__ import annotations

import math
from typing import ClassVar

from sfumato.mechanisms.additive import AdditiveMechanism
from sfumato.mechanisms.domain import Domain, declared_domain
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Delta,
    Epsilon,
    NeighboursName,
    RandomSource,
    delta_between,
    known_neighbours,
    positive,
)
from sfumato.noise import NORMAL, Law
from sfumato.privacy import DELTA, RECORD, RECORDS, REQUIRED, Claim, Guarantee, gaussian_mu

__all__ = ["Gaussian", "noise_multiplier"]


def noise_multiplier(epsilon: float, delta: float) -> float:
    """σ over sensitivity for (ε, δ); a hair more, so that the ε read back from it is at most ``epsilon``."""
    return 1.0 / gaussian_mu(epsilon * (1.0 - 1e-12), delta)


class Gaussian(AdditiveMechanism):
    """Adds Gaussian noise to each record, clipped to an L2 ball (``clip``) or a box (``bounds``).

    ``epsilon`` > 0 and 0 < ``delta`` < 1 are the promise for one record; ``neighbours`` is ``"replace"``
    or ``"zero-out"``. ``guarantee().epsilon(delta)`` is at most ``epsilon``, and less by 1e-12 of it.

    **Guarantee.** (ε, δ) under replace or zero-out: analytic Gaussian, Balle & Wang 2018.
    """

    kinds: ClassVar[tuple[str, ...]] = ("array", "table")
    default_for: ClassVar[tuple[str, ...]] = ("array", "table")
    units = ("record",)

    def __init__(
        self,
        epsilon: Epsilon = REQUIRED,
        delta: Delta = DELTA,
        clip: Clip = None,
        *,
        bounds: Bounds = None,
        neighbours: NeighboursName = RECORDS.neighbours,
        randomness: RandomSource = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.bounds = bounds
        self.neighbours = neighbours
        self.randomness = randomness

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """ε at δ for one record; the noise multiplier is σ over the sensitivity under these neighbours."""
        self._domain_for(columns)
        return Guarantee.gaussian(
            self._multiplier(),
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
            theorem="analytic Gaussian",
            at_delta=delta_between(self.delta),
        )

    def claim(self) -> Claim | None:
        """The mechanism's own theorem: here claim and proof agree."""
        return Claim(
            text="(ε, δ)-DP for noise calibrated to the L2 sensitivity",
            source="Balle & Wang 2018, theorem 8",
            epsilon=positive("epsilon", self.epsilon),
            delta=delta_between(self.delta),
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
        )

    def sigma(self, columns: int) -> float:
        """The standard deviation of the noise on each coordinate of records with ``columns`` columns."""
        sensitivity = self._domain().sensitivity("l2", columns, known_neighbours(self.neighbours))
        return math.nextafter(sensitivity * self._multiplier(), math.inf)

    def _multiplier(self) -> float:
        return noise_multiplier(positive("epsilon", self.epsilon), delta_between(self.delta))

    def _domain(self) -> Domain:
        return declared_domain("l2", self.clip, self.bounds)

    def _law(self) -> Law:
        return NORMAL

    def _scale(self, columns: int) -> float:
        return self.sigma(columns)
