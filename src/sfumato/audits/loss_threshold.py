"""Members have a smaller loss: one threshold for all records (Yeom et al. 2018), or one for each class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.audits.compactdp_attacks import Scorer, cross_fit
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import finding_from_scores

__all__ = ["class_scorer", "class_threshold", "loss_threshold"]

Floats = npt.NDArray[np.float64]


def loss_threshold(members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99) -> Finding:
    """The score of a record is minus its loss; nothing is learned, so every record is scored as it is."""
    check_comparable(members, nonmembers)
    return finding_from_scores(
        "loss threshold",
        "sees the probability the model gives to the true label",
        -members.loss,
        -nonmembers.loss,
        confidence=confidence,
    )


def class_scorer(members: Predictions, nonmembers: Predictions) -> Scorer:
    """Calibrate the threshold of each class on records of known membership (Song & Mittal 2021).

    The score is the scaled logit minus the point halfway between the means of the class's known members and
    non-members, so that 0 is the threshold of every class. Where a class has few of either, its mean is
    drawn towards that of all classes, as if ten records had that one.
    """
    check_comparable(members, nonmembers)
    halfway = (_class_means(members) + _class_means(nonmembers)) / 2.0

    def score(predictions: Predictions) -> Floats:
        logits: Floats = predictions.scaled_logit - halfway[predictions.labels]
        return logits

    return score


def class_threshold(
    members: Predictions,
    nonmembers: Predictions,
    *,
    folds: int = 5,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """One threshold a class, calibrated by stratified cross-validation on the other folds."""
    found = cross_fit(class_scorer, members, nonmembers, folds=folds, seed=seed)
    return finding_from_scores(
        "loss threshold a class",
        "sees the probability the model gives to the true label, and knows of other records whether they are "
        "members",
        found.members,
        found.nonmembers,
        confidence=confidence,
        placements=found.placements,
    )


def _class_means(known: Predictions) -> Floats:
    logits = known.scaled_logit
    counts = np.bincount(known.labels, minlength=known.classes)
    sums = np.bincount(known.labels, weights=logits, minlength=known.classes)
    means: Floats = (sums + 10.0 * float(np.mean(logits))) / (counts + 10.0)
    return means
