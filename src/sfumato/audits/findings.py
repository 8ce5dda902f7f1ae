"""Findings of attacks, and a whole audit as evidence: the strongest bound on ε and every attack behind it.

A finding says how well an attack did, compared with a guess, and what that implies about ε.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sfumato.audits.lower_bounds import Bound, interval
from sfumato.errors import BadInput
from sfumato.mechanisms import Release
from sfumato.privacy import (
    TEXT_WIDTH,
    Comparison,
    Evidence,
    Neighbours,
    Statement,
    Unit,
    format_lower,
    format_table,
    format_upper,
    require_fields,
    wrap_text,
)

__all__ = ["Audit", "Finding"]

_ANEW = "Its mechanism, drawn anew on worst-case rows (no data was used)"


@dataclass(frozen=True)
class Finding:
    """The result of one attack on a release or a model.

    ``threat`` says in one sentence what the attacker knows. ``value`` is the success on the scale
    ``measure``; ``chance`` is what somebody reaches who has not seen the release, and ``interval`` holds the
    true value with probability ``confidence``. ``higher_is_worse`` is False where a small value means a
    strong attack (a reconstruction error). ``epsilon_lower`` is a lower bound on ε at ``delta`` that the
    attack achieved with ``confidence`` for inputs that differ in one ``unit`` as ``neighbours`` describe,
    where it says something about ε at all; ``delta_lower`` likewise is a lower bound on δ at ``at_epsilon``,
    or at every ε where that is None. ``mechanism_only`` says that neither the original data nor the release
    was looked at, so that the finding may travel with the release.
    """

    attack: str
    threat: str
    measure: str
    value: float
    chance: float
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    higher_is_worse: bool = True
    epsilon_lower: float | None = None
    delta: float | None = None
    unit: str | None = None
    neighbours: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    delta_lower: float | None = None
    at_epsilon: float | None = None
    mechanism_only: bool = False

    def __post_init__(self) -> None:
        for name in ("value", "chance"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise BadInput(f"{name} of the attack {self.attack!r} was {value!r}: not a number.")
        if self.interval is not None:
            low, high = self.interval
            if not low <= high:
                raise BadInput(f"the interval of the attack {self.attack!r} runs from {low:g} to {high:g}.")
        bounds = self.epsilon_lower is not None or self.delta_lower is not None
        if (self.interval is not None or bounds) and self.confidence is None:
            raise BadInput(f"the attack {self.attack!r} states a bound without its confidence.")
        if bounds and (self.unit is None or self.neighbours is None):
            raise BadInput(f"the attack {self.attack!r} states a bound without its unit and neighbours.")

    @property
    def beats_chance(self) -> bool | None:
        """Return whether a bound is above 0 or the whole interval on the attacker's side of chance.

        None without a bound above 0 and without an interval.
        """
        if self.epsilon_lower or self.delta_lower:
            return True
        if self.interval is None:
            return None
        low, high = self.interval
        return low > self.chance if self.higher_is_worse else high < self.chance

    def evidence(self) -> Evidence:
        """Return the finding as it enters the measured column of a statement."""
        text = f"{self.measure} {self.value:.4g}"
        if self.interval is not None:
            text += f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        text += f", a guess {self.chance:.4g}"
        return Evidence(
            attack=self.attack,
            epsilon_lower=self.epsilon_lower,
            delta=self.delta,
            confidence=self.confidence,
            unit=None if self.unit is None else Unit.parse(self.unit),
            neighbours=None if self.neighbours is None else Neighbours(self.neighbours),
            delta_lower=self.delta_lower,
            at_epsilon=self.at_epsilon,
            detail=f"{text}; {self.note}" if self.note else text,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        ends = None if self.interval is None else list(self.interval)
        return vars(self) | {
            "interval": ends,
            "numbers": dict(self.numbers),
            "beats_chance": self.beats_chance,
        }

    @classmethod
    def of_count(
        cls,
        attack: str,
        threat: str,
        measure: str,
        count: int,
        total: int,
        confidence: float,
        /,
        **others: Any,
    ) -> Finding:
        """Return the finding that ``count`` of ``total`` succeeded, with its Clopper–Pearson interval.

        ``others`` are further fields; a bound among them may have a ``confidence`` of its own.
        """
        ends = interval(count, total, confidence)
        fields: dict[str, Any] = {"value": count / total, "interval": ends, "confidence": confidence}
        return cls(attack, threat, measure, **fields | others)

    @classmethod
    def of_guesses(
        cls, attack: str, threat: str, bound: Bound, unit: Unit | str, neighbours: Neighbours | str, note: str
    ) -> Finding:
        """Return the finding of a game of secret coins; ``bound`` says how many guesses were right."""
        return cls(
            attack=attack,
            threat=threat,
            measure="share of correct guesses",
            value=bound.numbers["correct"] / bound.numbers["guesses"],
            chance=0.5,
            note="; ".join(filter(None, (note, bound.assumption))),
            **stated_bound(bound, unit, neighbours),
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Finding:
        """Read what ``to_dict`` wrote, refusing anything else in a sentence."""
        names = (*cls.__dataclass_fields__, "beats_chance")
        if isinstance(value, Mapping):
            value = {"delta_lower": None, "at_epsilon": None, "mechanism_only": False, **value}
        got = dict(require_fields(value, names, "a finding"))
        got.pop("beats_chance")  # follows from the others
        ends = got.pop("interval")
        if ends is not None and (not isinstance(ends, list) or len(ends) != 2):
            raise BadInput(f"interval of a finding was {ends!r}: two numbers or null are accepted.")
        return cls(**got, interval=None if ends is None else (ends[0], ends[1]))


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
    def of(cls, release: Release[Any], findings: Sequence[Finding], remarks: Sequence[str] = ()) -> Self:
        """Return the audit of ``release`` that made ``findings``; the largest bound on ε leads.

        What was found of the mechanism, and not of this release, leads only where nothing else was tried.
        """
        found = tuple(findings)
        own = [item for item in found if not item.mechanism_only] or found
        bounds = [item for item in own if item.epsilon_lower is not None]
        strongest = max(bounds, key=lambda item: item.epsilon_lower or 0.0, default=None)
        statement = replace(release.statement, measured=tuple(item.evidence() for item in found))
        measured = replace(release, statement=statement)
        head: dict[str, Any] = {"attack": "standard audit"}
        if strongest is not None:
            # The largest of several bounds holds where all of them do.
            together = 1.0 - sum(1.0 - (item.confidence or 0.0) for item in bounds)
            head = vars(replace(strongest.evidence(), confidence=together, detail=""))
        return cls(**head, findings=found, remarks=tuple(remarks), release=measured)

    @property
    def mechanism_only(self) -> bool:
        """Return whether no data was used, so that the audit may be published with the release."""
        return bool(self.findings) and all(item.mechanism_only for item in self.findings)

    @property
    def statement(self) -> Statement:
        """Return the statement of the release, with the measured column of this audit."""
        if self.release is None:
            raise ValueError("this audit holds no release.")
        return self.release.statement

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Return findings whose bound on ε exceeds the proven one: proof, code or audit is wrong."""
        return tuple(item for item in self.findings if self.statement.contradicts(item.evidence()))

    @property
    def refuting(self) -> tuple[Finding, ...]:
        """Return findings that exceed what the method's authors claim for the same unit and neighbours."""
        return tuple(item for item in self.findings if self.statement.refutes_claim(item.evidence()))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: the evidence, every finding, and the statement with its measured column."""
        return super().to_dict() | {
            "consistent": not self.alarms,
            "claim_refuted": bool(self.refuting),
            "not_for_release": not self.mechanism_only,
            "remarks": list(self.remarks),
            "findings": [item.to_dict() for item in self.findings],
            "statement": self.statement.to_dict(),
        }

    def __str__(self) -> str:
        return self.table(TEXT_WIDTH)

    def table(self, width: int) -> str:
        """Return a table of the attacks, at most ``width`` characters wide, with their joint result."""
        lines: list[str] = []
        for title, anew in (("This release, on its own rows", False), (_ANEW, True)):
            rows = [_row(item) for item in self.findings if item.mechanism_only is anew]
            if rows:
                lines += ["", *wrap_text(title, width)] if lines else wrap_text(title, width)
                lines += format_table(["attack", "measure", "found", "a guess", "ε at least"], rows, width)
        lines += [""] if lines else []
        for sentence in self.sentences():
            lines += wrap_text(sentence, width)
        return "\n".join(lines)

    def sentences(self) -> list[str]:
        """Return what the findings say together, in plain sentences."""
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
        """Compare what this release and its mechanism revealed with what is proven of the mechanism."""
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
                    beside = f"; at most {format_upper(compared.epsilon)} is proven of it"
                said.append(
                    f"{what} ε ≥ {format_lower(best.epsilon_lower or 0.0)} at δ = {best.delta:g} "
                    f"per {best.unit}{beside}."
                )
        return said


def stated_bound(bound: Bound, unit: Unit | str, neighbours: Neighbours | str) -> dict[str, Any]:
    """Return the fields of a finding that state ``bound`` for one ``unit`` under ``neighbours``."""
    return {
        "confidence": bound.confidence,
        "epsilon_lower": bound.epsilon,
        "delta": bound.delta,
        "unit": str(unit),
        "neighbours": str(neighbours),
        "numbers": {name: float(value) for name, value in bound.numbers.items()},
    }


def _more(compared: Comparison, what: str) -> str:
    """Return sentences on what an attack shows beyond what is proven or claimed."""
    item, said = compared.evidence, []
    if compared.exceeds_epsilon:
        said.append(
            f"ε ≥ {format_lower(item.epsilon_lower or 0.0)} at δ = {item.delta:g}, above the {what} "
            f"{format_upper(compared.epsilon)}"
        )
    if compared.exceeds_delta:
        where = "every ε" if item.at_epsilon is None else f"ε = {item.at_epsilon:g}"
        said.append(
            f"δ ≥ {format_lower(item.delta_lower or 0.0)} at {where}, "
            f"above the {what} {format_upper(compared.delta)}"
        )
    return f"{item.attack} shows {' and '.join(said)}, per {item.unit} under {item.neighbours}"


def _row(item: Finding) -> list[str]:
    found = f"{item.value:.4g}"
    if item.interval is not None:
        found += f" [{item.interval[0]:.4g}, {item.interval[1]:.4g}]"
    bound = "" if item.epsilon_lower is None else f"{format_lower(item.epsilon_lower)} at δ={item.delta:g}"
    if item.delta_lower:
        bound += f"; δ ≥ {format_lower(item.delta_lower)}"
    mark = " ●" if item.beats_chance else ""
    return [item.attack, item.measure, found + mark, f"{item.chance:.4g}", bound]
