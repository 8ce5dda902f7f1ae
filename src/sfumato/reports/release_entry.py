"""What a report tells about one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.findings import Finding
from sfumato.errors import BadInput
from sfumato.privacy import Comparison, Evidence, Statement
from sfumato.reports.class_table import ClassTable
from sfumato.reports.contact_sheet import ContactSheet
from sfumato.reports.embedded_images import Pictures
from sfumato.reports.utility_section import Measured, measured

__all__ = ["Entry"]


@dataclass(frozen=True, eq=False)
class Entry:
    """One release of a report: its ``name``, its ``statement`` and what was found out about it.

    ``utility`` maps the names of measures to numbers, None where one could not be taken, or is the document
    that ``Assessment.to_dict`` gives. ``neighbourhood`` holds, for each row, the share of its nearest
    neighbours that the release kept. ``pictures`` and ``sheet`` show originals, so the page that holds them
    stays in-house. ``provenance`` says how the release was made, ``classes`` what was found of each class.
    """

    name: str
    statement: Statement
    findings: Sequence[Finding] = ()
    utility: Mapping[str, Any] = field(default_factory=dict)
    pictures: Pictures | None = None
    neighbourhood: NDArray[np.float64] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    sheet: ContactSheet | None = None
    classes: Sequence[ClassTable] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise BadInput(f"a release of the report was named {self.name!r}: it must have a name.")
        if not isinstance(self.statement, Statement):
            raise BadInput(f"the release {self.name!r} of the report came without a statement.")
        object.__setattr__(self, "findings", tuple(self.findings))
        if not all(isinstance(finding, Finding) for finding in self.findings):
            raise BadInput(f"the findings of {self.name!r} hold something that is no Finding.")
        if self.pictures is not None and not isinstance(self.pictures, Pictures):
            raise BadInput(f"the pictures of {self.name!r} are no Pictures(before, after).")
        measured(self.utility, self.name)
        if self.neighbourhood is not None:
            object.__setattr__(self, "neighbourhood", _shares(self.name, self.neighbourhood))

    @property
    def from_originals(self) -> bool:
        """Whether something here was computed from original data, and no budget paid for it.

        Not so the statement, which was paid for, and what was found of the mechanism alone.
        """
        looked = [finding for finding in self.findings if not finding.mechanism_only]
        shown = (self.pictures, self.sheet, self.neighbourhood)
        return bool(looked or self.measures or self.classes) or any(part is not None for part in shown)

    @property
    def measures(self) -> tuple[Measured, ...]:
        """What the release is still good for."""
        return measured(self.utility, self.name)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the statement has in its measured column, and the findings that are not there yet."""
        known = list(self.statement.measured)
        for finding in self.findings:
            item = finding.evidence()
            if item not in known:
                known.append(item)
        return tuple(known)

    @property
    def strongest(self) -> Evidence | None:
        """The evidence with the largest lower bound on ε, with the confidence that all bounds hold together.

        Bounds on what the headline is about come before all others, however large those are.
        """
        proven = self.statement.proven
        bounds = [item for item in self.evidence if item.epsilon_lower is not None]
        ours = [item for item in bounds if (item.unit, item.neighbours) == (proven.unit, proven.neighbours)]
        found = max(ours or bounds, key=lambda item: item.epsilon_lower or 0.0, default=None)
        return None if found is None else self._together(found)

    @property
    def compared(self) -> Comparison | None:
        """The strongest evidence beside what is proven of its own unit and neighbours; None without such."""
        return None if self.strongest is None else self.statement.compared(self.strongest)

    @property
    def alarms(self) -> tuple[Comparison, ...]:
        """Evidence that ε or δ is larger than what is proven of the same unit and neighbours."""
        found = (self.statement.compared(self._together(item)) for item in self.evidence)
        return tuple(item for item in found if item is not None and item.refuted)

    @property
    def refuting(self) -> tuple[Comparison, ...]:
        """Evidence that ε or δ is larger than what is claimed of the same unit and neighbours."""
        found = (self.statement.claim_compared(self._together(item)) for item in self.evidence)
        return tuple(item for item in found if item is not None and item.refuted)

    @property
    def false_alarm_rate(self) -> float:
        """How likely at most it is that a sound release has an alarm: what the confidences leave, summed."""
        bounds = [item for item in self.evidence if item.bounds]
        return min(1.0, math.fsum(1.0 - (item.confidence or 0.0) for item in bounds))

    def _together(self, item: Evidence) -> Evidence:
        """``item`` with the confidence of all bounds: what is told of several was chosen among them."""
        told = item.bounds and item.confidence is not None
        return replace(item, confidence=1.0 - self.false_alarm_rate) if told else item


def _shares(name: str, values: Any) -> NDArray[np.float64]:
    shares = np.array(values, dtype=np.float64)
    if shares.ndim != 1 or shares.size == 0:
        raise BadInput(
            f"the neighbourhood of {name!r} had the shape {shares.shape}: it must be one number a row."
        )
    if not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise BadInput(f"the neighbourhood of {name!r} holds values that are no shares from 0 to 1.")
    return shares
