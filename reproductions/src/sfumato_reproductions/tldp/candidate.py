"""One mechanism of table 5, brought to a promise: its error in closed form, and how that error is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["TLDP", "Candidate", "root_mean_square"]

Array = NDArray[np.float64]

#: TLDP as the paper names its variants: noise, and weights where there are some.
TLDP: dict[str, tuple[str, str | None]] = {
    "TLDP-L": ("laplace", None),
    "TLDP-G": ("gaussian", None),
    "TLDP-L-w": ("laplace", "grey"),
    "TLDP-G-w": ("gaussian", "grey"),
}


@dataclass(frozen=True)
class Candidate:
    """One row of table 5: a mechanism that keeps to a promise.

    ``asked`` is the ε it was given, for TLDP the claimed one. ``epsilon`` is proven at the δ of the promise;
    ``shown`` is the chance that something of the unit is released exactly; ``closed`` is the largest √E‖Z‖²
    over all tensors, where one of ``values`` (of every component) attains it. ``columns`` is how many
    components the mechanism takes at once; they are moved by ``centre`` first, and what is released goes
    through ``after``, if there is such a thing. ``biased`` is whether its mean is pulled toward the middle.
    """

    name: str
    mechanism: Any
    asked: float
    epsilon: float
    closed: float
    columns: int
    values: tuple[float, ...]
    shown: float = 0.0
    centre: float = 0.0
    note: str = ""
    biased: bool = False
    after: Callable[[Array], Array] | None = None

    def errors(self, value: float, tensors: int, size: int) -> Array:
        """‖Z‖² of ``tensors`` releases of the tensor whose components all have ``value``."""
        clean = np.full((tensors * size // self.columns, self.columns), value - self.centre)
        released = self.mechanism.release(clean).value
        added = (released if self.after is None else self.after(released)) - clean
        return np.asarray(np.square(added.reshape(tensors, size)).sum(axis=1))


def root_mean_square(mechanism: Any, columns: int, count: int) -> float:
    """√E‖Z‖² of ``count`` components from the error of each, released ``columns`` at once."""
    value: float = mechanism.expected_error(columns)[0].value
    return value * math.sqrt(count)
