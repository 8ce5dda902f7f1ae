"""A part of the page: a title, what is told about it, and tables of cells; as Markdown, text and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.privacy import Guarantee, format_table, format_upper

__all__ = ["NONE", "Grid", "Part", "held", "proven_epsilon", "signed_percent"]

NONE = "–"
_NOTHING = "nothing"


@dataclass(frozen=True)
class Grid:
    """A table under a ``caption``; every row has as many cells as there are ``heads``."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """For the page."""
        body: Iterable[tuple[str, ...]] = (self.heads, ("---",) * len(self.heads), *self.rows)
        return "\n".join([f"{self.caption}:", "", *("| " + " | ".join(row) + " |" for row in body)])

    def text(self) -> str:
        """For a terminal."""
        return "\n".join([self.caption, *format_table(self.heads, self.rows, width=150)])


@dataclass(frozen=True)
class Part:
    """One section of the page; ``key`` is how requests, findings and JSON name it."""

    key: str
    title: str
    told: str
    grids: tuple[Grid, ...]
    numbers: dict[str, Any]

    def markdown(self) -> str:
        """For the page."""
        return "\n\n".join([f"## {self.title}", self.told, *(grid.markdown() for grid in self.grids)])

    def text(self) -> str:
        """For a terminal."""
        return "\n\n".join([self.title, *(grid.text() for grid in self.grids)])


def proven_epsilon(epsilon: float) -> str:
    """An ε that still holds as it is printed: four digits, rounded up; infinite is *nothing*."""
    if math.isinf(epsilon):
        return _NOTHING
    value = float(format_upper(epsilon))
    if 1e4 <= value < 1e7:
        return f"{value:,.0f}"
    return f"{value:g}".replace("e+0", "e").replace("e+", "e")


def held(guarantee: Guarantee) -> str:
    """What is proven: ε, (ε, δ), or *nothing*."""
    epsilon = guarantee.epsilon()
    if guarantee.at_delta == 0.0 or math.isinf(epsilon):
        return proven_epsilon(epsilon)
    if guarantee.at_delta > 1.0 - 1e-9:
        return _NOTHING  # δ = 1 says nothing at any ε
    return f"({proven_epsilon(epsilon)}, {format_upper(guarantee.at_delta)})"


def signed_percent(share: float) -> str:
    """A share with its sign, such as −12%."""
    return f"{100.0 * share:+.0f}%".replace("-", "−")
