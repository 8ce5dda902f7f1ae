"""Checks of two arrays that hold the same records row by row, and of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import as_array, finite_array


def rows_of(values: Any, name: str) -> NDArray[Any]:
    """Return ``values`` as finite numbers of shape (n, d): axes are flattened, one axis is a column."""
    array = finite_array(values, f"the {name} array")
    return array.reshape(len(array), -1)


def paired(original: Any, released: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both as :func:`rows_of` does; raise unless they have equally many rows."""
    first, second = rows_of(original, "original"), rows_of(released, "released")
    if len(first) != len(second):
        raise BadInput(
            f"the original has {len(first)} rows and the release {len(second)}; row by row both must hold "
            "the same records."
        )
    return first, second


def class_labels(labels: Any, rows: int, *, least: int) -> NDArray[np.intp]:
    """Return labels as class numbers from 0; raise unless two classes or more have ``least`` rows each."""
    array = as_array(labels, "the labels")
    if array.shape != (rows,):
        raise BadInput(f"labels have shape {array.shape}; {rows} rows need labels of shape ({rows},).")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0]) + 1
        raise BadInput(f"the label of row {row} is NaN or an infinity; every row needs a class.")
    try:
        classes, numbered, counts = np.unique(array, return_inverse=True, return_counts=True)
    except TypeError:
        raise BadInput("labels mix values that have no order; give all as text or all as numbers.") from None
    if len(classes) < 2:
        raise BadInput("all labels are of one class; a probe needs at least two to tell apart.")
    if counts.min() < least:
        raise BadInput(
            f"the rarest class has {counts.min()} rows; {least} are needed so that every class is both "
            "learned and tested."
        )
    return numbered.astype(np.intp)


def label_columns(rows: NDArray[Any], numbered: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which columns of ``rows`` hold only the label: one value for each class, and more than one.

    Such a column is the label itself, an indicator of it or another spelling of it, and no feature.
    """
    varied = (rows != rows[0]).any(axis=0)
    within = np.zeros(rows.shape[1], dtype=bool)
    for number in range(int(numbered.max()) + 1):
        own = rows[numbered == number]
        within |= (own != own[0]).any(axis=0)
    return np.asarray(varied & ~within)
