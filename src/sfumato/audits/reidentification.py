"""Re-identification: match every released row to the originals.

Rows of ``original`` and ``released``, both (n, d), correspond. Where the mechanism clips records into
declared bounds, pass the clipped originals: the bounds are public and the attacker would clip too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding
from sfumato.errors import BadInput
from sfumato.mechanisms import check_visible

Floats = NDArray[np.float64]
View = Callable[[NDArray[Any]], NDArray[Any]]

# Released rows that are matched, at most, and the fewest.
_LIMIT, _FEWEST = 10_000, 10
# The originals among which the L1 distance decides: those nearest by the L2 distance, which BLAS computes.
_SHORTLIST = 50
# Distances held in memory at once.
_BLOCK = 1 << 22
# Scores closer than this share of their size are ties: double precision does not order them.
_TIE = 1e-12
_TOP = (1, 5)


def rows_of(values: ArrayLike, name: str, *, fewest: int = 1) -> NDArray[Any]:
    """Return ``values`` as a finite array (n, d), n ≥ ``fewest``; float32 stays, all else becomes float64."""
    check_visible(values, f"the {name}")
    try:
        table = np.asarray(values)
        if table.dtype.kind not in "biufO":
            raise TypeError
        table = table if table.dtype == np.float32 else table.astype(np.float64)
    except (TypeError, ValueError):
        # Without the words of the error, which may quote a private value.
        raise BadInput(f"the {name} must be a table of numbers, with rows of equal length.") from None
    if table.ndim != 2 or not table.shape[1]:
        raise BadInput(f"the {name} has shape {table.shape}, but attacks need records as rows: (n, d).")
    if table.shape[0] < fewest:
        raise BadInput(f"the {name} has {table.shape[0]} rows, but this attack needs at least {fewest}.")
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        row, column = bad[0] + 1
        raise BadInput(f"row {row}, column {column} of the {name} is not a finite number.")
    return table


def equal_rows(original: ArrayLike, released: ArrayLike, *, fewest: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both tables; raise unless they have equally many rows."""
    before = rows_of(original, "original", fewest=fewest)
    after = rows_of(released, "release", fewest=fewest)
    if len(before) != len(after):
        raise BadInput(
            f"the original has {len(before)} rows and the release {len(after)}: row i of one must be made "
            "from row i of the other."
        )
    return before, after


def corresponding(original: ArrayLike, released: ArrayLike, *, fewest: int = 2) -> tuple[Floats, Floats]:
    """Return both tables in float64; raise unless rows and columns correspond."""
    before, after = equal_rows(original, released, fewest=fewest)
    if before.shape != after.shape:
        raise BadInput(
            f"the original has {before.shape[1]} columns and the release {after.shape[1]}: map released rows "
            "back to the original's columns, as ReverseManifold.inverse does."
        )
    return before.astype(np.float64), after.astype(np.float64)


def nearest_matching(
    original: ArrayLike,
    released: ArrayLike,
    *,
    law: str = "gaussian",
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Return how often a row's own original is the most likely of all, and among the five most likely.

    ``law`` is that of the noise, ``"gaussian"`` or ``"laplace"``. For Gaussian noise the most likely original
    is the nearest one. For Laplace noise the L1 distance decides among the fifty originals that are nearest
    by the L2 distance; an original outside of them counts as missed. At most 10,000 released rows, drawn at
    random, are matched against all n originals. Equal distances are ordered at random.
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    if (before == before[0]).all():
        raise BadInput("every original record is the same: there is nobody to tell apart.")
    rng = np.random.default_rng(seed)
    rows = np.arange(len(before))
    if len(before) > _LIMIT:
        rows = np.sort(rng.permutation(len(before))[:_LIMIT])
    ranks = _ranks(before, after, rows, rng, _SHORTLIST if law == "laplace" else None)
    threat = "holds every original record and the release; matches each released row to the nearest original"
    if law == "laplace":
        threat = f"{threat}, by the likelihood under the noise, which he knows"
    findings = []
    for top in _TOP:
        matched = int(np.count_nonzero(ranks < top))
        numbers = {"matched": matched, "rows": ranks.size, "originals": len(before)}
        findings.append(
            Finding.of_count(
                *("re-identification", threat, f"top-{top} matches", matched, ranks.size, confidence),
                chance=min(1.0, top / len(before)),
                numbers={name: float(count) for name, count in numbers.items()},
            )
        )
    return tuple(findings)


def _ranks(
    before: Floats,
    after: Floats,
    rows: NDArray[np.intp],
    rng: np.random.Generator,
    shortlist: int | None,
) -> NDArray[np.int64]:
    """Return for each of ``rows`` how many originals are nearer than its own, ties ordered at random."""
    centre = before.mean(axis=0)
    before, after = before - centre, after - centre
    half = np.einsum("ij,ij->i", before, before) / 2.0
    reach = math.sqrt(2.0 * float(half.max()))
    ranks = np.empty(rows.size, dtype=np.int64)
    size = max(1, _BLOCK // len(before))
    for start in range(0, rows.size, size):
        own = rows[start : start + size]
        block = after[own]
        # −‖y − x‖²/2 without ‖y‖², which all originals share and which would drown the rest under much noise.
        score = block @ before.T - half
        if shortlist is None:
            true = score[np.arange(own.size), own][:, None]
            slack = _TIE * reach * (np.linalg.norm(block, axis=1)[:, None] + reach)
            nearer = np.count_nonzero(score > true + slack, axis=1)
            level = np.count_nonzero(score >= true - slack, axis=1) - nearer
            ranks[start : start + size] = nearer + rng.integers(0, level)
        else:
            count = min(shortlist, len(before))
            short = np.argpartition(-score, count - 1, axis=1)[:, :count]
            for place, (row, mine, among) in enumerate(zip(block, own, short, strict=True), start):
                ranks[place] = _rank_in(before, row, mine, among, rng)
    return ranks


def _rank_in(
    before: Floats, row: Floats, own: np.intp, among: NDArray[np.intp], rng: np.random.Generator
) -> int:
    """The rank of the own original by L1 distance in a shortlist; beyond all where it is not in it."""
    if own not in among:
        return len(before)
    distance = np.abs(before[among] - row).sum(axis=1)
    true = distance[among == own][0]
    slack = _TIE * float(np.abs(row).sum() + np.abs(before[own]).sum())
    nearer = int(np.count_nonzero(distance < true - slack))
    return nearer + int(rng.integers(0, np.count_nonzero(distance <= true + slack) - nearer))
