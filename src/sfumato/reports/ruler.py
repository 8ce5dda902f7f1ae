"""Two small drawings: where the true ε of a release lies, and how an attack did against a guess."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.audits.findings import Finding
from sfumato.reports.numbers import at_least, at_most, delta_at_most
from sfumato.reports.plots import Scale, Tick
from sfumato.reports.release_entry import Entry

__all__ = ["RULERS", "Ruler", "Strip"]

#: Widths in pixels of a ruler on a wide screen and on a phone.
RULERS = {"wide": 900, "narrow": 280}
_STRIP = 132


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
        """Which marks the ruler has, for its key."""
        marks = {"claimed": self.claimed, "proven": self.proven, "measured": self.measured}
        return [kind for kind, mark in marks.items() if mark is not None]

    @classmethod
    def drawn(cls, entry: Entry) -> list[Ruler]:
        """The ruler of a release at every width; nothing where there is no number to put on it."""
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
        """The strip of ``finding``, from 0 to 1 where all of its numbers lie there."""
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
