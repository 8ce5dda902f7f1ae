"""Sensitivities of sums that are released together, and of linear maps of many values at once.

Releasing a count, a sum and a sum of outer products with one noise is cheaper than three releases, but needs
their joint sensitivity. Under ``zero-out`` the null record adds nothing to any of the sums, so it equals
add/remove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.privacy.unit import Neighbours

__all__ = ["linear_sensitivity"]


def joint_sum_sensitivity(
    clip: float, weights: Sequence[float], neighbours: Neighbours | str = Neighbours.REPLACE
) -> float:
    """Return the sensitivity of (w₀·count, w₁·Σz, w₂·Σzzᵀ) with ‖z‖ ≤ ``clip``, in dimension 2 or more.

    Add/remove: √(w₀² + w₁²C² + w₂²C⁴). Replace, where the count cancels: the maximum of
    w₁²‖z−z′‖² + w₂²‖zzᵀ−z′z′ᵀ‖² is attained with ‖z‖ = ‖z′‖ = C (in high dimension it is subharmonic in
    each vector away from 0) and at cos θ = max(−1, −w₁²/(2w₂²C²)).
    """
    clip = _check_positive("clip", clip)
    if len(weights) != 3 or not all(math.isfinite(weight) for weight in weights):
        raise BadInput(
            f"`weights` were {weights!r}: three finite numbers are needed, for count, sum and outer "
            "products.",
            parameter="weights",
        )
    count, first, second = (float(weight) ** 2 for weight in weights)
    square = clip * clip
    if Neighbours(neighbours) is not Neighbours.REPLACE:
        return math.sqrt(count + first * square + second * square * square)
    cosine = -1.0 if 2.0 * second * square <= first else -first / (2.0 * second * square)
    sums = 2.0 * first * square * (1.0 - cosine)
    products = 2.0 * second * square * square * (1.0 - cosine * cosine)
    return math.sqrt(sums + products)


def augmented_second_moment_sensitivity(
    kappa: float, clip: float, neighbours: Neighbours | str = Neighbours.REPLACE
) -> float:
    """Return the sensitivity of Σz̃z̃ᵀ, z̃ = (κ, z), ‖z‖ ≤ ``clip``: count, sum and second moment together.

    Add/remove: κ² + C². Replace: √2(κ² + C²) while κ ≤ C, and 2√2·κC beyond, where no two z̃ are orthogonal.
    """
    kappa, clip = _check_positive("kappa", kappa), _check_positive("clip", clip)
    return joint_sum_sensitivity(clip, (kappa * kappa, math.sqrt(2.0) * kappa, 1.0), neighbours)


def linear_sensitivity(
    placements: Iterable[NDArray[np.float64]], reach: float, norm: Literal["l1", "l2"] = "l2"
) -> float:
    """Return a certified bound on ‖A v‖ over |vᵢ| ≤ ``reach``, for every placement A of the changed unit.

    Each placement holds, as columns, what one unit of change of each value of the unit does to the output.
    The worst case over a box is a hard problem; min(√m·σ_max(A), Σ‖aᵢ‖₂) bounds it in the L2 norm and Σ‖aᵢ‖₁
    in the L1 norm. Both are exact for one value and for means over disjoint blocks of values.
    """
    reach, largest = _check_positive("reach", reach), 0.0
    for matrix in placements:
        if matrix.ndim != 2 or matrix.shape[1] == 0 or not np.isfinite(matrix).all():
            raise BadInput("a placement must be a finite matrix with one column for each value of the unit.")
        if norm == "l1":
            bound = float(np.abs(matrix).sum())
        else:
            apart = float(np.linalg.norm(matrix, axis=0).sum())
            bound = min(math.sqrt(matrix.shape[1]) * float(np.linalg.norm(matrix, 2)), apart)
        largest = max(largest, bound)
    # The norms are computed in floating point; a bound must not fall below by their rounding.
    return reach * largest * (1.0 + 1e-12)


def _check_positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0.0):
        raise BadInput(f"`{name}` was {value!r}: it must be a finite number above 0.", parameter=name)
    return float(value)
