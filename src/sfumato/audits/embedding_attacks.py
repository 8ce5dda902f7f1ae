"""Seeing through an embedding: how an attacker gets from released rows to the columns of the originals.

What is learned here depends on the noise of the rows that it is learned from: columns that are matched with
the originals by their correlation correlate in these very rows, noise included. A game on them would take
that for a leak and accuse a sound release. Learned and tested are therefore disjoint rows; given the first,
the view is a fixed map, whatever the noise of the others is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.column_pairing import pairing_finding, recover_pairs
from sfumato.audits.findings import Finding
from sfumato.audits.reidentification import View
from sfumato.errors import BadInput

__all__ = ["SeenThrough", "see_through"]

Floats = NDArray[np.float64]

# Pairs are found from this many rows; each further one only repeats what they say.
_ROWS = 64
# Columns are told apart by how they correlate with known records, under noise: the more the better.
_KNOWN = 2000


@dataclass(frozen=True)
class SeenThrough:
    """``view`` maps released rows to the originals' columns; ``finding`` says how it was found.

    ``certain`` is False where columns had to be matched with known records, which noise can mislead.
    ``tested`` are the rows that the view was not learned from: those it may be tested on, in their order.
    """

    view: View
    finding: Finding
    certain: bool
    tested: NDArray[np.intp]


def see_through(original: Floats, released: Floats, confidence: float, seed: int = 0) -> SeenThrough | None:
    """The view of a reverse manifold embedding, found without its α or its key; None where it is none.

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
    finding = pairing_finding(found, int(found.explained.sum()), note, confidence)
    return SeenThrough(view, finding, not shuffled, np.setdiff1d(np.arange(len(order)), learned))


def _inverted(
    rows: NDArray[np.floating], alpha: float, cosine: NDArray[np.intp], sine: NDArray[np.intp]
) -> Floats:
    """The values whose embedding by ``alpha`` stands in the columns ``cosine`` and ``sine``."""
    a, b = rows[:, cosine].astype(np.float64), rows[:, sine].astype(np.float64)
    size = np.hypot(a, b)
    return np.where(a * np.cos(alpha * size) < 0.0, -size, size)


def _columns_by_correlation(known: Floats, recovered: Floats) -> NDArray[np.intp]:
    """Which column of ``recovered`` is which of ``known``, one to one, with the largest correlations."""
    from scipy.optimize import linear_sum_assignment

    def standard(table: Floats) -> Floats:
        centred = table - table.mean(axis=0)
        size = np.linalg.norm(centred, axis=0)
        return np.asarray(centred / np.where(size > 0.0, size, 1.0))

    correlation = standard(known).T @ standard(recovered)
    return np.asarray(linear_sum_assignment(correlation, maximize=True)[1], dtype=np.intp)
