"""How far one record moves C·G, where row t of G is the gradient sum of step t, if it takes part often.

A record that takes part in the steps S moves G by rows u_t, t ∈ S, each of length at most 1, hence C·G by
√Σ_{s,t∈S} X_st⟨u_s, u_t⟩ with X = CᵀC. Over all u_t that is at most √Σ_{s,t∈S}|X_st|. It is equal to it where
signs r_t make every r_s r_t X_st ≥ 0, for u_t = r_t u: where X ≥ 0, where S is one step (the length of a
column), and where C has two bands, as noise with momentum has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["LARGEST_NUMERATOR", "MOST_STEPS", "pattern_sensitivity"]

#: Of C in whole numbers: with these a product of columns is below 2⁴⁸ and exact in float64, in any order.
LARGEST_NUMERATOR, MOST_STEPS = 1 << 18, 1 << 11

# A sum of fewer than 2²⁴ numbers, none negative, errs by a factor below 1 + 2⁻²⁸ in any order; roots by less.
_HAIR = 1.0 + 2.0**-27


def pattern_sensitivity(numerators: NDArray[np.int64], patterns: Sequence[Sequence[int]]) -> float:
    """The largest √Σ_{s,t∈S}|X_st| over the sets S of steps, rounded upward, never below it.

    ``numerators`` is C in whole numbers (steps, steps); a unit in which it is counted multiplies the result.
    """
    if len(numerators) > MOST_STEPS or np.abs(numerators).max() > LARGEST_NUMERATOR:
        raise BadInput(
            f"a factor of {len(numerators)} steps with entries up to {np.abs(numerators).max():g} units was "
            f"given: at most {MOST_STEPS} steps and {LARGEST_NUMERATOR} units can be bounded."
        )
    matrix: NDArray[Any] = numerators.astype(np.float64)
    squares = []
    for steps in patterns:
        columns = matrix[:, np.asarray(steps, dtype=np.intp)]
        squares.append(float(np.abs(columns.T @ columns).sum()))
    return float(np.sqrt(max(squares))) * _HAIR
