"""Scores, labels, and what a threshold costs.

Record i has a score sᵢ in a declared range and a label yᵢ ∈ {0, 1}. At the threshold t it is called positive
if sᵢ ≥ t. Each false alarm costs c_fp and each miss c_fn, and the cost of t is

    J(t) = (1/n)·Σᵢ ℓᵢ(t),    ℓᵢ(t) = c_fp·[yᵢ = 0, sᵢ ≥ t] + c_fn·[yᵢ = 1, sᵢ < t].

The paper (Adaptive multimedia DP, section 3.3.1) writes FPR·c_fp + FNR·c_fn. Its rates are divided by the
sizes of the classes, and replacing one record changes those; so here everything is divided by n, which does
not change, and a share of positives may be *declared*: the costs become c_fp/(1 − share) and c_fn/share, and
J is the paper's cost where the declared share is the true one. Scores outside the range are clipped to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import numeric, positive, share, shown

__all__ = ["Decisions", "threshold_cost"]

Array = NDArray[np.float64]

_MOST_THRESHOLDS = 100_000


@dataclass(frozen=True, eq=False)
class Decisions:
    """Sorted scores of the negative and of the positive records, and what a false alarm and a miss cost."""

    negative: Array
    positive: Array
    false_alarm: float
    miss: float
    low: float
    high: float

    @classmethod
    def read(cls, scores: Any, labels: Any, costs: Any, positives: float | None, bounds: Any) -> Self:
        """Decisions about ``scores`` (n,) with ``labels`` (n,) of 0 and 1, clipped to ``bounds``."""
        low, high = _pair("bounds", bounds)
        if not low < high:
            raise BadInput(
                f"`bounds` must be a range such as (0.0, 1.0), not {shown(bounds)}.", parameter="bounds"
            )
        each = [
            positive(name, cost) for name, cost in zip(("c_fp", "c_fn"), _pair("costs", costs), strict=True)
        ]
        if positives is not None:
            declared = share("positives", positives)
            if not 1e-6 <= declared <= 1.0 - 1e-6:
                raise BadInput(
                    f"`positives` must be a share between 0 and 1, not {shown(positives)}.",
                    parameter="positives",
                )
            each = [each[0] / (1.0 - declared), each[1] / declared]
        values, truth = numeric(scores), np.asarray(labels)
        if values is None or values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise BadInput(
                "`scores` must be one column of finite numbers, at least one of them.", parameter="scores"
            )
        known = truth.dtype.kind in "biuf" and bool(((truth == 0) | (truth == 1)).all())
        if not known or truth.shape != values.shape:
            raise BadInput(
                f"`labels` must be {values.size} numbers, each 0 or 1, one for each score.",
                parameter="labels",
            )
        values, yes = np.clip(values, low, high), truth.astype(bool)
        return cls(np.sort(values[~yes]), np.sort(values[yes]), each[0], each[1], low, high)

    @property
    def count(self) -> int:
        """n, which is public."""
        return int(self.negative.size + self.positive.size)

    def counts(self, thresholds: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """False alarms and misses at each threshold."""
        alarms = self.negative.size - np.searchsorted(self.negative, thresholds, side="left")
        return np.asarray(alarms), np.asarray(np.searchsorted(self.positive, thresholds, side="left"))

    def costs(self, thresholds: Any) -> Array:
        """J at each threshold."""
        alarms, misses = self.counts(thresholds)
        return np.asarray((self.false_alarm * alarms + self.miss * misses) / self.count)

    def grid(self, thresholds: Any) -> Array:
        """``thresholds``, rising and inside the range, or that many of them equally spaced over it."""
        if isinstance(thresholds, int) and not isinstance(thresholds, bool):
            if not 2 <= thresholds <= _MOST_THRESHOLDS:
                raise BadInput(f"2 to {_MOST_THRESHOLDS} thresholds can be tried, not {thresholds}.")
            return np.linspace(self.low, self.high, thresholds)
        grid = numeric(thresholds)
        if grid is None or grid.ndim != 1 or not 1 <= grid.size <= _MOST_THRESHOLDS:
            raise BadInput(
                f"`thresholds` must be a number of them or a list, not {shown(thresholds)}.",
                parameter="thresholds",
            )
        if not (self.low <= grid[0] and grid[-1] <= self.high and (np.diff(grid) > 0).all()):
            raise BadInput(
                "`thresholds` must rise, and lie inside the bounds of the scores.", parameter="thresholds"
            )
        return grid

    def described(self, **more: Any) -> dict[str, Any]:
        """The public parameters of a statement."""
        costs = {"false_alarm": self.false_alarm, "miss": self.miss}
        return {"costs": costs, "bounds": [self.low, self.high], "records": self.count} | more


def threshold_cost(
    scores: Any,
    labels: Any,
    threshold: float,
    *,
    costs: tuple[float, float] = (1.0, 1.0),
    positives: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> float:
    """J(``threshold``), computed from the data itself: not private."""
    return float(Decisions.read(scores, labels, costs, positives, bounds).costs(float(threshold)))


def _pair(name: str, value: Any) -> tuple[float, float]:
    pair = numeric(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else None
    if pair is None or pair.shape != (2,) or not np.isfinite(pair).all():
        raise BadInput(f"`{name}` must be two finite numbers, not {shown(value)}.", parameter=name)
    return float(pair[0]), float(pair[1])
