"""Training with noise: its choices and what they prove, one run of noisy steps, and Adam on noisy gradients.

``Training`` holds all choices; none of them is read off the data. A run takes gradients of single records by
blocks, sums them clipped and exactly, adds noise, and takes a step.

**Adam.** Adam divides by the root of a running mean of squared gradients. Noise of variance s² in every
coordinate adds s² to that mean, so that all coordinates look alike and Adam turns into gradient descent. The
variance is public; its own running mean can be subtracted (Tang, Shpilevskiy & Lécuyer 2024, "DP-AdamBC").
This is the baseline *DPAdam* of CompactDP's Table 4.

**Guarantee.** That of the noisy gradients, which are all it sees: Adam is post-processing of them, and of the
public variance of their noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module, Parameter

from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import (
    CorrelatedNoise,
    CorrelatedSteps,
    Factor,
    FactoredSteps,
    Momentum,
    StepsInTurn,
)
from sfumato.learners.dp_sgd import NoiseSchedule, ScheduledNoise, factors_of
from sfumato.learners.gradient_clipping import (
    RADIUS,
    ClippedSum,
    LayerQuantileSum,
    LayerSum,
    NormalisedSum,
    QuantileSum,
    gradient_stretch,
    layers_of,
)
from sfumato.learners.learner import whole_number
from sfumato.learners.private_softmax import told
from sfumato.learners.record_gradients import RecordGradients
from sfumato.mechanisms import delta_between, noise_multiplier, one_of, positive, share, shown
from sfumato.noise import Randomness, Stream

OPTIMISERS = ("sgd", "adam")
CLIPPINGS = ("flat", "automatic", "quantile", "layers", "layer-quantiles")
NOISES = ("independent", "correlated")
_PACE = {"sgd": 0.5, "adam": 0.01}
# Gradients of single examples that are held at once, in numbers (float32).
_HELD = 1 << 25
# Clips that move with what was released, and take a share of each step's budget.
_Adaptive = QuantileSum | LayerQuantileSum


class PrivateAdam:
    """Steps of size ``pace`` for ``parameters``, from noisy gradients and the variance of their noise.

    With ``unbiased`` the noise's part of the second moment is subtracted; what is left is at least
    ``floor``² times that part, since an estimate from few noisy steps may fall below 0.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        pace: float = 1e-2,
        betas: tuple[float, float] = (0.9, 0.999),
        unbiased: bool = False,
        floor: float = 0.3,
        least: float = 1e-8,
    ) -> None:
        self.parameters = list(parameters)
        self.pace, self.floor, self.least = (
            positive("pace", pace),
            positive("floor", floor),
            positive("least", least),
        )
        self.betas = (share("betas", betas[0]), share("betas", betas[1]))
        if max(self.betas) >= 1.0:
            raise BadInput(f"`betas` were {shown(betas)}: each must be below 1.", parameter="betas")
        self.unbiased = bool(unbiased)
        self._first = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._second = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._noise, self._steps = 0.0, 0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], variance: float) -> None:
        """Move each parameter by its noisy gradient, each coordinate of which has noise of ``variance``."""
        slow, slower = self.betas
        self._steps += 1
        self._noise = slower * self._noise + (1.0 - slower) * variance
        begun_first, begun_second = 1.0 - slow**self._steps, 1.0 - slower**self._steps
        noise = self._noise / begun_second
        for part, gradient, first, second in zip(
            self.parameters, gradients, self._first, self._second, strict=True
        ):
            found = gradient.double()
            first.mul_(slow).add_(found, alpha=1.0 - slow)
            second.mul_(slower).addcmul_(found, found, value=1.0 - slower)
            size = second / begun_second
            if self.unbiased:
                size = (size - noise).clamp_min(self.floor**2 * noise)
            move = (first / begun_first) / (size.sqrt() + self.least)
            part.sub_((self.pace * move).to(part))


_BATCH, _EPOCHS, _FEWEST = 1024, 10, 60


@dataclass(frozen=True, kw_only=True)
class Training:
    """The choices of :func:`sfumato.learners.private_fit.fit_private`, which says what each is."""

    optimiser: str = "sgd"
    clipping: str = "flat"
    noise: str = "independent"
    schedule: str | Sequence[float] = "constant"
    batch: int | None = None
    steps: int | None = None
    pace: float | None = None
    momentum: float = 0.9
    unbiased: bool = False
    clip: float = 1.0
    gamma: float = 0.01
    quantile: float = 0.5
    share: float = 0.01
    layer_clips: Sequence[float] | None = None
    bands: int | None = None
    factor: Factor | Momentum | None = None

    def __post_init__(self) -> None:
        for name in ("schedule", "layer_clips"):
            value = getattr(self, name)
            if isinstance(value, list | np.ndarray):
                object.__setattr__(self, name, tuple(value))
        one_of("optimiser", self.optimiser, OPTIMISERS)
        one_of("clipping", self.clipping, CLIPPINGS)
        one_of("noise", self.noise, NOISES)
        for name in ("batch", "steps", "bands"):
            if (value := getattr(self, name)) is not None:
                whole_number(name, value)
        if self.pace is not None:
            positive("pace", self.pace)
        if share("momentum", self.momentum) >= 1.0:
            raise BadInput(
                f"`momentum` was {shown(self.momentum)}: it must be below 1.", parameter="momentum"
            )
        if not isinstance(self.unbiased, bool):
            raise BadInput(
                f"`unbiased` was {shown(self.unbiased)}: True or False is needed.", parameter="unbiased"
            )
        if self.noise == "correlated" and self.clipping in ("quantile", "layer-quantiles"):
            raise BadInput(
                f"correlated noise was asked for with clipping={self.clipping!r}: its proof needs the same "
                "clips in all steps; use flat, automatic or layers."
            )
        if self.noise == "correlated" and self.schedule != "constant":
            raise BadInput(
                "correlated noise was asked for with a schedule: schedules are for independent noise."
            )
        if self.noise == "independent" and self.bands is not None:
            raise BadInput(
                "`bands` were given with independent noise: they belong to noise='correlated'.",
                parameter="bands",
            )
        if self.noise == "independent" and self.factor is not None:
            raise BadInput("a factor was given with independent noise: it belongs to noise='correlated'.")
        if self.bands is not None and self.factor is not None:
            raise BadInput(
                "`bands` were given with a factor: they are those of the square root.", parameter="bands"
            )
        if self.clipping not in ("layers", "layer-quantiles") and self.layer_clips is not None:
            raise BadInput(
                "`layer_clips` were given without clipping='layers' or 'layer-quantiles'.",
                parameter="layer_clips",
            )

    def batch_for(self, records: int) -> int:
        """Return how many examples a step is expected to use."""
        return min(records, _BATCH if self.batch is None else self.batch)

    def steps_for(self, records: int) -> int:
        """Return the number of steps; by default ten passes over the data, and sixty at least."""
        if self.steps is not None:
            return self.steps
        return max(_FEWEST, math.ceil(_EPOCHS * records / self.batch_for(records)))

    @property
    def pace_used(self) -> float:
        """The size of a step; by default that of the optimiser."""
        return _PACE[self.optimiser] if self.pace is None else float(self.pace)

    def planned(self, records: int, epsilon: float, delta: float) -> NoiseSchedule | StepsInTurn:
        """Return the steps, with the least noise that proves ``epsilon`` at ``delta``; takes some seconds."""
        epsilon, delta = positive("epsilon", epsilon), delta_between(delta)
        batch, steps = self.batch_for(records), self.steps_for(records)
        if self.noise == "correlated":
            period = math.ceil(records / batch)
            multiplier = noise_multiplier(epsilon, delta)
            if self.factor is not None:
                return FactoredSteps(multiplier, steps, period, self.factor)
            if self.bands is None:
                return CorrelatedSteps.quietest(multiplier, steps, period)
            return CorrelatedSteps(multiplier, steps, period, self.bands)
        factors = factors_of(self.schedule, steps)
        return NoiseSchedule.calibrated(epsilon, delta, rate=batch / records, factors=factors)

    def clipped(self, expected: float, layers: Sequence[Sequence[int]], stream: Stream) -> ClippedSum:
        """Return the sum of the gradients of a step; ``stream`` is for the bits of quantile clipping."""
        if self.clipping == "automatic":
            return NormalisedSum(self.gamma)
        if self.clipping == "quantile":
            return QuantileSum(
                self.clip, expected=expected, stream=stream, quantile=self.quantile, share=self.share
            )
        if self.clipping == "flat":
            return ClippedSum(self.clip)
        equal = [self.clip / math.sqrt(len(layers))] * len(layers)
        clips = equal if self.layer_clips is None else self.layer_clips
        if self.clipping == "layers":
            return LayerSum(clips, layers)
        return LayerQuantileSum(
            clips, layers, expected=expected, stream=stream, quantile=self.quantile, share=self.share
        )

    def parameters(self, records: int) -> dict[str, object]:
        """Return every choice as it was used, for the statement."""
        chosen = asdict(self) | {
            "batch": self.batch_for(records),
            "steps": self.steps_for(records),
            "pace": self.pace_used,
        }
        for name in ("schedule", "layer_clips"):
            if isinstance(chosen[name], tuple):
                chosen[name] = [float(factor) for factor in chosen[name]]
        unused = {
            "automatic": ("clip", "quantile", "share", "layer_clips"),
            "flat": ("gamma", "quantile", "share", "layer_clips"),
            "layers": ("gamma", "quantile", "share"),
            "layer-quantiles": ("gamma",),
            "quantile": ("gamma", "layer_clips"),
        }[self.clipping]
        other = ("momentum",) if self.optimiser == "adam" else ("unbiased",)
        return {
            name: value for name, value in chosen.items() if name not in (*unused, *other, "bands", "factor")
        }


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
    """Return the optimiser that takes noisy gradients, and the variance of their noise, to a step."""
    if training.optimiser == "adam":
        return PrivateAdam(parameters, pace=training.pace_used, unbiased=training.unbiased).step
    descent = torch.optim.SGD(parameters, lr=training.pace_used, momentum=training.momentum)

    def step(gradients: list[Tensor], variance: float) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.to(parameter)
        descent.step()
        descent.zero_grad()

    return step
