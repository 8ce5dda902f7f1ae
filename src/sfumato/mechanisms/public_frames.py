"""Public directions of tensors: turning to their coordinates and back, and the domain seen from there.

Nothing here is secret: directions and stretches are declared. Turned coordinates are put on the grid toward
zero and their norm is checked in integers, so that no error of the turning can enlarge the domain.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.domain import Box, Domain, Norm
from sfumato.mechanisms.parameters import numeric, shown
from sfumato.noise import onto_grid
from sfumato.privacy import Neighbours

__all__ = ["Frame", "Turned", "check_fits", "described", "orthonormal", "stretches"]

Array = NDArray[np.float64]

# How far an entry of WᵀW may be from the identity's: turning back rests on it, the guarantee does not.
_ORTHONORMAL = 1e-9
# Noise that differs by more than this from direction to direction leaves nothing of some of them.
_WIDEST = 1e8
# In deviations: how far a draw may lie from zero; beyond it are fewer than one in 10¹⁰⁰⁰.
_FARTHEST = 128.0


@dataclass(frozen=True)
class Frame:
    """Public directions of each mode of tensors of ``shape`` (None for the axes), and a stretch for each.

    ``stretch`` is (components,), 1 in the direction that has the least noise.
    """

    shape: tuple[int, ...]
    bases: tuple[Array | None, ...]
    stretch: Array

    @property
    def plain(self) -> bool:
        """Whether nothing is turned or stretched."""
        return all(basis is None for basis in self.bases) and bool((self.stretch == 1.0).all())

    def turned(self, rows: Array) -> Array:
        """Tensors, as rows, in coordinates along the directions, divided by their stretch."""
        return np.asarray(_along(rows, self.shape, self.bases) / self.stretch)

    def turned_back(self, rows: Array) -> Array:
        """What :meth:`turned` gave, as tensors again."""
        across = [None if basis is None else basis.T for basis in self.bases]
        return _along(rows * self.stretch, self.shape, across)


class Turned:
    """The declared domain in turned coordinates: inside the ball of its radius around its centre."""

    centre = 0.0

    def __init__(self, inner: Domain, frame: Callable[[int], Frame]) -> None:
        self._inner, self._frame = inner, frame
        self.reach = inner.reach

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """That of the declared domain; turning changes no distance and stretches are at least 1."""
        return self._inner.sensitivity(norm, columns, neighbours)

    def typical(self, columns: int) -> float:
        """radius/√d."""
        return self._radius(columns) / math.sqrt(columns)

    def cells(self, values: Array, step: float) -> Array:
        """Clipped into the declared domain, turned, and rounded toward zero."""
        columns = values.shape[1]
        radius = self._radius(columns)
        if isinstance(self._inner, Box):
            inside = np.clip(values, self._inner.low, self._inner.high) - self._inner.centre
        else:
            inside = _scaled_back(values, radius)
        return onto_grid(self._frame(columns).turned(inside), radius, "l2", step)

    def _radius(self, columns: int) -> float:
        return self._inner.sensitivity("l2", columns, Neighbours.ZERO_OUT)


def _along(rows: Array, shape: Sequence[int], bases: Sequence[Array | None]) -> Array:
    """Every mode of tensors, given as rows, multiplied by the transpose of its basis."""
    values, after = rows, math.prod(shape)
    for side, basis in zip(shape, bases, strict=True):
        after //= side
        if basis is not None:
            # The last mode is one product of matrices for all tensors; the others are many small ones.
            last = after == 1
            values = values.reshape(-1, side) @ basis if last else basis.T @ values.reshape(-1, side, after)
    return values.reshape(rows.shape)


def orthonormal(where: str, matrix: Any, side: int) -> Array | None:
    """``matrix`` once its columns are known to be orthonormal; None where they are the axes."""
    if matrix is None:
        return None
    basis = numeric(matrix)
    if basis is None or basis.shape != (side, side):
        found = shown(matrix) if basis is None else f"one of shape {basis.shape}"
        raise BadInput(f"the directions of {where} must be a matrix of shape ({side}, {side}), not {found}.")
    away = float(np.abs(basis.T @ basis - np.eye(side)).max())
    if not away <= _ORTHONORMAL:
        raise BadInput(
            f"the directions of {where} must be orthonormal columns, but WᵀW is {away:.2g} away from the "
            "identity."
        )
    return None if np.array_equal(basis, np.eye(side)) else basis


def stretches(name: str, value: Any) -> Array:
    """``value`` as an array, if it holds positive numbers that are not too far apart."""
    array = numeric(value)
    if array is None or not array.size or not 0.0 < array.max() <= _WIDEST * array.min() < math.inf:
        raise BadInput(
            f"`{name}` must be positive numbers, the largest at most {_WIDEST:g} times the smallest, not "
            f"{shown(value)}.",
            parameter=name,
        )
    return array


def check_fits(dtype: np.dtype[Any], reach: float, scale: float) -> None:
    """Refuse noise of ``scale`` on values up to ``reach`` that ``dtype`` does not hold."""
    if reach + _FARTHEST * scale > float(np.finfo(dtype).max):
        raise BadInput(
            f"noise of scale {scale:g} on values up to {reach:g} does not fit in {dtype}; "
            "give the records as float64."
        )


def described(value: Any) -> Any:
    """A public array by its shape and digest; a list of them as a list."""
    array = numeric(value)
    if array is None:
        return [described(item) for item in value] if isinstance(value, Sequence) else value
    digest = hashlib.sha256(np.ascontiguousarray(array, dtype="<f8").tobytes()).hexdigest()
    return {"shape": list(array.shape), "sha256": digest}


def _scaled_back(values: Array, radius: float) -> Array:
    """Rows longer than ``radius`` scaled to it; to zero where their length is beyond double precision."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    safe = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(over="ignore"):
        size = safe * np.linalg.norm(values / safe, axis=1, keepdims=True)
    return np.asarray(values * (radius / np.maximum(size, radius)))
