"""One pair of bounds for all components of a tensor, and what becomes of values beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.domain import Box, declared_domain
from sfumato.mechanisms.parameters import one_of, shown

__all__ = ["check_fits", "check_inside", "one_box", "two_bounds"]


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
    if one_of("outside", outside, ("refuse", "clip")) == "clip":
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
