"""Membership attacks on a model's answers: loss thresholds, label-only inference and group differences.

**Loss threshold**: members have a smaller loss; one threshold for all records (Yeom et al. 2018), or one for
each class.

**Label only**: predictions for members are right more often.

**Differences** between members and non-members in accuracy, confidence, entropy and calibration, as CompactDP
reports them (its appendix H). A difference of 0 is no proof of privacy: the averages may agree where single
records give themselves away.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.audits import lower_bounds
from sfumato.audits.compactdp_attacks import Scorer, cross_fit
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["class_scorer", "loss_threshold", "model_differences"]

THREAT = "sees the model's answers about all members and all non-members, as two groups"
Floats = npt.NDArray[np.float64]


def loss_threshold(members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99) -> Finding:
    """Attack with minus the loss of a record as its score; nothing is learned."""
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
        return np.asarray(predictions.scaled_logit - halfway[predictions.labels])

    return score


def class_threshold(
    members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99, seed: int = 0
) -> Finding:
    """Attack with one threshold for each class, calibrated by stratified cross-validation."""
    return cross_fit(class_scorer, members, nonmembers, seed=seed).finding(
        "loss threshold a class",
        "sees the probability the model gives to the true label, and knows of other records whether they are "
        "members",
        confidence,
    )


def _class_means(known: Predictions) -> Floats:
    logits = known.scaled_logit
    counts = np.bincount(known.labels, minlength=known.classes)
    sums = np.bincount(known.labels, weights=logits, minlength=known.classes)
    return np.asarray((sums + 10.0 * float(np.mean(logits))) / (counts + 10.0))


def model_differences(
    members: Predictions,
    nonmembers: Predictions,
    *,
    resamples: int = 400,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Four findings: the value for members minus that for non-members, 0 being the chance of each.

    A model that knows its members is more accurate and more confident on them, and has a lower entropy and a
    lower calibration error; ``beats_chance`` is judged in these directions. Intervals: of the accuracy by
    joining the Clopper–Pearson intervals of both groups (Newcombe 1998), of the means by Welch's normal
    approximation, of the calibration error by the normal approximation with its bootstrapped deviation.
    So that its bias is that of equal numbers of records, the larger group's calibration error is the mean
    over ``resamples`` random parts of the size of the smaller.
    """
    check_comparable(members, nonmembers)
    if resamples < 50:
        raise BadInput(
            f"`resamples` was {resamples}: 50 are the least that give a deviation.", parameter="resamples"
        )
    for group, name in ((members, "members"), (nonmembers, "non-members")):
        if len(group) < 2:
            raise BadInput(f"a difference needs at least two {name} to show their spread: got {len(group)}.")
    rng = np.random.default_rng(seed)
    both = (members, nonmembers)
    found = (
        ("accuracy", True, *_accuracy(both, confidence)),
        ("confidence", True, *_means([group.confidence for group in both], confidence)),
        ("entropy", False, *_means([group.entropy for group in both], confidence)),
        ("calibration error", False, *_calibration(both, resamples, confidence, rng)),
    )
    return tuple(
        Finding(
            attack=f"difference in {name}",
            threat=THREAT,
            measure=f"{name}, members minus non-members",
            value=values[0] - values[1],
            chance=0.0,
            interval=interval,
            confidence=confidence,
            higher_is_worse=higher,
            numbers={"members": values[0], "nonmembers": values[1]},
        )
        for name, higher, values, interval in found
    )


def _accuracy(
    both: tuple[Predictions, Predictions], confidence: float
) -> tuple[list[float], tuple[float, float]]:
    hits = [int(group.correct.sum()) for group in both]
    values = [hit / len(group) for hit, group in zip(hits, both, strict=True)]
    (low, high), (other_low, other_high) = (
        lower_bounds.interval(hit, len(group), confidence) for hit, group in zip(hits, both, strict=True)
    )
    difference = values[0] - values[1]
    return values, (
        difference - math.hypot(values[0] - low, other_high - values[1]),
        difference + math.hypot(high - values[0], values[1] - other_low),
    )


def _means(both: list[Floats], confidence: float) -> tuple[list[float], tuple[float, float]]:
    values = [float(np.mean(group)) for group in both]
    deviation = math.sqrt(sum(float(np.var(group, ddof=1)) / group.size for group in both))
    return values, _normal(values[0] - values[1], deviation, confidence)


def _calibration(
    both: tuple[Predictions, Predictions],
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[list[float], tuple[float, float]]:
    size = min(len(group) for group in both)
    values, variance = [], 0.0
    for group in both:
        parts = np.stack([rng.permutation(len(group))[:size] for _ in range(resamples)])
        values.append(float(np.mean(calibration_errors(group, parts))))
        drawn = rng.integers(len(group), size=(resamples, size))
        variance += float(np.var(calibration_errors(group, drawn), ddof=1))
    return values, _normal(values[0] - values[1], math.sqrt(variance), confidence)


def calibration_errors(group: Predictions, rows: npt.NDArray[np.int64], bins: int = 15) -> Floats:
    """Return the expected calibration error of each row of ``rows``, which lists records.

    It is the mean distance between confidence and accuracy over ``bins`` equal bins of the confidence. Its
    estimate is biased upwards, the more so the fewer the records.
    """
    gaps = group.correct - group.confidence
    cells = np.minimum((group.confidence * bins).astype(np.int64), bins - 1)
    offsets = np.arange(len(rows))[:, np.newaxis] * bins
    totals = np.bincount(
        (cells[rows] + offsets).ravel(), weights=gaps[rows].ravel(), minlength=len(rows) * bins
    )
    return np.asarray(np.abs(totals).reshape(len(rows), bins).sum(axis=1) / rows.shape[1])


def _normal(value: float, deviation: float, confidence: float) -> tuple[float, float]:
    reach = -float(special.ndtri(lower_bounds.failure_chance(confidence) / 2.0)) * deviation
    return value - reach, value + reach


def label_only(members: Predictions, nonmembers: Predictions, *, confidence: float = 0.99) -> Finding:
    """Attack with whether a record's predicted label is right: the AUC is (1 + the gap in accuracy)/2."""
    first, second = (group.correct.astype(np.float64) for group in (members, nonmembers))
    return finding_from_scores(
        "label only",
        "sees only the predicted label",
        first,
        second,
        confidence=confidence,
        note=f"accuracy {np.mean(first):.4g} on members and {np.mean(second):.4g} on non-members",
    )
