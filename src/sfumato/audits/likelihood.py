"""The best score of a distinguishing game: how much likelier a release is under the neighbour.

By Neyman & Pearson no test between two records does better than one that thresholds this ratio. It needs the
density of the mechanism, which is public with its parameters.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import AdditiveNoise, Gaussian, Laplace, Mechanism, RandomisedResponse, TrustAdaptive
from sfumato.noise import grid_step

__all__ = ["check_equal_rows", "check_pair", "clipped", "likelihood_scores"]

Array = NDArray[np.float64]


def likelihood_scores(
    mechanism: Mechanism, record: ArrayLike, neighbour: ArrayLike, outputs: ArrayLike
) -> Array:
    """Log-likelihood of each of ``outputs`` (n, d) under the neighbour less that under the record; (n,).

    Known for Gaussian, Laplace, TrustAdaptive, Personalised with one ε, AdditiveNoise and
    RandomisedResponse. Records are clipped and put on the grid first, as the mechanism does. Without noise
    the score is ±inf where an output is one of the two records exactly.
    """
    one, other = check_pair(record, neighbour)
    released = np.asarray(outputs, dtype=np.float64)
    if released.ndim != 2 or released.shape[1] != one.size:
        raise BadInput(f"outputs of shape {released.shape} were given for records of {one.size} columns.")
    check_equal_rows(mechanism)
    if isinstance(mechanism, RandomisedResponse):
        return _response_scores(mechanism, one, other, released)
    if isinstance(mechanism, AdditiveNoise):
        return _normal_scores(one, other, released, float(mechanism.scale))
    if not isinstance(mechanism, Gaussian | Laplace | TrustAdaptive):
        raise BadInput(
            f"the densities of {type(mechanism).__name__} are not known here: play the game with "
            "method='classifier'."
        )
    scale = mechanism._scale(one.size)
    if scale == 0.0:
        return _exact_scores(one, other, released)
    one, other = clipped(mechanism, one), clipped(mechanism, other)
    if isinstance(mechanism, Laplace):
        return np.asarray((np.abs(released - one) - np.abs(released - other)).sum(axis=1) / scale)
    return _normal_scores(one, other, released, scale)


def clipped(mechanism: Gaussian | Laplace | TrustAdaptive, row: Array) -> Array:
    """``row`` as the noise is added to it: clipped and on the grid; unchanged where there is no noise."""
    domain, scale = mechanism._domain(), mechanism._scale(row.size)
    if scale == 0.0:
        return row
    step = grid_step(scale, domain.typical(row.size))
    return np.asarray(domain.cells(row[None, :], step)[0] * step + domain.centre)


def check_pair(record: ArrayLike, neighbour: ArrayLike) -> tuple[Array, Array]:
    """Both as rows (d,) of equally many finite numbers, or a refusal."""
    pair = []
    for values, name in ((record, "record"), (neighbour, "neighbour")):
        try:
            row = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput(f"the {name} is no row of numbers.") from None
        if row.ndim != 1 or row.size == 0 or not np.isfinite(row).all():
            raise BadInput(
                f"the {name} of shape {row.shape} is no record: one row of finite numbers is needed."
            )
        pair.append(row)
    if pair[0].size != pair[1].size:
        raise BadInput(f"the record has {pair[0].size} columns and the neighbour {pair[1].size}.")
    return pair[0], pair[1]


def check_equal_rows(mechanism: Mechanism) -> None:
    """Refuse a mechanism that treats equal rows differently, since they are no repetitions of one game."""
    if isinstance(mechanism, Gaussian) and mechanism._relative(0, 1) is not None:
        raise BadInput(
            f"{type(mechanism).__name__} has an ε for each row, so its rows are no repetitions of one game: "
            "give one ε."
        )


def _normal_scores(one: Array, other: Array, released: Array, sigma: float) -> Array:
    return np.asarray((released - 0.5 * (one + other)) @ ((other - one) / sigma) / sigma)


def _exact_scores(one: Array, other: Array, released: Array) -> Array:
    is_one, is_other = (released == one).all(axis=1), (released == other).all(axis=1)
    return np.where(is_one == is_other, 0.0, np.where(is_other, np.inf, -np.inf))


def _response_scores(mechanism: RandomisedResponse, one: Array, other: Array, released: Array) -> Array:
    scores = np.zeros(len(released))
    counts = mechanism._counts(one.size)
    for column, (count, threshold) in enumerate(zip(counts, mechanism._keep(one.size), strict=True)):
        # The coin has 64 bits and a double 53: a coin that almost always keeps must not become certain.
        keep = min(threshold / 2.0**64, 1.0 - 2.0**-53)
        gain = math.log(keep) + math.log(count - 1) - math.log1p(-keep)
        answers = released[:, column]
        scores += gain * ((answers == other[column]).astype(np.float64) - (answers == one[column]))
    return scores
