"""The Laplace mechanism on records in an L1 ball or a box.

**Guarantee.** Noise of scale b = Δ/ε on a value of L1 sensitivity Δ is ε-DP (Dwork, McSherry, Nissim
& Smith 2006, proposition 1). Unit: record. Neighbours: replace (Δ = 2·clip) or zero-out (Δ = clip).
The whole curve δ(ε) is that of one coordinate moved by Δ: any two records are joined by a path that moves
one coordinate at a time, and for a log-concave location family the trade-off curves along such a path
combine to that of one move of the same total length (Dong, Roth & Su 2022, group privacy).
"""

from __future__ import annotations

import math

from sfumato.mechanisms.additive import AdditiveMechanism
from sfumato.mechanisms.domain import Domain, declared_domain
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Epsilon,
    NeighboursName,
    RandomSource,
    known_neighbours,
    positive,
)
from sfumato.noise import LAPLACE, Law
from sfumato.privacy import RECORD, RECORDS, REQUIRED, Claim, Guarantee

__all__ = ["Laplace"]


class Laplace(AdditiveMechanism):
    """Adds Laplace noise to each record, clipped to an L1 ball (``clip``) or a box (``bounds``).

    ``epsilon`` > 0 is the promise for one record, with δ = 0.

    **Guarantee.** ε under replace or zero-out: Dwork, McSherry, Nissim & Smith 2006.
    """

    kinds = ("array", "table")
    units = ("record",)

    def __init__(
        self,
        epsilon: Epsilon = REQUIRED,
        clip: Clip = None,
        *,
        bounds: Bounds = None,
        neighbours: NeighboursName = RECORDS.neighbours,
        randomness: RandomSource = None,
    ) -> None:
        self.epsilon = epsilon
        self.clip = clip
        self.bounds = bounds
        self.neighbours = neighbours
        self.randomness = randomness

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Pure ε for one record."""
        self._domain_for(columns)
        return Guarantee.laplace(
            self._multiplier(),
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
            theorem="Laplace mechanism",
        )

    def claim(self) -> Claim | None:
        """The mechanism's own theorem: here claim and proof agree."""
        return Claim(
            text="ε-DP for noise calibrated to the L1 sensitivity",
            source="Dwork, McSherry, Nissim & Smith 2006, proposition 1",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
        )

    def scale(self, columns: int) -> float:
        """The scale of the noise on each coordinate of records with ``columns`` columns."""
        sensitivity = self._domain().sensitivity("l1", columns, known_neighbours(self.neighbours))
        return math.nextafter(sensitivity * self._multiplier(), math.inf)

    def _multiplier(self) -> float:
        """1/ε, or the next number where the ε read back from it would exceed ``epsilon``."""
        epsilon = positive("epsilon", self.epsilon)
        multiplier = 1.0 / epsilon
        return multiplier if 1.0 / multiplier <= epsilon else math.nextafter(multiplier, math.inf)

    def _domain(self) -> Domain:
        return declared_domain("l1", self.clip, self.bounds)

    def _law(self) -> Law:
        return LAPLACE

    def _scale(self, columns: int) -> float:
        return self.scale(columns)
