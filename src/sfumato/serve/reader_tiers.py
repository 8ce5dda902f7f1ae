"""Which tier answers a reader: the tenant's policy says τ, and τ one of a few public levels.

Levels are declared by an owner and never derived from data. A reader of distrust τ gets the level just
above it, or at it: never one for readers who are trusted more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.auth.callers import Caller
from sfumato.serve.auth.trust_policy import Context, Policy

__all__ = ["ReaderFacts", "TierLevels", "context_of", "distrust_of"]

_MOST_LEVELS = 16
_MOST_FACTS = 100
_MOST_TEXT = 200


@dataclass(frozen=True)
class TierLevels:
    """The declared levels of distrust, the most trusted first: 1 to 16 different numbers in [0, 1]."""

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = all(
            isinstance(one, int | float) and not isinstance(one, bool) and 0.0 <= one <= 1.0
            for one in self.levels
        )
        if not numbers or not 1 <= len(self.levels) <= _MOST_LEVELS:
            raise BadInput(f"tiers are 1 to {_MOST_LEVELS} numbers from 0, most trusted, to 1.")
        if len({float(one) for one in self.levels}) != len(self.levels):
            raise BadInput("each tier has a level of its own; two of them are the same.")
        object.__setattr__(self, "levels", tuple(sorted(float(one) for one in self.levels)))

    def level_for(self, distrust: float) -> float | None:
        """The level that readers of ``distrust`` get; None where all are for more trusted ones."""
        if math.isnan(distrust):
            return None
        return next((level for level in self.levels if level >= distrust), None)


@dataclass(frozen=True)
class ReaderFacts:
    """What the tenant says of a reader, who has no say in it: authorisations, and the law they are under."""

    authorisations: frozenset[str] = frozenset()
    jurisdiction: str | None = None

    def __post_init__(self) -> None:
        texts = [*self.authorisations, *([] if self.jurisdiction is None else [self.jurisdiction])]
        if len(texts) > _MOST_FACTS or not all(
            isinstance(one, str) and 1 <= len(one) <= _MOST_TEXT and one.isprintable() for one in texts
        ):
            raise BadInput(
                f"a reader has at most {_MOST_FACTS} authorisations and a jurisdiction, each of 1 to "
                f"{_MOST_TEXT} printable characters."
            )

    @classmethod
    def of(cls, authorisations: Sequence[str], jurisdiction: str | None) -> ReaderFacts:
        """The facts of JSON values."""
        return cls(frozenset(authorisations), jurisdiction)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"authorisations": sorted(self.authorisations), "jurisdiction": self.jurisdiction}


def context_of(
    facts: ReaderFacts, address: str | None, collected: date | None, now: datetime | None = None
) -> Context:
    """What is known of a request from ``address`` about data that was ``collected`` on a day, if it is known.

    Nothing in it comes from what the reader sends. A day in the future makes the data new, not younger.
    """
    age = None
    if collected is not None:
        age = max(0.0, float(((now or datetime.now(UTC)).date() - collected).days))
    return Context(address, facts.authorisations, facts.jurisdiction, age)


def distrust_of(policy: Policy, caller: Caller, context: Context) -> float:
    """τ of the caller's reader."""
    return policy.distrust(caller.reader, context)
