"""Records as the rows of a two-dimensional array of finite numbers, or a sentence that says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from sfumato.errors import BadInput

__all__ = ["check_finite", "finite", "held", "numbers", "records"]

_FLOATS = [np.float64, np.float32]


class NotNumbers(BadInput, TypeError):
    """Values that no number can be made of; scikit-learn's conventions call for a ``TypeError`` here."""


def records(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """X as a float array of shape (n, d), with n, d ≥ 1; whether it is finite is for :func:`finite` to say.

    ``reset`` makes ``estimator`` remember the number of columns; otherwise X must have as many as before.
    float32 and float64 stay what they are, everything else becomes float64. X is not modified.
    """
    table = _table(X)
    try:
        data = validate_data(estimator, table, reset=reset, dtype=_FLOATS, ensure_all_finite=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    return np.asarray(data)


def numbers(X: Any) -> NDArray[Any]:
    """X as :func:`records` has it, for no estimator in particular, and known to be finite."""
    table = _table(X)
    try:
        data = np.asarray(check_array(table, dtype=_FLOATS, ensure_all_finite=False))
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    check_finite(data)
    return data


def _table(X: Any) -> Any:
    """X, or for lists the array they hold, once its shape and the type of its values can be records."""
    try:
        table = X if hasattr(X, "shape") else np.asarray(X)
    except ValueError:
        raise BadInput("the rows differ in length; every record must have equally many numbers.") from None
    if len(table.shape) != 2:
        raise BadInput(
            f"expected records as the rows of a table (n, d), got an array of shape {tuple(table.shape)}: "
            "Reshape your data, as in X.reshape(len(X), -1)."
        )
    kind = getattr(getattr(table, "dtype", None), "kind", "O")
    if kind == "c":
        raise BadInput("Complex data not supported: give real and imaginary parts as columns of their own.")
    if kind not in "biufO":
        raise BadInput(f"records must be numbers, not values of type {table.dtype}.")
    return table


def _refusal(error: Exception) -> BadInput:
    """What scikit-learn or NumPy objected to, as one line."""
    text = " ".join(str(error).split()).rstrip(".")
    kind = NotNumbers if isinstance(error, TypeError) else BadInput
    return kind(f"{text}.")


def finite(block: NDArray[Any], first: int = 0) -> NDArray[np.float64]:
    """A copy of ``block`` in float64, once known to be finite; ``first`` is the index of its first row."""
    values = block.astype(np.float64)
    check_finite(values, first)
    return values


def held(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """``values`` in the floating-point type ``dtype``; what it cannot hold becomes its largest number.

    So that no record can stop a release: an infinity that arithmetic made of finite values is a number again.
    """
    largest = float(np.finfo(dtype).max)
    return np.clip(values, -largest, largest).astype(dtype)


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
