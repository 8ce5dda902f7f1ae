"""A public map of the part of the budget that each place of a picture gets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import numeric

__all__ = ["Shares", "shares_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shares:
    """Numbers in (0, 1] on a grid (rows, columns) that covers the picture; compared by value."""

    rows: int
    columns: int
    content: bytes

    @cached_property
    def values(self) -> Array:
        """The numbers, of shape (rows, columns)."""
        return np.frombuffer(self.content, dtype="<f8").reshape(self.rows, self.columns)

    def of_blocks(self, height: int, width: int, side: int) -> Array:
        """The smallest share of the cells that each block of ``side`` pixels of a picture touches."""
        return _smallest(_smallest(self.values, height, side).T, width, side).T

    def named(self) -> dict[str, Any]:
        """Shape, range and digest, as JSON values."""
        return {
            "shape": [self.rows, self.columns],
            "smallest": float(self.values.min()),
            "largest": float(self.values.max()),
            "sha256": hashlib.sha256(self.content).hexdigest(),
        }


def shares_of(value: Any) -> Shares | None:
    """``value`` as a map of shares, if it is a two-dimensional array of numbers in (0, 1]; None is None."""
    if value is None or isinstance(value, Shares):
        return value
    array = numeric(value)
    if array is None or array.ndim != 2 or not array.size or not ((array > 1e-6) & (array <= 1.0)).all():
        raise BadInput(
            "`shares` must be an array (rows, columns) of numbers from 0.000001 to 1.", parameter="shares"
        )
    rows, columns = array.shape
    return Shares(rows, columns, np.ascontiguousarray(array, dtype="<f8").tobytes())


def _smallest(values: Array, length: int, side: int) -> Array:
    """``values``, which cover ``length`` pixels along the first axis, on blocks of ``side`` pixels.

    A cell may begin or end between two pixels; it is taken to touch both.
    """
    starts = np.arange(0, length, side)
    first = starts * len(values) // length
    last = -(-np.minimum(starts + side, length) * len(values) // length)
    return np.stack([values[a:b].min(axis=0) for a, b in zip(first, last, strict=True)])
