"""The statement of a release: a claim (from the paper), a guarantee (proven) and evidence (measured).

A ``Claim`` quotes the authors of a method with the place in their paper, an ``Evidence`` is what an attack
achieved, and a ``Comparison`` sets evidence beside a guarantee or claim of the same unit and neighbours.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import BadInput, Forewarning
from sfumato.privacy.events import require_fields
from sfumato.privacy.formatting import (
    TEXT_WIDTH,
    format_columns,
    format_delta,
    format_lower,
    format_upper,
    wrap_text,
)
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.unit import Neighbours, Unit

__all__ = ["Claim", "Comparison", "Evidence", "Statement"]
#: An ε above it is warned of: who thinks two values of one unit equally likely may become surer than
#: e¹⁰/(1 + e¹⁰) = 99.995% of the right one, so what is proven hardly limits what can be learned.
LARGE_EPSILON = 10.0
_FIELDS = ("mechanism", "parameters", "claimed", "proven", "also_proven", "measured", "notes")
_CHANGED = ("unit", "neighbours")
_DELTA_BOUND = ("delta_lower", "at_epsilon")
_EVIDENCE = ("attack", "epsilon_lower", "delta", "confidence", "detail", *_CHANGED, *_DELTA_BOUND)
# Where a bound on δ is said of every ε, the proven δ is asked for here: what is left of it at any ε.
_EVERY_EPSILON = 1e4


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A paper's own words: ``text``, its ``source`` (paper and equation), its (ε, δ) where it names them.

    ``unit`` and ``neighbours`` are those that the numbers are claimed for; None where the authors leave that
    open, and then the numbers can be held against nothing.
    """

    text: str
    source: str
    epsilon: float | None = None
    delta: float | None = None
    unit: Unit | None = None
    neighbours: Neighbours | None = None

    def __post_init__(self) -> None:
        for name in ("text", "source"):
            if not isinstance(getattr(self, name), str):
                raise BadInput(f"{name} of a claim was {getattr(self, name)!r}: it must be text.")
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
                raise BadInput(f"{name} of a claim was {value!r}: it must be a finite number ≥ 0, or None.")
            object.__setattr__(self, name, float(value))
        if self.unit is not None:
            object.__setattr__(self, "unit", Unit.parse(self.unit))
        if self.neighbours is not None:
            object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    def guarantee(self) -> Guarantee | None:
        """Return the claim as if it were proven, to compare evidence with; None where it says too little.

        That is an (ε, δ), and what of: without a δ or a unit nothing can be compared with it.
        """
        if self.epsilon is None or self.delta is None or self.unit is None or self.neighbours is None:
            return None
        if self.delta >= 1.0:
            return Guarantee.nothing(self.source, self.unit, self.neighbours)
        return Guarantee.approximate(
            self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, theorem=self.source
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that ``from_dict`` reads back; unit and neighbours where given."""
        document = {"text": self.text, "source": self.source, "epsilon": self.epsilon, "delta": self.delta}
        about = {"unit": self.unit, "neighbours": self.neighbours}
        return document | {name: str(value) for name, value in about.items() if value is not None}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Claim:
        """Return the claim that ``to_dict`` wrote."""
        if isinstance(value, Mapping):
            value = {"unit": None, "neighbours": None, **value}
        names = ("text", "source", "epsilon", "delta", "unit", "neighbours")
        return cls(**require_fields(value, names, "a claim"))

    def __str__(self) -> str:
        numbers = [f"{sign}={n:g}" for sign, n in (("ε", self.epsilon), ("δ", self.delta)) if n is not None]
        head = f"{', '.join(numbers)}: " if numbers else ""
        return f"{head}{self.text} ({self.source})"


@dataclass(frozen=True)
class Evidence:
    """The result of an attack: ε is at least ``epsilon_lower`` at ``delta``, with ``confidence``.

    ``delta_lower`` is a lower bound on δ at ``at_epsilon``, or at every ε where that is None. ``unit`` and
    ``neighbours`` say what differed between the inputs that the attack told apart; every bound has them. An
    attack that bounds neither (a reconstruction, say) leaves the numbers out and uses ``detail``.
    """

    attack: str
    epsilon_lower: float | None = None
    delta: float | None = None
    confidence: float | None = None
    detail: str = ""
    unit: Unit | None = None
    neighbours: Neighbours | None = None
    delta_lower: float | None = None
    at_epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("attack", "detail"):
            if not isinstance(getattr(self, name), str):
                raise BadInput(f"{name} of evidence was {getattr(self, name)!r}: it must be text.")
        numbers = {"epsilon_lower": math.inf, "delta": 1.0, "confidence": 1.0, "delta_lower": 1.0}
        for name, most in (numbers | {"at_epsilon": math.inf}).items():
            value = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not 0.0 <= value <= most:
                raise BadInput(
                    f"{name} of evidence was {value!r}: it must be a number from 0 to {most:g}, or None."
                )
            object.__setattr__(self, name, float(value))
        if self.unit is not None:
            object.__setattr__(self, "unit", Unit.parse(self.unit))
        if self.neighbours is not None:
            object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        if self.epsilon_lower is not None and self.delta is None:
            raise BadInput(f"the evidence of {self.attack!r} bounds ε and does not say at which delta.")
        if self.bounds and (self.unit is None or self.neighbours is None):
            raise BadInput(
                f"the evidence of {self.attack!r} is a bound and does not say of what: give its unit and "
                "neighbours."
            )

    @property
    def bounds(self) -> bool:
        """Whether it says anything about ε or δ."""
        return self.epsilon_lower is not None or self.delta_lower is not None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that ``from_dict`` reads back; fields that are not set are left out."""
        document: dict[str, Any] = {
            "attack": self.attack,
            "epsilon_lower": self.epsilon_lower,
            "delta": self.delta,
            "confidence": self.confidence,
            "detail": self.detail,
        }
        for name in _CHANGED:
            if getattr(self, name) is not None:
                document[name] = str(getattr(self, name))
        if self.delta_lower is not None:
            document |= {name: getattr(self, name) for name in _DELTA_BOUND}
        return document

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Evidence:
        """Return the evidence that ``to_dict`` wrote."""
        if isinstance(value, Mapping):
            value = dict.fromkeys((*_CHANGED, *_DELTA_BOUND)) | dict(value)
        return cls(**require_fields(value, _EVIDENCE, "evidence"))

    def __str__(self) -> str:
        said = []
        if self.epsilon_lower is not None:
            said.append(f"ε ≥ {format_lower(self.epsilon_lower)} at δ={self.delta:g}")
        if self.delta_lower:
            where = "every ε" if self.at_epsilon is None else f"ε={self.at_epsilon:g}"
            said.append(f"δ ≥ {format_lower(self.delta_lower)} at {where}")
        text = self.attack
        if said:
            text += f": {', '.join(said)} per {self.unit}"
            text += f" with {self.confidence:.6g} confidence" if self.confidence is not None else ""
        return f"{text}; {self.detail}" if self.detail else text


@dataclass(frozen=True)
class Comparison:
    """Evidence beside a guarantee of the same unit and neighbours, at the δ or ε of the evidence.

    A verdict is made of a comparison and of nothing else; one across units or neighbours does not exist.
    """

    guarantee: Guarantee
    evidence: Evidence

    def __post_init__(self) -> None:
        ours, theirs = self.guarantee, self.evidence
        if not theirs.bounds:
            raise BadInput(f"the evidence of {theirs.attack!r} bounds nothing: there is nothing to compare.")
        if (ours.unit, ours.neighbours) != (theirs.unit, theirs.neighbours):
            raise BadInput(
                f"evidence per {theirs.unit} under {theirs.neighbours} cannot be compared with a guarantee "
                f"per {ours.unit} under {ours.neighbours}: they are about changes of different things."
            )

    @property
    def epsilon(self) -> float:
        """The most ε that the guarantee allows at the δ of the evidence."""
        return self.guarantee.epsilon(self.evidence.delta)

    @property
    def delta(self) -> float:
        """The most δ that the guarantee allows at the ε of the evidence's bound on δ."""
        where = self.evidence.at_epsilon
        return self.guarantee.delta(_EVERY_EPSILON if where is None else where)

    @property
    def exceeds_epsilon(self) -> bool:
        """Whether the bound on ε lies above what is allowed."""
        lower = self.evidence.epsilon_lower
        return lower is not None and self.epsilon < lower

    @property
    def exceeds_delta(self) -> bool:
        """Whether the bound on δ lies above what is allowed."""
        lower = self.evidence.delta_lower
        return lower is not None and self.delta < lower

    @property
    def refuted(self) -> bool:
        """Whether the evidence shows more than the guarantee allows."""
        return self.exceeds_epsilon or self.exceeds_delta


@dataclass(frozen=True)
class Statement:
    """The statement of one release: a mechanism, its public parameters, and the three columns.

    ``also_proven`` holds the guarantees of further units, where one release says something about several.
    ``terms`` are the mechanism and its parameters under their wire names, for digests; no part of the
    document, nor of any comparison.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    claimed: Claim | None
    proven: Guarantee
    measured: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    also_proven: tuple[Guarantee, ...] = ()
    terms: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise BadInput(f"`mechanism` was {self.mechanism!r}: it must be a name.", parameter="mechanism")
        if not isinstance(self.parameters, Mapping):
            raise BadInput(
                f"`parameters` were {self.parameters!r}: they must be a mapping from names to values.",
                parameter="parameters",
            )
        try:
            # The round trip also makes a copy of our own, with tuples as the lists that JSON has.
            parameters = json.loads(json.dumps(dict(self.parameters), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise BadInput(f"parameters of {self.mechanism} cannot be written as JSON: {error}.") from None
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "measured", tuple(self.measured))
        object.__setattr__(self, "notes", tuple(self.notes))
        object.__setattr__(self, "also_proven", tuple(self.also_proven))
        units = [(part.unit, part.neighbours) for part in (self.proven, *self.also_proven)]
        if len(set(units)) < len(units):
            raise BadInput(f"the statement of {self.mechanism} proves two things of one unit.")
        if not all(isinstance(note, str) for note in self.notes):
            raise BadInput(f"`notes` were {self.notes!r}: each must be text.", parameter="notes")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to give before such a release is made: a function of the statement alone."""
        epsilon = self.proven.epsilon()
        if not LARGE_EPSILON < epsilon < math.inf:
            return ()
        return (
            f"ε = {format_upper(epsilon)} per {self.proven.unit} is above {LARGE_EPSILON:g}, where what is "
            "proven hardly limits what can be learned about one",
        )

    def forewarn(self) -> None:
        """Issue each of ``warnings`` as a :class:`~sfumato.errors.Forewarning`."""
        for sentence in self.warnings:
            warnings.warn(f"{sentence}.", Forewarning, stacklevel=3)

    def proven_of(self, unit: Unit | None, neighbours: Neighbours | None) -> Guarantee | None:
        """Return the guarantee proven for ``unit`` under ``neighbours``; None where there is none."""
        for part in (self.proven, *self.also_proven):
            if (part.unit, part.neighbours) == (unit, neighbours):
                return part
        return None

    def compared(self, item: Evidence) -> Comparison | None:
        """Return ``item`` beside what is proven for its unit and neighbours; None where nothing is."""
        part = self.proven_of(item.unit, item.neighbours) if item.bounds else None
        return None if part is None else Comparison(part, item)

    def claim_compared(self, item: Evidence) -> Comparison | None:
        """Return ``item`` beside what is claimed for its unit and neighbours; None where nothing is."""
        promised = None if self.claimed is None else self.claimed.guarantee()
        if promised is None or not item.bounds:
            return None
        if (promised.unit, promised.neighbours) != (item.unit, item.neighbours):
            return None
        return Comparison(promised, item)

    def contradicts(self, item: Evidence) -> bool:
        """Return whether ``item`` exceeds what is proven for its unit and neighbours, at its own δ or ε."""
        compared = self.compared(item)
        return compared is not None and compared.refuted

    def refutes_claim(self, item: Evidence) -> bool:
        """Return whether ``item`` exceeds what is claimed for its unit and neighbours, at its own δ or ε."""
        compared = self.claim_compared(item)
        return compared is not None and compared.refuted

    def consistent(self) -> bool:
        """Return whether no piece of evidence contradicts what is proven."""
        return not any(self.contradicts(item) for item in self.measured)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object that ``from_dict`` reads back; further units where given."""
        document = {
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "claimed": None if self.claimed is None else self.claimed.to_dict(),
            "proven": self.proven.to_dict(),
            "measured": [item.to_dict() for item in self.measured],
            "notes": list(self.notes),
        }
        further = [part.to_dict() for part in self.also_proven]
        return document | ({"also_proven": further} if further else {})

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Statement:
        """Return the statement that ``to_dict`` wrote; refuse anything else."""
        if isinstance(value, Mapping):
            value = {"also_proven": [], **value}
        got = require_fields(value, _FIELDS, "a statement")
        for name in ("also_proven", "measured", "notes"):
            if not isinstance(got[name], list):
                raise BadInput(f"{name} of a statement was {got[name]!r}: it must be a list.")
        proven = Guarantee.from_dict(got["proven"])
        return cls(
            mechanism=got["mechanism"],
            parameters=got["parameters"],
            claimed=None if got["claimed"] is None else Claim.from_dict(got["claimed"]),
            proven=proven,
            measured=tuple(Evidence.from_dict(_as_meant(item, proven)) for item in got["measured"]),
            notes=tuple(got["notes"]),
            also_proven=tuple(Guarantee.from_dict(item) for item in got["also_proven"]),
        )

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON text with sorted keys, one byte sequence per statement."""
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """Return the statement that ``to_json`` wrote."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"a statement is not JSON: {error}.") from None
        return cls.from_dict(value)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __str__(self) -> str:
        """Return the three columns in at most 100 characters a line."""
        return self.table(TEXT_WIDTH)

    def table(self, width: int) -> str:
        """Return the three columns in at most ``width`` characters a line, or 40 where ``width`` is less."""
        width = max(width, 40)
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        lines = wrap_text(f"{self.mechanism}({given})", width)
        lines += format_columns(
            {
                "claimed": ["no claim"] if self.claimed is None else _claim_cell(self.claimed),
                "proven": self._proven_lines(),
                "measured": [str(item) for item in self.measured] or ["not audited yet"],
            },
            width,
        )
        for note in self.notes:
            lines += wrap_text(f"Note: {note}", width)
        return "\n".join(lines)

    def _proven_lines(self) -> list[str]:
        """Return the headline, and one line for each further unit with the same theorem and neighbours."""
        lines = _proven_cell(self.proven)
        for part in self.also_proven:
            cell = _proven_cell(part)
            alike = (part.neighbours, part.theorem) == (self.proven.neighbours, self.proven.theorem)
            lines += [f"per {part.unit}: {cell[0]}"] if alike and len(cell) == 4 else cell
        return lines

    def __repr__(self) -> str:
        claimed = "nothing claimed" if self.claimed is None else f"claimed {self.claimed}"
        measured = "; ".join(str(item) for item in self.measured) or "not audited yet"
        return f"Statement: {self.mechanism}, {claimed}; proven: {self.proven}; measured: {measured}"


def _as_meant(item: Any, proven: Guarantee) -> Any:
    """Return evidence of an older document with what it left out, which was that of the proven column."""
    if not isinstance(item, Mapping) or item.get("epsilon_lower") is None:
        return item
    meant = {"unit": str(proven.unit), "neighbours": str(proven.neighbours), "delta": proven.at_delta}
    return dict(item) | {name: value for name, value in meant.items() if item.get(name) is None}


def _claim_cell(claim: Claim) -> list[str]:
    numbers = [f"{sign} = {n:g}" for sign, n in (("ε", claim.epsilon), ("δ", claim.delta)) if n is not None]
    where = [f"per {claim.unit}"] if claim.unit is not None and claim.epsilon is not None else []
    return [*([", ".join(numbers)] if numbers else []), *where, claim.text, f"({claim.source})"]


def _proven_cell(proven: Guarantee) -> list[str]:
    where = [f"per {proven.unit}", f"under {proven.neighbours}"]
    if proven.proves_nothing:
        return ["nothing", *where, f"({proven.theorem})"]
    epsilon = proven.epsilon()
    headline = f"ε = {format_upper(epsilon)}" if math.isfinite(epsilon) else "no finite ε"
    more = [f"slack δ₀ = {format_upper(proven.slack, 6)} included"] if proven.slack > 0.0 else []
    if proven.revealed > 0.0:
        more.append(f"shown as it is with probability {format_delta(proven.revealed, 4)}, included")
    return [f"{headline} at δ = {format_delta(proven.at_delta)}", *where, f"({proven.theorem})", *more]
