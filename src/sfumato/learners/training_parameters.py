"""How a model is trained with noise: all choices, none of them read off the data, and what they prove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sfumato.errors import BadInput
from sfumato.learners.automatic_clipping import NormalisedSum
from sfumato.learners.correlated_noise import CorrelatedSteps, StepsInTurn
from sfumato.learners.factored_noise import Factor, FactoredSteps, Momentum
from sfumato.learners.layer_clipping import LayerSum
from sfumato.learners.layer_quantiles import LayerQuantileSum
from sfumato.learners.noise_schedule import NoiseSchedule, factors_of
from sfumato.learners.noisy_sum import ClippedSum
from sfumato.learners.quantile_clipping import QuantileSum
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, one_of, positive, share, shown
from sfumato.noise import Stream

__all__ = ["CLIPPINGS", "NOISES", "OPTIMISERS", "Training"]

OPTIMISERS = ("sgd", "adam")
CLIPPINGS = ("flat", "automatic", "quantile", "layers", "layer-quantiles")
NOISES = ("independent", "correlated")

_PACE = {"sgd": 0.5, "adam": 0.01}
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
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise BadInput(
                    f"`{name}` was {shown(value)}: a whole number, 1 or more, is needed.", parameter=name
                )
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
        """How many examples a step is expected to use."""
        return min(records, _BATCH if self.batch is None else self.batch)

    def steps_for(self, records: int) -> int:
        """How many steps there are: ten times through the data, and sixty at least, where none are given."""
        if self.steps is not None:
            return self.steps
        return max(_FEWEST, math.ceil(_EPOCHS * records / self.batch_for(records)))

    @property
    def pace_used(self) -> float:
        """The size of a step; by default that of the optimiser."""
        return _PACE[self.optimiser] if self.pace is None else float(self.pace)

    def planned(self, records: int, epsilon: float, delta: float) -> NoiseSchedule | StepsInTurn:
        """The steps, with the least noise that proves ``epsilon`` at ``delta``; takes some seconds."""
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
        """What sums the gradients of a step; ``stream`` is for the bits of quantile clipping."""
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
        """For the statement: every choice as it was used."""
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
