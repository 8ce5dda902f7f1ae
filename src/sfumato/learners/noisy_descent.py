"""Steps of a linear head along noisy sums of gradients; everything here is post-processing of those sums.

**How far to go.** Over T steps of size a with momentum β a weight moves by about a/(1 − β) times T mean
gradients, each of length c (the clip) or less, and the noise moves it by a/(1 − β)·√T·m·c/n, where m is the
multiplier of one step and n the number of records. With m = √T·M, M being that of all steps together, both
grow with a·T alone: noise in a logit has a deviation of P·M/n for the path P = a·c·T/(1 − β). The path is
therefore set by the noise it collects, P = S·n/M for a ``spread`` S, and not by the data; ``SPREAD`` was
chosen on training pictures of MNIST and Fashion-MNIST (``benchmarks/compact_defaults.py --certified``). A
step is never larger than ``LARGEST`` clips, where more noise would be allowed than is needed to get there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.learner import Report
from sfumato.learners.linear_head import LARGEST_MULTIPLIER, LinearHead
from sfumato.mechanisms.parameters import positive, share, shown
from sfumato.noise import Stream

__all__ = ["LARGEST", "SPREAD", "Descent", "shares", "told"]

SPREAD = 2.3
LARGEST = 100.0
# Weights of the last third of the steps are averaged.
_LAST = 1.0 / 3.0


@dataclass(frozen=True)
class Descent:
    """``steps`` with ``momentum`` of gradients cut to ``clip``; ``pace`` as ``spread`` allows, or given."""

    steps: int
    clip: float
    momentum: float
    pace: float | None
    spread: float

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise BadInput(
                f"`steps` was {shown(self.steps)}: a whole number, 1 or more, is needed.", parameter="steps"
            )
        if share("momentum", self.momentum) == 1.0:
            raise BadInput(
                f"`momentum` was {self.momentum!r}: it must lie below 1, or no step comes to rest.",
                parameter="momentum",
            )
        positive("clip", self.clip)
        positive("spread", self.spread)
        if self.pace is not None:
            positive("pace", self.pace)

    def check(self, multiplier: float) -> None:
        """Refuse noise of ``multiplier`` in each sum, before any is drawn, where it is more than can be."""
        if multiplier > LARGEST_MULTIPLIER:
            raise BadInput(
                f"so small an epsilon over {self.steps} steps needs noise of {multiplier:.3g} times the clip "
                f"(at most {LARGEST_MULTIPLIER:g} can be drawn): take a larger epsilon, or fewer steps."
            )

    def pace_used(self, records: float, multiplier: float) -> float:
        """The size of a step where each sum over ``records`` has noise of ``multiplier``."""
        if self.pace is not None:
            return self.pace
        path = self.spread * records * math.sqrt(self.steps) / multiplier
        return min(path * (1.0 - self.momentum) / self.steps, LARGEST) / self.clip

    def weights(
        self,
        head: LinearHead,
        multiplier: float,
        stream: Stream,
        *,
        records: float,
        batches: Iterator[NDArray[np.intp]] | None = None,
        report: Report | None = None,
    ) -> NDArray[np.float64]:
        """The mean of the last weights by noisy sums of ``multiplier`` each, over ``records``.

        ``batches`` are the examples of each step, all of them unless given; ``records`` is then how many are
        taken on average.
        """
        pace = self.pace_used(records, multiplier)
        weights = torch.zeros(head.shape, dtype=torch.float64)
        speed, mean, kept = torch.zeros_like(weights), torch.zeros_like(weights), 0
        for step in range(self.steps):
            taken = None if batches is None else next(batches)
            speed = self.momentum * speed + head.noisy(weights, multiplier, stream, taken) / records
            weights = weights - pace * speed
            if step + 1 > (1.0 - _LAST) * self.steps:
                mean, kept = mean + weights, kept + 1
            if report is not None and told(step, self.steps):
                report("noisy gradients", (step + 1) / self.steps)
        return np.asarray((mean / kept).numpy())


def shares(weights: NDArray[np.float64], rows: NDArray[Any]) -> NDArray[np.float64]:
    """Class probabilities (n, classes) of ``rows`` (n, d) under ``weights`` (1 + d, classes)."""
    logits = weights[0] + rows @ weights[1:]
    return np.asarray(torch.softmax(torch.from_numpy(logits), dim=1).numpy())


def told(step: int, steps: int) -> bool:
    """Whether progress is reported after ``step``: twenty times, so that no clock shows a single sample."""
    return (step + 1) * 20 // steps > step * 20 // steps
