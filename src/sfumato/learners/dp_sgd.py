"""Noisy gradient descent on Poisson samples: what is drawn, and what is proven of all steps together.

Each step takes every example with the same probability, by coins of its own, and uses the examples taken
through a :class:`~sfumato.learners.noisy_sum.NoisySum` alone, divided by their *expected* number. How many
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
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Parameter

from sfumato.errors import BadInput
from sfumato.learners.least_noise import least_noise
from sfumato.learners.noisy_sum import NoisySum, clip_and_multiplier
from sfumato.mechanisms.parameters import delta_between, positive
from sfumato.noise import Keyed, Randomness, Stream, coins
from sfumato.privacy import RECORD, Guarantee, Neighbours

__all__ = ["DPSGD", "calibrated_multiplier", "check_sampling", "example_gradients"]


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
        """The least noise, to a part in a thousand and never less, that proves ``epsilon`` at ``delta``.

        Never less than a twentieth of the clip, even where ``epsilon`` would allow it.
        """
        epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
        check_sampling(rate, steps)

        def proven(multiplier: float) -> float:
            return cls(multiplier, rate, steps, clip).guarantee(delta).epsilon()

        return cls(least_noise(proven, epsilon, delta, steps), rate, steps, clip)

    def guarantee(self, delta: float) -> Guarantee:
        """For one record; a pure function of the parameters."""
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
        """The positions of the examples of each step; some steps may have none."""
        threshold = min(math.floor(self.rate * 2.0**64), 2**64 - 1)
        for _ in range(self.steps):
            yield np.flatnonzero(coins(stream, threshold, records))

    def noisy(self, randomness: Randomness) -> NoisySum:
        """What sums the gradients of one run, with noise that must be fresh in each."""
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
        shapes = [parameter.shape for parameter in parameters]
        gradients = example_gradients(parameters, taken) if taken else []
        scale = 1.0 / max(self.rate * records, 1.0)
        for parameter, total in zip(parameters, noisy(gradients, shapes), strict=True):
            parameter.grad = total.to(parameter) * scale
            parameter.grad_sample = None  # type: ignore[attr-defined]


def calibrated_multiplier(epsilon: float, delta: float, *, rate: float, steps: int) -> float:
    """The multiplier of :meth:`DPSGD.calibrated`, found once, since finding it takes a while."""
    check_sampling(rate, steps)
    return _calibrated(positive("epsilon", epsilon), delta_between(delta), float(rate), steps)


@lru_cache(maxsize=64)
def _calibrated(epsilon: float, delta: float, rate: float, steps: int) -> float:
    return DPSGD.calibrated(epsilon, delta, rate=rate, steps=steps).multiplier


def example_gradients(parameters: Sequence[Parameter], taken: int) -> list[Tensor]:
    """The gradients (``taken``, …) of single examples that Opacus left on each parameter."""
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
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise BadInput(
            f"`steps` was {steps!r}: a whole number of steps, 1 or more, is needed.", parameter="steps"
        )
