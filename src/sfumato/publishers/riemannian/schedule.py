"""How long each stage lasts, by seconds or by steps, and how fast it learns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

__all__ = ["SHARES", "STAGES", "Rates", "Schedule"]

#: The stages in their order.
STAGES = ("mean", "deviation", "curvature", "bilevel")
#: What each stage takes of a time budget.
SHARES = (0.55, 0.15, 0.10, 0.20)


@dataclass(frozen=True)
class Rates:
    """Learning rates and sizes (section 5.1.3 of Yin et al., 2025, where the paper names one).

    *What differs.* All rates fall along half a cosine over their stage, to a fiftieth, as stages here are
    shorter than the paper's. The critic's first rate is 1e-4 instead of 1e-6: at 1e-6 and an update every 50
    steps its weights would hardly leave their random beginning in any run this short, and what it says of
    pictures would mean nothing. The estimator's is 1e-3 instead of 1e-4, for its few hundred steps. ``clip``
    bounds the norm of every gradient; ``jitter`` is the posterior's deviation in the μ stage, whose loss has
    no prior in it and would end at 0; ``divergent`` rows of a batch estimate its Kullback-Leibler term, which
    costs as much as twenty passes; ``perturbed`` rows are moved along geodesics in a bilevel step.
    """

    mean: float = 1e-3
    deviation: float = 1e-3
    critic: float = 1e-4
    curvature: float = 1e-3
    bilevel: float = 1e-5
    every: int = 50
    batch: int = 256
    beta: float = 1.0
    clip: float = 100.0
    jitter: float = 0.05
    divergent: int = 64
    perturbed: int = 64


@dataclass(frozen=True)
class Schedule:
    """When stages end: after ``steps`` each, or, where ``seconds`` is given, at their shares of it.

    Seconds count training alone, also across interruptions. A stage that ran late takes its lateness from the
    next one. Every stage takes one step at least.
    """

    steps: tuple[int, ...]
    seconds: float | None = None

    @classmethod
    def epochs(cls, epochs: tuple[int, ...], records: int, batch: int) -> Schedule:
        """Whole passes over ``records`` pictures for each stage."""
        return cls(tuple(count * max(records // batch, 1) for count in epochs))

    def deadline(self, stage: int) -> float:
        """Seconds of training after which a stage ends, counted from the start of all."""
        return float("inf") if self.seconds is None else self.seconds * [*accumulate(SHARES)][stage]

    def ended(self, stage: int, step: int, elapsed: float, last: float) -> bool:
        """Whether a stage is over after ``step`` steps, the last of which took ``last`` seconds."""
        if step < 1:
            return False
        if self.seconds is None:
            return step >= self.steps[stage]
        return elapsed + 0.5 * last >= self.deadline(stage)

    def share(self, stage: int, step: int, elapsed: float, began: float) -> float:
        """How much of a stage that ``began`` at some second is done, from 0 to 1."""
        if self.seconds is None:
            return min(step / self.steps[stage], 1.0)
        span = max(self.deadline(stage) - began, 1e-9)
        return min(max((elapsed - began) / span, 0.0), 1.0)
