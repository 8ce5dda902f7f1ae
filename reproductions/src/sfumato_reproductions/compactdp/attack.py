"""Attacks on one model, what a one-run audit bounds, and the paper's conversions with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from sfumato.audits import (
    CONFIGURATIONS,
    Configuration,
    Predictions,
    cross_fit,
)
from sfumato_reproductions.compactdp.protocol import CONFIDENCE, DELTA
from sfumato_reproductions.proportions import interval
from sfumato_reproductions.regenerate import Report

__all__ = ["Attack", "Heuristics", "Range", "attack_all"]


@dataclass(frozen=True)
class Range:
    """A number that is called ε by convention, between ``low`` and ``high`` as the rates are; no bound on ε.

    None where a logarithm does not exist.
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def over(cls, seeds: Sequence[Range]) -> Range:
        """The mean over ``seeds``, between the lowest and the highest end; None where one of them is."""
        values, lows, highs = zip(*((one.value, one.low, one.high) for one in seeds), strict=True)
        return cls(
            None if None in values else math.fsum(values) / len(values),
            None if None in lows else min(lows),
            None if None in highs else max(highs),
        )


@dataclass(frozen=True)
class Heuristics:
    """The paper's conversions of one attack, without the one that needs other models."""

    advantage: Range
    rates: Range


@dataclass(frozen=True)
class Attack:
    """What one configuration reached.

    ``low`` to ``high`` holds its AUC, and with 0.95 so do the intervals of all attacks together. ``tpr`` is
    the rate of true positives at 0.1% of false ones, with its Clopper–Pearson interval. ``flagged`` of the
    ``members`` and ``falsely`` flagged of the ``nonmembers`` are in the upper half of all scores.
    """

    name: str
    auc: float
    low: float
    high: float
    tpr: float
    tpr_low: float
    tpr_high: float
    flagged: int
    members: int
    falsely: int
    nonmembers: int

    @property
    def finds(self) -> bool:
        """Whether it does better than a coin, after the correction for several attacks."""
        return self.low > 0.5

    @property
    def advantage(self) -> float:
        """True minus false positive rate where the upper half of all scores is flagged."""
        return self.flagged / self.members - self.falsely / self.nonmembers

    @property
    def heuristics(self) -> Heuristics:
        """Of the rates at which the upper half is flagged; both intervals hold together."""
        each = 1.0 - (1.0 - CONFIDENCE) / 2.0
        tpr, fpr = self.flagged / self.members, self.falsely / self.nonmembers
        (a, b), (c, d) = (
            interval(self.flagged, self.members, each),
            interval(self.falsely, self.nonmembers, each),
        )
        advantages = [
            math.log(1.0 + value - 2.0 * DELTA) - math.log1p(-DELTA) for value in (tpr - fpr, a - d, b - c)
        ]
        return Heuristics(Range(*advantages), Range(_ratio(tpr, fpr), _ratio(a, d), _ratio(b, c)))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Attack:
        """What :meth:`to_dict` wrote."""
        return cls(**value)


def _ratio(above: float, below: float) -> float | None:
    return math.log(above / below) if above > 0.0 and below > 0.0 else None


def attack_all(
    inside: Predictions,
    outside: Predictions,
    *,
    folds: int,
    seed: int,
    report: Report,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
) -> tuple[Attack, ...]:
    """All ``configurations``, the six of the paper's table 1 unless others are given."""
    found = []
    each = 1.0 - (1.0 - CONFIDENCE) / len(configurations)
    for done, item in enumerate(configurations):
        found.append(_attack(item, inside, outside, each, folds, seed))
        report("attacking", (done + 1) / len(configurations))
    return tuple(found)


def _attack(
    item: Configuration, inside: Predictions, outside: Predictions, each: float, folds: int, seed: int
) -> Attack:
    fitted = cross_fit(partial(item.fit, seed=seed), inside, outside, folds=folds, seed=seed)
    low, high = fitted.placements.interval(each)
    rates = fitted.finding(item.name, item.description, CONFIDENCE).numbers
    middle = float(np.median(np.concatenate([fitted.members, fitted.nonmembers])))
    return Attack(
        name=item.name,
        auc=fitted.placements.auc,
        low=low,
        high=high,
        tpr=rates["tpr_at_0.1%_fpr"],
        tpr_low=rates["tpr_at_0.1%_fpr_low"],
        tpr_high=rates["tpr_at_0.1%_fpr_high"],
        flagged=int(np.count_nonzero(fitted.members >= middle)),
        members=fitted.members.size,
        falsely=int(np.count_nonzero(fitted.nonmembers >= middle)),
        nonmembers=fitted.nonmembers.size,
    )
