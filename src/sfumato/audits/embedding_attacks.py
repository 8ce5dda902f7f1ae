"""Attacks on embeddings: map released rows back to the columns of the originals without the key.

What is learned here depends on the noise of the rows that it is learned from: columns that are matched with
the originals by their correlation correlate in these very rows, noise included. A game on them would take
that for a leak and accuse a sound release. Learned and tested are therefore disjoint rows; given the first,
the view is a fixed map, whatever the noise of the others is.

**The pairing attack** on reverse manifold embedding shows that no key hides which columns belong together.

*TADP-RME*, theorem 3, counts (2d)!/(2^d d!) ways to pair the shuffled columns and takes them for a barrier.
But the two columns of one value satisfy b = r sin(αr) with r = √(a² + b²) in *every* record, whatever the
sign of x, so pairs are found one column at a time in O(n d²); and α itself is read off one column: in one
record αr is an arcsine up to its branch, and the other records say which branch and which partner.
Recovered are α, all pairs with their roles, and from them every value. What no pairing can give is the
order of the d pairs among each other: that is a relabelling of columns, which public averages of the
columns undo.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.audits.record_attacks import rows_of
from sfumato.errors import BadInput

__all__ = ["recover_pairs"]

Floats = NDArray[np.float64]

Columns = NDArray[np.intp]

# Records that a column is first held against; what fits in them is then checked in every record.
_WITNESSES = 8
# The largest |α| that is looked for.
_LARGEST = 100.0
# Columns that are tried for α before a release is declared to be no embedding.
_ATTEMPTS = 16
# How often αr may turn round in one record, at most, in the search for α.
_TURNS = 4096
# Rounding of a value, of its partner and of αr, in units of the precision of the release.
_ROUNDINGS = 16.0

# Pairs are found from this many rows; each further one only repeats what they say.
_ROWS = 64
# Columns are told apart by how they correlate with known records, under noise: the more the better.
_KNOWN = 2000


@dataclass(frozen=True)
class Pairing:
    """What the attack recovered from a release of 2d columns.

    ``pairs`` (d, 2) names the columns of each value: its cosine, then its sine. ``rows`` (n, d) holds the
    embedded values, column i from pair i. ``explained`` (d,) is True where the pair satisfies the equation
    of the embedding in every record. ``alpha`` is the smallest that explains the release: values on a grid
    of step h embed alike for α and α + 2π/h.
    """

    alpha: float
    pairs: Columns
    rows: Floats
    explained: NDArray[np.bool_]


def recover_pairs(released: ArrayLike) -> Pairing:
    """Return α, at most 100 in absolute value, and the column pairs of a reverse manifold embedding.

    Takes the release alone. Columns that are zero in every record are paired with each other in any way,
    since all of them stand for zeros. Refuses what is not an embedding.
    """
    table = rows_of(released, "release", fewest=3)
    precision = float(np.finfo(table.dtype).eps)
    columns = table.shape[1]
    if columns % 2:
        raise BadInput(f"the release has {columns} columns, but an embedding has two for each value.")
    # Columns are read one by one, so each should lie in one piece.
    search = _Search(np.asarray(table, dtype=np.float64, order="F"), precision)
    # Columns with the most values that are not zero come first: they have the most to be told apart by.
    filled = np.count_nonzero(table, axis=0)
    order = np.argsort(-filled, kind="stable")[: np.count_nonzero(filled)]
    if not order.size:
        raise BadInput("every value of the release is zero: there is nothing to pair.")
    alpha = search.alpha(order)
    pairs: list[tuple[int, int]] = []
    explained: list[bool] = []
    left = filled > 0
    for column in map(int, order):
        left[column], open_before = False, left[column]
        others = np.flatnonzero(left)
        if open_before and others.size:
            partner, is_cosine, holds = search.partner(column, others, alpha)
            left[partner] = False
            pairs.append((column, partner) if is_cosine else (partner, column))
            explained.append(holds)
    rest = np.setdiff1d(np.arange(columns), np.ravel(np.array(pairs, dtype=np.intp)))
    both = np.concatenate([np.array(pairs, dtype=np.intp).reshape(-1, 2), rest.reshape(-1, 2)])
    explained += [bool((filled[pair] == 0).all()) for pair in rest.reshape(-1, 2)]
    rows = _inverted(search.table, alpha, *both.T)
    return Pairing(alpha, both, rows, np.array(explained))


class _Search:
    """One release, and how exactly its columns must satisfy the equation of the embedding."""

    def __init__(self, table: Floats, precision: float) -> None:
        self.table, self.precision = table, precision

    def alpha(self, columns: Columns) -> float:
        """Return the smallest α with which some column finds a partner that fits in every record."""
        for column in map(int, columns[:_ATTEMPTS]):
            others = columns[columns != column]
            best = math.inf
            for is_cosine in (True, False):
                for alpha, partner in self._possible(column, others, is_cosine):
                    pair = (column, partner) if is_cosine else (partner, column)
                    if abs(alpha) < abs(best) and self._holds(*pair, alpha):
                        best = alpha
            if best < math.inf:
                return best
        raise BadInput(
            f"the release is no reverse manifold embedding: no alpha up to {_LARGEST:g} makes two of its "
            "columns the cosine and the sine of one value in every record."
        )

    def partner(self, column: int, others: Columns, alpha: float) -> tuple[int, bool, bool]:
        """Return the best partner of a column, whether the column is the cosine, and whether it fits."""
        rows = self._witnesses(column)
        own, their = self.table[rows, column][:, None], self.table[np.ix_(rows, others)]
        # In units of the rounding, the worst record of each partner, in both roles of the column.
        errors = np.stack([self._error(own, their, alpha), self._error(their, own, alpha)]).max(axis=1)
        for role, index in np.argwhere(errors <= 1.0):
            pair = (column, int(others[index]))
            if self._holds(*(pair if role == 0 else pair[::-1]), alpha):
                return int(others[index]), bool(role == 0), True
        role, index = np.unravel_index(np.argmin(errors), errors.shape)
        return int(others[index]), bool(role == 0), False

    def _holds(self, cosine: int, sine: int, alpha: float) -> bool:
        """Return whether two columns fit the embedding in every record."""
        return bool(self._error(self.table[:, cosine], self.table[:, sine], alpha).max() <= 1.0)

    def _error(self, cosine: Floats, sine: Floats, alpha: float) -> Floats:
        """Return |b − r sin(αr)| over what rounding explains; at most 1 for a true pair."""
        size = np.hypot(cosine, sine)
        off = self.precision * (1.0 + abs(alpha) * size) + self._rounded_angle(size)
        slack = _ROUNDINGS * size * off
        return np.asarray(np.abs(sine - size * np.sin(alpha * size)) / np.where(size > 0.0, slack, 1.0))

    def _rounded_angle(self, size: Floats) -> Floats:
        """Return what rounding αx changes, at the largest of all α that embed a grid alike."""
        return float(np.finfo(np.float64).eps) * _LARGEST * size

    def _witnesses(self, column: int) -> Columns:
        """Return records in which a column is not zero, from rather small to the largest."""
        size = np.abs(self.table[:, column])
        rows = np.argsort(size, kind="stable")[size.size - np.count_nonzero(size) :]
        places = np.linspace(0.1 * (rows.size - 1), rows.size - 1, min(rows.size, _WITNESSES))
        return np.asarray(rows[places.astype(int)])

    def _possible(self, column: int, others: Columns, is_cosine: bool) -> Iterator[tuple[float, int]]:
        """Yield every α that one witness allows, with the partner for which the others confirm it."""
        rows = self._witnesses(column)
        # A value that is not zero has neither its cosine nor its sine at zero.
        others = others[(self.table[np.ix_(rows, others)] != 0.0).all(axis=0)]
        if not others.size:
            return
        own, their = self.table[rows, column][:, None], self.table[np.ix_(rows, others)]
        size = np.hypot(own, their)
        sine = (their if is_cosine else own) / size
        angle, radius = np.arcsin(np.clip(sine[0], -1.0, 1.0)), size[0]
        turns = int(min(_LARGEST * float(radius.max()) / (2.0 * math.pi) + 1.0, _TURNS))
        # How far each sine may be off, and the arcsine of the first: near ±1 it loses half of its digits.
        off = _ROUNDINGS * (self.precision + self._rounded_angle(size))
        lost = off[0] / np.maximum(np.sqrt(np.maximum(1.0 - sine[0] ** 2, 0.0)), np.sqrt(off[0]))
        for turn in sorted(range(-turns, turns + 1), key=abs):
            for principal in (angle, math.pi - angle):
                alphas = (principal + 2.0 * math.pi * turn) / radius
                slack = off + (lost / radius + np.abs(alphas) * off[0]) * size
                near = np.abs(np.sin(alphas * size) - sine) <= slack
                fits = near.all(axis=0) & (np.abs(alphas) <= _LARGEST) & (alphas != 0.0)
                for index in np.flatnonzero(fits):
                    alpha = _refined(float(alphas[index]), size[:, index], sine[:, index])
                    yield alpha, int(others[index])


def _refined(alpha: float, size: Floats, sine: Floats) -> float:
    """Return α by a few Gauss–Newton steps on sin(αr) = s over the witnesses."""
    for _ in range(5):
        slope = size * np.cos(alpha * size)
        if not (bend := float(slope @ slope)):
            break
        alpha -= float(slope @ (np.sin(alpha * size) - sine)) / bend
    return alpha


@dataclass(frozen=True)
class SeenThrough:
    """``view`` maps released rows to the originals' columns; ``finding`` says how it was found.

    ``certain`` is False where columns had to be matched with known records, which noise can mislead.
    ``tested`` are the rows that the view was not learned from: those it may be tested on, in their order.
    """

    view: Callable[[NDArray[Any]], Floats]
    finding: Finding
    certain: bool
    tested: NDArray[np.intp]


def see_through(original: Floats, released: Floats, confidence: float, seed: int = 0) -> SeenThrough | None:
    """Return the view of a reverse manifold embedding, found without its α or its key, or None.

    The pairing attack needs the release alone. It leaves open which recovered column is which: in the public
    order of the embedding that is known, otherwise the attacker matches the columns with those of
    ``original``, by their correlation in rows that he is taken to know: at most half of them, drawn at
    random.
    """
    columns = original.shape[1]
    if released.shape[1] != 2 * columns:
        return None
    order = np.random.default_rng(seed).permutation(len(released))
    learned = np.sort(order[: min(_ROWS, len(order) // 4)])
    try:
        found = recover_pairs(released[learned])
    except BadInput:
        return None  # not an embedding
    public = np.column_stack([np.arange(columns), np.arange(columns, 2 * columns)])
    places = np.argsort(found.pairs[:, 0])
    shuffled = not np.array_equal(found.pairs[places], public)
    if shuffled:
        learned = np.sort(order[: min(_KNOWN, len(order) // 2)])
        known = _inverted(released[learned], found.alpha, *found.pairs.T)
        places = _columns_by_correlation(original[learned], known)
    cosine, sine = found.pairs[places].T

    def view(rows: NDArray[np.floating]) -> Floats:
        return _inverted(rows, found.alpha, cosine, sine)

    note = "the embedding is inverted; the attacks below look at what it was applied to"
    note += ", columns matched with known rows" if shuffled else ""
    note += f", in the {len(order) - learned.size} rows that it was not learned from"
    total, count = len(found.pairs), int(found.explained.sum())
    finding = Finding.of_count(
        "pairing",
        "sees only the release; knows that it is a reverse manifold embedding, but neither alpha nor "
        "the column order",
        "share of columns recovered",
        count,
        total,
        confidence,
        chance=0.5 / (2 * total - 1),
        numbers={"alpha": found.alpha, "pairs": float(total), "recovered": float(count)},
        note=note,
    )
    return SeenThrough(view, finding, not shuffled, np.setdiff1d(np.arange(len(order)), learned))


def _inverted(
    rows: NDArray[np.floating], alpha: float, cosine: NDArray[np.intp], sine: NDArray[np.intp]
) -> Floats:
    """Return the values whose embedding by ``alpha`` stands in the columns ``cosine`` and ``sine``."""
    a, b = rows[:, cosine].astype(np.float64), rows[:, sine].astype(np.float64)
    size = np.hypot(a, b)
    return np.where(a * np.cos(alpha * size) < 0.0, -size, size)


def _columns_by_correlation(known: Floats, recovered: Floats) -> NDArray[np.intp]:
    """Match columns of ``recovered`` with columns of ``known``, one to one, by the largest correlations."""
    from scipy.optimize import linear_sum_assignment

    def standard(table: Floats) -> Floats:
        centred = table - table.mean(axis=0)
        size = np.linalg.norm(centred, axis=0)
        return np.asarray(centred / np.where(size > 0.0, size, 1.0))

    correlation = standard(known).T @ standard(recovered)
    return np.asarray(linear_sum_assignment(correlation, maximize=True)[1], dtype=np.intp)
