"""What a release is still good for, from plain numbers or an assessment's document, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato.errors import BadInput
from sfumato.reports.numbers import at_most, plain
from sfumato.reports.printable_text import shortened

__all__ = [
    "Cell",
    "Measured",
    "UtilityRow",
    "UtilityVerdict",
    "measured",
    "remarks",
    "utility_rows",
    "utility_verdict",
]

# From this share of the way from a guess to the original on, a measure is called nearly as good.
_NEARLY = 0.9


@dataclass(frozen=True)
class Measured:
    """One number about a release, with what the original and what a release that says nothing would reach."""

    name: str
    value: float | None
    original: float | None = None
    chance: float | None = None
    smaller_is_better: bool = False
    note: str = ""
    margin: float | None = None
    nearer_is_better: bool = False

    @property
    def kept(self) -> float | None:
        """How far on the way from a guess to the original, 0 to 1; None where it cannot be told."""
        if self.value is None or self.original is None or self.chance is None:
            return None
        if self.nearer_is_better:
            way, gained = abs(self.chance - self.original), self._gained
        else:
            sign = -1.0 if self.smaller_is_better else 1.0
            way, gained = sign * (self.original - self.chance), self._gained
        return None if way <= 0.0 or gained is None else min(max(gained / way, 0.0), 1.0)

    @property
    def beats_guessing(self) -> bool | None:
        """Whether it is better than a guess by more than chance explains; None where it cannot be told.

        Where the original itself is no better than a guess there is nothing to keep.
        """
        gained, kept = self._gained, self.kept
        return None if gained is None or self.margin is None or kept is None else gained > self.margin

    @property
    def _gained(self) -> float | None:
        """By how much it is better than a guess."""
        if self.value is None or self.chance is None:
            return None
        if self.nearer_is_better:
            if self.original is None:
                return None
            return abs(self.chance - self.original) - abs(self.value - self.original)
        return (self.chance - self.value) if self.smaller_is_better else (self.value - self.chance)


@dataclass(frozen=True)
class UtilityVerdict:
    """A ``kind`` for the eye, a ``headline`` and a ``sentence`` about what a release is still good for."""

    kind: Literal["unknown", "guessing", "little", "better", "kept"]
    headline: str
    sentence: str


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
    better: str
    cells: list[Cell]


def measured(utility: Mapping[str, Any], release: str) -> tuple[Measured, ...]:
    """The measures in ``utility``: names with a number or None, or the document of an ``Assessment``."""
    listed = utility.get("measures")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        return tuple(_from_document(one, release) for one in listed)
    return tuple(Measured(str(name), _number(value, name, release)) for name, value in utility.items())


def utility_verdict(measures: Sequence[Measured]) -> UtilityVerdict:
    """Whether a release says more than a guess, from the measures that have a margin of chance."""
    judged = [one for one in measures if one.beats_guessing is not None]
    if not judged:
        why = "no measure comes with a guess and a margin" if measures else "that takes the original data"
        return UtilityVerdict("unknown", "Utility not judged", f"What it is good for was not judged: {why}.")
    better = [one for one in judged if one.beats_guessing]
    count = f"{len(better)} of {len(judged)} measures"
    worst = [shortened(one.name, 80) for one in judged if not one.beats_guessing]
    said = f" Not so: {'; '.join(worst[:3])}{' and others' if len(worst) > 3 else ''}." if worst else ""
    if not better:
        sentence = f"None of {len(judged)} measures is better than a guess by more than chance explains."
        return UtilityVerdict("guessing", "Not better than guessing beyond chance", sentence)
    if len(better) == len(judged) and min(one.kept or 0.0 for one in judged) >= _NEARLY:
        sentence = (
            f"All of {len(judged)} measures keep {_NEARLY:.0%} or more of what the original has over a guess."
        )
        return UtilityVerdict("kept", "Nearly as good as the original", sentence)
    sentence = f"{count} are better than a guess by more than chance explains."
    if 2 * len(better) < len(judged):
        return UtilityVerdict("little", "Little better than guessing", f"{sentence}{said}")
    return UtilityVerdict("better", "Better than guessing", f"{sentence}{said}")


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
        known = [one for one in found if one is not None]
        better = "smaller is better" if any(one.smaller_is_better for one in known) else ""
        if any(one.nearer_is_better for one in known):
            better = "nearer to the original is better"
        rows.append(UtilityRow(name, better, [_cell(one) for one in found]))
    return rows


def _cell(one: Measured | None) -> Cell:
    if one is None:
        return Cell(plain(None))
    pairs = (("original", one.original), ("a guess", one.chance))
    beside = ", ".join(f"{word} {plain(number, 3)}" for word, number in pairs if number is not None)
    if one.beats_guessing is not None and one.margin is not None:
        beside += f", ± {at_most(one.margin, 3)} by chance"
    note = "not better than a guess beyond chance" if one.beats_guessing is False else ""
    return Cell(plain(one.value), beside, "; ".join(filter(None, [note, one.note])))


def _from_document(one: Any, release: str) -> Measured:
    if not isinstance(one, Mapping) or "name" not in one or "value" not in one:
        raise BadInput(f"the utility of {release!r} lists something that is no measure with name and value.")
    keys = ("value", "original", "chance", "margin")
    value, original, chance, margin = (_number(one.get(key), one["name"], release) for key in keys)
    return Measured(
        str(one["name"]),
        value,
        original,
        chance,
        smaller_is_better=one.get("better") == "lower",
        note=str(one.get("note") or ""),
        margin=margin,
        nearer_is_better=one.get("better") == "nearer",
    )


def _number(value: Any, name: Any, release: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise BadInput(f"utility {name!r} of {release!r} is neither a number nor None.")
    return float(value)
