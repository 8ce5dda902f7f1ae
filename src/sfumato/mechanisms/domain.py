"""The declared set that every record is clipped into, and how far two of its points can be apart.

One pair of bounds for all components of a tensor, and what becomes of values beyond them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import LARGEST, OUTSIDE, SMALLEST, numeric, one_of, positive, shown
from sfumato.noise import onto_grid
from sfumato.privacy import Neighbours

__all__ = ["Ball", "Box", "declared_domain", "two_bounds"]

Array = NDArray[np.float64]
Norm = Literal["l1", "l2"]

# float64 holds integers exactly up to 2⁵³; half of that leaves room for the noise.
_MAX_CELLS = 2.0**52
# The sides of a wider box with one pair of bounds are multiplied, not summed: no array of them is made.
_SUMMED_COLUMNS = 1 << 16


class Domain(Protocol):
    """Where clipped records live; ``centre`` is also the null value of zero-out neighbours."""

    @property
    def centre(self) -> Array | float:
        """The middle of the domain."""

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """The largest distance between neighbouring records of ``columns`` coordinates."""

    @property
    def reach(self) -> float:
        """The largest absolute value that a coordinate can have."""

    def typical(self, columns: int) -> float:
        """The size of a typical coordinate, measured from the centre."""

    def cells(self, values: Array, step: float) -> Array:
        """Records clipped and rounded toward the centre, in grid steps from it."""


@dataclass(frozen=True)
class Ball:
    """All records of norm at most ``radius``; two of them are at most twice the radius apart."""

    norm: Norm
    radius: float
    centre: float = 0.0

    @property
    def reach(self) -> float:
        """The radius."""
        return self.radius

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """2·radius under replace, radius under zero-out."""
        if norm != self.norm:
            raise BadInput(f"a ball in the {self.norm} norm says nothing about distances in the {norm} norm.")
        return 2.0 * self.radius if neighbours is Neighbours.REPLACE else self.radius

    def typical(self, columns: int) -> float:
        """radius/√d in the L2 norm, radius/d in the L1 norm."""
        return self.radius / (math.sqrt(columns) if self.norm == "l2" else columns)

    def cells(self, values: Array, step: float) -> Array:
        """Scaled back onto the ball where outside it, then rounded toward zero."""
        return onto_grid(values, self.radius, self.norm, step)


class Box:
    """All records with low ≤ coordinate ≤ high, for one pair of bounds or one pair a column."""

    def __init__(self, low: Any, high: Any) -> None:
        lows, highs = numeric(low), numeric(high)
        if lows is None or highs is None:
            raise BadInput(f"`bounds` must be numbers, not {shown((low, high))}.", parameter="bounds")
        self.low, self.high = lows, highs
        if self.low.shape != self.high.shape or self.low.ndim > 1:
            raise BadInput(
                "`bounds` must be two numbers, or two lists with one number a column.", parameter="bounds"
            )
        if not (self.low < self.high).all() or not self.low.size:
            raise BadInput(
                "`bounds` must be numbers and each lower bound must lie below its upper bound.",
                parameter="bounds",
            )
        if not self.reach <= LARGEST or not (self.high - self.low).min() >= SMALLEST:
            raise BadInput(
                f"`bounds` must be within ±{LARGEST:g} and at least {SMALLEST:g} apart.", parameter="bounds"
            )
        self.half = (self.high - self.low) / 2.0
        self.centre: Array | float = self.low + self.half

    @property
    def reach(self) -> float:
        """The largest absolute bound."""
        return float(np.maximum(np.abs(self.low), np.abs(self.high)).max())

    def _halves(self, columns: int) -> Array:
        if self.half.ndim and self.half.size != columns:
            raise BadInput(
                f"`bounds` were declared for {self.half.size} columns, but the data has {columns}.",
                parameter="bounds",
            )
        return np.broadcast_to(self.half, columns)

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """The diagonal of the box (L2) or the sum of its sides (L1); half of it under zero-out."""
        half = self._halves(columns)
        if not self.half.ndim and columns > _SUMMED_COLUMNS:
            span = float(self.half) * (math.sqrt(columns) if norm == "l2" else columns)
        else:
            span = float(np.linalg.norm(half)) if norm == "l2" else float(half.sum())
        # A rounding of the sum must not make the sensitivity too small.
        span *= 1.0 + 2.0**-40
        return 2.0 * span if neighbours is Neighbours.REPLACE else span

    def typical(self, columns: int) -> float:
        """Half the narrowest side."""
        return float(self._halves(columns).min())

    def cells(self, values: Array, step: float) -> Array:
        """Clipped to the bounds, then rounded toward the centre."""
        self._halves(values.shape[1])  # refuses bounds declared for another number of columns
        limit = np.floor(self.half / step)
        if limit.max() > _MAX_CELLS:
            raise BadInput(
                f"`bounds` {2.0 * float(self.half.max()):g} apart are too wide for a grid of {step:g}; so "
                "little noise hides nothing: ask for a smaller ε, or declare bounds of similar width.",
                parameter="bounds",
            )
        with np.errstate(over="ignore"):  # what overflows is clipped
            steps = np.trunc((values - self.centre) / step)
        return np.clip(steps, -limit, limit)


def declared_domain(norm: Norm, clip: Any, bounds: Any) -> Domain:
    """The domain that exactly one of ``clip`` and ``bounds`` declares."""
    if (clip is None) == (bounds is None):
        raise BadInput(
            "declare exactly one bound on the records: a radius (`clip=1.0`) or the lowest and highest value "
            "(`bounds=(0, 255)`); a bound read off the data would leak it.",
            parameter="clip",
        )
    if clip is not None:
        return Ball(norm, positive("clip", clip))
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise BadInput(f"`bounds` must be a pair (low, high), not {shown(bounds)}.", parameter="bounds")
    return Box(*bounds)


def one_box(bounds: Any) -> Box:
    """The box that ``bounds`` = (low, high) declare for every component."""
    box = declared_domain("l2", None, bounds)
    assert isinstance(box, Box)  # bounds declare nothing else
    if box.low.ndim:
        raise BadInput(
            f"`bounds` of tensors are two numbers for all components, not {shown(bounds)}.",
            parameter="bounds",
        )
    return box


def two_bounds(bounds: Any) -> tuple[float, float]:
    """(low, high) as floats, once known to be good."""
    box = one_box(bounds)
    return float(box.low), float(box.high)


def check_inside(X: NDArray[Any], first: int, bounds: tuple[float, float], outside: Any) -> None:
    """Refuse values of rows ``first``, ``first``+1, … beyond the bounds, unless ``outside`` is ``"clip"``."""
    if one_of("outside", outside, OUTSIDE) == "clip":
        return
    low, high = bounds
    # Bounds are compared in the type of the values: 0.1 in single precision is not beyond a bound of 0.1.
    with np.errstate(over="ignore"):
        inside = (low <= X) & (high >= X)
    if not inside.all():
        row, column = np.argwhere(~inside)[0]
        raise BadInput(
            f"row {first + row + 1}, component {column + 1} lies outside the bounds {low:g} to {high:g}; "
            "declare wider bounds, or ask for clipping."
        )


def check_fits(largest: float, dtype: np.dtype[Any]) -> None:
    """Refuse to release values of up to ``largest`` in a type that cannot hold them."""
    if largest > float(np.finfo(dtype).max):
        raise BadInput(
            f"released values of up to {largest:g} do not fit in {dtype}; give the records as float64."
        )
