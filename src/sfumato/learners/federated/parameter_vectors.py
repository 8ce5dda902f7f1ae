"""The parameters of a model as they travel: a list of arrays, one a layer, and as one vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["Arrays", "Shapes", "checked", "flat", "shaped", "shapes_of", "size_of"]

Arrays = list[NDArray[np.float32]]
Shapes = Sequence[tuple[int, ...]]

_LARGEST = float(np.finfo(np.float32).max)


def shapes_of(arrays: Sequence[NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
    """The shape of every layer; public, since everybody trains the same model."""
    return tuple(tuple(int(side) for side in np.shape(array)) for array in arrays)


def size_of(shapes: Shapes) -> int:
    """How many parameters layers of these ``shapes`` have together."""
    return sum(math.prod(shape) for shape in shapes)


def flat(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """All layers as one vector, in order."""
    if not len(arrays):
        raise BadInput("a model without parameters was given: one layer or more is needed.")
    return np.concatenate([np.asarray(array, dtype=np.float64).reshape(-1) for array in arrays])


def shaped(vector: NDArray[np.float64], like: Sequence[NDArray[Any]]) -> Arrays:
    """``vector`` cut into layers of the shapes of ``like``; beyond single precision it is cut off there."""
    shapes = shapes_of(like)
    if vector.shape != (size_of(shapes),):
        raise BadInput(
            f"a vector of shape {vector.shape} does not fit layers of {size_of(shapes)} parameters."
        )
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(np.clip(vector, -_LARGEST, _LARGEST).astype(np.float32), ends)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def checked(arrays: Sequence[Any], like: Sequence[NDArray[Any]], *, client: str = "a client") -> Arrays:
    """What ``client`` sent, in single precision, if it has the shapes of ``like`` and is finite.

    Refuses in one sentence that names the client and the layer, counted from 1, and no value.
    """
    expected = shapes_of(like)
    if len(arrays) != len(expected):
        raise BadInput(f"{client} sent {len(arrays)} layers, and the model has {len(expected)}.")
    made: Arrays = []
    for number, (given, shape) in enumerate(zip(arrays, expected, strict=True), 1):
        array = np.asarray(given)
        if array.dtype.kind != "f":
            raise BadInput(
                f"{client} sent layer {number} as {array.dtype}: floating-point numbers are needed."
            )
        if array.shape != shape:
            raise BadInput(
                f"{client} sent layer {number} with the shape {array.shape}, and the model has {shape} there."
            )
        with np.errstate(over="ignore"):  # what overflows is refused as infinite
            single = array.astype(np.float32)
        if not np.isfinite(single).all():
            raise BadInput(
                f"{client} sent layer {number} with NaN or infinite parameters: nothing of it is used."
            )
        made.append(single)
    return made
