"""What a parameter may be, said in one sentence when it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy import Neighbours

__all__ = ["delta_between", "epsilon_range", "known_neighbours", "one_of", "positive", "share"]


def positive(name: str, value: Any) -> float:
    """``value`` as a float, if it is a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise BadInput(f"{name} must be a positive number, not {value!r}.")
    return float(value)


def share(name: str, value: Any) -> float:
    """``value`` as a float, if it lies in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise BadInput(f"{name} must lie between 0 and 1, not {value!r}.")
    return float(value)


def delta_between(value: Any) -> float:
    """δ as a float, if it lies strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise BadInput(f"delta must lie strictly between 0 and 1 (Gaussian noise needs one), not {value!r}.")
    return float(value)


def epsilon_range(value: Any) -> tuple[float, float]:
    """(ε_min, ε_max) as floats, if 0 < ε_min ≤ ε_max."""
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise BadInput(f"epsilon must be a range such as (1.0, 8.0), not {value!r}.")
    low, high = positive("the smaller epsilon", value[0]), positive("the larger epsilon", value[1])
    if low > high:
        raise BadInput(f"the epsilon range {value!r} is reversed; give the smaller value first.")
    return low, high


def known_neighbours(value: Any) -> Neighbours:
    """``value`` as neighbours that a row-by-row release can promise."""
    try:
        neighbours = Neighbours(value)
    except ValueError:
        neighbours = None
    if neighbours not in (Neighbours.REPLACE, Neighbours.ZERO_OUT):
        raise BadInput(
            "neighbours must be 'replace' or 'zero-out' (a release row by row shows how many rows there "
            f"are), not {value!r}."
        )
    return neighbours


def one_of(name: str, value: Any, accepted: Sequence[str]) -> str:
    """``value``, if it is one of ``accepted``."""
    if value not in accepted:
        raise BadInput(f"{name} must be one of {', '.join(accepted)}, not {value!r}.")
    return str(value)
