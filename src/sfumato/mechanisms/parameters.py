"""Declarations of parameters that many mechanisms have, and checks of values with one-sentence refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.noise import Randomness
from sfumato.privacy import Neighbours

__all__ = [
    "LARGEST",
    "SMALLEST",
    "Delta",
    "Distrust",
    "Epsilon",
    "OptionalDelta",
    "RandomSource",
    "delta_between",
    "epsilon_range",
    "known_neighbours",
    "numeric",
    "one_of",
    "positive",
    "positives",
    "proper_share",
    "share",
    "whole",
]

_EPSILON = Parameter("Privacy budget of one unit.", symbol="ε")
_CLIP = Parameter(
    "Longest record; longer ones are scaled back. The length is L2, for laplace L1.",
    symbol="RADIUS",
    bound="a radius (`clip=1.0`)",
)
BOUNDS = Parameter(
    "Lowest and highest value; values beyond are moved to the nearer one.",
    symbol="LOW HIGH",
    arity=2,
    bound="the lowest and highest value (`bounds=(0, 255)`)",
)
OUTSIDE = ("refuse", "clip")

Epsilon = Annotated[float, _EPSILON]
EpsilonRange = Annotated[
    Sequence[float],
    replace(_EPSILON, help="Privacy budgets of the least and of the most trusted reader.", arity=2),
]
Delta = Annotated[float, Parameter("Failure probability of Gaussian noise.", symbol="δ")]
OptionalDelta = Annotated[
    float, Parameter("Failure probability: 0 for Laplace noise, more for Gaussian noise.", symbol="δ")
]
Clip = Annotated[float | None, _CLIP]
Radius = Annotated[float, _CLIP]
Bounds = Annotated[Any, BOUNDS]
StrictBounds = Annotated[
    Any, replace(BOUNDS, help="Lowest and highest value; values beyond are refused unless they are clipped.")
]
Outside = Annotated[
    str, Parameter("Whether values beyond the bounds are refused or clipped.", choices=OUTSIDE)
]
NeighboursName = Annotated[
    str,
    Parameter(
        "What may become of a record: replaced by any other, or zeroed out.", choices=("replace", "zero-out")
    ),
]
Distrust = Annotated[
    float,
    Parameter(
        "From 0, the most trusted reader with the least noise, to 1.",
        symbol="τ",
        wire="trust",
        renamed="0 for the most trusted reader",
    ),
]
RandomSource = Annotated[
    Randomness | None,
    Parameter("Source of the noise; that of the operating system unless given.", doors=("python",)),
]


#: The range of every size and budget; squares and sums of what lies in it neither overflow nor vanish.
SMALLEST, LARGEST = 1e-100, 1e100
# A part that is to be given, and one that is to be left, are no smaller.
_SMALLEST_PART = 1e-6


def _number(value: Any) -> float:
    """Return ``value`` as a float; NaN, which lies in no range, if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def positive(name: str, value: Any) -> float:
    """Return ``value`` as a float, if it is a positive number that can be squared and summed."""
    if not SMALLEST <= (number := _number(value)) <= LARGEST:
        raise BadInput(
            f"`{name}` must be a positive number from {SMALLEST:g} to {LARGEST:g}, not {shown(value)}.",
            parameter=name,
        )
    return number


def whole(
    name: str, value: Any, largest: int | None = None, what: str = "number", *, smallest: int = 1
) -> int:
    """Return ``value`` as an int, if it is a whole ``what`` from ``smallest`` to ``largest``."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < smallest or (largest is not None and value > largest):
        accepted = f", {smallest} or more" if largest is None else f" from {smallest} to {largest:,}"
        raise BadInput(f"`{name}` must be a whole {what}{accepted}, not {shown(value)}.", parameter=name)
    return int(value)


def numeric(value: Any) -> NDArray[np.float64] | None:
    """Return ``value`` as an array, if it is a number or a list of numbers; otherwise None."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return None
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def positives(value: Any) -> NDArray[np.float64] | None:
    """Return ``value`` as an array, if it is a list of numbers that :func:`positive` accepts; or None."""
    array = numeric(value)
    if array is None or array.ndim != 1 or not array.size:
        return None
    return array if ((array >= SMALLEST) & (array <= LARGEST)).all() else None


def share(name: str, value: Any) -> float:
    """Return ``value`` as a float, if it lies in [0, 1]."""
    if not 0.0 <= (number := _number(value)) <= 1.0:
        raise BadInput(f"`{name}` must lie between 0 and 1, not {shown(value)}.", parameter=name)
    return number


def proper_share(name: str, value: Any) -> float:
    """Return ``value`` as a float, if it lies between 0 and 1 and at least 1e-6 from both."""
    if not _SMALLEST_PART <= (number := _number(value)) <= 1.0 - _SMALLEST_PART:
        raise BadInput(
            f"`{name}` must lie strictly between 0 and 1, at least {_SMALLEST_PART:g} from both, not "
            f"{shown(value)}.",
            parameter=name,
        )
    return number


def delta_between(value: Any) -> float:
    """Return δ as a float, if it lies strictly between 0 and 1 and is not so small that it means 0."""
    if not SMALLEST <= (number := _number(value)) < 1.0:
        raise BadInput(
            f"`delta` must lie strictly between 0 and 1 (Gaussian noise needs one), not {shown(value)}.",
            parameter="delta",
        )
    return number


def epsilon_range(value: Any) -> tuple[float, float]:
    """Return (ε_min, ε_max) as floats, if 0 < ε_min ≤ ε_max."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise BadInput(
            f"`epsilon` must be a range such as (1.0, 8.0), not {shown(value)}.", parameter="epsilon"
        )
    low, high = positive("epsilon", value[0]), positive("epsilon", value[1])
    if low > high:
        raise BadInput(
            f"`epsilon` was {shown(value)}, which is reversed; give the smaller value first.",
            parameter="epsilon",
        )
    return low, high


def known_neighbours(value: Any) -> Neighbours:
    """Return ``value`` as neighbours that a row-by-row release can promise."""
    try:
        neighbours = Neighbours(value)
    except ValueError:
        neighbours = None
    if neighbours not in (Neighbours.REPLACE, Neighbours.ZERO_OUT):
        raise BadInput(
            "`neighbours` must be 'replace' or 'zero-out' (a release row by row shows how many rows there "
            f"are), not {shown(value)}.",
            parameter="neighbours",
        )
    return neighbours


def one_of(name: str, value: Any, accepted: Sequence[str]) -> str:
    """Return ``value``, if it is one of ``accepted``."""
    if not isinstance(value, str) or value not in accepted:
        raise BadInput(f"`{name}` must be one of {', '.join(accepted)}, not {shown(value)}.", parameter=name)
    return str(value)
