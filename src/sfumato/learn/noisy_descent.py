"""Steps of a linear head along noisy sums of gradients; everything here is post-processing of those sums.

**How far to go.** Over T steps of size a with momentum β a weight moves by about a/(1 − β) times T mean
gradients, each of length c (the clip) or less, and the noise moves it by a/(1 − β)·√T·m·c/n, where m is the
multiplier of one step and n the number of records. With m = √T·M, M being that of all steps together, both
grow with a·T alone: noise in a logit has a deviation of P·M/n for the path P = a·c·T/(1 − β). The path is
therefore set by the noise it collects, P = ``REACH``·n/M, and not by the data; ``REACH`` was chosen on
pictures of one public dataset for another. A step is never larger than ``LARGEST`` clips, where more noise
would be allowed than is needed to get there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learn.learner import Report
from sfumato.learn.linear_head import LARGEST_MULTIPLIER, LinearHead
from sfumato.mechanisms.parameters import positive
from sfumato.noise import Stream

__all__ = ["LARGEST", "REACH", "check_descent", "descend", "pace_for", "told"]

REACH = 2.3
LARGEST = 100.0
# Weights of the last third of the steps are averaged.
_LAST = 1.0 / 3.0


def check_descent(multiplier: float, *, steps: int, clip: float, momentum: float, pace: float | None) -> None:
    """Refuse parameters of a descent, whose sums have noise of ``multiplier`` each, before any is drawn."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise BadInput(f"steps was {steps!r}: a whole number, 1 or more, is needed.")
    if not 0.0 <= momentum < 1.0:
        raise BadInput(f"momentum was {momentum!r}: it must lie from 0 to below 1.")
    positive("clip", clip)
    if pace is not None:
        positive("pace", pace)
    if multiplier > LARGEST_MULTIPLIER:
        raise BadInput(
            f"so small an epsilon over {steps} steps needs noise of {multiplier:.3g} times the clip, and at "
            f"most {LARGEST_MULTIPLIER:g} can be drawn: take a larger epsilon, or fewer steps."
        )


def pace_for(records: float, whole: float, *, steps: int, clip: float, momentum: float) -> float:
    """The size of a step where all steps together have noise of ``whole`` times the clip."""
    path = REACH * records / whole
    return min(path * (1.0 - momentum) / steps, LARGEST) / clip


def told(step: int, steps: int) -> bool:
    """Whether progress is reported after ``step``: twenty times, so that no clock shows a single sample."""
    return (step + 1) * 20 // steps > step * 20 // steps


def descend(
    head: LinearHead,
    multiplier: float,
    stream: Stream,
    *,
    records: float,
    steps: int,
    pace: float,
    momentum: float,
    batches: Iterator[NDArray[np.intp]] | None = None,
    report: Report | None = None,
) -> Tensor:
    """The mean of the last weights of ``steps`` noisy sums of ``multiplier`` each, over ``records``.

    ``batches`` are the examples of each step, all of them unless given; ``records`` is then how many are
    taken on average.
    """
    weights = torch.zeros(head.shape, dtype=torch.float64)
    speed, mean, kept = torch.zeros_like(weights), torch.zeros_like(weights), 0
    for step in range(steps):
        taken = None if batches is None else next(batches)
        speed = momentum * speed + head.noisy(weights, multiplier, stream, taken) / records
        weights = weights - pace * speed
        if step + 1 > (1.0 - _LAST) * steps:
            mean, kept = mean + weights, kept + 1
        if report is not None and told(step, steps):
            report("noisy gradients", (step + 1) / steps)
    return mean / kept
