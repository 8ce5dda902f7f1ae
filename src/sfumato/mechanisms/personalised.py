"""Personalised privacy: every record has an ε of its own.

The baseline *Personalized DP* of TADP-RME (after Jorgensen, Yu & Cormode 2015), drawn by the Gaussian
mechanism with one σ a record.

**Guarantee.** Record i is protected with (εᵢ, δ) by the analytic Gaussian, since no other row depends
on it; ``guarantee()`` is that of the largest εᵢ, which holds for every record. The εᵢ are public and
must not be computed from the records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.gaussian import Gaussian
from sfumato.mechanisms.parameters import delta_between, positive
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee, gaussian_mu

__all__ = ["Personalised"]

Array = NDArray[np.float64]


class Personalised(Gaussian):
    """Gaussian noise with a public ``epsilon`` for each record: one number for all, or one a row."""

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: float = 1e-6,
        clip: float | None = None,
        *,
        bounds: Any = None,
        neighbours: str = "replace",
        randomness: Randomness | None = None,
    ) -> None:
        super().__init__(epsilon, delta, clip, bounds=bounds, neighbours=neighbours, randomness=randomness)

    def guarantee_of(self, record: int) -> Guarantee:
        """The guarantee of one record, counted from 0."""
        budgets = self._budgets()
        if not 0 <= record < budgets.size and budgets.size > 1:
            raise BadInput(f"there is no record {record}; epsilon was declared for {budgets.size} records.")
        return self._guarantee_at(float(budgets[record if budgets.size > 1 else 0]))

    def claim(self) -> Claim | None:
        """Personalised DP as its authors define it."""
        return Claim(
            text="(εᵢ, δ)-DP for record i; the largest εᵢ is shown",
            source="Jorgensen, Yu & Cormode 2015, definition 4",
            epsilon=float(self._budgets().max()),
            delta=delta_between(self.delta),
        )

    def _budgets(self) -> Array:
        if np.ndim(self.epsilon) == 0:
            return np.array([positive("epsilon", self.epsilon)])
        try:
            budgets = np.asarray(self.epsilon, dtype=np.float64)
        except (TypeError, ValueError):
            budgets = np.empty((0, 0))
        if budgets.ndim != 1 or not budgets.size or not (np.isfinite(budgets) & (budgets > 0)).all():
            raise BadInput("epsilon must be one positive number, or one positive number for each record.")
        return budgets

    def _mu(self) -> float:
        """Of the most private record, whose σ is the largest: the scale that the others are fractions of."""
        return gaussian_mu(float(self._budgets().min()), delta_between(self.delta))

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """That of the record with the largest ε, which holds for every record."""
        return self._guarantee_at(float(self._budgets().max()))

    def _guarantee_at(self, epsilon: float) -> Guarantee:
        domain = {"clip": self.clip, "bounds": self.bounds}
        return Gaussian(epsilon, self.delta, **domain, neighbours=self.neighbours).guarantee()

    def _relative(self, first: int, rows: int) -> Array | None:
        budgets = self._budgets()
        if budgets.size == 1:
            return None
        if first + rows > budgets.size:
            raise BadInput(f"epsilon was declared for {budgets.size} records, but the data has more.")
        levels, own = np.unique(budgets[first : first + rows], return_inverse=True)
        smallest = self._mu()
        factors = np.array([smallest / gaussian_mu(float(level), self.delta) for level in levels])
        # A hair up, so that rounding never leaves a record with less noise than its ε asks for.
        return np.asarray(np.minimum(factors * (1.0 + 2.0**-50), 1.0)[own])
