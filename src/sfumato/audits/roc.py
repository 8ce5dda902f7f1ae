"""ROC analysis of membership scores: AUC, true positive rate at a low false positive rate, advantage.

A score is any number that is higher for records the attacker believes to be members. Infinite scores are
allowed (a likelihood ratio may be infinite); NaN is not. Everything here sorts once, so it takes
O(n log n) time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.audits.findings import Finding
from sfumato.audits.lower_bounds import check_scores, failure_chance, interval
from sfumato.mechanisms import proper_share

Floats = npt.NDArray[np.float64]

LOW_FPR = 0.001  # where Carlini et al. (2022) ask for the true positive rate


def auc(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> float:
    """Return the probability that a random member scores above a random non-member, ties counted half."""
    return Placements.of(members, nonmembers).auc


@dataclass(frozen=True, eq=False)
class Placements:
    """For each member the share of non-members below it, for each non-member that of members above it.

    Ties count half, and ``tied`` is the share of pairs that are tied. Placements carry all that the AUC and
    its interval need. Those of several folds, whose scores come from different attackers and cannot be
    compared, are joined by `join`: the AUC is then the mean of those of the folds, and ``inflation`` is the
    factor by which their dependence raises its variance.
    """

    above: Floats
    below: Floats
    tied: float
    inflation: float = 1.0

    @classmethod
    def of(cls, members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> Placements:
        """Return the placements of two sets of scores."""
        first, second = _checked(members, nonmembers)
        above, tied = _share_below(first, second)
        return cls(above, 1.0 - _share_below(second, first)[0], tied)

    @classmethod
    def join(cls, folds: list[Placements]) -> Placements:
        """Return the placements of all K ≥ 2 folds of a cross-validation, each within its own.

        Two records that happen to look alike help the attacker of either fold to judge the other, so the
        folds' AUCs go up and down together, and the more so the less there is to find. The variance is
        raised by 1 + K/(K − 1), which is the correction of Nadeau and Bengio (2003).
        """
        weights = [fold.above.size for fold in folds]
        return cls(
            np.concatenate([fold.above for fold in folds]),
            np.concatenate([fold.below for fold in folds]),
            float(np.average([fold.tied for fold in folds], weights=weights)),
            1.0 + len(folds) / (len(folds) - 1.0),
        )

    @property
    def auc(self) -> float:
        """Return the probability that a random member scores above a random non-member of its fold."""
        return float(np.mean(self.above))

    def variance(self) -> float:
        """Return DeLong's (1988) variance of the AUC, with an allowance for ties.

        Where nearly all scores are tied (a model that is nearly always right) one side may show no spread
        at all, and DeLong's variance is far too small. Each side is therefore given 2·tied records of the
        lowest and as many of the highest placement, much as Agresti and Coull (1998) do for a proportion.
        Without ties, and for scores of one attacker, it is exactly DeLong's.
        """
        total = 0.0
        for sample in (self.above, self.below):
            middle = float(np.mean(sample))
            spread = float(np.sum((sample - middle) ** 2))
            spread += 2.0 * self.tied * (middle**2 + (1.0 - middle) ** 2)
            total += spread / (sample.size - 1) / sample.size
        return self.inflation * total

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return an interval that holds the AUC with about ``confidence``: normal on the logit scale.

        An AUC of exactly 1 means that each of min(members, non-members) disjoint pairs was ordered rightly,
        which has probability AUC^pairs; its interval, and that of 0, is exact for every sample size (of
        joined folds the pairs are counted as fewer, by ``inflation``). A single record on a side says
        nothing about spread, and the answer is (0, 1).
        """
        tail = failure_chance(confidence) / 2.0
        value, pairs = self.auc, min(self.above.size, self.below.size)
        if pairs < 2:
            return 0.0, 1.0
        bound = tail ** (self.inflation / pairs)
        if value in (0.0, 1.0):
            return (bound, 1.0) if value == 1.0 else (0.0, 1.0 - bound)
        reach = -float(special.ndtri(tail)) * math.sqrt(self.variance()) / (value * (1.0 - value))
        middle = float(special.logit(value))
        return float(special.expit(middle - reach)), float(special.expit(middle + reach))


def _checked(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> tuple[Floats, Floats]:
    return check_scores(members, "members' scores"), check_scores(nonmembers, "non-members' scores")


def _share_below(values: Floats, others: Floats) -> tuple[Floats, float]:
    ordered = np.sort(others)
    low = np.searchsorted(ordered, values, side="left")
    high = np.searchsorted(ordered, values, side="right")
    return (low + high) / (2.0 * others.size), float(np.mean(high - low)) / others.size


def _advantage(members: npt.ArrayLike, nonmembers: npt.ArrayLike) -> float:
    """Return the largest TPR − FPR over all thresholds; 0 where nobody is flagged."""
    first, second = map(np.sort, _checked(members, nonmembers))
    below = [np.searchsorted(scores, first) / scores.size for scores in (first, second)]
    return max(0.0, float(np.max(below[1] - below[0])))


class TruePositiveRate(NamedTuple):
    """The share of members above a threshold, its Clopper–Pearson interval, and a note, empty if resolved."""

    rate: float
    interval: tuple[float, float]
    note: str


def tpr_at_fpr(
    members: npt.ArrayLike, nonmembers: npt.ArrayLike, fpr: float = LOW_FPR, *, confidence: float = 0.99
) -> TruePositiveRate:
    """Return the true positive rate at the lowest threshold whose empirical FPR is at most ``fpr``.

    The interval is exact, since the threshold depends on non-members alone. The note says so where there are
    fewer than 1/fpr non-members, so that one of them above the threshold would already be too many.
    """
    first, second = _checked(members, nonmembers)
    proper_share("fpr", fpr)
    allowed = math.floor(fpr * second.size + 1e-9)
    # Everything strictly above this non-member may be flagged; it may not be, nor may its ties.
    barrier = np.sort(second)[second.size - 1 - allowed]
    flagged = int(np.count_nonzero(first > barrier))
    note = ""
    if allowed == 0:
        note = (
            f"{second.size} non-members cannot resolve a false positive rate of {fpr:g}: "
            f"the threshold stands above all of them, and at least {math.ceil(1 / fpr - 1e-9)} are needed."
        )
    return TruePositiveRate(flagged / first.size, interval(flagged, first.size, confidence), note)


def finding_from_scores(
    attack: str,
    threat: str,
    members: npt.ArrayLike,
    nonmembers: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    note: str = "",
    placements: Placements | None = None,
) -> Finding:
    """Return a membership attack's scores as a `Finding` whose value is the AUC and whose chance is 0.5.

    Its numbers hold the true positive rate at a false positive rate of 0.1% with its interval, the privacy
    risk (AUC − 0.5)/0.5, the advantage (the largest TPR − FPR over all thresholds, which flatters the
    attacker a little because the threshold is chosen on the same scores) and the two counts. Scores that are
    all equal, point the wrong way or are too few for 0.1% are named in the note. ``placements`` replaces
    those of the pooled scores in the AUC, where scores of several folds were pooled.
    """
    rate = tpr_at_fpr(members, nonmembers, LOW_FPR, confidence=confidence)
    placements = placements or Placements.of(members, nonmembers)
    value, ends = placements.auc, placements.interval(confidence)
    warning = ""
    if placements.tied == 1.0:
        warning = "every record has the same score, so this attacker can only guess"
    elif ends[1] < 0.5:
        warning = "the whole interval lies below a half: a reader who inverts the score would win"
    return Finding(
        attack=attack,
        threat=threat,
        measure="AUC",
        value=value,
        chance=0.5,
        interval=ends,
        confidence=confidence,
        numbers={
            "tpr_at_0.1%_fpr": rate.rate,
            "tpr_at_0.1%_fpr_low": rate.interval[0],
            "tpr_at_0.1%_fpr_high": rate.interval[1],
            "privacy_risk": (value - 0.5) / 0.5,
            "advantage": _advantage(members, nonmembers),
            "members": float(np.size(members)),
            "nonmembers": float(np.size(nonmembers)),
        },
        note="; ".join(part.rstrip(".") for part in (note, warning, rate.note) if part),
    )
