"""How far one record moves C·G, where row t of G is the gradient sum of step t, if it takes part often.

A record that takes part in the steps S moves G by rows u_t, t ∈ S, each of length at most 1, hence C·G by
√Σ_{s,t∈S} X_st⟨u_s, u_t⟩ with X = CᵀC. Over all u_t that is at most √Σ_{s,t∈S}|X_st|, and equal to it where
X ≥ 0 (all u_t alike); where S is one step it is the length of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import numeric, shown

__all__ = ["participation_sensitivity", "pattern_sensitivity"]

Array = NDArray[np.float64]


def pattern_sensitivity(factor: ArrayLike, patterns: Sequence[Sequence[int]]) -> float:
    """The largest √Σ_{s,t∈S}|X_st| over the given sets S of steps; exact where CᵀC has no negative entry."""
    products = _products(factor)
    squares = []
    for steps in patterns:
        chosen = np.asarray(steps, dtype=np.intp)
        squares.append(float(products[np.ix_(chosen, chosen)].sum()))
    return float(np.sqrt(max(squares)))


def participation_sensitivity(factor: ArrayLike, *, times: int, apart: int) -> float:
    """An upper bound for every record that takes part at most ``times``, its steps ``apart`` or more apart.

    For each step s let r_s be the most that Σ_t|X_st| can be over such sets that hold s; the bound is the
    root of the most that Σ_s r_s can be over such sets. Exact where C is banded with at most ``apart``
    bands: then r_s = X_ss, since columns of steps so far apart have no row in common, and the bound is at
    most √``times`` × the longest column. Exact for one participation, and for a C ≥ 0 where a record takes
    part in every step (``apart`` 1, ``times`` as many as there are steps).
    """
    products = _products(factor)
    for name, value in (("times", times), ("apart", apart)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{name} was {shown(value)}: a whole number, 1 or more, is needed.")
    lags = np.abs(np.subtract.outer(np.arange(len(products)), np.arange(len(products))))
    # With s in the set, no other step is nearer to it than ``apart``.
    others = np.where(lags < apart, 0.0, products)
    rows = np.diag(products) + _most(others, times - 1, apart)
    return float(np.sqrt(_most(rows[None, :], times, apart)[0]))


def _most(weights: Array, times: int, apart: int) -> Array:
    """For each row of ``weights`` ≥ 0 the largest sum over ``times`` entries that are ``apart`` apart."""
    rows, steps = weights.shape
    best = np.zeros((rows, steps + apart))  # column t + apart: the best among the first t + 1 steps
    for _ in range(min(times, -(-steps // apart))):
        taken = weights + best[:, :steps]
        best[:, apart:] = np.maximum.accumulate(taken, axis=1)
    return np.asarray(best[:, -1])


def _products(factor: Any) -> Array:
    """|CᵀC| of a lower-triangular C."""
    matrix = numeric(factor)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise BadInput(f"the factor has the shape {np.shape(factor)}: a square matrix of numbers is needed.")
    if not np.isfinite(matrix).all() or np.triu(matrix, 1).any() or not np.diag(matrix).all():
        raise BadInput("the factor must be lower triangular and finite, with no zero on its diagonal.")
    return np.abs(matrix.T @ matrix)
