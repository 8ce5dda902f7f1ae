"""Rows of a table for one tier: numeric columns by nested Gaussian noise, coded ones by nested responses.

**Guarantee.** That of ``Rows`` with the ε of the tier. Both parts are nested, with noise and coins that are
independent of each other: so all tiers together are post-processing of the most trusted one, and cost what it
costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.mechanisms.parameters import epsilon_range
from sfumato.mechanisms.response_tier import ResponseTier
from sfumato.mechanisms.table_rows import Rows
from sfumato.mechanisms.trust_tier import TrustTier
from sfumato.privacy import Guarantee, Statement

__all__ = ["TierRows"]


class TierRows(Rows):
    """The rows of a table for the tier of ``mechanism``; the other arguments are those of :class:`Rows`."""

    def __init__(
        self,
        mechanism: TrustTier,
        bounds: Sequence[Sequence[float]],
        categories: Sequence[int],
        weights: Sequence[float],
    ) -> None:
        super().__init__(mechanism, bounds, categories, weights)
        self._given = (mechanism, bounds, categories, weights)
        if self.coded is not None:
            share = float(np.sum(weights[len(bounds) :]) / np.sum(weights))
            low, high = epsilon_range(mechanism.epsilon)
            self.coded = ResponseTier(
                mechanism.distrust,
                mechanism.levels,
                (low * share, high * share),
                self.coded.categories,
                weights=self.coded.weights,
                randomness=mechanism.randomness,
            )

    def together(self) -> Guarantee:
        """What is proven for a reader, or a coalition of readers, who sees every tier."""
        mechanism, bounds, categories, weights = self._given
        levels, _ = mechanism.ladder()
        best = TrustTier(**(mechanism.get_params(deep=False) | {"distrust": levels[0]}))
        return TierRows(best, bounds, categories, weights).guarantee()

    def statement(self) -> Statement:
        """That of the rows; what all tiers promise together is said of both parts of a row."""
        stated, count = super().statement(), len(self._given[0].levels)
        notes = [note for note in stated.notes if "nested tiers" not in note]
        together = f"one of {count} nested tiers; all {count} together: {self.together()}"
        return replace(stated, notes=(*notes, together))
