"""A lower bound on ε that a game achieved, and everything that it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sfumato.errors import BadInput
from sfumato.privacy import Evidence, Guarantee, Neighbours, Unit

__all__ = ["Bound", "check_delta", "usual_delta"]

# The largest δ that a game is played at unless another is asked for: a larger one hides what leaks rarely.
_LARGEST_DELTA = 1e-5


def check_delta(delta: float) -> float:
    """``delta`` as a float, or a refusal of what is not in [0, 1)."""
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise BadInput(f"`delta` was {delta!r}: it must be 0 or more and below 1.", parameter="delta")
    return float(delta)


def usual_delta(proven: Guarantee) -> float:
    """The δ of bounds unless a reader asks for another: that of the headline, but at most 1e-5."""
    return _LARGEST_DELTA if proven.proves_nothing else min(proven.at_delta, _LARGEST_DELTA)


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

    def evidence(self, attack: str, unit: Unit | str, neighbours: Neighbours | str) -> Evidence:
        """The bound as it enters the measured column of a statement, named after ``attack``.

        ``unit`` and ``neighbours`` are those of the two inputs that were told apart.
        """
        return Evidence(
            attack=attack,
            epsilon_lower=self.epsilon,
            delta=self.delta,
            confidence=self.confidence,
            unit=Unit.parse(unit),
            neighbours=Neighbours(neighbours),
            detail=f"{self.method}; {self.assumption}" if self.assumption else self.method,
        )
