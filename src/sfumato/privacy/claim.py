"""The claimed column: what the authors of a method say of it, quoted with its place in the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy.wire import fields_of

__all__ = ["Claim"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A paper's own words: ``text``, its ``source`` (paper and equation), its (ε, δ) where it names them."""

    text: str
    source: str
    epsilon: float | None = None
    delta: float | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """A JSON object that ``from_dict`` reads back to an equal claim."""
        return {"text": self.text, "source": self.source, "epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Claim:
        """Read what ``to_dict`` wrote."""
        return cls(**fields_of(value, ("text", "source", "epsilon", "delta"), "a claim"))

    def __str__(self) -> str:
        numbers = [f"{sign}={n:g}" for sign, n in (("ε", self.epsilon), ("δ", self.delta)) if n is not None]
        head = f"{', '.join(numbers)}: " if numbers else ""
        return f"{head}{self.text} ({self.source})"
