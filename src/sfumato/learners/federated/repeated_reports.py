"""Several PrivUnitG reports of one update, averaged: one report gains little beyond ε = 40, several of 40 do.

**Guarantee.** Unit client, neighbours replace. The update, trained minus received parameters, is one vector,
limited to ±``limit`` in every coordinate where a limit is declared and clipped to the L2 ball. Each of k
reports of it is the release of one record by PrivUnitG, ε₀-LDP by the theorem that stands there. Their coins
are independent, so k reports compose to the pure kε₀, and to less at a δ above 0; the mean of the reports,
added to what everybody knows, is post-processing. k and ε₀ are functions of the declared ε of a round alone:
k = ⌈ε/each⌉ and ε₀ = ε/k, a hair less, so that kε₀ never passes ε.

**Edge cases.** An update that is not finite counts as zero. The error of the mean falls as 1/k; where ε is at
most ``each`` there is one report, that of ``priv-unit-g``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.errors import BadInput
from sfumato.learners.federated.parameter_vectors import Arrays, Shapes, flat, shaped, size_of
from sfumato.learners.federated.protection_base import CLIENT, Protection, finite_or_zero, same_shapes
from sfumato.mechanisms import PrivUnitG
from sfumato.mechanisms.parameters import positive
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee

__all__ = ["RepeatedReports"]

# All reports of a round are in memory at once.
_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class RepeatedReports(Protection):
    """The mean of PrivUnitG reports, of at most ``each``, of the update clipped to ``clip`` in L2.

    ``epsilon`` is that of all reports of a round together; ``limit`` also bounds each coordinate.
    """

    epsilon: float
    clip: float
    each: float = 40.0
    limit: float | None = None
    name: str = "repeated-priv-unit-g"

    def __post_init__(self) -> None:
        for parameter in ("epsilon", "clip", "each"):
            positive(parameter, getattr(self, parameter))
        if self.limit is not None:
            positive("limit", self.limit)
        if self.epsilon > _MOST * self.each:
            raise BadInput(
                f"an epsilon of {self.epsilon:g} would take more than {_MOST:,} reports of {self.each:g}; "
                "take a smaller epsilon or a larger each."
            )

    @property
    def count(self) -> int:
        """How many reports there are in a round."""
        return max(1, math.ceil(self.epsilon / self.each))

    def mechanism(self, randomness: Randomness | None = None) -> PrivUnitG:
        """That of one report."""
        # Sums of ε stay below what was declared.
        return PrivUnitG(self.epsilon / self.count * (1.0 - 2.0**-40), self.clip, randomness=randomness)

    def guarantee(self, shapes: Shapes) -> Guarantee:
        """That of one report, ``count`` times."""
        return replace(self.mechanism().guarantee(size_of(shapes)).times(self.count), unit=CLIENT)

    def protect(self, arrays: Arrays, received: Arrays, randomness: Randomness | None = None) -> Arrays:
        """What was received plus the mean of the reports."""
        base = flat(received)
        with np.errstate(invalid="ignore"):
            update = finite_or_zero(same_shapes(arrays, received) - base)
        if self.limit is not None:
            update = np.clip(update, -self.limit, self.limit)
        # Rows of one release draw noise of their own.
        reports = self.mechanism(randomness).perturb(np.repeat(update[None, :], self.count, axis=0))
        return shaped(base + reports.mean(axis=0), received)

    def claim(self) -> Claim | None:
        """What the authors of PrivUnitG say of one report."""
        return self.mechanism().claim()

    def parameters(self) -> dict[str, Any]:
        """All of them."""
        plain = {"epsilon": self.epsilon, "clip": self.clip, "each": self.each, "reports": self.count}
        return plain | ({} if self.limit is None else {"limit": self.limit})
