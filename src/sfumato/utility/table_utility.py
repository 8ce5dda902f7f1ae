"""Utility of a released table: means, marginals, group shares, correlations and predictions.

Every number stands beside that of the original and beside that of a guess which nobody needs the release for:
the middle of the declared bounds, values evenly spread or half at either end (whichever is nearer), equal
groups, independent columns, the commonest class.
Released values are read as they stand, without correcting for the noise. Rows need not correspond: a table of
other rows, such as a synthetic one, is measured alike, but for a label that is not one of its columns.

**Better than guessing.** A measure counts as better where it beats the guess by more than its ``margin``,
which a release that says nothing (rows drawn from the guess) exceeds with probability at most 3.2e-5:

- A share of rows moves by at most 1/n with one row, so by McDiarmid's inequality a distance of shares exceeds
  its mean by √(log(1/α)/2n) with probability at most α; its mean is at least that of the guess (Jensen).
- Means and correlations of n rows are read as normal, with standard errors s/√n and 1/√n; four of them.
- Accuracy on originals: four standard errors of the paired difference to the guess, √(b + c)/n, where b and
  c count the rows that only one of both gets right (McNemar 1947). A classifier that learned from nothing but
  noise is one random direction, which may suit the originals by luck, all rows at once. So the release itself
  must relate the label to the features: half of it must predict the other half's labels
  (:func:`~sfumato.utility.probe.related`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.utility.assessment import Assessment, Measure
from sfumato.utility.distances import Progress
from sfumato.utility.paired_records import rows_of
from sfumato.utility.probe import ERRORS, Learner, fitted, related, split

__all__ = ["Field", "assess_table"]

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_CHANCE = 3.2e-5
_BINS = 10
# Columns that have rows of their own in a report, and pairs of columns that are looked at.
_SHOWN, _PAIRS = 20, 100


@dataclass(frozen=True)
class Field:
    """One column of a table: columns ``start`` up to ``stop`` of its rows of numbers.

    A numeric column is one of them, moved from ``bounds`` to [−1, 1]; a coded one has a column of zeros and
    ones for each of its ``categories``.
    """

    name: str
    start: int
    stop: int
    bounds: tuple[float, float] | None = None
    categories: tuple[str, ...] = ()


def share_margin(rows: int) -> float:
    """Return by how much shares of ``rows`` rows may beat a guess by chance alone."""
    return math.sqrt(-math.log(_CHANCE) / (2.0 * rows))


def assess_table(
    original: Any,
    released: Any,
    fields: Sequence[Field],
    labels: Any = None,
    *,
    seed: int = 0,
    report: Progress | None = None,
) -> Assessment:
    """Measure what the table ``released`` keeps of ``original``, both as rows of numbers by ``fields``.

    ``labels`` (n,) is what is predicted: the codes of one of the coded columns, which is then taken from the
    features and read off the release, or a class for each row that both tables have in common.
    """
    first, second = (rows_of(rows, name) for rows, name in ((original, "original"), (released, "released")))
    width = max(field.stop for field in fields)
    for rows, name in ((first, "original"), (second, "released")):
        if rows.shape[1] != width:
            raise BadInput(
                f"the {name} table has {rows.shape[1]} columns of numbers; its fields have {width}."
            )
    tell = report or (lambda stage, share: None)
    numeric = [field for field in fields if not field.categories]
    coded = [field for field in fields if field.categories]
    tell("marginals", 0.0)
    measures = [_mean(first, second, field) for field in numeric[:_SHOWN]]
    measures += [_marginal(first, second, field) for field in numeric[:_SHOWN]]
    measures += [_group_shares(first, second, field) for field in coded[:_SHOWN]]
    measures += _pairs(first, second, coded)
    measures += _correlations(first, second, fields)
    remarks = ["released values are read as they stand, without correcting for the noise."]
    hidden = max(len(numeric), len(coded)) - _SHOWN
    if hidden > 0:
        remarks.append(f"of each kind, the first {_SHOWN} columns have rows of their own.")
    tell("prediction", 0.5)
    if labels is None:
        remarks.append("no label was named, so nothing is predicted.")
    else:
        try:
            measures.append(_prediction(first, second, fields, np.asarray(labels), seed))
        except BadInput as refusal:
            remarks.append(str(refusal))
    tell("done", 1.0)
    return Assessment(tuple(measures), tuple(remarks))


def _mean(first: Floats, second: Floats, field: Field) -> Measure:
    """Measure the mean of a numeric column in its own unit; a guess is the middle of its bounds."""
    low, high = field.bounds or (-1.0, 1.0)
    half, middle = (high - low) / 2.0, (high + low) / 2.0
    before, after = (rows[:, field.start].astype(np.float64) * half + middle for rows in (first, second))
    margin = ERRORS * float(after.std()) / math.sqrt(len(after))
    return Measure(
        f"mean of {field.name}", float(after.mean()), "nearer", float(before.mean()), middle, margin=margin
    )


def _marginal(first: Floats, second: Floats, field: Field) -> Measure:
    edges = np.linspace(-1.0, 1.0, _BINS + 1)[1:-1]
    before, after = (_shares(np.digitize(rows[:, field.start], edges), _BINS) for rows in (first, second))
    # Noise beyond the bounds, which says nothing either, stands in the first and in the last bin.
    ends = np.zeros(_BINS)
    ends[[0, -1]] = 0.5
    return _apart(f"marginal of {field.name}, {_BINS} bins", before, after, len(second), ends)


def _group_shares(first: Floats, second: Floats, field: Field) -> Measure:
    count = len(field.categories)
    before, after = (_shares(_codes(rows, field), count) for rows in (first, second))
    return _apart(f"group shares of {field.name}", before, after, len(second))


def _pairs(first: Floats, second: Floats, coded: Sequence[Field]) -> list[Measure]:
    """Measure how far shares of pairs of groups are from the original's, averaged over pairs of columns."""
    found = []
    for one, other in islice(combinations(coded, 2), _PAIRS):
        size = len(one.categories) * len(other.categories)
        joint = [_codes(rows, one) * len(other.categories) + _codes(rows, other) for rows in (first, second)]
        before, after = (_shares(codes, size) for codes in joint)
        found.append(_apart("", before, after, len(second)))
    if not found:
        return []
    value, chance = (float(np.mean([getattr(one, name) for one in found])) for name in ("value", "chance"))
    note = f"{len(found)} pairs of columns"
    name = "shares of pairs of groups, mean distance"
    return [Measure(name, value, "lower", 0.0, chance, note, margin=share_margin(len(second)))]


def _correlations(first: Floats, second: Floats, fields: Sequence[Field]) -> list[Measure]:
    """Measure how far correlations are from the original's, on average; a guess is that there are none."""
    columns = [field.stop - 1 for field in fields if len(field.categories) in (0, 2)]
    kept = [rows[:, columns].astype(np.float64) for rows in (first, second)]
    varied = (kept[0].std(axis=0) > 0.0) & (kept[1].std(axis=0) > 0.0)
    if varied.sum() < 2:
        return []
    upper = np.triu_indices(int(varied.sum()), 1)
    before, after = (np.asarray(np.corrcoef(rows[:, varied], rowvar=False))[upper] for rows in kept)
    return [
        Measure(
            "correlations, mean error",
            float(np.abs(after - before).mean()),
            "lower",
            0.0,
            float(np.abs(before).mean()),
            f"{len(before)} pairs of numeric and two-valued columns",
            margin=ERRORS / math.sqrt(len(second)),
        )
    ]


def _prediction(
    first: Floats, second: Floats, fields: Sequence[Field], labels: NDArray[Any], seed: int
) -> Measure:
    """Test a classifier that learns features and label from the release on originals it did not see."""
    if labels.shape != (len(first),):
        raise BadInput(f"labels have shape {labels.shape}; {len(first)} rows need one each.")
    truth = np.unique(labels, return_inverse=True)[1].astype(np.intp)
    label = next((field for field in fields if field.categories and _holds(first, field, truth)), None)
    if label is None and len(first) != len(second):
        raise BadInput("the label is no column of the release, whose rows are others: nothing is predicted.")
    if label is not None:
        # Numbered by category, so that those of the release are the same ones.
        truth = _codes(first, label)
    learned = truth if label is None else _codes(second, label)
    gone = () if label is None else range(label.start, label.stop)
    features = [column for column in range(first.shape[1]) if column not in gone]
    if not features:
        raise BadInput("the table has no column beside the label: nothing is predicted.")
    parts = split(_compact(truth), seed=seed)
    taken = parts[0] if len(first) == len(second) else np.arange(len(second))
    if len(np.unique(learned[taken])) < 2:
        raise BadInput("the release holds one class of the label: nothing is predicted.")
    own = fitted(first[:, features], truth, parts)
    student = fitted(second[:, features], learned, (taken, parts[1]))
    tested = first[:, features]
    guess = int(np.bincount(truth[parts[0]]).argmax())
    right, usual = (_right(model, tested, truth, parts[1]) for model in (student, own))
    guessed = truth[parts[1]] == guess
    name = "accuracy on originals, learned from the release"
    margin = ERRORS * math.sqrt(int(np.count_nonzero(right != guessed))) / len(guessed)
    known = related(second[taken][:, features], _compact(learned[taken]), seed)
    return Measure(
        name if label is None else f"{name}: {label.name}, which is no feature",
        float(right.mean()),
        "higher",
        float(usual.mean()),
        float(guessed.mean()),
        "" if student.converged else "the fit did not converge",
        margin=margin if known else 1.0,
    )


def _right(model: Learner, rows: Floats, truth: Codes, held: Codes) -> NDArray[np.bool_]:
    return np.asarray(model.model.predict(rows[held].astype(np.float64)) == truth[held])


def _holds(rows: Floats, field: Field, truth: Codes) -> bool:
    """Return whether ``truth`` numbers the groups of a coded column."""
    return bool(np.array_equal(_compact(_codes(rows, field)), truth))


def _compact(codes: Codes) -> Codes:
    return np.unique(codes, return_inverse=True)[1].astype(np.intp)


def _codes(rows: Floats, field: Field) -> Codes:
    return np.asarray(rows[:, field.start : field.stop].argmax(axis=1), dtype=np.intp)


def _shares(codes: NDArray[Any], count: int) -> Floats:
    return np.bincount(codes, minlength=count) / len(codes)


def _apart(name: str, before: Floats, after: Floats, rows: int, ends: Floats | None = None) -> Measure:
    """Return the total variation distance of shares; a guess is that all are equal, or ``ends`` if nearer."""
    guesses = [np.full(len(before), 1.0 / len(before)), *([] if ends is None else [ends])]
    value, *chances = (float(np.abs(shares - before).sum() / 2.0) for shares in (after, *guesses))
    return Measure(name, value, "lower", 0.0, min(chances), "total variation", margin=share_margin(rows))
