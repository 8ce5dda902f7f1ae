"""What a whole audit found, as evidence: the strongest bound on ε, and every attack behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sfumato.audits.findings import Finding
from sfumato.mechanisms import Release
from sfumato.privacy import Comparison, Evidence, Neighbours, Statement, Unit
from sfumato.privacy.text_table import WIDTH, aligned, wrapped
from sfumato.privacy.wording import downward, upward

__all__ = ["Audit"]

_ANEW = "Its mechanism, drawn anew on worst-case rows (no data was used)"


@dataclass(frozen=True)
class Audit(Evidence):
    """Evidence of several attacks on one release.

    As evidence it says what the strongest of them achieved: ``epsilon_lower`` at ``delta`` with
    ``confidence``, which all bounds hold with together. ``findings`` holds all of them, those of the
    mechanism drawn anew (``mechanism_only``) last, and ``release`` the release with its measured column
    filled in. ``remarks`` say what was not measured.
    """

    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
    release: Release | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, release: Release, findings: Sequence[Finding], remarks: Sequence[str] = ()) -> Self:
        """The audit of ``release`` that made ``findings``; the largest bound on ε leads.

        What was found of the mechanism, and not of this release, leads only where nothing else was tried.
        """
        found = tuple(findings)
        own = [item for item in found if not item.mechanism_only] or found
        bounds = [item for item in own if item.epsilon_lower is not None]
        strongest = max(bounds, key=lambda item: item.epsilon_lower or 0.0, default=None)
        statement = replace(release.statement, measured=tuple(item.evidence() for item in found))
        measured = replace(release, statement=statement)
        if strongest is None:
            return cls(attack="standard audit", findings=found, remarks=tuple(remarks), release=measured)
        return cls(
            attack=strongest.attack,
            epsilon_lower=strongest.epsilon_lower,
            delta=strongest.delta,
            # The largest of several bounds holds where all of them do.
            confidence=1.0 - sum(1.0 - (item.confidence or 0.0) for item in bounds),
            unit=Unit.parse(strongest.unit or ""),
            neighbours=Neighbours(strongest.neighbours or ""),
            delta_lower=strongest.delta_lower,
            at_epsilon=strongest.at_epsilon,
            findings=found,
            remarks=tuple(remarks),
            release=measured,
        )

    @property
    def mechanism_only(self) -> bool:
        """Whether no data was looked at, so that the audit may travel with the release."""
        return bool(self.findings) and all(item.mechanism_only for item in self.findings)

    @property
    def statement(self) -> Statement:
        """The statement of the release, with the measured column of this audit."""
        if self.release is None:
            raise ValueError("this audit holds no release.")
        return self.release.statement

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Findings whose bound on ε exceeds what is proven: the proof, the code or the audit is wrong."""
        return tuple(item for item in self.findings if self.statement.contradicts(item.evidence()))

    @property
    def refuting(self) -> tuple[Finding, ...]:
        """Findings that show more than the method's authors claim of the same unit and neighbours."""
        return tuple(item for item in self.findings if self.statement.refutes_claim(item.evidence()))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: the evidence, every finding, and the statement with its measured column."""
        return super().to_dict() | {
            "consistent": not self.alarms,
            "claim_refuted": bool(self.refuting),
            "not_for_release": not self.mechanism_only,
            "remarks": list(self.remarks),
            "findings": [item.to_dict() for item in self.findings],
            "statement": self.statement.to_dict(),
        }

    def __str__(self) -> str:
        return self.table(WIDTH)

    def table(self, width: int) -> str:
        """The attacks in at most ``width`` characters a line, and what they say together."""
        lines: list[str] = []
        for title, anew in (("This release, on its own rows", False), (_ANEW, True)):
            rows = [_row(item) for item in self.findings if item.mechanism_only is anew]
            if rows:
                lines += ["", *wrapped(title, width)] if lines else wrapped(title, width)
                lines += aligned(["attack", "measure", "found", "a guess", "ε at least"], rows, width)
        lines += [""] if lines else []
        for sentence in self.sentences():
            lines += wrapped(sentence, width)
        return "\n".join(lines)

    def sentences(self) -> list[str]:
        """What the findings say together, in plain sentences."""
        said = []
        beaten = [item for item in self.findings if item.beats_chance]
        judged = [item for item in self.findings if item.beats_chance is not None]
        said.append(
            f"{len(beaten)} of {len(judged)} attacks did better than a guess; an attack that did not is no "
            "proof of privacy."
        )
        said += self._both()
        said += self.remarks
        for item in self.alarms:
            compared = self.statement.compared(item.evidence())
            assert compared is not None  # an alarm contradicts something
            said.append(f"Alarm: {_more(compared, 'proven')}: do not release this.")
        for item in self.refuting:
            compared = self.statement.claim_compared(item.evidence())
            assert compared is not None
            said.append(f"The claim is refuted: {_more(compared, 'claimed')}.")
        return said

    def _both(self) -> list[str]:
        """What this release gave away, what its mechanism gives away, and what is proven of the latter."""
        said = []
        for what, anew in (
            ("This release gave away", False),
            ("On worst-case rows its mechanism gives away", True),
        ):
            bounds = [
                item
                for item in self.findings
                if item.mechanism_only is anew and item.epsilon_lower is not None
            ]
            if bounds:
                best = max(bounds, key=lambda item: item.epsilon_lower or 0.0)
                compared = self.statement.compared(best.evidence())
                beside = ""
                if compared is not None and math.isfinite(compared.epsilon):
                    beside = f"; at most {upward(compared.epsilon)} is proven of it"
                said.append(
                    f"{what} ε ≥ {downward(best.epsilon_lower or 0.0)} at δ = {best.delta:g} "
                    f"per {best.unit}{beside}."
                )
        return said


def _more(compared: Comparison, what: str) -> str:
    """What an attack shows that is more than is proven or claimed."""
    item, said = compared.evidence, []
    if compared.exceeds_epsilon:
        said.append(
            f"ε ≥ {downward(item.epsilon_lower or 0.0)} at δ = {item.delta:g}, above the {what} "
            f"{upward(compared.epsilon)}"
        )
    if compared.exceeds_delta:
        where = "every ε" if item.at_epsilon is None else f"ε = {item.at_epsilon:g}"
        said.append(
            f"δ ≥ {downward(item.delta_lower or 0.0)} at {where}, above the {what} {upward(compared.delta)}"
        )
    return f"{item.attack} shows {' and '.join(said)}, per {item.unit} under {item.neighbours}"


def _row(item: Finding) -> list[str]:
    found = f"{item.value:.4g}"
    if item.interval is not None:
        found += f" [{item.interval[0]:.4g}, {item.interval[1]:.4g}]"
    bound = "" if item.epsilon_lower is None else f"{downward(item.epsilon_lower)} at δ={item.delta:g}"
    if item.delta_lower:
        bound += f"; δ ≥ {downward(item.delta_lower)}"
    mark = " ●" if item.beats_chance else ""
    return [item.attack, item.measure, found + mark, f"{item.chance:.4g}", bound]
