"""Records as the rows of a two-dimensional array of finite numbers, or a sentence that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sfumato.errors import BadInput

__all__ = ["check_finite", "finite", "records"]


def records(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """X as a float array of shape (n, d), with n, d ≥ 1; whether it is finite is for :func:`finite` to say.

    ``reset`` makes ``estimator`` remember the number of columns; otherwise X must have as many as before.
    float32 and float64 stay what they are, everything else becomes float64. X is not modified.
    """
    shape = np.shape(X) if isinstance(X, np.ndarray) else getattr(X, "shape", None)
    if shape is not None and len(shape) != 2:
        raise BadInput(
            f"expected records as the rows of a table (n, d), got an array of shape {tuple(shape)}. "
            "Reshape your data, as in X.reshape(len(X), -1)."
        )
    try:
        data = validate_data(
            estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
    except ValueError as error:
        raise BadInput(" ".join(str(error).split())) from None
    return np.asarray(data)


def finite(block: NDArray[Any], first: int = 0) -> NDArray[np.float64]:
    """A copy of ``block`` in float64, once known to be finite; ``first`` is the index of its first row."""
    values = block.astype(np.float64)
    check_finite(values, first)
    return values


def check_finite(values: NDArray[Any], first: int = 0) -> None:
    """Refuse the first NaN or infinity, and say where it stands, rows and columns counted from 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(values, dtype=np.float64)
    # The sum of finite values is finite unless it overflows, and is quicker than looking at each.
    if np.isfinite(total):
        return
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        row, column = bad[0]
        name = "NaN" if np.isnan(values[row, column]) else "an infinity (inf)"
        raise BadInput(
            f"row {first + row + 1}, column {column + 1} holds {name}; only finite numbers can be released: "
            "remove or replace it."
        )
