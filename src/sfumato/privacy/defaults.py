"""Defaults of every door: one δ, and the neighbours and the unit of each kind of data.

ε has no default: the owner of the data decides how much may be learned about one unit. Media have δ = 0
unless one is given, since their noise is then Laplace noise, which needs none. Methods of papers keep their
own unit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "AUDIO",
    "DELTA",
    "FEDERATED",
    "IMAGES",
    "MODELS",
    "PUBLICATIONS",
    "RECORDS",
    "REQUIRED",
    "TENSORS",
]

#: Stands for ε in the place of a default: a mechanism can be made without one, as scikit-learn asks, and then
#: refuses to promise and to release anything.
REQUIRED: Any = None
#: The δ of noise that needs one: a failure of one in a million, below 1/n for up to a million records.
DELTA = 1e-6


class Kind(NamedTuple):
    """Default neighbours and unit of one kind of data."""

    neighbours: str
    unit: str


#: Also what a budget counts.
RECORDS = Kind("replace", "record")
TABLES = Kind("replace", "record")
TENSORS = Kind("replace", "tensor")
IMAGES = Kind("replace", "region(16)")
AUDIO = Kind("replace", "window(20)")
VIDEO = Kind("replace", "region(16)")
#: Training on samples is proven under zero-out alone. Where a budget pays, its own relation is taken instead.
MODELS = Kind("zero-out", "record")
PUBLICATIONS = Kind("replace", "record")
FEDERATED = Kind("replace", "client")
