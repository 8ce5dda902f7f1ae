"""What a run measured, over its data sets, extractors and seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato_reproductions.compactdp.measured import Measured
from sfumato_reproductions.compactdp.pool import Source
from sfumato_reproductions.compactdp.protocol import Run

__all__ = ["Counted", "Measures", "Results", "Spread", "spread"]

#: Method -> what was measured with each seed.
Measures = dict[str, tuple[Measured, ...]]


@dataclass(frozen=True)
class Spread:
    """The mean over seeds, and their standard deviation; None of one seed."""

    mean: float
    deviation: float | None

    def shown(self, digits: int = 4, factor: float = 1.0) -> str:
        """As ``mean ± deviation``."""
        mean = f"{round(factor * self.mean, digits) + 0.0:.{digits}f}".replace("-", "−")
        return mean if self.deviation is None else f"{mean} ± {factor * self.deviation:.{digits}f}"


def spread(seeds: tuple[Measured, ...], what: Callable[[Measured], float]) -> Spread:
    """``what`` over the seeds."""
    values = [what(made) for made in seeds]
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class Counted:
    """How many records there were of a data set, how many tests, classes, and features of one record."""

    records: int
    tests: int
    classes: int
    dimension: int


@dataclass(frozen=True)
class Results:
    """All rows that tables and figures are made of.

    ``tables`` is table -> sources in their order; ``lines`` is source -> (AUC, ε) of models with known ε.
    """

    run: Run
    counted: Mapping[Source, Counted]
    rows: Mapping[Source, Measures]
    tables: Mapping[int, tuple[Source, ...]]
    lines: Mapping[Source, tuple[tuple[float, float], ...]]

    def of(self, table: int, methods: tuple[str, ...]) -> dict[Source, Measures]:
        """Those of ``methods`` that were measured for ``table``, in their order."""
        return {
            source: {name: self.rows[source][name] for name in methods if name in self.rows[source]}
            for source in self.tables.get(table, ())
        }

    def to_dict(self, table: int, methods: tuple[str, ...]) -> dict[str, Any]:
        """The rows of a table as JSON values."""
        return {
            str(source): {name: [made.to_dict() for made in seeds] for name, seeds in rows.items()}
            for source, rows in self.of(table, methods).items()
        }
