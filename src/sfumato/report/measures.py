"""What a release is still good for, from plain numbers or from the document of an assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import BadInput
from sfumato.report.numbers import plain
from sfumato.report.text import shortened

__all__ = ["Cell", "Measured", "UtilityRow", "measured", "remarks", "utility_rows"]


@dataclass(frozen=True)
class Measured:
    """One number about a release, with what the original and what a release that says nothing would reach."""

    name: str
    value: float | None
    original: float | None = None
    chance: float | None = None
    smaller_is_better: bool = False
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A number in the table of utility, and what to compare it with."""

    value: str
    beside: str = ""
    note: str = ""


@dataclass(frozen=True)
class UtilityRow:
    """One measure, with a cell for each release."""

    name: str
    smaller_is_better: bool
    cells: list[Cell]


def measured(utility: Mapping[str, Any], release: str) -> tuple[Measured, ...]:
    """The measures in ``utility``: names with a number or None, or the document of an ``Assessment``."""
    listed = utility.get("measures")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        return tuple(_from_document(one, release) for one in listed)
    return tuple(Measured(str(name), _number(value, name, release)) for name, value in utility.items())


def remarks(releases: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What assessments say about measures that they left out, each once, with the releases it is said of."""
    said: dict[str, list[str]] = {}
    for name, utility in releases:
        lines = utility.get("remarks")
        for line in lines if isinstance(lines, Sequence) and not isinstance(lines, str) else ():
            said.setdefault(str(line), []).append(shortened(name, 60))
    return [
        line if len(names) == len(releases) else f"{', '.join(names)}: {line}" for line, names in said.items()
    ]


def utility_rows(releases: Sequence[Sequence[Measured]]) -> list[UtilityRow]:
    """Each measure with its number in every release, in the order in which measures appear."""
    names = dict.fromkeys(one.name for release in releases for one in release)
    rows = []
    for name in names:
        found = [next((one for one in release if one.name == name), None) for release in releases]
        smaller = any(one is not None and one.smaller_is_better for one in found)
        rows.append(UtilityRow(name, smaller, [_cell(one) for one in found]))
    return rows


def _cell(one: Measured | None) -> Cell:
    if one is None:
        return Cell(plain(None))
    pairs = (("original", one.original), ("chance", one.chance))
    beside = ", ".join(f"{word} {plain(number, 3)}" for word, number in pairs if number is not None)
    return Cell(plain(one.value), beside, one.note)


def _from_document(one: Any, release: str) -> Measured:
    if not isinstance(one, Mapping) or "name" not in one or "value" not in one:
        raise BadInput(f"the utility of {release!r} lists something that is no measure with name and value.")
    numbers = (_number(one.get(key), one["name"], release) for key in ("value", "original", "chance"))
    value, original, chance = numbers
    smaller = one.get("better") == "lower"
    return Measured(str(one["name"]), value, original, chance, smaller, str(one.get("note") or ""))


def _number(value: Any, name: Any, release: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise BadInput(f"utility {name!r} of {release!r} is neither a number nor None.")
    return float(value)
