"""The utility of a release in a report: measures, a verdict, and tables by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.reports.page_text import at_most, plain, shortened
from sfumato.utility import Measure

__all__ = ["ClassTable"]

# From this share of the way from a guess to the original on, a measure is called nearly as good.
_NEARLY = 0.9
_BETTER = {"lower": "smaller is better", "nearer": "nearer to the original is better"}


@dataclass(frozen=True)
class ClassTable:
    """A table by class: ``rows`` of texts under ``columns``, the first of which names the class.

    ``text`` explains the columns.
    """

    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Verdict:
    """A ``kind``, by which the style chooses colour and sign, a ``headline`` and a ``sentence``."""

    kind: str
    headline: str
    sentence: str


def utility_verdict(measures: Sequence[Measure]) -> Verdict:
    """Return whether a release beats a guess, from the measures that have a margin of chance."""
    judged = [one for one in measures if one.beats_guessing is not None]
    if not judged:
        why = "no measure comes with a guess and a margin" if measures else "that takes the original data"
        return Verdict("unknown", "Utility not judged", f"What it is good for was not judged: {why}.")
    better = [one for one in judged if one.beats_guessing]
    count = f"{len(better)} of {len(judged)} measures"
    worst = [shortened(one.name, 80) for one in judged if not one.beats_guessing]
    said = f" Not so: {'; '.join(worst[:3])}{' and others' if len(worst) > 3 else ''}." if worst else ""
    if not better:
        sentence = f"None of {len(judged)} measures is better than a guess by more than chance explains."
        return Verdict("guessing", "Not better than guessing beyond chance", sentence)
    if len(better) == len(judged) and min(one.kept or 0.0 for one in judged) >= _NEARLY:
        sentence = (
            f"All of {len(judged)} measures keep {_NEARLY:.0%} or more of what the original has over a guess."
        )
        return Verdict("kept", "Nearly as good as the original", sentence)
    sentence = f"{count} are better than a guess by more than chance explains."
    if 2 * len(better) < len(judged):
        return Verdict("little", "Little better than guessing", f"{sentence}{said}")
    return Verdict("better", "Better than guessing", f"{sentence}{said}")


def joined_remarks(releases: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the remarks on omitted measures, each once, with the names of the releases it concerns."""
    named: dict[str, list[str]] = {}
    for name, remarks in releases:
        for line in remarks:
            named.setdefault(line, []).append(shortened(name, 60))
    return [
        line if len(names) == len(releases) else f"{', '.join(names)}: {line}"
        for line, names in named.items()
    ]


def utility_rows(releases: Sequence[Sequence[Measure]]) -> list[dict[str, Any]]:
    """Return each measure with its number in every release, in order of appearance."""
    rows = []
    for name in dict.fromkeys(one.name for release in releases for one in release):
        found = [next((one for one in release if one.name == name), None) for release in releases]
        better = {one.better for one in found if one is not None}
        word = next((_BETTER[way] for way in ("nearer", "lower") if way in better), "")
        rows.append({"name": name, "better": word, "cells": [_cell(one) for one in found]})
    return rows


def _cell(one: Measure | None) -> dict[str, str]:
    """Return a number of the table, the numbers to compare it with, and notes on it."""
    if one is None:
        return {"value": plain(None), "beside": "", "note": ""}
    pairs = (("original", one.original), ("a guess", one.chance))
    beside = ", ".join(f"{word} {plain(number, 3)}" for word, number in pairs if number is not None)
    if one.beats_guessing is not None and one.margin is not None:
        beside += f", ± {at_most(one.margin, 3)} by chance"
    note = "not better than a guess beyond chance" if one.beats_guessing is False else ""
    return {"value": plain(one.value), "beside": beside, "note": "; ".join(filter(None, [note, one.note]))}
