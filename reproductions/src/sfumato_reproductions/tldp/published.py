"""What the paper prints in table 5: expected errors E‖Z‖₂ as functions of ε, the size I and the range Δ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["PRINTED", "Printed", "Sizes"]


@dataclass(frozen=True)
class Sizes:
    """A tensor of ``shape`` with values from 0 to ``span``, the paper's Δ."""

    name: str
    shape: tuple[int, ...]
    span: float

    @property
    def count(self) -> int:
        """The paper's I."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Printed:
    """A column of table 5: the formula as it is printed, and its value at ε, the sizes and p."""

    formula: str
    value: Callable[[float, Sizes, float], float]


def _laplace(epsilon: float, of: Sizes, p: float) -> float:
    return of.span / epsilon * of.count * math.sqrt(2.0 * of.count)


def _gaussian(epsilon: float, of: Sizes, p: float) -> float:
    return of.span / (2.0 * epsilon) * of.count * math.sqrt(of.count)


def _mvg(epsilon: float, of: Sizes, p: float) -> float:
    first = math.log(of.shape[0] + 1.0)
    return of.span * of.count**2 * math.sqrt(of.count) / (math.sqrt(2.0) * epsilon) * first**2


def _idn(epsilon: float, of: Sizes, p: float) -> float:
    return of.span * of.count * math.sqrt(of.count) / (math.sqrt(2.0) * epsilon)


def _tldp_l(epsilon: float, of: Sizes, p: float) -> float:
    return of.span / epsilon * math.sqrt(2.0 * (1.0 - p) * of.count)


def _tldp_g(epsilon: float, of: Sizes, p: float) -> float:
    return of.span / (2.0 * epsilon) * math.sqrt((1.0 - p) * of.count)


#: Method -> what table 5 prints for it; the others have no column there.
PRINTED = {
    "Laplace": Printed("(Δ/ε)·I·√(2I)", _laplace),
    "Gaussian": Printed("(Δ/2ε)·I·√I", _gaussian),
    "MVG": Printed("ΔII√I/(√2ε)·ln²(I₁+1)", _mvg),
    "IDN": Printed("ΔI√I/(√2ε)", _idn),
    # Of C the paper says only that it is finite; with its clip value of 1 it is the column of Laplace.
    "DPHSGD": Printed("(CΔ/ε)·I·√(2I)", _laplace),
    "TLDP-L": Printed("(Δ/ε)·√(2(1−p)I)", _tldp_l),
    "TLDP-G": Printed("(Δ/2ε)·√((1−p)I)", _tldp_g),
}
