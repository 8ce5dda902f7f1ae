"""Noise that changes from step to step as a public schedule says.

Early steps move far and can bear much noise; late ones settle and want little. A schedule fixes the noise
multiplier of every step in advance. This is the baseline *DPA* of CompactDP's Table 4, "an adaptive noise
multiplier scheduling method", of which the paper gives no formula; ours falls or rises geometrically over a
few stages, or follows multipliers that are given.

**Guarantee.** Unit: record, zero-out neighbours. In step t the record is taken with probability q, and if so
moves the sum by at most the clip, under noise of z_t clips: the Poisson-sampled Gaussian of multiplier z_t,
for the reasons given in :mod:`sfumato.learners.dp_sgd`. The steps are composed as events of different
multipliers by dp-accounting's privacy loss distributions, rounded upward. That is a bound because all z_t are
fixed before the first step; a multiplier chosen after seeing earlier steps would need another theorem, and
is not offered. Each stage is a convolution of its own, hence few stages. At a rate of 1 the steps are one
Gaussian with 1/z² = Σ1/z_t², whatever the schedule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from numpy.typing import NDArray
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD, check_sampling
from sfumato.learners.least_noise import least_noise
from sfumato.learners.noisy_sum import RADIUS, clip_and_multiplier
from sfumato.mechanisms.parameters import delta_between, positive, positives, shown
from sfumato.noise import NORMAL, Rounded, Stream
from sfumato.privacy import RECORD, Guarantee, Neighbours, gaussian_mu

__all__ = ["SCHEDULES", "NoiseSchedule", "ScheduledNoise", "factors_of"]

#: Schedules with a name; others are given as one factor a step.
SCHEDULES = ("constant", "decreasing", "increasing")

_STAGES = 4
_RATIO = 2.0  # of the largest to the smallest multiplier of a named schedule
_MOST_STAGES = 32


@dataclass(frozen=True)
class NoiseSchedule:
    """Steps for each of which a record is taken at ``rate``; step t has ``multipliers[t]`` clips of noise."""

    multipliers: tuple[float, ...]
    rate: float

    def __post_init__(self) -> None:
        for multiplier in set(self.multipliers):
            clip_and_multiplier(1.0, multiplier)
        check_sampling(self.rate, self.steps)

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, *, rate: float, factors: Sequence[float]
    ) -> NoiseSchedule:
        """The least common multiple of ``factors``, one a step, that proves ``epsilon`` at ``delta``."""
        epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
        check_sampling(rate, len(factors))
        found = positives(list(factors))
        if found is None:
            raise BadInput(f"the schedule was {shown(factors)}: positive numbers, one a step, are needed.")
        # In units of the factor that counts once in the sum of inverse squares.
        whole = 1.0 / math.sqrt(float(np.mean(found**-2.0)))
        shape = found / whole
        if rate < 1.0 and len(set(shape.tolist())) > _MOST_STAGES:
            raise BadInput(
                f"the schedule has {len(set(shape.tolist()))} different multipliers: on samples at most "
                f"{_MOST_STAGES} can be accounted for in reasonable time."
            )

        def proven(multiplier: float) -> float:
            return cls(tuple((multiplier * shape).tolist()), rate).guarantee(delta).epsilon()

        guess = _gaussian_guess(gaussian_mu(epsilon, delta), rate, len(shape))
        return cls(
            tuple((least_noise(proven, epsilon, delta, len(shape), guess=guess) * shape).tolist()), rate
        )

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.multipliers)

    def guarantee(self, delta: float) -> Guarantee:
        """For one record; a pure function of the parameters."""
        counts = {z: self.multipliers.count(z) for z in sorted(set(self.multipliers))}
        events: list[DpEvent] = [
            SelfComposedDpEvent(PoissonSampledDpEvent(self.rate, GaussianDpEvent(multiplier)), count)
            for multiplier, count in counts.items()
        ]
        return Guarantee(
            unit=RECORD,
            neighbours=Neighbours.ZERO_OUT,
            event=events[0] if len(events) == 1 else ComposedDpEvent(events),
            theorem="DP-SGD: Poisson-sampled Gaussian, composed over steps",
            at_delta=delta_between(delta),
        )

    def expected(self, records: int) -> float:
        """How many of ``records`` are taken in a step, on average; at least 1."""
        return max(self.rate * records, 1.0)

    def batches(self, records: int, stream: Stream) -> Iterator[NDArray[np.intp]]:
        """The positions of the examples of each step; some steps may have none."""
        return DPSGD(1.0, self.rate, self.steps).samples(records, stream)

    def noise(self, stream: Stream, stretch: float = 1.0) -> ScheduledNoise:
        """The noise of all steps, ``stretch`` times what the schedule says."""
        return ScheduledNoise([stretch * multiplier for multiplier in self.multipliers], stream)

    def total_deviation(self) -> float:
        """The deviation of the noise of all steps together in one coordinate, in clips."""
        return math.sqrt(math.fsum(multiplier**2 for multiplier in self.multipliers))

    def parameters(self) -> dict[str, object]:
        """For the statement: the rate and the multipliers, each with the number of steps it holds for."""
        stages = [[multiplier, len(list(same))] for multiplier, same in groupby(self.multipliers)]
        return {"rate": self.rate, "multipliers": stages}


class ScheduledNoise:
    """Adds to the sums of each step, in whole steps of a clip / RADIUS, the noise of its multiplier."""

    def __init__(self, multipliers: Sequence[float], stream: Stream) -> None:
        self._multipliers = iter(multipliers)
        self._stream = stream

    def __call__(self, sums: Sequence[Tensor]) -> tuple[list[Tensor], float]:
        """Noisy sums, float64, and the variance of their noise; both in steps."""
        multiplier = next(self._multipliers, None)
        if multiplier is None:
            raise BadInput("more steps were asked for than the schedule has.")
        scale = math.nextafter(clip_and_multiplier(1.0, multiplier)[1] * RADIUS, math.inf)
        sizes = [total.numel() for total in sums]
        drawn = torch.from_numpy(Rounded(NORMAL, [scale]).draw(self._stream, sum(sizes))[0])
        parts = zip(sums, torch.split(drawn, sizes), strict=True)
        return [total.double() + part.reshape(total.shape) for total, part in parts], scale**2


def factors_of(schedule: str | Sequence[float], steps: int) -> list[float]:
    """One factor a step: of a named schedule, or those that are given.

    A decreasing schedule has half as much noise in its last quarter as in its first, an increasing one
    twice as much.
    """
    if not isinstance(schedule, str):
        given = positives(list(schedule))
        if given is None or len(given) != steps:
            raise BadInput(
                f"the schedule was {shown(schedule)}: {steps} positive numbers, one a step, are needed."
            )
        return [float(factor) for factor in given]
    if schedule not in SCHEDULES:
        raise BadInput(
            f"`schedule` must be one of {', '.join(SCHEDULES)}, or one factor for each of {steps} steps, not "
            f"{shown(schedule)}.",
            parameter="schedule",
        )
    stages = 1 if schedule == "constant" else min(_STAGES, steps)
    sign = -1.0 if schedule == "decreasing" else 1.0
    return [_RATIO ** (sign * (stages * step // steps) / max(stages - 1, 1)) for step in range(steps)]


def _gaussian_guess(mu: float, rate: float, steps: int) -> float:
    """About the multiplier at which sampled steps are one Gaussian of ``mu`` (Bu, Dong, Long & Su 2020)."""
    return 1.0 / math.sqrt(math.log1p((mu / rate) ** 2 / steps))
