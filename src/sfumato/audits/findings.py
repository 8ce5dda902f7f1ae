"""What one attack found: how well it did, against what a guess would do, and what that says about ε."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.errors import BadInput
from sfumato.privacy import Evidence, Neighbours, Unit
from sfumato.privacy.wire import fields_of

__all__ = ["Finding"]


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
        """Whether a bound is above 0 or the whole interval on the attacker's side of chance.

        None without a bound above 0 and without an interval.
        """
        if self.epsilon_lower or self.delta_lower:
            return True
        if self.interval is None:
            return None
        low, high = self.interval
        return low > self.chance if self.higher_is_worse else high < self.chance

    def evidence(self) -> Evidence:
        """The finding as it enters the measured column of a statement."""
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
        """As JSON values, for machines."""
        return {
            "attack": self.attack,
            "threat": self.threat,
            "measure": self.measure,
            "value": self.value,
            "chance": self.chance,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": self.confidence,
            "higher_is_worse": self.higher_is_worse,
            "beats_chance": self.beats_chance,
            "epsilon_lower": self.epsilon_lower,
            "delta": self.delta,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "numbers": dict(self.numbers),
            "note": self.note,
            "delta_lower": self.delta_lower,
            "at_epsilon": self.at_epsilon,
            "mechanism_only": self.mechanism_only,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Finding:
        """Read what ``to_dict`` wrote, refusing anything else in a sentence."""
        names = (*cls.__dataclass_fields__, "beats_chance")
        if isinstance(value, Mapping):
            value = {"delta_lower": None, "at_epsilon": None, "mechanism_only": False, **value}
        got = dict(fields_of(value, names, "a finding"))
        got.pop("beats_chance")  # follows from the others
        interval = got.pop("interval")
        if interval is not None and (not isinstance(interval, list) or len(interval) != 2):
            raise BadInput(f"interval of a finding was {interval!r}: two numbers or null are accepted.")
        return cls(**got, interval=None if interval is None else (interval[0], interval[1]))
