"""One run of noisy training: gradients of single records by blocks, exact clipped sums, noise, a step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module, Parameter

from sfumato.learners.correlated_noise import CorrelatedNoise, StepsInTurn
from sfumato.learners.layer_clipping import layers_of
from sfumato.learners.layer_quantiles import LayerQuantileSum
from sfumato.learners.noise_schedule import NoiseSchedule, ScheduledNoise
from sfumato.learners.noisy_descent import told
from sfumato.learners.noisy_sum import RADIUS, ClippedSum
from sfumato.learners.private_adam import PrivateAdam
from sfumato.learners.quantile_clipping import QuantileSum, gradient_stretch
from sfumato.learners.record_gradients import RecordGradients
from sfumato.learners.training_parameters import Training
from sfumato.noise import Randomness

__all__ = ["train_privately"]

# Gradients of single examples that are held at once, in numbers (float32).
_HELD = 1 << 25
# Clips that move with what was released, and take a share of each step's budget.
_Adaptive = QuantileSum | LayerQuantileSum


def train_privately(
    model: Module,
    gradients: RecordGradients,
    inputs: Tensor,
    labels: Tensor,
    training: Training,
    plan: NoiseSchedule | StepsInTurn,
    randomness: Randomness,
    report: Callable[[str, float], None] | None = None,
) -> None:
    """Train ``model`` in place by the steps of ``plan``; the data is used through noisy sums alone.

    Only ``gradients``, those of ``model``, are evaluated: its own code does not run here.
    """
    parameters = gradients.parameters
    records = len(inputs)
    expected = plan.expected(records)
    clipped = training.clipped(expected, layers_of(model), randomness.stream(b"clipping bits"))
    noise = _noise(plan, clipped, randomness)
    move = _mover(training, parameters)
    block = max(1, _HELD // sum(part.numel() for part in parameters))
    for step, taken in enumerate(plan.batches(records, randomness.stream(b"samples"))):
        sums = [torch.zeros(part.shape, dtype=torch.float64) for part in parameters]
        for start in range(0, len(taken), block):
            _add(sums, clipped, gradients, inputs, labels, taken[start : start + block])
        noisy, variance = noise(sums)
        scale = clipped.clip / RADIUS / expected
        if isinstance(clipped, _Adaptive) and isinstance(plan, NoiseSchedule):
            clipped.advance(plan.multipliers[step])
        move([total * scale for total in noisy], variance * scale**2)
        if report is not None and told(step, plan.steps):
            report("noisy steps", (step + 1) / plan.steps)
    model.requires_grad_(False).eval()


def _noise(
    plan: NoiseSchedule | StepsInTurn, clipped: ClippedSum, randomness: Randomness
) -> ScheduledNoise | CorrelatedNoise:
    stream = randomness.stream(b"gradient noise")
    if isinstance(clipped, _Adaptive) and isinstance(plan, NoiseSchedule):
        return plan.noise(stream, gradient_stretch(clipped.share))
    return plan.noise(stream)


def _add(
    sums: list[Tensor],
    clipped: ClippedSum,
    gradients: RecordGradients,
    inputs: Tensor,
    labels: Tensor,
    taken: NDArray[np.intp],
) -> None:
    """Add to ``sums`` the clipped gradients of the examples ``taken``."""
    for total, part in zip(sums, clipped.exact(gradients(inputs[taken], labels[taken])), strict=True):
        total += part


def _mover(training: Training, parameters: list[Parameter]) -> Callable[[list[Tensor], float], None]:
    """What takes noisy gradients, and the variance of their noise, to a step of the parameters."""
    if training.optimiser == "adam":
        return PrivateAdam(parameters, pace=training.pace_used, unbiased=training.unbiased).step
    descent = torch.optim.SGD(parameters, lr=training.pace_used, momentum=training.momentum)

    def step(gradients: list[Tensor], variance: float) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.to(parameter)
        descent.step()
        descent.zero_grad()

    return step
