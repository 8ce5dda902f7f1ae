"""Whether two rows differ, by their seeds: a difference is told only beyond twice its standard error."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato_reproductions.compactdp.measured import Measured

__all__ = ["Difference"]

# So many standard errors.
_TOLD = 2.0


@dataclass(frozen=True)
class Difference:
    """Of the means of two rows over their seeds, and its standard error, infinite where there is one seed."""

    value: float
    error: float

    @classmethod
    def of(
        cls, one: Sequence[Measured], other: Sequence[Measured], what: Callable[[Measured], float]
    ) -> Difference:
        """``what`` of ``one`` minus that of ``other``."""
        both = [[what(made) for made in seeds] for seeds in (one, other)]
        first, second = map(statistics.fmean, both)
        if min(map(len, both)) < 2:
            return cls(first - second, math.inf)
        return cls(
            first - second, math.sqrt(sum(statistics.variance(values) / len(values) for values in both))
        )

    @property
    def doubt(self) -> float:
        """What a difference must exceed to be told: twice the standard error."""
        return _TOLD * self.error

    def exceeds(self, least: float = 0.0) -> bool | None:
        """Whether it is larger than ``least``; None where the seeds do not tell."""
        if abs(self.value - least) <= self.doubt:
            return None
        return self.value > least
