"""Exact-value leak: how many released values are the original's own, bit by bit, and what that says of δ.

Continuous noise leaves no value as it was, but a method that keeps a value with some probability, or forgets
to clip or to add noise somewhere, does. Equality alone is no leak: a picture is mostly black and a released
black pixel says nothing. So only values are counted that differ from their column's most frequent one, and
chance is how often they would equal the value released for *another* record.

**A lower bound on δ.** Let rows come in disjoint pairs that were chosen without a look at the release, and
call a row telling of a record where one of its values equals the record's and the other record of the pair
has another value there. Let p be the chance that a row is telling of its own record and q that it is telling
of the other one, both averaged over the rows. For each row (ε, δ)-DP under ``replace`` says pᵢ ≤ e^ε·qᵢ + δ,
so on average δ ≥ p − e^ε·q. The numbers of telling rows are sums of independent coins with these means,
whatever each chance is, and bounded by the Chernoff–Hoeffding inequality P(S ≤ n(p̄ − t)) ≤ e^{−n·KL(p̄ − t ‖
p̄)}: this gives p_low and q_high, which hold together, and with them δ ≥ p_low − e^ε·q_high at every ε at
once. However seldom a row was telling of the other record, q_high is above 0, so at a large ε the bound says
nothing; only where q = 0 is *proven* does it hold at every ε. ∎
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sfumato.audits.findings import Finding
from sfumato.audits.pair_game import ROW_BY_ROW, draw_pairs
from sfumato.audits.proportions import chernoff_upper, failure_chance, interval
from sfumato.audits.reidentification import View, corresponding, rows_of
from sfumato.errors import BadInput
from sfumato.privacy import Neighbours

__all__ = ["exact_value_game", "exact_value_leak"]

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
    before, after = _as_released(original, released, view)
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


def exact_value_game(
    original: ArrayLike,
    released: ArrayLike,
    *,
    delta: float,
    at_epsilon: float = 0.0,
    never: bool = False,
    view: View | None = None,
    unit: str = "record",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    confidence: float = 0.99,
    seed: int = 0,
) -> Finding:
    """Lower bounds on ε at ``delta`` and on δ at ``at_epsilon``, from values that are the original's own.

    For a release made row by row, each row being one ``unit``. ``never`` says it is proven that no released
    row equals another record in a value that its own does not have: the bound on δ then holds at every ε, and
    that on ε is left out, since none is finite. Under neighbours two steps of which make one replacement,
    what holds of a step gives (2ε, (1 + e^ε)·δ) for the game, and the bounds are those of a step.
    """
    before, after = _as_released(original, released, view)
    rng = np.random.default_rng(seed)
    own = draw_pairs(before, partners="farthest", law=None, rng=rng)
    own = np.concatenate([own, own[:, ::-1]])
    record, other, row = before[own[:, 0]], before[own[:, 1]], after[own[:, 0]]
    apart = record != other
    hits = int(np.count_nonzero(((row == record) & apart).any(axis=1)))
    misled = int(np.count_nonzero(((row == other) & apart).any(axis=1)))
    total, each = len(own), failure_chance(confidence) / 2.0
    low = 1.0 - chernoff_upper(total - hits, total, each)
    high = 0.0 if never else chernoff_upper(misled, total, each)
    steps = 1 if Neighbours(neighbours) is Neighbours.REPLACE else 2
    said = [ROW_BY_ROW] + ([f"two steps under {neighbours} make one replacement"] if steps == 2 else [])
    return Finding(
        attack="exact-value game",
        threat="knows both records of each pair and looks in a row for values that only one of them has",
        measure="share of rows with a value of their own record",
        value=hits / total,
        chance=misled / total,
        interval=interval(hits, total, confidence),
        confidence=confidence,
        epsilon_lower=None if never else _epsilon(low, high, delta, steps),
        delta=None if never else delta,
        unit=unit,
        neighbours=str(Neighbours(neighbours)),
        numbers={"rows": float(total), "own": float(hits), "other": float(misled), "p": low, "q": high},
        note="; ".join(said),
        delta_lower=_delta(low, high, at_epsilon, steps),
        at_epsilon=None if never else at_epsilon,
    )


def _as_released(original: ArrayLike, released: ArrayLike, view: View | None) -> tuple[Floats, Floats]:
    """Both tables; the originals in single precision if the release is."""
    before, after = corresponding(original, released, view)
    if view is None and rows_of(released, "release").dtype == np.float32:
        before = before.astype(np.float32).astype(np.float64)
    return before, after


def _epsilon(low: float, high: float, delta: float, steps: int) -> float:
    """The largest ε with p − e^{kε}·q ≥ δ·(1 + … + e^{(k−1)ε}) for k steps; 0 where there is none."""
    if steps == 1:
        odds = (low - delta) / high
    else:
        odds = (math.sqrt(delta**2 + 4.0 * high * max(low - delta, 0.0)) - delta) / (2.0 * high)
    return math.log(max(odds, 1.0))


def _delta(low: float, high: float, epsilon: float, steps: int) -> float:
    """(p − e^{kε}·q)/(1 + … + e^{(k−1)ε}), or 0."""
    factor = math.exp(min(epsilon, 300.0))
    return max(0.0, (low - factor**steps * high) / (1.0 if steps == 1 else 1.0 + factor))


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
