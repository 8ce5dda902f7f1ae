"""A linear classifier with one proven (ε, δ): noisy gradient descent on all examples at once.

Every step releases the sum of all clipped gradients with noise (:mod:`sfumato.learners.linear_head`);
momentum, steps along it and the mean of the last weights are post-processing.

**Guarantee.** With ``steps`` sums of multiplier m each, over the sensitivity of the neighbours, all together
are one analytic Gaussian of multiplier m/√steps (Gaussian differential privacy composes so, also when each
step depends on those before it: Dong, Roth & Su 2022, corollary 3.3). On samples it is what
:class:`~sfumato.learners.DPSGD` proves. Shapes, classes and the number of examples are public; pace, steps,
clip and reach are parameters and are never read off the data.

**Edge cases.** Values that are not finite and labels outside the classes are refused before any noise is
drawn. A class without examples is learned as one that never occurs. A δ of 1/n or more, and noise beyond any
signal, are warned of before training and noted in the statement (:mod:`~.forewarnings`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD, calibrated_multiplier
from sfumato.learners.examples import (
    Floats,
    checked_classes,
    checked_examples,
    checked_features,
    checked_number,
)
from sfumato.learners.learner import Learner, Report
from sfumato.learners.learner_notes import public_notes
from sfumato.learners.linear_head import LinearHead
from sfumato.learners.noisy_descent import SPREAD, Descent, shares
from sfumato.learners.warnings_before_training import NoisyRelease
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive
from sfumato.noise import Randomness
from sfumato.privacy import RECORD, Guarantee, Neighbours
from sfumato.privacy.defaults import DELTA, MODELS, REQUIRED

__all__ = ["PrivateSoftmax"]


class PrivateSoftmax(Learner):
    """Softmax regression on features (n, d) of length ``reach`` or less; longer ones are scaled back.

    ``epsilon`` and ``delta`` are the promise for one record under ``neighbours``, ``"zero-out"`` or
    ``"replace"``. Labels are 0…``classes``−1. ``steps`` with ``momentum`` of size ``pace``; unless
    that is given, they go as far as gives a logit noise of deviation ``spread`` (:mod:`~.noisy_descent`). The
    gradient of one example is cut to length ``clip``. At a ``sampling`` below 1 each step takes every record
    with that chance, by coins of its own (DP-SGD; zero-out neighbours alone). ``randomness`` is the operating
    system's unless ``Seeded(…)``.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        *,
        classes: int = 10,
        neighbours: str = MODELS.neighbours,
        reach: float = 1.0,
        clip: float = 0.02,
        steps: int = 200,
        pace: float | None = None,
        momentum: float = 0.9,
        spread: float = SPREAD,
        sampling: float = 1.0,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon, self.delta, self.classes, self.neighbours = epsilon, delta, classes, neighbours
        self.reach, self.clip, self.steps, self.spread = reach, clip, steps, spread
        self.pace, self.momentum, self.sampling, self.randomness = pace, momentum, sampling, randomness

    def guarantee(self) -> Guarantee:
        """ε at δ for one record; known before ``fit``, which spends it at each call."""
        checked_classes(self.classes)
        epsilon, delta = positive("epsilon", self.epsilon), delta_between(self.delta)
        neighbours, step = known_neighbours(self.neighbours), self._multiplier()
        self._descent().check(step * _parts(neighbours))
        if self.sampling < 1.0:
            return DPSGD(step, self.sampling, self.steps).guarantee(delta)
        return Guarantee.gaussian(
            noise_multiplier(epsilon, delta),
            unit=RECORD,
            neighbours=neighbours,
            theorem="analytic Gaussian, adaptive composition of noisy gradient sums",
            at_delta=delta,
        )

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """The gradient sums of all steps together, in clips."""
        step = self._multiplier() * _parts(known_neighbours(self.neighbours))
        noise = step * math.sqrt(self.steps * (1 + dimension) * checked_classes(self.classes))
        return (NoisyRelease("the gradient sums", "model", self.steps * self.sampling * records, noise),)

    def notes(self) -> tuple[str, ...]:
        """What is public, and what must have been chosen before."""
        return public_notes()

    def resolved(self, records: int) -> dict[str, Any]:
        """The pace, from the noise and the number of records, unless it was given."""
        step = self._multiplier() * _parts(known_neighbours(self.neighbours))
        return {"pace": self._descent().pace_used(self.sampling * records, step)}

    def _descent(self) -> Descent:
        return Descent(self.steps, self.clip, self.momentum, self.pace, self.spread)

    def _multiplier(self) -> float:
        """Noise of one step over its sensitivity."""
        epsilon, delta = positive("epsilon", self.epsilon), delta_between(self.delta)
        if not 0.0 < positive("sampling", self.sampling) <= 1.0:
            raise BadInput(
                f"`sampling` was {self.sampling!r}: the chance of a record to be taken is at most 1.",
                parameter="sampling",
            )
        steps = self._descent().steps
        if self.sampling == 1.0:
            # A hair more, so that rounding cannot make the steps cost more than the whole.
            return noise_multiplier(epsilon, delta) * math.sqrt(steps) * (1.0 + 1e-12)
        if known_neighbours(self.neighbours) is not Neighbours.ZERO_OUT:
            raise BadInput("steps on samples (sampling below 1) are proven for zero-out neighbours alone.")
        return calibrated_multiplier(epsilon, delta, rate=self.sampling, steps=steps)

    def fit(self, X: Any, y: Any, *, records: int | None = None, report: Report | None = None) -> Self:
        """Learn from features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee.

        ``records`` is the public number of records where some of them are null and are left out of the n, as
        audits do; where it is given, rounding in products of other shapes may move other gradients by a
        step of the grid.
        """
        features, labels = checked_examples(X, y, checked_classes(self.classes))
        number = checked_number(records, len(features))
        guarantee = self.guarantee()
        self._forewarn(number, features.shape[1])
        step = self._multiplier() * _parts(guarantee.neighbours)
        head = LinearHead(features, labels, self.classes, reach=self.reach, clip=self.clip)
        randomness, batches = self._randomness(), None
        if self.sampling < 1.0:
            sampled = DPSGD(step, self.sampling, self.steps)
            batches = sampled.samples(len(features), randomness.stream(b"softmax samples"))
        weights = self._descent().weights(
            head,
            step,
            randomness.stream(b"softmax gradients"),
            records=self.sampling * number,
            batches=batches,
            report=report,
        )
        self._take({"weights": weights})
        return self

    def tensors(self) -> dict[str, NDArray[Any]]:
        """``weights`` (1 + d, classes): those of a constant first, then those of features."""
        return {"weights": self._fitted("coef_")}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.coef_ = tensors["weights"]
        self.classes_ = np.arange(self.classes)
        self.n_features_in_ = len(self.coef_) - 1

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, classes); costs nothing more."""
        weights = self._fitted("coef_")
        features = checked_features(X, self.n_features_in_)
        with np.errstate(over="ignore"):  # as in the fit, what is longer than any number counts as zero
            scale = np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
        scale = np.maximum(scale, self.reach)
        return shares(weights, features / scale)


def _parts(neighbours: Neighbours) -> float:
    """How many clips one record moves a sum: another one in its place takes one away and adds one."""
    return 2.0 if neighbours is Neighbours.REPLACE else 1.0
