"""A lower bound on ε that a game achieved, and everything that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.errors import BadInput
from sfumato.privacy import Evidence

__all__ = ["Bound", "check_delta"]


def check_delta(delta: float) -> float:
    """``delta`` as a float, or a refusal of what is not in [0, 1)."""
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise BadInput(f"delta was {delta!r}: it must be 0 or more and below 1.")
    return float(delta)


@dataclass(frozen=True)
class Bound:
    """The mechanism is (ε, ``delta``)-DP for no ε below ``epsilon``, unless an event of low chance happened.

    If the mechanism is (ε, δ)-DP, ``epsilon`` exceeds ε with probability at most 1 − ``confidence`` over the
    noise and the choices of the audit. Where ``assumption`` is not empty, this holds only under it.
    ``numbers`` are the counts and rates behind the bound.
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    assumption: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0.0):
            raise BadInput(f"the epsilon of a bound was {self.epsilon!r}: it must be finite, 0 or more.")
        check_delta(self.delta)
        if not 0.0 < self.confidence < 1.0:
            raise BadInput(f"the confidence of a bound was {self.confidence!r}: it must lie between 0 and 1.")

    def evidence(self, attack: str) -> Evidence:
        """The bound as it enters the measured column of a statement, named after ``attack``."""
        return Evidence(
            attack=attack,
            epsilon_lower=self.epsilon,
            delta=self.delta,
            confidence=self.confidence,
            detail=f"{self.method}; {self.assumption}" if self.assumption else self.method,
        )
