"""Structural utility: overlap of neighbourhoods and rank correlation of distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import whole
from sfumato.utility.distances import (
    Codes,
    Keys,
    Nearest,
    Points,
    Progress,
    binned,
    exact_ranks,
    first_pair,
    shared,
    small,
    sweep,
)
from sfumato.utility.paired_records import paired

__all__ = ["structure"]


_TOLERANCE = 1e-4  # a rank correlation whose error could be larger is computed again, from exact ranks
_DIRECT = 1 << 28  # multiplications up to which distances come straight from differences in float64,
_DIRECT_ROWS = 2048  # and rows
_GROUPS = 10
_FEWEST = 100


@dataclass(frozen=True)
class Structure:
    """Overlap of neighbourhoods and rank correlation of distances between two spaces.

    ``overlap[k]`` is the mean, over the rows asked, of the share of a row's k nearest neighbours in the
    original that are among its k nearest in the release; ``by_row[k]`` holds the shares, in the order of
    ``rows``. ``chance[k]`` is what a release that says nothing would reach. ``spearman`` compares the
    distances of all ``pairs`` of the rows asked. Putting them into bins changed it by at most
    ``spearman_error``; in large data, distances that differ by less than 1e-7 of themselves count as equal.
    Where rows were drawn (``sampled``), standard errors say what that left open.
    """

    overlap: Mapping[int, float]
    by_row: Mapping[int, NDArray[np.float64]]
    chance: Mapping[int, float]
    spearman: float
    spearman_error: float
    pairs: int
    rows: NDArray[np.intp]
    sampled: bool
    overlap_standard_error: Mapping[int, float] | None = None
    spearman_standard_error: float | None = None


def structure(
    original: Any,
    released: Any,
    *,
    neighbours: Sequence[int] = (5, 10, 20),
    most_rows: int = 10_000,
    seed: int = 0,
    report: Progress | None = None,
) -> Structure:
    """Return the overlap of k nearest neighbours for each k in ``neighbours``, and Spearman's correlation.

    ``original`` is (n, d) and ``released`` (n, e), row by row the same records; e may differ from d, and more
    axes are flattened. Distances are Euclidean. Neighbour sets are those of exact distances, equal distances
    taken in the order of rows.

    **Many rows.** Beyond ``most_rows``, that many rows are drawn with ``seed``: their neighbours are still
    sought among all rows, while the correlation is over the pairs of the rows drawn. Time grows with
    n · min(n, ``most_rows``), and memory, beside the data, stays below 1 GB for 10,000 rows.

    **Edge cases.** Fewer than three rows, a k that is not below the number of rows, and a space in which all
    distances are equal (constant rows, for instance) are refused: there is nothing to preserve.
    """
    first, second = paired(original, released)
    count = len(first)
    sizes = _checked_sizes(neighbours, count)
    whole("most_rows", most_rows, smallest=_FEWEST)
    queries = min(count, most_rows)
    sampled = queries < count
    rows = np.arange(count)
    if sampled:
        rows = np.random.default_rng(seed).permutation(count)
        first, second = first[rows], second[rows]
    spaces = [Points.of(first), Points.of(second)]
    direct = queries <= _DIRECT_ROWS and queries**2 * max(first.shape[1], second.shape[1]) <= _DIRECT
    nearest = [Nearest(points, queries, sizes) for points in spaces]
    codes = [] if direct else [Codes(points, queries) for points in spaces]
    for side, points in enumerate(spaces):
        visitors = [nearest[side].visit, *(one.visit for one in codes[side : side + 1])]
        sweep(points, queries, visitors, _progress(report, "distances", side / 2, 0.5))
    by_row = {k: shared(nearest[0].found, nearest[1].found, k) for k in sizes}
    spearman, error, deviation = (
        _from_differences(first[:queries], second[:queries], sampled)
        if direct
        else _from_codes(spaces, codes, queries, sampled, report)
    )
    return Structure(
        overlap={k: float(shares.mean()) for k, shares in by_row.items()},
        by_row=by_row,
        chance={k: k / (count - 1) for k in sizes},
        spearman=spearman,
        spearman_error=error,
        pairs=queries * (queries - 1) // 2,
        rows=rows[:queries],
        sampled=sampled,
        overlap_standard_error=(
            {k: float(shares.std(ddof=1)) / math.sqrt(queries) for k, shares in by_row.items()}
            if sampled
            else None
        ),
        spearman_standard_error=deviation,
    )


def _from_differences(
    first: NDArray[Any], second: NDArray[Any], sampled: bool
) -> tuple[float, float, float | None]:
    """Spearman's correlation, the bound on its error, its standard error, from float64 differences."""
    from scipy.spatial.distance import pdist

    lists = []
    for values in (first, second):
        largest = float(np.abs(values.astype(np.float64)).max())
        lists.append(pdist(np.ldexp(values.astype(np.float64), -math.frexp(largest)[1])))
    _refuse_equal([float(np.ptp(one)) <= 1e-12 * float(one.max()) for one in lists])
    deviation = _standard_error(lists[0], lists[1], len(first), small) if sampled else None
    return small(*lists), 0.0, deviation


def _from_codes(
    spaces: list[Points], codes: list[Codes], rows: int, sampled: bool, report: Progress | None
) -> tuple[float, float, float | None]:
    """The same from bins where they are fine enough, and otherwise from exact ranks of float32 distances."""
    first, second = (one.codes for one in codes)
    value, error = binned(first, second)
    if error > _TOLERANCE:
        pairs = Keys(rows)
        for shift, points in zip((32, 0), spaces, strict=True):
            sweep(
                points, rows, [partial(pairs.visit, shift=shift)], _progress(report, "exact ranks", 0.0, 1.0)
            )
        value, error = exact_ranks(pairs.keys), 0.0
        if math.isnan(value):
            _refuse_equal([one.min() == one.max() for one in (first, second)])
    deviation = _standard_error(first, second, rows, lambda a, b: binned(a, b)[0]) if sampled else None
    return value, error, deviation


def _standard_error(
    first: NDArray[Any], second: NDArray[Any], rows: int, correlation: Callable[..., float]
) -> float | None:
    """From disjoint groups of the rows: pairs share rows, so pairs cannot be counted as independent.

    The correlation over all pairs varies no more than the mean over groups does, so this errs upwards.
    """
    size = rows // _GROUPS
    found = []
    for start in range(0, size * _GROUPS, size):
        spans = [(first_pair(row, rows), start + size - 1 - row) for row in range(start, start + size - 1)]
        chosen = np.concatenate([np.arange(begin, begin + length) for begin, length in spans])
        found.append(correlation(first[chosen], second[chosen]))
    error = float(np.std(found, ddof=1)) / math.sqrt(_GROUPS)
    return error if math.isfinite(error) else None


def _refuse_equal(equal: list[bool]) -> None:
    for name, all_equal in zip(("original", "released"), equal, strict=True):
        if all_equal:
            raise BadInput(
                f"all distances between rows of the {name} array are equal, so neither neighbours nor a rank "
                "correlation of distances are defined; at least two rows must differ from the rest."
            )


def _checked_sizes(neighbours: Sequence[int], count: int) -> list[int]:
    sizes = sorted(set(neighbours))
    if not sizes or sizes[0] < 1 or any(k != int(k) for k in sizes):
        raise BadInput(
            f"`neighbours` were {list(neighbours)!r}; give whole numbers of at least 1.",
            parameter="neighbours",
        )
    if count < 3 or sizes[-1] >= count:
        raise BadInput(
            f"{count} rows cannot have {sizes[-1]} neighbours each; give at least {max(3, sizes[-1] + 1)} "
            "rows or ask for fewer neighbours."
        )
    return [int(k) for k in sizes]


def _progress(report: Progress | None, stage: str, done: float, share: float) -> Callable[[float], None]:
    return lambda part: report(stage, done + share * part) if report is not None else None
