"""A linear classifier with one proven (ε, δ): noisy gradient descent on all examples at once.

Every step releases the sum of all clipped gradients with noise (:mod:`sfumato.learn.linear_head`); momentum,
steps along it and the mean of the last weights are post-processing.

**Guarantee.** With ``steps`` sums of multiplier m each, over the sensitivity of the neighbours, all together
are one analytic Gaussian of multiplier m/√steps (Gaussian differential privacy composes so, also when each
step depends on those before it: Dong, Roth & Su 2022, corollary 3.3). Shapes, classes and the number of
examples are public; pace, steps, clip and reach are parameters and are never read off the data.

**Edge cases.** Values that are not finite, labels outside the classes and features that are all zero are
refused before any noise is drawn. A class without examples is learned as one that never occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

import sfumato
from sfumato.errors import BadInput
from sfumato.learn.linear_head import LinearHead
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive
from sfumato.noise import Keyed, Randomness, Secure
from sfumato.privacy import RECORD, Guarantee, Neighbours, Statement

__all__ = ["PrivateSoftmax"]

Floats = NDArray[np.float64]


class PrivateSoftmax(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Softmax regression on features (n, d) of length ``reach`` or less; longer ones are scaled back.

    ``epsilon`` and ``delta`` are the promise for one record under ``neighbours``, ``"zero-out"`` or
    ``"replace"``. Labels are 0…``classes``−1. ``steps`` of size ``pace`` with ``momentum``; the gradient of
    one example is cut to length ``clip``. ``randomness`` is the operating system's unless ``Seeded(…)``.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        classes: int = 10,
        neighbours: str = "zero-out",
        reach: float = 1.0,
        clip: float = 1.0,
        steps: int = 60,
        pace: float = 4.0,
        momentum: float = 0.9,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon, self.delta, self.classes, self.neighbours = epsilon, delta, classes, neighbours
        self.reach, self.clip, self.steps = reach, clip, steps
        self.pace, self.momentum, self.randomness = pace, momentum, randomness

    def guarantee(self) -> Guarantee:
        """ε at δ for one record; known before ``fit``, which spends it at each call."""
        positive("epsilon", self.epsilon)
        return Guarantee.gaussian(
            noise_multiplier(self.epsilon, delta_between(self.delta)),
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
            theorem="analytic Gaussian, adaptive composition of noisy gradient sums",
            at_delta=self.delta,
        )

    def statement(self) -> Statement:
        """The three columns of a fitted model, not yet audited."""
        parameters = {name: value for name, value in self.get_params().items() if name != "randomness"}
        notes = ("reproducible run: not for release",) if self._randomness().reproducible else ()
        parameters["sfumato"] = sfumato.__version__
        return Statement("PrivateSoftmax", parameters, None, self.guarantee(), notes=notes)

    def fit(self, X: Any, y: Any, *, report: Callable[[str, float], None] | None = None) -> Self:
        """Learn from features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee."""
        features, labels = _checked(X, y, self.classes)
        guarantee = self.guarantee()
        twice = 2.0 if guarantee.neighbours is Neighbours.REPLACE else 1.0
        # A hair more, so that rounding cannot make the steps cost more than the whole.
        alone = noise_multiplier(self.epsilon, self.delta) * math.sqrt(self.steps) * (1.0 + 1e-12)
        head = LinearHead(features, labels, self.classes, reach=self.reach, clip=self.clip)
        stream = self._randomness().stream(b"softmax gradients")
        weights = torch.zeros(head.shape, dtype=torch.float64)
        speed, mean, kept = torch.zeros_like(weights), torch.zeros_like(weights), 0
        for step in range(self.steps):
            speed = self.momentum * speed + head.noisy(weights, twice * alone, stream) / len(head)
            weights = weights - self.pace * speed
            if 2 * (step + 1) > self.steps:
                mean, kept = mean + weights, kept + 1
            if report is not None:
                report("noisy gradients", (step + 1) / self.steps)
        self.coef_ = (mean / kept).numpy()
        self.classes_ = np.arange(self.classes)
        self.n_features_in_ = features.shape[1]
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, classes); costs nothing more."""
        if not hasattr(self, "coef_"):
            raise BadInput("nothing has been fitted: call fit(X, y) first.")
        features = _features(X)
        if features.shape[1] != self.n_features_in_:
            raise BadInput(f"{features.shape[1]} features were given, and {self.n_features_in_} were fitted.")
        scale = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), self.reach)
        logits = self.coef_[0] + (features / scale) @ self.coef_[1:]
        return np.asarray(torch.softmax(torch.from_numpy(logits), dim=1).numpy())

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most probable class of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def _randomness(self) -> Randomness:
        if isinstance(self.randomness, Keyed) or not isinstance(self.randomness, Randomness | None):
            raise BadInput("randomness of a model must be None or Seeded(…): keyed noise belongs to records.")
        return Secure() if self.randomness is None else self.randomness


def _features(X: Any) -> Floats:
    given = np.asarray(X)
    if given.dtype.kind not in "uif" or given.ndim != 2 or not given.size:
        raise BadInput(
            f"features of shape {given.shape} and type {given.dtype} were given: numbers (n, d) are needed."
        )
    finite = np.isfinite(given).all(axis=1)
    if not finite.all():
        raise BadInput(f"the features of record {int(np.flatnonzero(~finite)[0])} are not all finite.")
    return given.astype(np.float64, copy=False)


def _checked(X: Any, y: Any, classes: int) -> tuple[Floats, NDArray[np.int64]]:
    features, labels = _features(X), np.asarray(y)
    if labels.shape != (len(features),) or labels.dtype.kind not in "ui":
        raise BadInput(
            f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for each "
            f"of {len(features)} records is needed."
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise BadInput(f"the label of record {wrong[0]} is not one of 0 to {classes - 1}.")
    return features, labels.astype(np.int64)
