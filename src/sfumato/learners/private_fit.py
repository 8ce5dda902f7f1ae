"""``fit_private``: train a model on private records with a proven (ε, δ), in one call; ``PrivateLearner``.

**Guarantee.** Unit: record, zero-out neighbours (a null record keeps its row and adds nothing). The data is
used through noisy sums of clipped gradients alone; what is proven of these stands in the modules ``dp_sgd``
(samples and schedules), ``gradient_clipping`` and ``correlated_noise``; optimisers are post-processing. All
defaults are functions of the public number of records. That each gradient is a function of one record,
whatever the code of a model does, is the theorem of ``record_gradients``; the loss is the cross-entropy. The
weights that the model comes with, and the choice of all parameters, must not have been learned from the same
records; the statement says so. A learner is fitted with its own guarantee.

**Edge cases.** Refused before anything is drawn: values that are not finite, labels outside 0…classes−1,
models that cannot be evaluated one record at a time or do not score classes, an ε so small that the noise of
all steps is longer than the sum of all gradients could be, and a learner with another ε or δ than the call.
A δ of 1/n or more is warned of and noted in the statement; a learner warns by itself.

**Adam** divides by the root of a running mean of squared gradients. Noise of variance s² in every coordinate
adds s² to that mean, so that all coordinates look alike and Adam turns into gradient descent. The variance is
public; with ``unbiased`` its own running mean is subtracted (Tang, Shpilevskiy & Lécuyer 2024, "DP-AdamBC").
This is the baseline *DPAdam* of CompactDP's Table 4. It sees noisy gradients and the public variance of their
noise alone, so it is post-processing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor
from torch.nn import Module, Parameter

import sfumato
from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import CorrelatedSteps, Factor, FactoredSteps, Momentum
from sfumato.learners.dp_sgd import DPSGD, NoisySteps, Positions, parse_schedule
from sfumato.learners.gradient_clipping import ClippedSum, Quantiles, group_layers
from sfumato.learners.learner import (
    REPRODUCIBLE,
    Floats,
    Labels,
    Learner,
    NoisyRelease,
    NotFitted,
    Report,
    as_array,
    checked_examples,
    checked_features,
    checked_randomness,
    forewarn,
    forewarnings,
    public_notes,
    whole_number,
)
from sfumato.learners.record_gradients import checked_model
from sfumato.mechanisms import delta_between, held, noise_multiplier, one_of, positive, share, shown
from sfumato.noise import NoisedSums, Randomness
from sfumato.privacy import DELTA, REQUIRED, Guarantee, Neighbours, Statement, format_upper

__all__ = ["PrivateLearner", "fit_private"]

_LEARNING_RATE = {"sgd": 0.5, "adam": 0.01}
# Which clipping reads which parameters.
_CLIPPING = {
    "flat": ("clip",),
    "automatic": ("gamma",),
    "quantile": ("clip", "quantile", "share"),
    "layers": ("clip", "layer_clips"),
    "layer-quantiles": ("clip", "layer_clips", "quantile", "share"),
}
_OF_CLIPPING = ("clip", "gamma", "quantile", "share", "layer_clips")
_BATCH, _EPOCHS, _FEWEST = 1024, 10, 60
# Gradients of single examples that are held at once, in numbers (float32).
_HELD = 1 << 25
_BLOCK = 1024


@dataclass(frozen=True, kw_only=True)
class Training:
    """The options of :func:`fit_private`, which says what each is."""

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
        one_of("optimiser", self.optimiser, tuple(_LEARNING_RATE))
        one_of("clipping", self.clipping, tuple(_CLIPPING))
        one_of("noise", self.noise, ("independent", "correlated"))
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
        correlated = self.noise == "correlated"
        if correlated and "quantile" in _CLIPPING[self.clipping]:
            raise BadInput(
                f"`clipping` was {self.clipping!r} with correlated noise: its proof needs the same "
                "clipping norms in all steps; use flat, automatic or layers.",
                parameter="clipping",
            )
        if correlated and self.schedule != "constant":
            raise BadInput(
                "`schedule` was given with correlated noise: schedules are for independent noise.",
                parameter="schedule",
            )
        for name in ("bands", "factor"):
            if not correlated and getattr(self, name) is not None:
                raise BadInput(
                    f"`{name}` was given with independent noise: it belongs to noise='correlated'.",
                    parameter=name,
                )
        if self.bands is not None and self.factor is not None:
            raise BadInput(
                "`bands` were given with a factor: they are those of the square root.", parameter="bands"
            )
        if self.layer_clips is not None and "layer_clips" not in _CLIPPING[self.clipping]:
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
    def learning_rate(self) -> float:
        """``pace``, or the default of the optimiser."""
        return _LEARNING_RATE[self.optimiser] if self.pace is None else float(self.pace)

    def plan(self, records: int, epsilon: float, delta: float) -> NoisySteps:
        """Return the steps, with the least noise that proves ``epsilon`` at ``delta``; takes some seconds."""
        batch, steps = self.batch_for(records), self.steps_for(records)
        if self.noise == "independent":
            factors = parse_schedule(self.schedule, steps)
            return DPSGD.calibrated(epsilon, delta, rate=batch / records, steps=steps, factors=factors)
        period, multiplier = math.ceil(records / batch), noise_multiplier(epsilon, delta)
        if self.factor is not None:
            return FactoredSteps(multiplier, steps, period, self.factor)
        if self.bands is None:
            return CorrelatedSteps.quietest(multiplier, steps, period)
        return CorrelatedSteps(multiplier, steps, period, self.bands)

    def clipped_sum(self, expected: float, layers: Sequence[Sequence[int]]) -> ClippedSum:
        """Return how gradients of a step with ``expected`` examples are clipped and summed."""
        if self.clipping == "automatic":
            return ClippedSum(gamma=self.gamma)
        adaptive = "quantile" in _CLIPPING[self.clipping]
        quantiles = Quantiles(expected, self.quantile, self.share) if adaptive else None
        if "layer_clips" not in _CLIPPING[self.clipping]:
            return ClippedSum(self.clip, quantiles=quantiles)
        equal = [positive("clip", self.clip) / math.sqrt(len(layers))] * len(layers)
        clips = equal if self.layer_clips is None else self.layer_clips
        return ClippedSum(clips, layers, quantiles=quantiles)

    def parameters(self, records: int) -> dict[str, object]:
        """Return every choice as it was used, for the statement."""
        chosen = asdict(self) | {
            "batch": self.batch_for(records),
            "steps": self.steps_for(records),
            "pace": self.learning_rate,
        }
        for name in ("schedule", "layer_clips"):
            if isinstance(chosen[name], tuple):
                chosen[name] = [float(factor) for factor in chosen[name]]
        unused = {"bands", "factor", "momentum" if self.optimiser == "adam" else "unbiased"}
        unused |= set(_OF_CLIPPING) - set(_CLIPPING[self.clipping])
        return {name: value for name, value in chosen.items() if name not in unused}

    def optimise(self, parameters: list[Parameter]) -> Callable[[float], None]:
        """Return the step of the optimiser, a function of the variance of the noise in gradients."""
        if self.unbiased and self.optimiser == "adam":
            return UnbiasedAdam(parameters, self.learning_rate).step
        made: torch.optim.Optimizer = (
            torch.optim.Adam(parameters, lr=self.learning_rate)
            if self.optimiser == "adam"
            else torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        )
        return lambda _: made.step()


class UnbiasedAdam:
    """Adam on noisy gradients, without the noise's part of the second moment.

    What is left of that moment is at least ``floor``² times the noise's part, since an estimate from few
    noisy steps may fall below 0.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        learning_rate: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 0.3,
    ) -> None:
        self.parameters, self.learning_rate, self.betas, self.floor = parameters, learning_rate, betas, floor
        self._first = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._second = [torch.zeros_like(part, dtype=torch.float64) for part in self.parameters]
        self._noise, self._steps = 0.0, 0

    @torch.no_grad()
    def step(self, variance: float) -> None:
        """Move each parameter by its gradient, each coordinate of which has noise of ``variance``."""
        slow, slower = self.betas
        self._steps += 1
        self._noise = slower * self._noise + (1.0 - slower) * variance
        begun_first, begun_second = 1.0 - slow**self._steps, 1.0 - slower**self._steps
        noise = self._noise / begun_second
        for part, first, second in zip(self.parameters, self._first, self._second, strict=True):
            assert part.grad is not None
            gradient = part.grad.double()
            first.mul_(slow).add_(gradient, alpha=1.0 - slow)
            second.mul_(slower).addcmul_(gradient, gradient, value=1.0 - slower)
            size = (second / begun_second - noise).clamp_min(self.floor**2 * noise).sqrt()
            part.sub_((self.learning_rate * (first / begun_first) / (size + 1e-8)).to(part))


@dataclass(frozen=True)
class Fitted:
    """A fitted ``model``, of which ``guarantee`` is proven, with its ``statement``."""

    model: Module | Learner
    statement: Statement
    guarantee: Guarantee

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes); costs nothing more."""
        if isinstance(self.model, Learner):
            return self.model.predict_proba(X)
        inputs = _inputs(X)
        found = []
        answering = copy.deepcopy(self.model)  # so that nothing of X can stay in the model
        with torch.no_grad():
            for rows in torch.split(inputs, _BLOCK):
                found.append(torch.softmax(answering(rows).double(), dim=1))
        return np.asarray(torch.cat(found).numpy())

    def predict(self, X: Any) -> Labels:
        """Return the most probable class of each record."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))


def fit_private(
    model: Module | Learner,
    X: Any,
    y: Any,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    classes: int | None = None,
    randomness: Randomness | None = None,
    report: Report | None = None,
    **options: Any,
) -> Fitted:
    """Train a copy of ``model`` on records ``X`` (n, …) with labels ``y`` (n,), whole numbers 0…classes−1.

    ``model`` is a torch module that maps (n, …) to scores (n, classes), each row alone, or a learner, which
    takes no ``options``. ``epsilon`` must be given, and ``delta`` is the default unless given; or both are
    those of the learner: one that was made with others than the call asks for is refused. ``classes`` is what
    it must score. Options and their defaults:

    - ``optimiser="sgd"`` with ``momentum=0.9``, or ``"adam"``, with the noise's part of its second moment
      taken out if ``unbiased=True``; ``pace`` is the learning rate.
    - ``clipping="flat"`` to the clipping norm ``clip=1.0``; ``"automatic"``, to g/(‖g‖ + ``gamma=0.01``);
      ``"quantile"``, from ``clip`` toward the ``quantile=0.5`` of the lengths, which takes ``share=0.01`` of
      each step's budget; ``"layers"``, each to its own of ``layer_clips``, by default equal ones that make
      ``clip`` together; ``"layer-quantiles"``, each from there toward that ``quantile`` of its own lengths,
      which all together take ``share``.
    - ``noise="independent"`` on Poisson samples, or ``"correlated"`` over ``bands`` steps on batches in turn;
      by default as many as leave least noise in the sums of gradients. A ``factor`` takes the place of these
      bands: ``Factor(matrix)``, lower triangular, or ``Momentum(beta)``, noise with momentum.
    - ``schedule="constant"``, ``"decreasing"``, ``"increasing"``, or one factor a step for the noise.
    - ``batch``: how many records a step uses on average, by default 1024 or all; ``steps``: by default ten
      times through the data, and at least 60.

    ``randomness`` is the operating system's unless ``Seeded(…)``, which is noted and not for release. Dropout
    draws from torch's own generator, also then.
    """
    training, drawn = Training(**options), checked_randomness(randomness)
    if isinstance(model, Learner):
        if training != Training():
            raise BadInput("options of noisy steps were given with a learner: they belong to torch modules.")
        return _fit_learner(model, X, y, epsilon, delta, classes, randomness, report)
    epsilon = positive("epsilon", epsilon)
    delta = delta_between(DELTA if delta is None else delta)
    inputs = _inputs(X)
    copied, gradients, scored = checked_model(model, inputs.shape[1:], classes)
    _, labels = checked_examples(inputs.reshape(len(inputs), -1).numpy(), y, scored)
    # Refuses what cannot be clipped, before noise is searched for.
    training.clipped_sum(1.0, group_layers(copied))
    plan = training.plan(len(inputs), epsilon, delta)
    _check_signal(copied, plan, len(inputs), epsilon)
    warned = forewarnings(epsilon, delta, len(inputs), ())
    forewarn(warned)
    guarantee = plan.guarantee(delta)
    parameters = {
        "model": _described(copied),
        "epsilon": epsilon,
        "delta": delta,
        "records": len(inputs),
        "classes": scored,
        **training.parameters(len(inputs)),
        **plan.parameters(),
        "sfumato": sfumato.__version__,
    }
    notes = (
        *public_notes("the weights before training and all parameters"),
        *warned,
        *((REPRODUCIBLE,) if drawn.reproducible else ()),
    )
    statement = Statement("fit_private", parameters, None, guarantee, notes=notes)
    block = max(1, _HELD // sum(part.numel() for part in gradients.parameters))
    targets = torch.from_numpy(labels)

    def of_examples(taken: Positions, _: Randomness) -> Iterator[list[Tensor]]:
        for start in range(0, len(taken), block):
            some = taken[start : start + block]
            yield gradients(inputs[some], targets[some])

    plan.train(
        gradients.parameters,
        len(inputs),
        of_examples,
        training.optimise(gradients.parameters),
        NoisedSums(drawn),
        clipped=training.clipped_sum(plan.expected(len(inputs)), group_layers(copied)),
        report=None if report is None else lambda done: report("noisy steps", done),
    )
    copied.zero_grad()
    return Fitted(copied.requires_grad_(False).eval(), statement, guarantee)


def _fit_learner(
    model: Learner,
    X: Any,
    y: Any,
    epsilon: float | None,
    delta: float | None,
    classes: int | None,
    randomness: Randomness | None,
    report: Report | None,
) -> Fitted:
    learner = clone(model)
    kind = type(learner).__name__
    own = learner.get_params(deep=False)
    epsilon = None if epsilon is None else positive("epsilon", epsilon)
    delta = None if delta is None else delta_between(delta)
    for name, asked in (("epsilon", epsilon), ("delta", delta)):
        if asked is not None and name in own and own[name] != asked:
            raise BadInput(
                f"the {kind} was made with {name} {shown(own[name])}, and the call asks for {asked:g}: one "
                "run has one promise, so give both the same, or leave it to the learner."
            )
    if randomness is not None:
        learner.set_params(randomness=randomness)
    if classes is not None and learner.classes != classes:
        raise BadInput(f"the learner scores {learner.classes} classes, and {classes} were declared.")
    guarantee = learner.guarantee()
    if guarantee.proves_nothing:
        raise BadInput(f"nothing is proven of a {kind} ({guarantee.theorem}): call its fit.")
    if epsilon is not None and guarantee.epsilon(delta) > epsilon * (1.0 + 1e-9):
        raise BadInput(
            f"the {kind} proves no better than epsilon {format_upper(guarantee.epsilon(delta))} at delta "
            f"{guarantee.at_delta if delta is None else delta:g}, and {epsilon:g} was asked for."
        )
    features, labels = checked_examples(X, y, learner.classes)
    learner.fit(features, labels, report=report)
    return Fitted(learner, learner.statement(), guarantee)


def _inputs(X: Any) -> Tensor:
    """Return records as float32 (n, …), finite."""
    given = X.detach().cpu().numpy() if isinstance(X, Tensor) else as_array("records", X)
    if given.ndim < 2 or given.dtype.kind not in "uif":
        raise BadInput(
            f"records of shape {given.shape} and type {given.dtype} were given: numbers (n, …) are needed."
        )
    flat = checked_features(given.reshape(len(given), -1) if given.size else given.reshape(0, 0))
    # What single precision cannot hold is its largest number: no finite record stops a fit.
    return torch.from_numpy(held(flat, np.dtype(np.float32)).reshape(given.shape))


def _check_signal(model: Module, plan: NoisySteps, records: int, epsilon: float) -> None:
    """Refuse where the noise of all steps together is longer than the sum of all gradients could be."""
    weights = _weights(model)
    signal, noise = plan.steps * plan.expected(records), plan.total_deviation() * math.sqrt(weights)
    if NoisyRelease("the gradient sums", "model", signal, noise).is_drowned:
        raise BadInput(
            f"`epsilon` {epsilon:g} is so small that noise exceeds any signal: over {plan.steps} steps it is "
            f"about {noise / signal:.3g} times as long as all clipped gradients of {records} records could "
            f"add up to in {weights} weights; take a larger epsilon, more records or a smaller model.",
            parameter="epsilon",
        )


def _described(model: Module) -> list[str]:
    """Return the innermost layers, as torch prints them, and the number of trained weights."""
    layers = [str(module) for module in model.modules() if not list(module.children())]
    return [*layers, f"{_weights(model)} weights"]


def _weights(model: Module) -> int:
    return sum(part.numel() for part in model.parameters() if part.requires_grad)


class PrivateLearner:
    """``fit_private`` with fixed ``options``, for ``one_run_audit(lambda: PrivateLearner(…), X, y)``.

    ``network`` returns an untrained module for records of so many features: audits put canaries on axes of
    their own, so that there are more of them than the records have. Its first weights must not depend on the
    records; they are the same in each fit if ``network`` makes them so.

    **Guarantee.** That of ``fit_private``. How many records there are decides the noise, so before ``fit`` it
    is the (ε, δ) that was asked for, and after it what was proven of the fit.
    """

    def __init__(
        self,
        network: Callable[[int], Module],
        *,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        **options: Any,
    ) -> None:
        self.network, self.epsilon, self.delta, self.options = network, epsilon, delta, options

    def guarantee(self) -> Guarantee:
        """Return what was asked for, under zero-out neighbours; once fitted, what is proven of the fit."""
        if hasattr(self, "fitted_"):
            return self.fitted_.guarantee
        return Guarantee.approximate(
            positive("epsilon", self.epsilon),
            self.delta,
            neighbours=Neighbours.ZERO_OUT,
            theorem="fit_private, before the fit",
        )

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Train a new module on features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee."""
        made = self.network(int(np.shape(X)[1]))
        self.fitted_: Fitted = fit_private(
            made, X, y, epsilon=self.epsilon, delta=self.delta, report=report, **self.options
        )
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes); costs nothing more."""
        return self._fit().predict_proba(X)

    def statement(self) -> Statement:
        """Return the statement of the fit."""
        return self._fit().statement

    def _fit(self) -> Fitted:
        if not hasattr(self, "fitted_"):
            raise NotFitted
        return self.fitted_
