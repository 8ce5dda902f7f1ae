"""Records as the rows of a two-dimensional array of finite numbers, or a sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["as_array", "check_finite", "check_visible", "finite", "held", "numbers", "records"]

_FLOATS = [np.float64, np.float32]
# What Python or NumPy would turn into a number without a word, though nobody wrote one.
_NO_NUMBERS = (str, bytes, bool, np.bool_, np.datetime64, np.timedelta64)
# Kinds of columns in the dataframe interchange protocol: whole, unsigned and floating-point numbers.
_INTERCHANGED_NUMBERS = (0, 1, 2)


class NotNumbers(BadInput, TypeError):
    """Values that no number can be made of; scikit-learn's conventions call for a ``TypeError`` here."""


def records(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """X as a float array of shape (n, d), with n, d ≥ 1; whether it is finite is for :func:`finite` to say.

    ``reset`` makes ``estimator`` remember the number of columns; otherwise X must have as many as before.
    float32 and float64 stay what they are, everything else becomes float64. X is not modified.
    """
    from sklearn.utils.validation import validate_data

    table = _table(X)
    try:
        data = validate_data(estimator, table, reset=reset, dtype=_FLOATS, ensure_all_finite=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    return np.asarray(data)


def numbers(X: Any) -> NDArray[Any]:
    """X as :func:`records` has it, for no estimator in particular, and known to be finite."""
    from sklearn.utils.validation import check_array

    table = _table(X)
    try:
        data = np.asarray(check_array(table, dtype=_FLOATS, ensure_all_finite=False))
    except (TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None
    check_finite(data)
    return data


def as_array(X: Any, what: str = "the data") -> NDArray[Any]:
    """X as an array of any type and shape, once nothing in it is hidden; ``what`` it is, in refusals."""
    check_visible(X, what)
    return np.asarray(X)


def check_visible(X: Any, what: str = "the data") -> None:
    """Refuse cells under a NumPy mask, and columns of a frame whose values are no numbers.

    Without a word NumPy would release what a mask hides, and count dates, durations, categories and booleans
    as numbers. A masked array without a masked cell is an array like any other. A frame is whatever tells the
    types of its columns: of pandas, Polars or Arrow, or by the dataframe interchange protocol.

    A whole array of type bool is none of these: it holds zeros and ones, as a ``.npy`` file of booleans does.
    """
    if isinstance(X, list | tuple):
        # An array is made of lists without looking at the masks of arrays in them.
        masked = any(isinstance(item, np.ma.MaskedArray) and np.ma.getmaskarray(item).any() for item in X)
    else:
        masked = isinstance(X, np.ma.MaskedArray) and bool(np.ma.getmaskarray(X).any())
    if masked:
        raise BadInput(
            f"{what} are a masked array with masked cells, which have no declared value: fill them, as in "
            "X.filled(0.0), or leave their rows out."
        )
    for name, kind, number in _frame_columns(X):
        if not number:
            raise BadInput(
                f"column {str(name)!r} of {what} holds values of type {kind}: whole and floating-point "
                "numbers are accepted; turn it into numbers yourself, or leave it out."
            )


def _frame_columns(X: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Name and type of each column of a data frame, and whether it holds numbers; none if X is no frame."""
    if isinstance(X, np.ndarray):
        return
    names, kinds = getattr(X, "columns", None), getattr(X, "dtypes", None)
    schema: Any = getattr(X, "schema", None)
    if names is not None and kinds is not None:
        for name, kind in zip(names, kinds, strict=True):
            # Types of pandas and Arrow-backed types have a kind, as NumPy's have; those of Polars answer.
            numeric = (
                kind.is_numeric() if hasattr(kind, "is_numeric") else getattr(kind, "kind", "O") in "iuf"
            )
            yield name, kind, numeric
    elif hasattr(schema, "names") and hasattr(schema, "types"):
        from pyarrow import types

        for name, kind in zip(schema.names, schema.types, strict=True):
            numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            yield name, kind, numeric
    elif hasattr(X, "__dataframe__"):
        frame = X.__dataframe__()
        for name in frame.column_names():
            kind = frame.get_column_by_name(name).dtype[0]
            yield name, getattr(kind, "name", kind), int(kind) in _INTERCHANGED_NUMBERS


def _table(X: Any) -> Any:
    """X, or for lists the array they hold, once its shape and the type of its values can be records."""
    check_visible(X, "the records")
    # Frames, whose columns were checked, keep their names; sparse matrices are for scikit-learn to refuse.
    is_frame = next(_frame_columns(X), None) is not None
    as_given = isinstance(X, np.ndarray) or is_frame or not hasattr(X, "__array__")
    try:
        table = X if as_given and hasattr(X, "shape") else np.asarray(X)
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
    if isinstance(table, np.ndarray) and kind == "O":
        for held_type in set(map(type, table.flat)):
            turned = hasattr(held_type, "__float__") or hasattr(held_type, "__index__")
            if issubclass(held_type, _NO_NUMBERS) or (turned and not issubclass(held_type, Real | Decimal)):
                raise BadInput(f"records must be numbers, not values of type {held_type.__name__}.")
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
    return np.asarray(np.clip(values, -largest, largest), dtype=dtype)


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
