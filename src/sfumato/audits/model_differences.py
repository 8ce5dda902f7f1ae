"""How differently a model treats members and non-members: accuracy, confidence, entropy and calibration.

These are the differences CompactDP reports (its appendix H). A difference of 0 is no proof of privacy: the
averages may agree where single records give themselves away.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.audits import proportions
from sfumato.audits.findings import Finding
from sfumato.audits.predictions import Predictions, check_comparable
from sfumato.errors import BadInput

__all__ = ["expected_calibration_error", "model_differences"]

Floats = npt.NDArray[np.float64]

THREAT = "sees the model's answers about all members and all non-members, as two groups"


def expected_calibration_error(predictions: Predictions, *, bins: int = 15) -> float:
    """The mean distance between confidence and accuracy over ``bins`` equal bins of the confidence.

    Its estimate is biased upwards, the more so the fewer the records.
    """
    _check_bins(bins)
    rows = np.arange(len(predictions))[np.newaxis]
    return float(_calibration_errors(predictions, rows, bins)[0])


def model_differences(
    members: Predictions,
    nonmembers: Predictions,
    *,
    bins: int = 15,
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
    _check_bins(bins)
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
        ("calibration error", False, *_calibration(both, bins, resamples, confidence, rng)),
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
        proportions.interval(hit, len(group), confidence) for hit, group in zip(hits, both, strict=True)
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
    bins: int,
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[list[float], tuple[float, float]]:
    size = min(len(group) for group in both)
    values, variance = [], 0.0
    for group in both:
        parts = np.stack([rng.permutation(len(group))[:size] for _ in range(resamples)])
        values.append(float(np.mean(_calibration_errors(group, parts, bins))))
        drawn = rng.integers(len(group), size=(resamples, size))
        variance += float(np.var(_calibration_errors(group, drawn, bins), ddof=1))
    return values, _normal(values[0] - values[1], math.sqrt(variance), confidence)


def _calibration_errors(group: Predictions, rows: npt.NDArray[np.int64], bins: int) -> Floats:
    """The calibration error of each row of ``rows``, which lists records."""
    gaps = group.correct - group.confidence
    cells = np.minimum((group.confidence * bins).astype(np.int64), bins - 1)
    offsets = np.arange(len(rows))[:, np.newaxis] * bins
    totals = np.bincount(
        (cells[rows] + offsets).ravel(), weights=gaps[rows].ravel(), minlength=len(rows) * bins
    )
    errors: Floats = np.abs(totals).reshape(len(rows), bins).sum(axis=1) / rows.shape[1]
    return errors


def _normal(value: float, deviation: float, confidence: float) -> tuple[float, float]:
    if not 0.0 < confidence < 1.0:
        raise BadInput(
            f"`confidence` was {confidence!r}: it must lie strictly between 0 and 1.", parameter="confidence"
        )
    reach = -float(special.ndtri((1.0 - confidence) / 2.0)) * deviation
    return value - reach, value + reach


def _check_bins(bins: int) -> None:
    if bins < 1:
        raise BadInput(f"`bins` was {bins}: use at least one.", parameter="bins")
