"""What a run measured, over its data sets and seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from sfumato_reproductions.curvature_publication.candidates import Success, label_alone
from sfumato_reproductions.curvature_publication.imbalance import Imbalanced
from sfumato_reproductions.curvature_publication.measured import Measured
from sfumato_reproductions.curvature_publication.protocol import Run

__all__ = ["Counted", "Measures", "Results", "mean", "pooled"]

#: Method, or strategy -> what was measured with each seed.
Measures = dict[str, tuple[Measured, ...]]


@dataclass(frozen=True)
class Counted:
    """The sizes of a data set as it was used, and what its labels alone tell of membership."""

    private: int
    tests: int
    public: int
    tail: tuple[int, ...]
    label_alone: float

    @classmethod
    def of(cls, data: Imbalanced) -> Counted:
        """Of one data set."""
        alone = label_alone(data.private.labels, data.tests.labels)
        return cls(len(data.private), len(data.tests), len(data.public), data.tail, alone)


@dataclass(frozen=True)
class Results:
    """Table 1 by data set and method, table 2 by data set and strategy; either may be empty."""

    run: Run
    counted: dict[str, Counted]
    methods: dict[str, Measures]
    strategies: dict[str, Measures]
    parameters: int

    def mean(self, data: str, method: str, what: Callable[[Measured], float]) -> float:
        """``what`` of a method, averaged over the seeds."""
        return mean(self.methods[data][method], what)

    def success(self, data: str, method: str, attack: str) -> Success | None:
        """The success of ``attack`` on a method, pooled over the seeds; None where it was not run."""
        return pooled(self.methods[data][method], attack)

    def leaks_more(self, data: str, method: str, other: str) -> tuple[int, int, float]:
        """Class-matched records that the loss gives away by ``method`` alone and by ``other`` alone; p.

        p is that of the exact one-sided sign test over these records, for the two sets of classifiers as they
        are: the chance of at least so many of the first kind if both kinds were equally likely.
        """
        first, second = (
            np.concatenate([made.right for made in self.methods[data][name]]) for name in (method, other)
        )
        more, less = int(np.sum(first & ~second)), int(np.sum(second & ~first))
        return more, less, float(binom.sf(more - 1, more + less, 0.5))

    def to_dict(self) -> dict[str, Any]:
        """Tables 1 and 2 as JSON values."""

        def listed(tables: dict[str, Measures]) -> dict[str, Any]:
            return {
                data: {name: [made.to_dict() for made in seeds] for name, seeds in rows.items()}
                for data, rows in tables.items()
            }

        return {"1": listed(self.methods), "2": listed(self.strategies)}


def mean(seeds: tuple[Measured, ...], what: Callable[[Measured], float]) -> float:
    """``what``, averaged over the seeds."""
    return statistics.fmean(what(made) for made in seeds)


def pooled(seeds: tuple[Measured, ...], attack: str) -> Success | None:
    """Success over the seeds; None where the attack was not run."""
    found = [made.membership[attack] for made in seeds if attack in made.membership]
    if not found:
        return None
    return Success(sum(one.right for one in found), sum(one.asked for one in found))
