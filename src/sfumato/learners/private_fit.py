"""``fit_private``: train a model on private records with a proven (ε, δ), in one call.

**Guarantee.** Unit: record, zero-out neighbours (a null record keeps its row and adds nothing). The data is
used through noisy sums of clipped gradients alone; what is proven of these is said in the modules
``dp_sgd`` (samples and schedules), ``gradient_clipping`` and ``correlated_noise``; optimisers are
post-processing. All defaults are functions of the public number of records. That each gradient is a function
of one record, whatever the code of a model does, is the theorem of ``record_gradients``; the loss is the
cross-entropy. The weights that the model comes with, and the choice of all parameters, must not have been
learned from the same records; the statement says so. A learner is fitted with its own guarantee.

**Edge cases.** Refused before anything is drawn: values that are not finite, labels outside 0…classes−1,
models that cannot be evaluated one record at a time or do not score classes, an ε so small that the noise of
all steps is longer than the sum of all gradients could be, and a learner with another ε or δ than the call.
A δ of 1/n or more is warned of and noted in the statement (``warnings_before_training``); a learner warns by
itself.

``PrivateLearner`` is a torch module trained by ``fit_private``, as the learner that audits ask for.

**Guarantee.** That of ``fit_private``, with options that are fixed when the learner is made. How many records
there are decides the noise, so before ``fit`` the guarantee is the (ε, δ) that was asked for, and after it
what was proven of the fit.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from torch.nn import Module

import sfumato
from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import Factor, Momentum, StepsInTurn
from sfumato.learners.dp_sgd import NoiseSchedule
from sfumato.learners.gradient_clipping import layers_of
from sfumato.learners.learner import (
    Floats,
    Labels,
    Learner,
    Report,
    as_array,
    checked_examples,
    checked_features,
    public_notes,
)
from sfumato.learners.private_training import Training, train_privately
from sfumato.learners.record_gradients import checked_model
from sfumato.learners.warnings_before_training import NoisyRelease, forewarn, forewarnings
from sfumato.mechanisms import delta_between, held, positive, shown
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import DELTA, REQUIRED, Guarantee, Neighbours, Statement, format_upper

__all__ = ["PrivateLearner", "fit_private"]

_BLOCK = 1024


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
    optimiser: str = "sgd",
    clipping: str = "flat",
    noise: str = "independent",
    schedule: str | Sequence[float] = "constant",
    batch: int | None = None,
    steps: int | None = None,
    pace: float | None = None,
    momentum: float = 0.9,
    unbiased: bool = False,
    clip: float = 1.0,
    gamma: float = 0.01,
    quantile: float = 0.5,
    share: float = 0.01,
    layer_clips: Sequence[float] | None = None,
    bands: int | None = None,
    factor: Factor | Momentum | None = None,
    classes: int | None = None,
    randomness: Randomness | None = None,
    report: Report | None = None,
) -> Fitted:
    """Train a copy of ``model`` on records ``X`` (n, …) with labels ``y`` (n,), whole numbers 0…classes−1.

    ``model`` is a torch module that maps (n, …) to scores (n, classes), each row alone, or a learner, which
    takes no options of steps. ``epsilon`` must be given, and ``delta`` is the default unless given; or both
    are those of the learner: one that was made with others than the call asks for is refused. ``classes`` is
    what it must score.

    - ``optimiser``: "sgd" with ``momentum``, or "adam", with the noise's part of its second moment taken out
      if ``unbiased``; steps of size ``pace``.
    - ``clipping``: "flat" to length ``clip``; "automatic", to g/(‖g‖ + ``gamma``); "quantile", from ``clip``
      toward that ``quantile`` of the lengths, which takes ``share`` of each step's budget; "layers", each to
      its own of ``layer_clips``, by default equal ones that make ``clip`` together; "layer-quantiles", each
      from there toward that ``quantile`` of its own lengths, which all together take ``share``.
    - ``noise``: "independent" on Poisson samples, or "correlated" over ``bands`` steps on batches in turn;
      by default as many as leave least noise in the sums of gradients. A ``factor`` takes the place of these
      bands: ``Factor(matrix)``, lower triangular, or ``Momentum(beta)``, noise that remembers itself.
    - ``schedule``: "constant", "decreasing", "increasing", or one factor a step for the noise.
    - ``batch``: how many records a step uses on average, by default 1024 or all; ``steps``: by default ten
      times through the data, and at least 60.

    ``randomness`` is the operating system's unless ``Seeded(…)``, which is noted and not for release. Dropout
    draws from torch's own generator, also then.
    """
    training = Training(
        optimiser=optimiser,
        clipping=clipping,
        noise=noise,
        schedule=schedule,
        batch=batch,
        steps=steps,
        pace=pace,
        momentum=momentum,
        unbiased=unbiased,
        clip=clip,
        gamma=gamma,
        quantile=quantile,
        share=share,
        layer_clips=layer_clips,
        bands=bands,
        factor=factor,
    )
    if isinstance(randomness, Keyed) or not isinstance(randomness, Randomness | None):
        raise BadInput(
            "`randomness` of a model must be None or Seeded(…): keyed noise belongs to records.",
            parameter="randomness",
        )
    if isinstance(model, Learner):
        if training != Training():
            raise BadInput("options of noisy steps were given with a learner: they belong to torch modules.")
        return _fitted_learner(model, X, y, epsilon, delta, classes, randomness, report)
    epsilon = positive("epsilon", epsilon)
    delta = delta_between(DELTA if delta is None else delta)
    inputs = _inputs(X)
    copied, gradients, scored = checked_model(model, inputs.shape[1:], classes)
    _, labels = checked_examples(inputs.reshape(len(inputs), -1).numpy(), y, scored)
    drawn = Secure() if randomness is None else randomness
    # Made once more where it is used; here it refuses what cannot be clipped, before noise is searched for.
    training.clipped(1.0, layers_of(copied), drawn.stream(b"clipping bits"))
    plan = training.planned(len(inputs), epsilon, delta)
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
    statement = Statement(
        "fit_private", parameters, None, guarantee, notes=_notes(warned, drawn.reproducible)
    )
    train_privately(copied, gradients, inputs, torch.from_numpy(labels), training, plan, drawn, report)
    return Fitted(copied, statement, guarantee)


def _fitted_learner(
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


def _inputs(X: Any) -> torch.Tensor:
    """Return records as float32 (n, …), finite."""
    given = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else as_array("records", X)
    if given.ndim < 2 or given.dtype.kind not in "uif":
        raise BadInput(
            f"records of shape {given.shape} and type {given.dtype} were given: numbers (n, …) are needed."
        )
    flat = checked_features(given.reshape(len(given), -1) if given.size else given.reshape(0, 0))
    # What single precision cannot hold is its largest number: no finite record stops a fit.
    return torch.from_numpy(held(flat, np.dtype(np.float32)).reshape(given.shape))


def _check_signal(model: Module, plan: NoiseSchedule | StepsInTurn, records: int, epsilon: float) -> None:
    """Refuse where the noise of all steps together is longer than the sum of all gradients could be."""
    weights = sum(part.numel() for part in model.parameters() if part.requires_grad)
    signal, noise = plan.steps * plan.expected(records), plan.total_deviation() * math.sqrt(weights)
    if NoisyRelease("the gradient sums", "model", signal, noise).drowned:
        raise BadInput(
            f"`epsilon` {epsilon:g} is so small that noise exceeds any signal: over {plan.steps} steps it is "
            f"about {noise / signal:.3g} times as long as all clipped gradients of {records} records could "
            f"add up to in {weights} weights; take a larger epsilon, more records or a smaller model.",
            parameter="epsilon",
        )


def _notes(warned: tuple[str, ...], reproducible: bool) -> tuple[str, ...]:
    return (
        *public_notes("the weights before training and all parameters"),
        *warned,
        *(("reproducible run: not for release",) if reproducible else ()),
    )


def _described(model: Module) -> list[str]:
    """Return the innermost layers, as torch prints them, and the number of trained weights."""
    layers = [str(module) for module in model.modules() if not list(module.children())]
    return [*layers, f"{sum(part.numel() for part in model.parameters() if part.requires_grad)} weights"]


class PrivateLearner:
    """``fit_private`` with fixed ``options``, for ``one_run_audit(lambda: PrivateLearner(…), X, y)``.

    ``network`` returns an untrained module for records of so many features: audits put canaries on axes of
    their own, so that there are more of them than the records have. Its first weights must not depend on the
    records; they are the same in each fit if ``network`` makes them so.
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
            raise BadInput("nothing has been fitted: call fit(X, y) first.")
        return self.fitted_
