"""Membership attacks on a model's answers: loss thresholds, label-only inference and group differences.

**Loss threshold**: members have a smaller loss; one threshold for all records (Yeom et al. 2018), or one for
each class.

**Label only**: members are answered rightly more often, and more steadily.

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
    """Attack with one threshold for each class, calibrated by stratified cross-validation."""
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
    errors: Floats = np.abs(totals).reshape(len(rows), bins).sum(axis=1) / rows.shape[1]
    return errors


def _normal(value: float, deviation: float, confidence: float) -> tuple[float, float]:
    reach = -float(special.ndtri(lower_bounds.failure_chance(confidence) / 2.0)) * deviation
    return value - reach, value + reach


def share_correct(predicted: npt.ArrayLike, labels: npt.ArrayLike, name: str = "records") -> Floats:
    """Return the share of a record's answers that are right, shape (n,).

    ``predicted`` holds the labels the model answered, (n,) for one query a record or (n, queries) for
    several noisy or augmented copies of it. Labels may be of any type that can be compared.
    """
    answers, truth = np.asarray(predicted), np.asarray(labels)
    for array, what in ((answers, "predicted labels"), (truth, "labels")):
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise BadInput(f"{what} of {name} hold NaN, first in row {np.argwhere(np.isnan(array))[0, 0]}.")
    if (answers.dtype.kind in "biuf") != (truth.dtype.kind in "biuf"):
        raise BadInput(f"of {name}, either labels or predicted labels are numbers: both or neither must be.")
    if truth.ndim != 1 or truth.size == 0:
        raise BadInput(f"labels of {name} must be one a record, at least one: got shape {truth.shape}.")
    if answers.ndim == 1:
        answers = answers[:, np.newaxis]
    if answers.ndim != 2 or answers.shape[0] != truth.size or answers.shape[1] == 0:
        raise BadInput(
            f"predicted labels of {name} must have shape ({truth.size},) or ({truth.size}, queries): "
            f"got {np.shape(predicted)}."
        )
    share: Floats = np.mean(answers == truth[:, np.newaxis], axis=1)
    return share


def label_only(
    members: npt.ArrayLike,
    member_labels: npt.ArrayLike,
    nonmembers: npt.ArrayLike,
    nonmember_labels: npt.ArrayLike,
    *,
    confidence: float = 0.99,
) -> Finding:
    """The correctness gap, or label-only inference with perturbed queries (Choquette-Choo et al. 2021).

    ``members`` and ``nonmembers`` are predicted labels as `share_correct` takes them. With one query a
    record the AUC is half of one plus the difference in accuracy; with several, a record far from the
    decision boundary is answered rightly more often, and members are. Both groups must be queried equally
    often.
    """
    first = share_correct(members, member_labels, "members")
    second = share_correct(nonmembers, nonmember_labels, "non-members")
    queries = [1 if np.ndim(array) == 1 else np.shape(array)[1] for array in (members, nonmembers)]
    if queries[0] != queries[1]:
        raise BadInput(
            f"`members` were queried {queries[0]} times and non-members {queries[1]} times: "
            "both must be queried equally often.",
            parameter="members",
        )
    note = f"accuracy {np.mean(first):.4g} on members and {np.mean(second):.4g} on non-members"
    plural = "" if queries[0] == 1 else f" of {queries[0]} perturbed copies of a record"
    return finding_from_scores(
        "label only" if queries[0] == 1 else "label only, perturbed queries",
        f"sees only the predicted label{plural}",
        first,
        second,
        confidence=confidence,
        note=note,
    )
