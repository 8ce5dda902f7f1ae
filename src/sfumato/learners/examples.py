"""What learners are given: features (n, d) and labels (n,), checked before anything is paid or drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import shown
from sfumato.mechanisms.records import check_visible

__all__ = [
    "Floats",
    "Labels",
    "as_array",
    "checked_classes",
    "checked_examples",
    "checked_features",
    "checked_number",
]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def as_array(what: str, given: Any) -> NDArray[Any]:
    """``given`` as an array; ``what`` it is, for the sentence about rows of different lengths."""
    check_visible(given, what)
    try:
        return np.asarray(given)
    except ValueError:
        raise BadInput(f"{what} with rows of different lengths were given: an array is needed.") from None


def checked_features(X: Any, dimension: int | None = None) -> NDArray[np.floating]:
    """``X`` as finite floats (n, d), float32 or float64; ``dimension`` is the d that is needed."""
    given = as_array("features", X)
    if given.dtype.kind not in "uif" or given.ndim != 2 or not given.size:
        raise BadInput(
            f"features of shape {given.shape} and type {given.dtype} were given: numbers (n, d) are needed."
        )
    if dimension is not None and given.shape[1] != dimension:
        raise BadInput(f"{given.shape[1]} features were given, and {dimension} were fitted.")
    finite = np.isfinite(given).all(axis=1)
    if not finite.all():
        raise BadInput(f"the features of record {int(np.flatnonzero(~finite)[0])} are not all finite.")
    return given if given.dtype in (np.float32, np.float64) else given.astype(np.float64)


def checked_classes(classes: Any) -> int:
    """The number of classes, two or more."""
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < 2:
        raise BadInput(
            f"`classes` was {shown(classes)}: a whole number, 2 or more, is needed.", parameter="classes"
        )
    return int(classes)


def checked_examples(X: Any, y: Any, classes: int) -> tuple[NDArray[np.floating], Labels]:
    """Features and their labels, whole numbers 0…``classes``−1."""
    features, labels = checked_features(X), as_array("labels", y)
    if labels.shape != (len(features),) or labels.dtype.kind not in "ui":
        raise BadInput(
            f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for each "
            f"of {len(features)} records is needed."
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise BadInput(f"the label of record {wrong[0]} is not one of 0 to {classes - 1}.")
    return features, labels.astype(np.int64)


def checked_number(records: int | None, given: int) -> int:
    """The public number of records, at least as many as were ``given``."""
    if records is None:
        return given
    if isinstance(records, bool) or not isinstance(records, int) or records < given:
        raise BadInput(
            f"`records` was {records!r}: a whole number, at least as many as are given, is needed.",
            parameter="records",
        )
    return records
