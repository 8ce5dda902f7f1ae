"""Sections of a report: texts, rows and drawings of one release, ready for the templates.

Two small drawings are made here: a ruler that shows where the true ε lies, and a strip that compares an
attack with guessing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.audits import Finding
from sfumato.privacy import Evidence, Guarantee
from sfumato.reports.columns import bound, columns, delta_bound, verdict
from sfumato.reports.page_text import at_least, at_most, delta_at_most, percent, plain, share
from sfumato.reports.plots import Histogram, Scale, Tick
from sfumato.reports.release_entry import Entry
from sfumato.reports.utility_section import utility_verdict

__all__ = ["ReleaseSection"]

#: Widths in pixels of a ruler on a wide screen and on a phone.
RULERS = {"wide": 900, "narrow": 280}
_STRIP = 132

# Where else the proven curve is read off, for those who compare at another δ.
_DELTAS = (1e-3, 1e-5, 1e-7, 1e-9, 1e-12)


@dataclass(frozen=True)
class Ruler:
    """An axis of ε with what is measured, proven and claimed of one unit and neighbours on it.

    All of it at one δ but the claim.
    """

    name: str
    width: int
    end: float
    ticks: list[Tick]
    measured: float | None
    proven: float | None
    claimed: float | None
    alarm: bool
    heading: str
    said: str

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of marks on the ruler, for its key."""
        marks = {"claimed": self.claimed, "proven": self.proven, "measured": self.measured}
        return [kind for kind, mark in marks.items() if mark is not None]

    @classmethod
    def drawn(cls, entry: Entry) -> list[Ruler]:
        """Return the ruler of a release at every width; empty if there is no number to show."""
        compared, claim = entry.compared, entry.statement.claimed
        guarantee = entry.statement.proven if compared is None else compared.guarantee
        delta = guarantee.at_delta if compared is None else compared.evidence.delta or 0.0
        upper = guarantee.epsilon(delta)
        proven = upper if math.isfinite(upper) else None
        measured = None if compared is None else compared.evidence.epsilon_lower
        about = (guarantee.unit, guarantee.neighbours)
        alike = claim is not None and (claim.unit, claim.neighbours) == about
        claimed = claim.epsilon if claim is not None and alike else None
        known = [value for value in (measured, proven, claimed) if value is not None]
        if not known:
            return []
        said = [
            "nothing is proven" if proven is None else f"at most {at_most(proven)} is proven",
            "nothing was measured" if measured is None else f"at least {at_least(measured)} was measured",
        ]
        if claimed is not None:
            said.append(f"{at_most(claimed)} is claimed")
        alarm = compared is not None and compared.exceeds_epsilon
        heading = "ε measured above ε proven" if alarm else "Where the true ε lies"
        if guarantee is not entry.statement.proven:
            heading += f" per {guarantee.unit}"
        rulers = []
        for name, width in RULERS.items():
            room = 44.0 if proven is None else 0.0
            scale = Scale.of_epsilon(known, 8.0, width - 12.0 - room)
            rulers.append(
                cls(
                    name=name,
                    width=width,
                    end=width - 12.0,
                    ticks=scale.ticks(9 if width > 500 else 5),
                    measured=None if measured is None else scale(measured),
                    proven=None if proven is None else scale(proven),
                    claimed=None if claimed is None else scale(claimed),
                    alarm=alarm,
                    heading=f"{heading} at δ = {delta_at_most(delta)}",
                    said=f"ε at δ = {delta_at_most(delta)}: " + ", ".join(said) + ".",
                )
            )
        return rulers


@dataclass(frozen=True)
class Strip:
    """One finding as a dot with its interval, and a mark where a guess would be."""

    width: int
    value: float
    chance: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, finding: Finding) -> Strip:
        """Return the strip of ``finding``, from 0 to 1 if all of its numbers lie there."""
        interval = finding.interval or (finding.value, finding.value)
        numbers = [finding.value, finding.chance, *(end for end in interval if math.isfinite(end))]
        low, high = min(numbers), max(numbers)
        room = 0.1 * (high - low) or 1.0
        unit = low >= 0.0 and high <= 1.0
        scale = Scale(0.0 if unit else low - room, 1.0 if unit else high + room, 6.0, _STRIP - 6.0)
        return cls(
            width=_STRIP,
            value=scale(finding.value),
            chance=scale(finding.chance),
            low=None if finding.interval is None else scale(interval[0]),
            high=None if finding.interval is None else scale(interval[1]),
        )


def bound_of(finding: Finding) -> str:
    """Return where a finding's bound on ε holds, and its bound on δ; empty without any."""
    at = []
    if finding.epsilon_lower is not None:
        at += [f"δ = {at_most(finding.delta)}"] if finding.delta is not None else []
        at += [percent(finding.confidence)] if finding.confidence is not None else []
        at.append(f"per {finding.unit}")
    at += [f"δ ≥ {at_least(finding.delta_lower)}"] if finding.delta_lower else []
    return ", ".join(at)


class ReleaseSection:
    """Everything that the page says about the release with this ``number``."""

    def __init__(self, number: int, entry: Entry) -> None:
        found = [finding.evidence() for finding in entry.findings]
        pictures = entry.pictures
        self.anchor, self.entry = f"release-{number}", entry
        self.verdict, self.useful = verdict(entry), utility_verdict(entry.measures)
        self.columns, self.rulers = columns(entry), Ruler.drawn(entry)
        self.units, self.curve = _units(entry), _curve(entry)
        self.parameters, self.provenance = _rows(entry.statement.parameters), _rows(entry.provenance)
        self.evidence = [_sentence(item) for item in entry.evidence if item not in found]
        self.pairs = [] if pictures is None else pictures.shots()
        self.shots = [] if entry.sheet is None else entry.sheet.shots()
        self.clipped = share(pictures.clipped) if pictures is not None and pictures.clipped > 0.0 else ""
        self.histograms = [] if entry.neighbourhood is None else Histogram.drawn(entry.neighbourhood)
        self.document = entry.statement.to_json().splitlines()


def _units(entry: Entry) -> list[tuple[str, str]]:
    """Return what is proven for units other than the headline's."""
    return [(f"{part.unit}, {part.neighbours}", _epsilon(part)) for part in entry.statement.also_proven]


def _epsilon(part: Guarantee) -> str:
    epsilon = part.epsilon()
    return (
        f"{at_most(epsilon)} at δ = {delta_at_most(part.at_delta)}" if math.isfinite(epsilon) else "nothing"
    )


def _curve(entry: Entry) -> list[tuple[str, str]]:
    guarantee = entry.statement.proven
    if guarantee.proves_nothing:
        return []
    pairs = [(delta, guarantee.epsilon(delta)) for delta in _DELTAS]
    return [
        (plain(delta), at_most(epsilon) if math.isfinite(epsilon) else "no finite ε")
        for delta, epsilon in pairs
    ]


def _sentence(item: Evidence) -> str:
    said = [item.attack] if item.epsilon_lower is None else [f"{item.attack}: ε is at least {bound(item)}"]
    said += [delta_bound(item)] if item.delta_lower else []
    said += [f"per {item.unit} under {item.neighbours}"] if item.bounds else []
    return "; ".join([*said, *filter(None, [item.detail])])


def _rows(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), _text(value)) for name, value in mapping.items()]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return plain(value, 6)
    return json.dumps(value, ensure_ascii=False, default=str)
