"""What the audit said of one mechanism of the zoo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy import special

__all__ = ["Attempt", "BrokenVerdict", "SoundVerdict", "alarms_allowed"]

# How often a sound mechanism may exceed the alarms that are allowed, by chance alone.
_FALSE_FAILURE = 1e-6


def alarms_allowed(repetitions: int, confidence: float) -> int:
    """The smallest number that a sound mechanism exceeds with a chance of 1e-6 at most: 12 of 200 at 99%."""
    allowed = 0
    while special.bdtrc(allowed, repetitions, 1.0 - confidence) > _FALSE_FAILURE:
        allowed += 1
    return allowed


@dataclass(frozen=True)
class Attempt:
    """One attack on one mechanism: what it found ε to be at least.

    ``informed`` is True where the attack was told how the mechanism works; ``assumption`` says on what the
    bound rests besides counting, and is empty where it rests on nothing else.
    """

    attack: str
    informed: bool
    epsilon: float
    assumption: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "attack": self.attack,
            "informed": self.informed,
            "epsilon_lower": self.epsilon,
            "assumption": self.assumption,
        }


@dataclass(frozen=True)
class BrokenVerdict:
    """A broken mechanism: its promise, and the ``attempts``, which hold all together with the confidence."""

    name: str
    mistake: str
    hint: str
    plain: bool
    epsilon: float
    delta: float
    attempts: tuple[Attempt, ...]

    @property
    def measured(self) -> float:
        """The largest ε that an attack proved."""
        return max(attempt.epsilon for attempt in self.attempts)

    @property
    def caught(self) -> bool:
        """Whether that is more than was promised."""
        return self.measured > self.epsilon

    @property
    def by(self) -> tuple[str, ...]:
        """The attacks that proved more than was promised, the informed one first."""
        return tuple(attempt.attack for attempt in self.attempts if attempt.epsilon > self.epsilon)

    @property
    def by_strangers(self) -> bool:
        """Whether an attack that was told nothing of the mechanism caught it too."""
        return any(not attempt.informed and attempt.epsilon > self.epsilon for attempt in self.attempts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "mistake": self.mistake,
            "promised_epsilon": self.epsilon,
            "delta": self.delta,
            "measured_epsilon": self.measured,
            "caught": self.caught,
            "by": list(self.by),
            "attempts": [attempt.to_dict() for attempt in self.attempts],
            "attack_knew": self.hint,
            "opposite_records": self.plain,
        }


@dataclass(frozen=True)
class SoundVerdict:
    """A sound mechanism: how often it was accused in ``repetitions`` audits, and how close they came.

    ``alarms`` are counted at the confidence of the test; ``strict_alarms``, at 1 − 1e-9, are of the informed
    attack and of the generic ones.
    """

    name: str
    epsilon: float
    delta: float
    typical: float
    largest: float
    alarms: int
    strict_alarms: int
    allowed: int
    repetitions: int

    @property
    def passed(self) -> bool:
        """Whether the alarms are no more than chance explains."""
        return self.alarms <= self.allowed and self.strict_alarms == 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name,
            "proven_epsilon": self.epsilon,
            "delta": self.delta,
            "typical_measured": self.typical,
            "largest_measured": self.largest,
            "alarms": self.alarms,
            "alarms_allowed": self.allowed,
            "strict_alarms": self.strict_alarms,
            "repetitions": self.repetitions,
            "passed": self.passed,
        }
