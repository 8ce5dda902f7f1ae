"""Timings as ratios in one run: the machines are shared, so what is compared takes turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "interleaved"]


@dataclass(frozen=True)
class Row:
    """One line of the report; ``at_least`` or ``at_most`` is what the ratio must reach."""

    name: str
    value: str
    ratio: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    @property
    def reached(self) -> bool:
        return (self.at_least is None or self.ratio >= self.at_least) and (
            self.at_most is None or self.ratio <= self.at_most
        )


def interleaved(
    work: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The best time of each piece of work, by ``clock``, over ``rounds`` rounds in which all take turns."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, run in work.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best
