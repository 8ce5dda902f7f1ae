"""Mutual information between a sensitive attribute and a release, by nearest neighbours.

Two estimators, both with k = 5 as in the adaptive multimedia paper: for vectors against vectors that of
Kraskov, Stögbauer & Grassberger (2004, equation 8),

    I(S; Y) ≈ ψ(k) + ψ(n) − mean(ψ(n_S + 1) + ψ(n_Y + 1)),

where n_S and n_Y count the other points strictly nearer, in one of the two, than the k-th neighbour is in
both (the distance in both is the larger of the two, each Euclidean); for labels against vectors that of Ross
(2014), ψ(n) + mean(ψ(k_i) − ψ(n_label) − ψ(m_i)), where m_i counts the points of any label at most as far
away as the k_i-th neighbour of the same label.

**What it is not.** An estimate, with no confidence, and no bound on ε. In many dimensions it is far too low:
the points are too far apart to show the dependence. It never exceeds about log n.

**Ties.** Both formulas assume that no two distances are equal. Every column is scaled to deviation 1, and
uniform noise of up to 1e-10, drawn from ``seed``, is added: equal values then have a random order. That is
harmless where ties are few; an attribute that takes few values should be given as labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.errors import BadInput

__all__ = ["Information", "mutual_information"]

Array = NDArray[np.float64]
Distances = Callable[[slice], Array]

# Numbers of a block of distances: 32 MB.
_BLOCK = 1 << 22
# From so many columns on, distances come from one matrix product; up to there differences are exact.
_MANY_COLUMNS = 8
_JITTER = 1e-10


@dataclass(frozen=True)
class Information:
    """An estimate of I(S; Y); ``raw`` is what the formula gave, in nats, and may be slightly negative."""

    nats: float
    bits: float
    raw: float
    k: int
    samples: int
    estimator: str


def mutual_information(
    S: ArrayLike, Y: ArrayLike, *, k: int = 5, labels: bool = False, most: int = 10_000, seed: int = 0
) -> Information:
    """The mutual information of an attribute S and a release Y, from n rows of both.

    Y has shape (n,) or (n, d). S too, or with ``labels`` holds one label of any kind for each row; a label
    that occurs once is left out with its row. Beyond ``most`` rows, a random choice of so many
    is used: time grows with their square. Columns that never vary carry no information and are left out.
    """
    released = _columns(Y, "release")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise BadInput(f"`k` was {k!r}: it must be a whole number, 1 or more.", parameter="k")
    attribute = np.asarray(S)
    if attribute.shape[:1] != released.shape[:1]:
        raise BadInput(
            f"the attribute has shape {attribute.shape}, but the release has {len(released)} rows."
        )
    if len(released) <= k or most <= k:
        raise BadInput(f"{min(len(released), most)} rows are too few for k = {k}: more than k are needed.")
    rng = np.random.default_rng(seed)
    if len(released) > most:
        chosen = rng.choice(len(released), most, replace=False)
        attribute, released = attribute[chosen], released[chosen]
    if labels:
        raw, samples = _ross(attribute, _prepared(released, "release", rng), k)
        estimator = "Ross 2014"
    else:
        columns = _prepared(_columns(attribute, "attribute"), "attribute", rng)
        raw, samples = _kraskov(columns, _prepared(released, "release", rng), k), len(released)
        estimator = "Kraskov, Stögbauer & Grassberger 2004"
    nats = max(raw, 0.0)
    return Information(nats, nats / math.log(2.0), raw, k, samples, estimator)


def _kraskov(first: Array, second: Array, k: int) -> float:
    n = len(first)
    one, other = _distances(first), _distances(second)
    total = 0.0
    for rows in _blocks(n):
        near, far = one(rows), other(rows)
        joint = np.maximum(near, far)
        radius = np.partition(joint, k - 1, axis=1)[:, k - 1 : k]
        for distance in (near, far):
            total += float(special.digamma(np.count_nonzero(distance < radius, axis=1) + 1.0).sum())
    return float(special.digamma(k) + special.digamma(n)) - total / n


def _ross(labels: NDArray[Any], released: Array, k: int) -> tuple[float, int]:
    if labels.ndim != 1:
        raise BadInput(f"labels of shape {labels.shape} were given: one label for each row is needed.")
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = counts[codes] > 1
    codes, released = codes[kept], released[kept]
    if np.count_nonzero(counts > 1) < 2:
        raise BadInput("fewer than two labels occur more than once: there is nothing to learn about them.")
    n, own = len(codes), counts[codes]
    used = np.minimum(k, own - 1)
    distances = _distances(released)
    total = 0.0
    for rows in _blocks(n):
        all_distances = distances(rows)
        same = np.where(codes[rows, None] == codes[None, :], all_distances, np.inf)
        nearest = np.partition(same, np.arange(min(k, n - 1)), axis=1)
        radius = nearest[np.arange(len(nearest)), used[rows] - 1]
        # The neighbour at the radius itself is counted, and the point, at an infinite distance, is not.
        within = np.count_nonzero(all_distances <= radius[:, None], axis=1)
        total += float(special.digamma(within).sum())
    mean = float((special.digamma(used) - special.digamma(own)).mean())
    return float(special.digamma(n)) + mean - total / n, n


def _distances(values: Array) -> Distances:
    """For a slice of rows, their distances to all rows, with ∞ from each row to itself."""
    squares = np.square(values).sum(axis=1)

    def block(rows: slice) -> Array:
        if values.shape[1] == 1:
            result = np.abs(values[rows] - values[:, 0])
        elif values.shape[1] < _MANY_COLUMNS:
            result = np.zeros((values[rows].shape[0], len(values)))
            for column in values.T:
                result += np.square(column[rows, None] - column)
            np.sqrt(result, out=result)
        else:
            result = squares[rows, None] + squares - 2.0 * (values[rows] @ values.T)
            np.sqrt(np.maximum(result, 0.0, out=result), out=result)
        result[np.arange(len(result)), np.arange(rows.start, rows.stop)] = np.inf
        return result

    return block


def _blocks(n: int) -> list[slice]:
    size = max(1, _BLOCK // n)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _columns(values: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(
            f"the {name} holds values that are no numbers; give labels with labels=True."
        ) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise BadInput(f"the {name} has shape {array.shape}: a table (n, d) of numbers is needed.")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise BadInput(f"row {bad[0] + 1} of the {name} holds a value that is no finite number.")
    return array


def _prepared(values: Array, name: str, rng: np.random.Generator) -> Array:
    """Columns that vary, scaled to deviation 1 and without exact ties."""
    deviation = values.std(axis=0)
    varying = (values != values[0]).any(axis=0) & (deviation > 0.0)
    if not varying.any():
        raise BadInput(f"every column of the {name} is constant, so nothing can be learned from it.")
    scaled = (values[:, varying] - values[:, varying].mean(axis=0)) / deviation[varying]
    return np.asarray(scaled + _JITTER * rng.uniform(-1.0, 1.0, size=scaled.shape))
