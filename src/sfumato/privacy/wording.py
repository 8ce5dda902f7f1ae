"""How a guarantee reads: numbers that still hold when rounded, and the names of combined theorems."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["below_one", "combined", "downward", "upward"]

_COMPOSITION = "composition of "


def upward(value: float, digits: int = 4) -> str:
    """``value`` ≥ 0 in ``digits`` significant digits, rounded up, so that a printed upper bound still holds.

    A value within 1e-9 of a round number is taken for it: 1.0000000001 prints as 1.
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.{digits}g}")
    if nearest < value * (1.0 - 1e-9):
        last_digit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        nearest = float(f"{nearest + last_digit:.{digits}g}")
    return f"{nearest:.{digits}g}"


def downward(value: float, digits: int = 4) -> str:
    """``value`` ≥ 0 in ``digits`` significant digits, rounded down: a printed lower bound was really reached.

    A value within 1e-9 of a round number is taken for it, as ``upward`` does.
    """
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.{digits}g}")
    if nearest > value * (1.0 + 1e-9):
        last_digit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        nearest = float(f"{nearest - last_digit:.{digits}g}")
    return f"{nearest:.{digits}g}"


def below_one(delta: float, digits: int = 6) -> str:
    """δ in six digits, rounded up; one so near to 1 that they would be 1 is written by what it lacks."""
    text = upward(delta, digits)
    if text != "1" or delta >= 1.0:
        return text
    rest = 1.0 - delta
    digit = 10.0 ** math.floor(math.log10(rest))
    return f"1 − {math.floor(rest / digit) * digit:.1g}"


def combined(theorems: Iterable[str]) -> str:
    """The theorem of a composition: each distinct theorem once, nested compositions flattened."""
    names: dict[str, None] = {}
    for theorem in theorems:
        names.update(dict.fromkeys(theorem.removeprefix(_COMPOSITION).split(" + ")))
    return _COMPOSITION + " + ".join(names)
