"""Tensors as records: any order, flattened to rows for the noise and given back in their own shape.

A mechanism for tensors states two guarantees: for one component, all others being equal, and for the whole
tensor. Which of them is the headline is the caller's choice; the statement holds both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import Mechanism, Release, check_visible
from sfumato.mechanisms.parameters import Parameter, one_of, shown
from sfumato.privacy import Guarantee

__all__ = ["UNITS", "TensorMechanism"]

#: What may change between two neighbouring tensors: one component, or all of them.
UNITS = ("component", "tensor")
TensorUnit = Annotated[str, Parameter("Part of a tensor that ε is for.", choices=UNITS)]
TensorShape = Annotated[
    Sequence[int] | None,
    Parameter("Shape of one tensor; that of a row unless given.", arity=None, doors=("python",)),
]


class TensorMechanism(Mechanism):
    """Base of mechanisms for tensors of any order.

    Subclasses hold ``unit`` (the headline), and ``shape``, the shape of one tensor, or None where tensors
    are rows. ``release`` accepts tensors of shape (n, …) of any order and gives them back in that shape.
    """

    unit: str
    shape: Sequence[int] | None

    @abstractmethod
    def _proven(self, unit: str, size: int) -> Guarantee:
        """What is proven of ``unit``, one of ``UNITS``, for tensors of ``size`` components."""

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven of the unit that was asked for; that of a tensor depends on its size."""
        unit = one_of("unit", self.unit, UNITS)
        return self._proven(unit, self._size(columns, needed=unit == "tensor"))

    def release(self, X: Any) -> Release:
        """A release of the tensors X, of shape (n, …); each X[i] is one tensor."""
        rows, shape = flattened(X)
        shaped = self if self.shape is not None or len(shape) == 1 else self._with(shape=shape)
        made = super(TensorMechanism, shaped).release(rows)
        same = made.value.shape == rows.shape
        return replace(made, value=made.value.reshape(len(rows), *shape)) if same else made

    def _with(self, **parameters: Any) -> TensorMechanism:
        return type(self)(**(self.get_params(deep=False) | parameters))

    def _also(self, columns: int | None) -> tuple[Guarantee, ...]:
        size = tensor_size(self.shape) if columns is None else columns
        if size is None:
            return ()
        return tuple(self._proven(unit, size) for unit in UNITS if unit != self.unit)

    def _size(self, columns: int | None, *, needed: bool) -> int:
        """The number of components of one tensor; 1 where it is neither known nor needed."""
        declared = tensor_size(self.shape)
        if declared is not None and columns is not None and declared != columns:
            raise BadInput(
                f"tensors of shape {tuple(self.shape or ())} have {declared} components, but the data has "
                f"{columns}."
            )
        size = columns if declared is None else declared
        if size is None and needed:
            raise BadInput(
                "a guarantee per tensor depends on its size: give `columns` or `shape`.", parameter="shape"
            )
        return 1 if size is None else size


def tensor_size(shape: Any) -> int | None:
    """How many components a tensor of ``shape`` has; None where no shape is given."""
    if shape is None:
        return None
    sides = list(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else []
    if not sides or any(isinstance(s, bool) or not isinstance(s, int | np.integer) or s < 1 for s in sides):
        raise BadInput(
            f"`shape` must hold the sides of one tensor, as in (28, 28), not {shown(shape)}.",
            parameter="shape",
        )
    size = 1
    for side in sides:
        size *= int(side)
    return size


def flattened(X: Any) -> tuple[NDArray[Any], tuple[int, ...]]:
    """X of shape (n, …) as rows (n, d), and the shape of one tensor; X is not modified."""
    check_visible(X, "the tensors")
    try:
        array = np.asarray(X)
    except ValueError:
        raise BadInput("the tensors differ in shape; every tensor must have the same shape.") from None
    if array.ndim < 2 or not array.size:
        raise BadInput(f"expected tensors as an array (n, …) that is not empty, got shape {array.shape}.")
    return array.reshape(len(array), -1), array.shape[1:]
