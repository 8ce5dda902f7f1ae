"""Personalised privacy: every record has an ε of its own.

The baseline *Personalized DP* of TADP-RME (after Jorgensen, Yu & Cormode 2015), drawn by the Gaussian
mechanism with one σ a record.

**Guarantee.** Record i is protected with (εᵢ, δ) by the analytic Gaussian, since no other row depends
on it; ``guarantee()`` is that of the largest εᵢ, which holds for every record. The εᵢ are public and
must not be computed from the records.
"""

from __future__ import annotations

from numbers import Real
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.gaussian import Gaussian, noise_multiplier
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Delta,
    NeighboursName,
    Parameter,
    RandomSource,
    delta_between,
    known_neighbours,
    positive,
    positives,
    shown,
)
from sfumato.privacy import DELTA, RECORD, RECORDS, REQUIRED, Claim, Guarantee

__all__ = ["Personalised"]

Array = NDArray[np.float64]


class Personalised(Gaussian):
    """Gaussian noise with a public ``epsilon`` for each record: one number for all, or one a row.

    **Guarantee.** ``guarantee_of(i)`` for record i, and the largest ε for all, under replace or zero-out:
    analytic Gaussian.
    """

    kinds = ("array",)
    units = ("record",)

    def __init__(
        self,
        epsilon: Annotated[
            Any,
            Parameter(
                "One public privacy budget for all records, or one for each.", symbol="ε", file="epsilon_file"
            ),
        ] = REQUIRED,
        delta: Delta = DELTA,
        clip: Clip = None,
        *,
        bounds: Bounds = None,
        neighbours: NeighboursName = RECORDS.neighbours,
        randomness: RandomSource = None,
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
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
        )

    def check(self, X: NDArray[Any], first: int = 0) -> None:
        """Refuse also rows without an ε; see :meth:`Mechanism.check`."""
        super().check(X, first)
        self._require_budgets(first + X.shape[0])

    def _records(self, X: Any, *, reset: bool) -> NDArray[Any]:
        data = super()._records(X, reset=reset)
        declared = self._budgets().size
        if declared not in (1, data.shape[0]):
            raise BadInput(
                f"`epsilon` was declared for {declared} records, but the data has {data.shape[0]}.",
                parameter="epsilon",
            )
        return data

    def _require_budgets(self, rows: int) -> None:
        declared = self._budgets().size
        if 1 < declared < rows:
            raise BadInput(
                f"`epsilon` was declared for {declared} records, but the data has more.", parameter="epsilon"
            )

    def _budgets(self) -> Array:
        if isinstance(self.epsilon, Real):
            return np.array([positive("epsilon", self.epsilon)])
        budgets = positives(self.epsilon)
        if budgets is None:
            raise BadInput(
                f"`epsilon` must be one positive number, or one for each record, not {shown(self.epsilon)}.",
                parameter="epsilon",
            )
        return budgets

    def _multiplier(self) -> float:
        """Of the most private record, whose σ is the largest: the scale that the others are fractions of."""
        return noise_multiplier(float(self._budgets().min()), delta_between(self.delta))

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """That of the record with the largest ε, which holds for every record."""
        return self._guarantee_at(float(self._budgets().max()), columns)

    def _guarantee_at(self, epsilon: float, columns: int | None = None) -> Guarantee:
        domain = {"clip": self.clip, "bounds": self.bounds}
        return Gaussian(epsilon, self.delta, **domain, neighbours=self.neighbours).guarantee(columns)

    def _relative(self, first: int, rows: int) -> Array | None:
        budgets = self._budgets()
        if budgets.size == 1:
            return None
        self._require_budgets(first + rows)
        levels, own = np.unique(budgets[first : first + rows], return_inverse=True)
        largest = self._multiplier()
        factors = np.array([noise_multiplier(float(level), self.delta) / largest for level in levels])
        # A hair up, so that rounding never leaves a record with less noise than its ε asks for.
        return np.asarray(np.minimum(factors * (1.0 + 2.0**-50), 1.0)[own])
