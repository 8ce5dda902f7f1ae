"""One release in a report: its statement, evidence and utility, and the budget that paid for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Finding
from sfumato.errors import BadInput
from sfumato.ledger import Balance, used_shares
from sfumato.ledger import Entry as Row
from sfumato.privacy import Comparison, Evidence, Statement
from sfumato.reports.contact_sheet import ContactSheet, Pictures
from sfumato.reports.page_text import share
from sfumato.reports.plots import NARROW, WIDE, Axes, Canvas, Scale
from sfumato.reports.utility_section import ClassTable
from sfumato.utility import Measure

__all__ = ["Budget", "BurnDown", "Entry", "Step", "thinned"]

# Each step is a stop of the keyboard; of a long history evenly spaced ones are enough.
_MOST_STEPS = 40


@dataclass(frozen=True)
class Step:
    """What was left after one entry of the ledger, as a share of the budget."""

    number: int
    kind: str
    purpose: str
    day: str
    left: float

    @property
    def left_text(self) -> str:
        """Return ``left`` as a percentage."""
        return share(self.left)


@dataclass(frozen=True)
class Budget:
    """A dataset's ``balance``, and its ``history`` in the ledger if a burn-down is to be shown."""

    balance: Balance
    history: Sequence[Row] = ()

    def steps(self) -> list[Step]:
        """Return what was left after each entry, oldest first; empty without a history."""
        if not self.history:
            return []
        return [
            Step(row.number, row.kind, row.purpose, row.at[:10], 1.0 - used)
            for row, used in zip(self.history, used_shares(self.history), strict=True)
        ]


@dataclass(frozen=True)
class BurnDown:
    """A drawing of what was left after each entry, on one canvas."""

    axes: Axes
    line: str
    area: str
    points: list[tuple[float, float, Step]]

    @classmethod
    def drawn(cls, steps: Sequence[Step]) -> list[BurnDown]:
        """Return the burn-down on every canvas; empty with fewer than two entries."""
        return [cls._of(steps, canvas) for canvas in (WIDE, NARROW)] if len(steps) > 1 else []

    @classmethod
    def _of(cls, steps: Sequence[Step], canvas: Canvas) -> BurnDown:
        left, right, top, bottom = canvas.inner
        x = Scale(steps[0].number, steps[-1].number, left, right, whole=True)
        y = Scale(0.0, 1.0, bottom, top, percent=True)
        places = [(x(step.number), y(step.left)) for step in steps]
        (start, height), *rest = places
        line = f"M{start} {height}" + "".join(f"H{across}V{down}" for across, down in rest)
        return cls(
            axes=Axes(canvas, x, y, "entry of the ledger", "share of the budget left"),
            line=line,
            area=f"{line}V{bottom}H{start}Z",
            points=[(*places[i], steps[i]) for i in thinned(len(steps))],
        )


def thinned(count: int) -> list[int]:
    """Return at most 40 evenly spaced indices out of ``count``, including the first and the last."""
    if count <= _MOST_STEPS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (_MOST_STEPS - 1)) for i in range(_MOST_STEPS)})


@dataclass(frozen=True, eq=False)
class Entry:
    """One release of a report: its ``name``, its ``statement`` and what was found out about it.

    ``measures`` are those of its utility, and ``remarks`` say which could not be taken. ``neighbourhood``
    holds, for each row, the share of its nearest neighbours that the release kept. ``pictures`` and ``sheet``
    show originals, so the page that holds them stays in-house. ``provenance`` says how the release was made,
    ``classes`` what was found of each class.
    """

    name: str
    statement: Statement
    findings: Sequence[Finding] = ()
    measures: Sequence[Measure] = ()
    pictures: Pictures | None = None
    neighbourhood: NDArray[np.float64] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sheet: ContactSheet | None = None
    classes: Sequence[ClassTable] = ()
    remarks: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise BadInput(f"a release of the report was named {self.name!r}: it must have a name.")

    @property
    def from_originals(self) -> bool:
        """Return whether something here was computed from original data and no budget paid for it.

        The statement, which was paid for, and findings about the mechanism alone do not count.
        """
        looked = [finding for finding in self.findings if not finding.mechanism_only]
        shown = (self.pictures, self.sheet, self.neighbourhood)
        return bool(looked or self.measures or self.classes) or any(part is not None for part in shown)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence of the statement's measured column, with the findings that it lacks."""
        known = list(self.statement.measured)
        for finding in self.findings:
            item = finding.evidence()
            if item not in known:
                known.append(item)
        return tuple(known)

    @property
    def strongest(self) -> Evidence | None:
        """Return the evidence with the largest lower bound on ε, at the joint confidence of all bounds.

        Bounds on the headline's unit come before all others, however large those are.
        """
        proven = self.statement.proven
        bounds = [item for item in self.evidence if item.epsilon_lower is not None]
        ours = [item for item in bounds if (item.unit, item.neighbours) == (proven.unit, proven.neighbours)]
        found = max(ours or bounds, key=lambda item: item.epsilon_lower or 0.0, default=None)
        return None if found is None else self._together(found)

    @property
    def compared(self) -> Comparison | None:
        """Return the strongest evidence beside what is proven for its own unit and neighbours, or None."""
        return None if self.strongest is None else self.statement.compared(self.strongest)

    @property
    def alarms(self) -> tuple[Comparison, ...]:
        """Return evidence that ε or δ exceeds what is proven for the same unit and neighbours."""
        found = (self.statement.compared(self._together(item)) for item in self.evidence)
        return tuple(item for item in found if item is not None and item.refuted)

    @property
    def refuting(self) -> tuple[Comparison, ...]:
        """Return evidence that ε or δ exceeds what is claimed for the same unit and neighbours."""
        found = (self.statement.claim_compared(self._together(item)) for item in self.evidence)
        return tuple(item for item in found if item is not None and item.refuted)

    @property
    def false_alarm_rate(self) -> float:
        """Bound the probability of an alarm for a sound release: the sum of 1 − confidence."""
        bounds = [item for item in self.evidence if item.bounds]
        return min(1.0, math.fsum(1.0 - (item.confidence or 0.0) for item in bounds))

    def _together(self, item: Evidence) -> Evidence:
        """Return ``item`` at the joint confidence of all bounds, because it was chosen among them."""
        is_bound = item.bounds and item.confidence is not None
        return replace(item, confidence=1.0 - self.false_alarm_rate) if is_bound else item
