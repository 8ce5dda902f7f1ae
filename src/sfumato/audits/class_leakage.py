"""How much a model gives away about the records of each class: membership attacks, one class at a time.

Classes differ: a class whose records lie far apart is remembered record by record while others are not, and
an average over all classes hides it. Members and non-members must come from one distribution, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.audits.compactdp_attacks import CONFIGURATIONS, attack_configurations
from sfumato.audits.findings import Finding
from sfumato.audits.loss_threshold import loss_threshold
from sfumato.audits.model_audit import NO_EPSILON
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.errors import BadInput

__all__ = ["ClassLeakage", "class_leakage"]

#: The attack that needs no training: a record's score is minus its loss.
LOSS = "loss threshold"


@dataclass(frozen=True)
class ClassLeakage:
    """What an attack found among the records of one class.

    ``finding`` has the AUC with its interval and, among its numbers, the true positive rate at a false
    positive rate of 0.1% and the advantage. It is None where the class has too few records, and ``note`` says
    so in words; otherwise ``note`` is that of the finding.
    """

    label: int
    members: int
    nonmembers: int
    finding: Finding | None
    note: str

    @property
    def auc(self) -> float | None:
        """The AUC of the attack within the class."""
        return None if self.finding is None else self.finding.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the AUC, at the confidence of the finding."""
        return None if self.finding is None else self.finding.interval

    @property
    def tpr(self) -> float | None:
        """The true positive rate at a false positive rate of 0.1%."""
        return None if self.finding is None else self.finding.numbers["tpr_at_0.1%_fpr"]

    @property
    def advantage(self) -> float | None:
        """The largest difference of true and false positive rate over all thresholds."""
        return None if self.finding is None else self.finding.numbers["advantage"]

    @property
    def leakage(self) -> float | None:
        """The leakage score, (AUC − 0.5)/0.5; below 0 where the attack does worse than a guess."""
        return None if self.finding is None else (self.finding.value - 0.5) / 0.5

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines; null where the class has too few records."""
        return {
            "class": self.label,
            "members": self.members,
            "nonmembers": self.nonmembers,
            "auc": self.auc,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": None if self.finding is None else self.finding.confidence,
            "tpr_at_0.1%_fpr": self.tpr,
            "advantage": self.advantage,
            "leakage": self.leakage,
            "note": self.note,
        }


def class_leakage(
    members: Predictions,
    nonmembers: Predictions,
    *,
    attack: str = LOSS,
    fewest: int = 10,
    folds: int = 5,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[ClassLeakage, ...]:
    """One row for each class, in the order of the labels, of ``attack`` among the records of that class.

    ``attack`` is ``"loss threshold"`` or the name of a configuration of CompactDP's Table 1, which learns
    from the records of the class alone, in ``folds`` folds. A class with fewer than ``fewest`` members or
    non-members (for a configuration, two a fold at least), or, for a configuration, whose answers are all the
    same, is answered in words. Each interval holds with ``confidence`` by itself, not all together.
    """
    check_comparable(members, nonmembers)
    if isinstance(fewest, bool) or fewest < 2:
        raise BadInput(
            f"`fewest` was {fewest!r}: an interval needs 2 records of each side or more.", parameter="fewest"
        )
    known = [item.name for item in CONFIGURATIONS]
    if attack != LOSS and attack not in known:
        raise BadInput(f"{attack!r} is no attack on a class: choose {LOSS} or one of {', '.join(known)}.")
    needed = fewest if attack == LOSS else max(fewest, 2 * folds)
    rows = []
    for label in range(members.classes):
        mine, others = (np.flatnonzero(group.labels == label) for group in (members, nonmembers))
        if min(mine.size, others.size) < needed:
            note = (
                f"class {label} has {mine.size} members and {others.size} non-members: {needed} of each are "
                "the fewest that say anything"
            )
            rows.append(ClassLeakage(label, mine.size, others.size, None, note))
            continue
        inside, outside = members.rows(mine), nonmembers.rows(others)
        if attack == LOSS:
            found = loss_threshold(inside, outside, confidence=confidence)
        elif _all_the_same(inside, outside):
            note = f"the model gives every record of class {label} the same answer: there is nothing to learn"
            rows.append(ClassLeakage(label, mine.size, others.size, None, note))
            continue
        else:
            found = attack_configurations(
                inside, outside, names=[attack], folds=folds, confidence=confidence, seed=seed
            )[0]
        note = "; ".join(part for part in (found.note, NO_EPSILON) if part)
        found = replace(found, attack=f"{found.attack}, class {label}", note=note)
        rows.append(ClassLeakage(label, mine.size, others.size, found, note))
    return tuple(rows)


def _all_the_same(*groups: Predictions) -> bool:
    first = groups[0].probabilities[0]
    return all(bool((group.probabilities == first).all()) for group in groups)
