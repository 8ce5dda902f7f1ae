"""A bound on linear maps of a changed unit, which tests hold closed forms of mechanisms against."""

import numpy as np


def linear_sensitivity(placements, reach, norm="l2"):
    """Return a certified bound on ‖A v‖ over |vᵢ| ≤ ``reach``, for every placement A of the changed unit.

    Each placement holds, as columns, what one unit of change of each value of the unit does to the output.
    The worst case over a box is a hard problem; min(√m·σ_max(A), Σ‖aᵢ‖₂) bounds it in the L2 norm and Σ‖aᵢ‖₁
    in the L1 norm. Both are exact for one value and for means over disjoint blocks of values.
    """
    largest = 0.0
    for matrix in placements:
        if norm == "l1":
            bound = np.abs(matrix).sum()
        else:
            apart = np.linalg.norm(matrix, axis=0).sum()
            bound = min(np.sqrt(matrix.shape[1]) * np.linalg.norm(matrix, 2), apart)
        largest = max(largest, bound)
    # The norms are computed in floating point; a bound must not fall below by their rounding.
    return float(reach * largest * (1.0 + 1e-12))
