"""Exact-value leak: how many released values are the original's own, bit by bit.

Continuous noise leaves no value as it was, but a method that keeps a value with some probability, or forgets
to clip or to add noise somewhere, does. Equality alone is no leak: a picture is mostly black and a released
black pixel says nothing. So only values are counted that differ from their column's most frequent one, and
chance is how often they would equal the value released for *another* record.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sfumato.audit.finding import Finding
from sfumato.audit.matching import View, corresponding, rows_of
from sfumato.audit.proportions import failure_chance, interval
from sfumato.errors import BadInput

__all__ = ["exact_value_leak"]

Floats = NDArray[np.float64]


def exact_value_leak(
    original: ArrayLike,
    released: ArrayLike,
    *,
    view: View | None = None,
    confidence: float = 0.99,
) -> Finding:
    """The share of values, of those unlike their column's most frequent one, that are released exactly.

    A value counts as released exactly where the released one equals it, or equals its rounding to single
    precision if the release is in single precision. Chance is the expected share if the released rows
    belonged to other records, computed from all pairs of rows and not from a sample of them. Noise on the
    grid of the data itself leaves some values as they were, and then beats this chance without any fault.
    """
    before, after = corresponding(original, released, view)
    if view is None and rows_of(released, "release").dtype == np.float32:
        before = before.astype(np.float32).astype(np.float64)
    rows, columns = before.shape
    equal = before == after
    telling = np.empty(before.shape, dtype=bool)
    coincidence = np.zeros(rows)
    for column in range(columns):
        mode, expected = _column(before[:, column], after[:, column], equal[:, column])
        telling[:, column] = before[:, column] != mode
        coincidence += np.where(telling[:, column], expected, 0.0)
    asked = telling.sum(axis=1)
    if not asked.any():
        raise BadInput("every column of the original holds one value only: there is nothing to leak.")
    leaked = (equal & telling).sum(axis=1)
    total, count = int(asked.sum()), int(leaked.sum())
    return Finding(
        attack="exact values",
        threat="sees the release and asks which of its values are the original's own",
        measure="share of telling values released exactly",
        value=count / total,
        chance=float(coincidence.sum()) / total,
        interval=_clustered(leaked, asked, confidence),
        confidence=confidence,
        numbers={
            "leaked": float(count),
            "telling_values": float(total),
            "records_with_a_leak": float(np.count_nonzero(leaked)),
            "share_of_all_values": float(equal.mean()),
        },
        note="a value is telling where it differs from its column's most frequent one",
    )


def _column(before: Floats, after: Floats, equal: NDArray[np.bool_]) -> tuple[float, Floats]:
    """The most frequent original value, and the share of other rows that release each row's own value."""
    values, counts = np.unique(before, return_counts=True)
    ordered = np.sort(after)
    found = np.searchsorted(ordered, before, side="right") - np.searchsorted(ordered, before, side="left")
    return float(values[np.argmax(counts)]), (found - equal) / (len(before) - 1)


def _clustered(
    leaked: NDArray[np.integer], asked: NDArray[np.integer], confidence: float
) -> tuple[float, float]:
    """An interval for Σ leaked / Σ asked in which rows, not values, are independent.

    Where no row or every row leaks all there is, the normal interval has no width and the exact one for
    the share of such rows stands in.
    """
    total = int(asked.sum())
    value = int(leaked.sum()) / total
    if value in (0.0, 1.0):
        return interval(int(value) * leaked.size, leaked.size, confidence)
    spread = float(((leaked - value * asked) ** 2).sum()) * leaked.size / (leaked.size - 1)
    reach = -float(ndtri(failure_chance(confidence) / 2.0)) * math.sqrt(spread) / total
    return max(0.0, value - reach), min(1.0, value + reach)
