"""A table of the paper beside ours: paper, ours, difference, what is proven, and a note."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.privacy import format_table
from sfumato_reproductions.tadp_rme.published import Number

__all__ = ["Line", "Pair", "Table", "plus_minus", "shown_epsilon"]

_MINUS = "−"
_NONE = "–"


@dataclass(frozen=True)
class Pair:
    """One number of the paper, if it prints one, and ours for every seed; no ``digits``: a power of ten."""

    paper: Number | None
    ours: Sequence[float]
    digits: int | None = 3

    @property
    def mean(self) -> float | None:
        """Our mean over seeds, None where nothing was measured."""
        return statistics.fmean(self.ours) if self.ours else None

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds, None where there are fewer than two."""
        return statistics.stdev(self.ours) if len(self.ours) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None where one of them is missing."""
        return None if self.paper is None or self.mean is None else self.mean - self.paper[0]

    def within(self, tolerance: float) -> bool | None:
        """Whether the difference is at most ``tolerance``; None where there is none."""
        return None if self.difference is None else abs(self.difference) <= tolerance

    def cells(self) -> list[str]:
        """Paper, ours and difference as text."""
        paper = _NONE if self.paper is None else plus_minus(*self.paper, self.digits)
        ours = _NONE if self.mean is None else plus_minus(self.mean, self.deviation, self.digits)
        return [paper, ours, self._signed()]

    def short(self) -> str:
        """All three in one cell, for a terminal."""
        paper = _NONE if self.paper is None else plus_minus(self.paper[0], None, self.digits)
        ours = _NONE if self.mean is None else plus_minus(self.mean, self.deviation, self.digits)
        return f"{paper} | {ours}" + (f" ({self._signed()})" if self.difference is not None else "")

    def _signed(self) -> str:
        if self.difference is None:
            return _NONE
        return ("+" if self.difference >= 0.0 else "") + _shown(self.difference, self.digits)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        paper = None if self.paper is None else list(self.paper)
        return {
            "paper": paper,
            "ours": list(self.ours),
            "mean": self.mean,
            "deviation": self.deviation,
            "difference": self.difference,
        }


@dataclass(frozen=True)
class Line:
    """One row: what it is, one pair for each measure, ε proven under ``replace`` (None: nothing), a note.

    ``agrees`` is None where the row is not counted.
    """

    labels: tuple[str, ...]
    pairs: tuple[Pair, ...]
    proven: float | None
    note: str = ""
    extra: tuple[str, ...] = ()
    agrees: bool | None = None


@dataclass(frozen=True)
class Table:
    """A numbered table of the paper; ``heads`` name the labels, ``measures`` the pairs."""

    number: int
    title: str
    heads: tuple[str, ...]
    measures: tuple[str, ...]
    lines: tuple[Line, ...]
    extra: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[int, int]:
        """How many of the rows that count agree with the paper, and how many count."""
        verdicts = [line.agrees for line in self.lines if line.agrees is not None]
        return sum(verdicts), len(verdicts)

    def markdown(self) -> str:
        """The table as Markdown, with the remarks below."""
        marks = any(line.agrees is not None for line in self.lines)
        header = [*self.heads]
        for measure in self.measures:
            header += [f"{measure}: paper", "ours", "difference"]
        header += [*self.extra, "proven ε", *(["agrees"] if marks else []), "note"]
        rows = [
            [
                *line.labels,
                *(cell for pair in line.pairs for cell in pair.cells()),
                *line.extra,
                shown_epsilon(line.proven),
                *([_verdict(line.agrees)] if marks else []),
                line.note,
            ]
            for line in self.lines
        ]
        lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
        return "\n".join(
            [f"## Table {self.number}: {self.title}", "", *lines, *(f"\n{text}" for text in self.remarks)]
        )

    def text(self) -> str:
        """The table for a terminal; notes stand below it, by number."""
        notes = list(dict.fromkeys(line.note for line in self.lines if line.note))
        header = [*self.heads, *(f"{name}: paper | ours" for name in self.measures), *self.extra]
        rows = [
            [
                *line.labels,
                *(pair.short() for pair in line.pairs),
                *line.extra,
                shown_epsilon(line.proven),
                " ".join([_verdict(line.agrees), f"[{notes.index(line.note) + 1}]" if line.note else ""]),
            ]
            for line in self.lines
        ]
        body = format_table([*header, "proven ε", "note"], rows, width=150)
        below = [f"[{number}] {note}" for number, note in enumerate(notes, start=1)]
        return "\n".join([f"Table {self.number}: {self.title}", *body, *below, *self.remarks])

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return {
            "title": self.title,
            "rows": [
                {
                    "labels": dict(zip(self.heads, line.labels, strict=True)),
                    "measures": {
                        name: pair.to_dict() for name, pair in zip(self.measures, line.pairs, strict=True)
                    },
                    "extra": dict(zip(self.extra, line.extra, strict=True)),
                    "proven_epsilon": line.proven,
                    "agrees": line.agrees,
                    "note": line.note,
                }
                for line in self.lines
            ],
            "remarks": list(self.remarks),
        }


def plus_minus(mean: float, deviation: float | None, digits: int | None) -> str:
    """``mean ± deviation``; the mean alone where there is no deviation."""
    text = _shown(mean, digits)
    return text if deviation is None else f"{text} ± {_shown(deviation, digits)}"


def shown_epsilon(proven: float | None) -> str:
    """ε to three digits or whole, or the word *nothing*."""
    if proven is None:
        return "nothing"
    return f"{proven:.1f}" if proven < 99.95 else f"{proven:.0f}"


def _shown(value: float, digits: int | None) -> str:
    text = f"{value:.0e}" if digits is None else f"{value:.{digits}f}"
    return text.replace("-", _MINUS)


def _verdict(agrees: bool | None) -> str:
    return "" if agrees is None else "yes" if agrees else "no"
