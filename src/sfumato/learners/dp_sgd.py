"""DP-SGD: noisy gradient descent on Poisson samples, its accounting, calibration and noise schedules.

Each step takes every example with the same probability, by coins of its own, and uses the examples taken
through a :class:`~sfumato.learners.NoisySum` alone, divided by their *expected* number. How many
were taken, and how long a step took, must not leave.

**Guarantee.** With probability 1 − q an example plays no part in a step; otherwise it adds its own clipped
gradient to the sum. With a null record in its place, which is drawn as it would be and adds nothing (zero-out
neighbours), the sum is the rest alone: one step is the Poisson-sampled Gaussian of dp-accounting, and the
steps compose, each with parameters chosen from earlier ones as one likes. Accounted by privacy loss
distributions, rounded upward.

This needs a model that treats each row of a batch alone. The null record keeps its row, so shapes and places
in a batch stay as they were and the gradients of other examples are the same to the last bit. Add/remove
neighbours are not offered: a batch of another size lets matrix products round other rows differently, and
rate and expected number show how many records there are.

**Calibration** finds the least noise that proves an asked ε with few evaluations, since each costs a
convolution.

**Noise schedules** (:class:`NoiseSchedule`) fix the noise multiplier of every step in advance. Early steps
move far and can bear much noise; late ones settle and want little. This is the baseline *DPA* of CompactDP's
Table 4, "an adaptive noise multiplier scheduling method", of which the paper gives no formula; ours falls or
rises geometrically over a few stages, or follows multipliers that are given.

*Guarantee.* Unit: record, zero-out neighbours. In step t the record is taken with probability q, and if so
moves the sum by at most the clip, under noise of z_t clips: the Poisson-sampled Gaussian of multiplier z_t,
for the reasons given above. The steps are composed as events of different multipliers by dp-accounting's
privacy loss distributions, rounded upward. That is a bound because all z_t are fixed before the first step; a
multiplier chosen after seeing earlier steps would need another theorem, and is not offered. Each stage is a
convolution of its own, hence few stages. At a rate of 1 the steps are one Gaussian with 1/z² = Σ1/z_t²,
whatever the schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
from torch.nn import Parameter

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, NoisySum, clip_and_multiplier
from sfumato.learners.learner import whole_number
from sfumato.mechanisms import delta_between, positive, positives, shown
from sfumato.noise import NORMAL, Keyed, Randomness, Rounded, Stream, coins
from sfumato.privacy import RECORD, Guarantee, Neighbours, gaussian_mu

__all__ = ["DPSGD"]

# The search ends when the multiplier is known to this part of itself.
_CLOSE = 1e-3
_LEAST, _LARGEST = 0.05, 1e4
#: Schedules with a name; others are given as one factor a step.
SCHEDULES = ("constant", "decreasing", "increasing")
_STAGES = 4
_RATIO = 2.0  # of the largest to the smallest multiplier of a named schedule
_MOST_STAGES = 32


def least_noise(
    proven: Callable[[float], float], epsilon: float, delta: float, steps: int, *, guess: float | None = None
) -> float:
    """Return the least multiplier, to a part in a thousand and never less, with ``proven`` ≤ ``epsilon``.

    ``proven`` falls as noise grows. Never less than 0.05, even where ``epsilon`` would allow it. A good
    ``guess`` saves questions and changes nothing else; ``delta`` and ``steps`` are named in the refusal.
    """
    widening = 2.0 if guess is None else 1.1
    low = high = 1.0 if guess is None else min(max(guess, _LEAST), _LARGEST)
    at_low = at_high = proven(high)
    while at_high > epsilon:
        low, at_low, high = high, at_high, widening * high
        widening = 2.0 if widening > 1.3 else widening**2
        if high > _LARGEST:
            raise BadInput(
                f"`epsilon` {epsilon:g} at delta {delta:g} needs more than {_LARGEST:g} times the clip as "
                f"noise over {steps} steps: take fewer steps, or a larger epsilon.",
                parameter="epsilon",
            )
        at_high = proven(high)
    while at_low <= epsilon and low > _LEAST:
        high, at_high, low = low, at_low, max(low / widening, _LEAST)
        widening = 2.0 if widening > 1.3 else widening**2
        at_low = proven(low)
    if at_low <= epsilon:
        high = low
    turn = 0
    while high > low * (1.0 + _CLOSE):
        middle = _between(low, at_low, high, at_high, epsilon, turn)
        turn += 1
        if (at_middle := proven(middle)) <= epsilon:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high


def _between(low: float, at_low: float, high: float, at_high: float, epsilon: float, turn: int) -> float:
    """Return where log ε, taken as linear in log noise, meets ``epsilon``; a hair to each side.

    Steps to alternate sides close in on it from both; every third step halves the range, whatever ε does.
    """
    if turn % 3 == 2 or not 0.0 < at_high < at_low < math.inf:
        return math.sqrt(low * high)
    share = math.log(at_low / epsilon) / math.log(at_low / at_high)
    guess = low * (high / low) ** share * (1.0 + _CLOSE / 3.0) ** (1 if turn % 3 else -1)
    return float(min(max(guess, low * (1.0 + _CLOSE / 3.0)), high / (1.0 + _CLOSE / 3.0)))


@dataclass(frozen=True)
class DPSGD:
    """``steps`` noisy steps with ``multiplier`` × ``clip`` of noise, each example taken at ``rate``."""

    multiplier: float
    rate: float
    steps: int
    clip: float = 1.0

    def __post_init__(self) -> None:
        clip_and_multiplier(self.clip, self.multiplier)
        check_sampling(self.rate, self.steps)

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, *, rate: float, steps: int, clip: float = 1.0) -> DPSGD:
        """Return the least noise, to a part in a thousand, never less, that proves ``epsilon`` at ``delta``.

        Never less than a twentieth of the clip, even where ``epsilon`` would allow it.
        """
        epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
        check_sampling(rate, steps)

        def proven(multiplier: float) -> float:
            return cls(multiplier, rate, steps, clip).guarantee(delta).epsilon()

        return cls(least_noise(proven, epsilon, delta, steps), rate, steps, clip)

    def guarantee(self, delta: float) -> Guarantee:
        """Return that of one record; a pure function of the parameters."""
        return Guarantee(
            unit=RECORD,
            neighbours=Neighbours.ZERO_OUT,
            event=SelfComposedDpEvent(
                PoissonSampledDpEvent(self.rate, GaussianDpEvent(self.multiplier)), self.steps
            ),
            theorem="DP-SGD: Poisson-sampled Gaussian, composed over steps",
            at_delta=delta_between(delta),
        )

    def samples(self, records: int, stream: Stream) -> Iterator[NDArray[np.intp]]:
        """Return the positions of the examples of each step; some steps may have none."""
        for _ in range(self.steps):
            yield self.sample(records, stream)

    def sample(self, records: int, stream: Stream) -> NDArray[np.intp]:
        """Return the positions of the examples of one step; there may be none."""
        threshold = min(math.floor(self.rate * 2.0**64), 2**64 - 1)
        return np.flatnonzero(coins(stream, threshold, records))

    def noisy(self, randomness: Randomness) -> NoisySum:
        """Return the noisy sum of the gradients of one run; its noise must be fresh in each."""
        if isinstance(randomness, Keyed):
            # Other gradients under the same noise would give away by how much they differ.
            raise BadInput("gradient noise is drawn afresh: keyed noise belongs to the content of records.")
        return NoisySum(self.clip, self.multiplier, randomness.stream(b"gradient noise"))

    def set_gradients(
        self, parameters: Sequence[Parameter], noisy: NoisySum, records: int, taken: int
    ) -> None:
        """Give each parameter its noisy mean gradient, from the ``grad_sample`` that Opacus left on it.

        ``records`` is the number of all examples, which must be public here, ``taken`` that of this step.
        """
        self.take(parameters, self.noised(parameters, noisy, taken), records)

    def noised(self, parameters: Sequence[Parameter], noisy: NoisySum, taken: int) -> NDArray[np.float32]:
        """Return the noisy sum of the gradients of ``taken`` examples, of all parameters as one vector."""
        shapes = [parameter.shape for parameter in parameters]
        sums = noisy(example_gradients(parameters, taken) if taken else [], shapes)
        return np.concatenate([total.reshape(-1).numpy() for total in sums])

    def take(self, parameters: Sequence[Parameter], total: NDArray[np.float32], records: int) -> None:
        """Give each parameter its part of the noisy sum ``total``, over the expected number of examples."""
        scale = 1.0 / max(self.rate * records, 1.0)
        parts = torch.split(torch.from_numpy(total), [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.reshape(parameter.shape).to(parameter) * scale
            parameter.grad_sample = None  # type: ignore[attr-defined]


def calibrated_multiplier(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """Return the multiplier of :meth:`DPSGD.calibrated`, found once, since finding it takes a while."""
    check_sampling(rate, steps)
    return _calibrated(positive("epsilon", epsilon), delta_between(delta), float(rate), steps)


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, rate: float, steps: int) -> float:
    return DPSGD.calibrated(epsilon, delta, rate=rate, steps=steps).multiplier


def example_gradients(parameters: Sequence[Parameter], taken: int) -> list[Tensor]:
    """Return the gradients (``taken``, …) of single examples that Opacus left on each parameter."""
    return [_of_examples(parameter, taken) for parameter in parameters]


def _of_examples(parameter: Parameter, taken: int) -> Tensor:
    gradient = getattr(parameter, "grad_sample", None)
    if not isinstance(gradient, Tensor):
        raise BadInput(
            "a parameter has no gradients of single examples from one backward pass: wrap the model by "
            "Opacus, and set gradients after each pass."
        )
    if gradient.shape != (taken, *parameter.shape):
        # How many examples were taken must not leave, not even in a sentence.
        raise BadInput(
            f"a parameter of shape {tuple(parameter.shape)} has gradients that are not one for each example: "
            "it is used without them, as positions are, or more than once; freeze it or leave it out."
        )
    return gradient


def check_sampling(rate: float, steps: int) -> None:
    """Refuse a rate or a number of steps that cannot be sampled with."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
        raise BadInput(f"`rate` was {rate!r}: it must lie above 0 and be at most 1.", parameter="rate")
    whole_number("steps", steps)


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
        """Return the least common multiple of ``factors``, one a step, that proves ``epsilon`` at δ."""
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
        """The number of steps."""
        return len(self.multipliers)

    def guarantee(self, delta: float) -> Guarantee:
        """Return that of one record; a pure function of the parameters."""
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
        """Return how many of ``records`` are taken in a step, on average; at least 1."""
        return max(self.rate * records, 1.0)

    def batches(self, records: int, stream: Stream) -> Iterator[NDArray[np.intp]]:
        """Return the positions of the examples of each step; some steps may have none."""
        return DPSGD(1.0, self.rate, self.steps).samples(records, stream)

    def noise(self, stream: Stream, stretch: float = 1.0) -> ScheduledNoise:
        """Return the noise of all steps, ``stretch`` times what the schedule says."""
        return ScheduledNoise([stretch * multiplier for multiplier in self.multipliers], stream)

    def total_deviation(self) -> float:
        """Return the deviation of the noise of all steps together in one coordinate, in clips."""
        return math.sqrt(math.fsum(multiplier**2 for multiplier in self.multipliers))

    def parameters(self) -> dict[str, object]:
        """Return for the statement the rate and the multipliers, each with its number of steps."""
        stages = [[multiplier, len(list(same))] for multiplier, same in groupby(self.multipliers)]
        return {"rate": self.rate, "multipliers": stages}


class ScheduledNoise:
    """Adds to the sums of each step, in whole steps of a clip / RADIUS, the noise of its multiplier."""

    def __init__(self, multipliers: Sequence[float], stream: Stream) -> None:
        self._multipliers = iter(multipliers)
        self._stream = stream

    def __call__(self, sums: Sequence[Tensor]) -> tuple[list[Tensor], float]:
        """Return noisy sums, float64, and the variance of their noise; both in steps."""
        multiplier = next(self._multipliers, None)
        if multiplier is None:
            raise BadInput("more steps were asked for than the schedule has.")
        scale = math.nextafter(clip_and_multiplier(1.0, multiplier)[1] * RADIUS, math.inf)
        sizes = [total.numel() for total in sums]
        drawn = torch.from_numpy(Rounded(NORMAL, [scale]).draw(self._stream, sum(sizes))[0])
        parts = zip(sums, torch.split(drawn, sizes), strict=True)
        return [total.double() + part.reshape(total.shape) for total, part in parts], scale**2


def factors_of(schedule: str | Sequence[float], steps: int) -> list[float]:
    """Return one factor a step: of a named schedule, or those that are given.

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
    """Estimate the multiplier at which sampled steps are a Gaussian of ``mu`` (Bu, Dong, Long & Su 2020)."""
    return 1.0 / math.sqrt(math.log1p((mu / rate) ** 2 / steps))
