"""The claimed column: what the authors of a method say of it, quoted with its place in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.unit import Neighbours, Unit
from sfumato.privacy.wire import fields_of

__all__ = ["Claim"]


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
        """The claim as if it were proven, to be held against evidence; None where it says too little.

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
        """A JSON object that ``from_dict`` reads back to an equal claim; unit and neighbours where given."""
        document = {"text": self.text, "source": self.source, "epsilon": self.epsilon, "delta": self.delta}
        about = {"unit": self.unit, "neighbours": self.neighbours}
        return document | {name: str(value) for name, value in about.items() if value is not None}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Claim:
        """Read what ``to_dict`` wrote."""
        if isinstance(value, Mapping):
            value = {"unit": None, "neighbours": None, **value}
        names = ("text", "source", "epsilon", "delta", "unit", "neighbours")
        return cls(**fields_of(value, names, "a claim"))

    def __str__(self) -> str:
        numbers = [f"{sign}={n:g}" for sign, n in (("ε", self.epsilon), ("δ", self.delta)) if n is not None]
        head = f"{', '.join(numbers)}: " if numbers else ""
        return f"{head}{self.text} ({self.source})"
