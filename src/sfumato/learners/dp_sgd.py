"""DP-SGD: the loop of noisy steps, Poisson samples with their accounting and calibration, noise schedules.

:meth:`NoisySteps.train` is the loop of everything that learns by gradients of single examples. A step reads
the private records in one place: it takes a batch, sums clipped gradients exactly
(:class:`~sfumato.learners.gradient_clipping.ClippedSum`), adds noise, and hands the result to
:class:`~sfumato.noise.NoisedSums`. All that follows, optimisers and averages included, is a function of these
sums, so a run that was interrupted is resumed from those that were kept. Sums are divided by the *expected*
number of examples. How many were taken, and how long a step took, must not leave.

**Guarantee** of :class:`DPSGD`. Unit: record, zero-out neighbours. Each step takes every example with the
same probability q, by coins of its own. With probability 1 − q an example plays no part in step t; otherwise
it moves the sum by at most the clipping norm, under noise of z_t clipping norms. The noise is real Gaussian
noise rounded to the integer grid of the sum, which is post-processing of the real mechanism. With a null
record in its place, which is drawn as it would be and adds nothing, the sum is the rest alone: one step is
the Poisson-sampled Gaussian of multiplier z_t, and the steps compose, each with weights chosen from earlier
ones as one likes. Accounted by dp-accounting's privacy loss distributions, rounded upward. That is a bound
because all z_t are fixed before the first step; a multiplier chosen after seeing earlier steps would need
another theorem, and is not offered. At a rate of 1 the steps are one Gaussian with 1/z² = Σ1/z_t².

This needs gradients that are functions of one example each. The null record keeps its row, so shapes and
places in a batch stay as they were and the gradients of other examples are the same to the last bit.
Add/remove neighbours are not offered: a batch of another size lets matrix products round other rows
differently, and rate and expected number show how many records there are.

**Noise schedules** give each step a factor of its own. Early steps move far and can bear much noise; late
ones settle and want little. This is the baseline *DPA* of CompactDP's Table 4, "an adaptive noise multiplier
scheduling method", of which the paper gives no formula; ours falls or rises geometrically over a few stages,
or follows factors that are given. Each stage is a convolution of its own in the accounting, hence few stages.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import groupby
from typing import Any, Protocol

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
from scipy.optimize import brentq
from torch import Tensor
from torch.nn import Parameter

from sfumato.errors import BadInput
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, checked_multiplier
from sfumato.learners.learner import whole_number
from sfumato.mechanisms import delta_between, positive, positives, shown
from sfumato.noise import NORMAL, NoisedSums, Randomness, Rounded, Stream, coins
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

Array = NDArray[np.float64]
Positions = NDArray[np.intp]
#: Returns the positions of the examples of a step.
Batches = Callable[[int, Randomness], Positions]
#: Adds the noise of a step to a flat sum, both in whole steps of the clipping norm over ``RADIUS``.
Noise = Callable[[int, Array, Randomness], Array]
#: Yields, block by block, the gradients (n, …) of single examples in each parameter.
Gradients = Callable[[Positions, Randomness], Iterable[Sequence[Tensor]]]


class Stateful(Protocol):
    """A network or an optimiser."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that it has learned."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take back what :meth:`state_dict` returned."""


class NoisySteps(ABC):
    """``steps`` steps that read the records through noisy sums of clipped gradients alone."""

    steps: int
    clip: float = 1.0

    @abstractmethod
    def guarantee(self, delta: float) -> Guarantee:
        """Return that of one record for all steps together; a pure function of the parameters."""

    @abstractmethod
    def expected(self, records: int) -> float:
        """Return how many of ``records`` a step uses on average; at least 1."""

    @abstractmethod
    def batches(self, records: int, stream: Stream) -> Batches:
        """Return the choice of batches of one run; ``stream`` is for what is drawn once."""

    @abstractmethod
    def noise(self, clipped: ClippedSum) -> Noise:
        """Return the noise of one run on the sums of ``clipped``."""

    @abstractmethod
    def variances(self) -> Array:
        """Return the variance of each step's noise in one coordinate, in squared clipping norms, (steps,)."""

    @abstractmethod
    def total_deviation(self) -> float:
        """Return the deviation of the noise of all steps together in one coordinate, in clipping norms."""

    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """Return the parameters for the statement."""

    def train(
        self,
        parameters: Sequence[Parameter],
        records: int,
        gradients: Gradients,
        move: Callable[[float], None],
        sums: NoisedSums,
        *,
        clipped: ClippedSum | None = None,
        learning: Sequence[Stateful] = (),
        report: Callable[[float], None] | None = None,
    ) -> None:
        """Take all steps on ``parameters`` for ``records`` records.

        ``gradients`` computes those of a step's examples. ``move`` is called when each parameter has its
        noisy mean gradient, with the variance of the noise in each of its coordinates. ``clipped`` says how
        gradients are clipped, by default to ``clip``. ``learning`` is all that the steps change: it is kept
        with ``sums``, and restored where they go on from a kept state; clipping norms that adapt and earlier
        sums of correlated noise are not, so runs with these are not resumed. ``report`` gets the share done.
        """
        if sums.state is not None:
            states = torch.load(io.BytesIO(sums.state), weights_only=True)
            for learned, kept in zip(learning, states, strict=True):
                learned.load_state_dict(kept)
        clipped = clipped or ClippedSum(self.clip)
        batch, noise = self.batches(records, sums.stream(b"batches")), self.noise(clipped)
        expected, variances = self.expected(records), self.variances() * clipped.stretch**2
        sizes = [parameter.numel() for parameter in parameters]

        def draw(step: int, randomness: Randomness) -> NDArray[Any]:
            totals = [torch.zeros(parameter.shape, dtype=torch.float64) for parameter in parameters]
            scale = clipped.clip / RADIUS
            for block in gradients(batch(step, randomness), randomness):
                for total, found in zip(totals, clipped.exact(block), strict=True):
                    total += found
            flat = np.concatenate([total.numpy().ravel() for total in totals])
            return np.asarray(noise(step, flat, randomness) * scale, dtype=np.float32)

        def state() -> bytes:
            file = io.BytesIO()
            torch.save([learned.state_dict() for learned in learning], file)
            return file.getvalue()

        for step in range(sums.count, self.steps):
            clip = clipped.clip
            mean = torch.from_numpy(sums(partial(draw, step))) / expected
            for parameter, part in zip(parameters, torch.split(mean, sizes), strict=True):
                parameter.grad = part.reshape(parameter.shape).to(parameter)
            move(float(variances[step]) * (clip / expected) ** 2)
            sums.save(state)
            if report is not None and is_reported(step, self.steps):
                report((step + 1) / self.steps)


def is_reported(step: int, steps: int) -> bool:
    """Return whether ``step`` is reported: twenty reports, so that no clock shows a single sample."""
    return (step + 1) * 20 // steps > step * 20 // steps


@dataclass(frozen=True)
class DPSGD(NoisySteps):
    """``steps`` noisy steps with ``multiplier`` × ``clip`` of noise, each example taken at ``rate``.

    With ``factors``, one a step, step t has ``factors[t]`` times that noise.
    """

    multiplier: float
    rate: float
    steps: int
    clip: float = 1.0
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        ClippedSum(self.clip)
        rate = self.rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
            raise BadInput(f"`rate` was {rate!r}: it must lie above 0 and be at most 1.", parameter="rate")
        whole_number("steps", self.steps)
        if self.factors and len(self.factors) != self.steps:
            raise BadInput(
                f"the schedule has {len(self.factors)} factors: {self.steps}, one a step, are needed."
            )
        checked_multiplier(self.multiplier)
        for multiplier in set(self.multipliers):
            checked_multiplier(multiplier)

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        *,
        rate: float,
        steps: int,
        clip: float = 1.0,
        factors: Sequence[float] = (),
    ) -> DPSGD:
        """Return the least noise, to a part in a thousand, never less, that proves ``epsilon`` at ``delta``.

        Never less than a twentieth of the clipping norm, even where ``epsilon`` would allow it.
        """
        plain = cls(1.0, rate, steps, clip, tuple(factors))
        shape = _normalised(plain.factors)
        if rate < 1.0 and len(set(shape)) > _MOST_STAGES:
            raise BadInput(
                f"the schedule has {len(set(shape))} different multipliers: on samples at most "
                f"{_MOST_STAGES} can be accounted for in reasonable time."
            )
        asked = positive("epsilon", epsilon), delta_between(delta)
        return cls(_calibrated(*asked, float(rate), steps, shape), rate, steps, clip, shape)

    @property
    def multipliers(self) -> tuple[float, ...]:
        """The noise of each step over its clipping norm."""
        return tuple(self.multiplier * factor for factor in self.factors) or (self.multiplier,) * self.steps

    def guarantee(self, delta: float) -> Guarantee:
        """Return that of one record for all steps together; a pure function of the parameters."""
        multipliers = self.multipliers
        events: list[DpEvent] = [
            SelfComposedDpEvent(PoissonSampledDpEvent(self.rate, GaussianDpEvent(z)), multipliers.count(z))
            for z in sorted(set(multipliers))
        ]
        return Guarantee(
            unit=RECORD,
            neighbours=Neighbours.ZERO_OUT,
            event=events[0] if len(events) == 1 else ComposedDpEvent(events),
            theorem="DP-SGD: Poisson-sampled Gaussian, composed over steps",
            at_delta=delta_between(delta),
        )

    def expected(self, records: int) -> float:
        """Return how many of ``records`` a step takes on average; at least 1."""
        return max(self.rate * records, 1.0)

    def sample(self, records: int, stream: Stream) -> Positions:
        """Return the positions of the examples of one step; there may be none."""
        threshold = min(math.floor(self.rate * 2.0**64), 2**64 - 1)
        return np.flatnonzero(coins(stream, threshold, records))

    def batches(self, records: int, stream: Stream) -> Batches:
        """Return a new sample for each step."""
        return lambda _, randomness: self.sample(records, randomness.stream(b"samples"))

    def noise(self, clipped: ClippedSum) -> Noise:
        """Return independent noise; where clipping norms adapt, a step releases their counts too."""
        multipliers = self.multipliers
        checked_multiplier(max(multipliers) * clipped.stretch)

        def noised(step: int, total: Array, randomness: Randomness) -> Array:
            scale = math.nextafter(multipliers[step] * clipped.stretch * RADIUS, math.inf)
            drawn = Rounded(NORMAL, [scale]).draw(randomness.stream(b"gradient noise"), total.size)[0]
            clipped.advance(multipliers[step], randomness.stream(b"clipping counts"))
            return np.asarray(total + drawn)

        return noised

    def variances(self) -> Array:
        """Return the squares of the multipliers."""
        return np.square(self.multipliers)

    def total_deviation(self) -> float:
        """Return the deviation of the noise of all steps together in one coordinate, in clipping norms."""
        return math.sqrt(float(self.variances().sum()))

    def parameters(self) -> dict[str, object]:
        """Return for the statement the rate and the multipliers, each with its number of steps."""
        stages = [[multiplier, len(list(same))] for multiplier, same in groupby(self.multipliers)]
        return {"rate": self.rate, "multipliers": stages}


def _normalised(factors: tuple[float, ...]) -> tuple[float, ...]:
    """Return ``factors`` in units of the one that counts once in the mean of inverse squares."""
    if not factors:
        return ()
    found = np.array(factors)
    return tuple((found * math.sqrt(float(np.mean(found**-2.0)))).tolist())


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, rate: float, steps: int, factors: tuple[float, ...]) -> float:
    """Return the multiplier of :meth:`DPSGD.calibrated`; finding it takes a while."""

    def proven(multiplier: float) -> float:
        return DPSGD(multiplier, rate, steps, 1.0, factors).guarantee(delta).epsilon()

    # At this multiplier sampled steps are about one Gaussian (Bu, Dong, Long & Su 2020).
    guess = 1.0 / math.sqrt(math.log1p((gaussian_mu(epsilon, delta) / rate) ** 2 / steps))
    try:
        return find_least_noise(proven, epsilon, guess)
    except OverflowError:
        raise BadInput(
            f"`epsilon` {epsilon:g} at delta {delta:g} needs more than {_LARGEST:g} times the clipping norm "
            f"as noise over {steps} steps: take fewer steps, or a larger epsilon.",
            parameter="epsilon",
        ) from None


def find_least_noise(proven: Callable[[float], float], epsilon: float, guess: float) -> float:
    """Return the least multiplier, to a part in a thousand and never less, with ``proven`` ≤ ``epsilon``.

    ``proven`` falls as noise grows, and is slow; a good ``guess`` saves calls and changes nothing else.
    Never less than 0.05, even where ``epsilon`` would allow it. Raises OverflowError above 10,000.
    """

    @cache
    def excess(logarithm: float) -> float:
        return math.log(max(proven(math.exp(logarithm)), 1e-300) / epsilon)

    least, width = math.log(_LEAST), 0.1
    low = high = min(max(math.log(guess), least), math.log(_LARGEST))
    while excess(high) > 0.0:
        if high >= math.log(_LARGEST):
            raise OverflowError
        low, high, width = high, min(high + width, math.log(_LARGEST)), 2.0 * width
    while low > least and excess(low) <= 0.0:
        low, high, width = max(low - width, least), low, 2.0 * width
    if excess(low) <= 0.0:
        return _LEAST
    found = brentq(excess, low, high, xtol=_CLOSE / 4.0) + _CLOSE / 4.0
    while excess(found) > 0.0:
        found += _CLOSE / 8.0
    return math.exp(found)


def parse_schedule(schedule: str | Sequence[float], steps: int) -> tuple[float, ...]:
    """Return one factor a step: of a named schedule, or those that are given; none if it is constant.

    A decreasing schedule has half as much noise in its last quarter as in its first, an increasing one
    twice as much.
    """
    if not isinstance(schedule, str):
        given = positives(list(schedule))
        if given is None or len(given) != steps:
            raise BadInput(
                f"the schedule was {shown(schedule)}: {steps} positive numbers, one a step, are needed."
            )
        return tuple(given.tolist())
    if schedule not in SCHEDULES:
        raise BadInput(
            f"`schedule` must be one of {', '.join(SCHEDULES)}, or one factor for each of {steps} steps, not "
            f"{shown(schedule)}.",
            parameter="schedule",
        )
    if schedule == "constant":
        return ()
    stages = min(_STAGES, steps)
    sign = -1.0 if schedule == "decreasing" else 1.0
    return tuple(_RATIO ** (sign * (stages * step // steps) / max(stages - 1, 1)) for step in range(steps))
