"""Three conversions of attack results into an "empirical ε", as the CompactDP paper uses them.

They are heuristics: none is a bound on ε in either direction. They exist so that the paper's numbers can be
recomputed and put beside bounds that hold (:mod:`~sfumato.audits.threshold`, :mod:`~sfumato.audits.one_run`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.audits.bound import check_delta
from sfumato.errors import BadInput

__all__ = ["Heuristic", "from_advantage", "from_auc", "from_rates"]

_CAUTION = (
    "heuristic: a weak attack yields a small number, which says nothing about how private the release is; "
    "this is no bound on ε"
)


@dataclass(frozen=True)
class Heuristic:
    """A number called ε by convention, the formula it came from, and why not to rely on it."""

    name: str
    epsilon: float
    formula: str
    caution: str = _CAUTION

    def __str__(self) -> str:
        return f"{self.name}: ε ≈ {self.epsilon:.4g} by {self.formula}; {self.caution}"


def from_advantage(advantage: float, *, delta: float) -> Heuristic:
    """log(1 + advantage − 2δ) − log(1 − δ), for a membership advantage TPR − FPR in [−1, 1].

    Negative where the advantage is below δ: a guess. Refused where the logarithm does not exist.
    """
    delta = check_delta(delta)
    if not -1.0 <= advantage <= 1.0:
        raise BadInput(f"`advantage` was {advantage!r}: it must lie between -1 and 1.", parameter="advantage")
    inside = 1.0 + advantage - 2.0 * delta
    if inside <= 0.0:
        raise BadInput(
            f"an advantage of {advantage:g} at a delta of {delta:g} has no logarithm here: "
            "1 + advantage − 2δ must be above 0."
        )
    value = math.log(inside) - math.log1p(-delta)
    return Heuristic("advantage", value, "log(1 + advantage − 2δ) − log(1 − δ)")


def from_rates(tpr: float, fpr: float) -> Heuristic:
    """log(TPR/FPR); refused where one of them is 0, since no ratio can be read off what never happened."""
    for name, rate in (("tpr", tpr), ("fpr", fpr)):
        if not 0.0 <= rate <= 1.0:
            raise BadInput(f"`{name}` was {rate!r}: a rate lies between 0 and 1.", parameter=name)
        if rate == 0.0:
            raise BadInput(
                f"`{name}` was 0: log(TPR/FPR) does not exist; take Clopper–Pearson bounds of both instead.",
                parameter=name,
            )
    return Heuristic("rates", math.log(tpr) - math.log(fpr), "log(TPR/FPR)")


def from_auc(auc: float, calibration: Iterable[tuple[float, float]]) -> Heuristic:
    """The value at ``auc`` of the least-squares line through ``calibration``, pairs (AUC, ε) of known models.

    Two or more pairs with different AUC are needed. The line is not cut off, so ε may come out negative.
    """
    if not 0.0 <= auc <= 1.0:
        raise BadInput(f"`auc` was {auc!r}: it must lie between 0 and 1.", parameter="auc")
    try:
        pairs = np.array([tuple(map(float, pair)) for pair in calibration], dtype=np.float64)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.isfinite(pairs).all():
        raise BadInput("the calibration must be pairs of finite numbers (AUC, ε), one for each known model.")
    areas, epsilons = pairs.T
    if len(np.unique(areas)) < 2:
        raise BadInput(
            f"{len(pairs)} calibration pairs with one AUC give no line: two different AUC are needed."
        )
    spread = areas - areas.mean()
    slope = float(spread @ epsilons / (spread @ spread))
    start = float(epsilons.mean() - slope * areas.mean())
    return Heuristic(
        "AUC", start + slope * auc, f"a line through {len(pairs)} models, {start:.4g} + {slope:.4g}·AUC"
    )
