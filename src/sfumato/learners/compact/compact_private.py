"""CompactDP's second stage: a softmax head trained by DP-SGD on contracted features.

Mode ``"accountant"`` gives the head the noise σ₁ that proves ε at δ for features that were fixed before
training; mode ``"paper"`` multiplies it by the contraction ratio, σ = η·σ₁ (Algorithm 1, line 25; equation
16). Gradients are clipped to the same length before and after contraction, so nothing has become less
sensitive, and less noise is a larger ε. The paper does not say which class's η is meant: it is the largest
here, which gives the most noise.

**Guarantee.** Nothing is proven in either mode. The contraction learned from the same records without noise:
one changed record changes g_φ, and with it the features of all others, so the head's inputs are not
neighbours.

**Edge cases.** Those of :class:`~sfumato.learners.compact.CompactClassifier`; a δ of 1/n or more, and noise
beyond any signal, are warned of before training and noted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Parameter

from sfumato.errors import BadInput
from sfumato.learners.compact.class_densities import ClassProfile, examples_of_all_classes
from sfumato.learners.compact.compact_classifier import CompactClassifier, ContractingLearner
from sfumato.learners.compact.contraction import ContractionNetwork
from sfumato.learners.dp_sgd import DPSGD, Positions
from sfumato.learners.learner import Floats, Labels, NoisyRelease, Report, whole_number
from sfumato.learners.private_softmax import class_probabilities
from sfumato.mechanisms import delta_between, one_of, positive, share
from sfumato.noise import NoisedSums, Randomness
from sfumato.privacy import DELTA, RECORD, REQUIRED, Claim, Guarantee, Neighbours, format_upper

__all__ = ["CompactPrivate"]

# Examples whose gradients are held at once.
_BLOCK = 1024


def noisy_head(
    features: NDArray[np.float32],
    labels: Labels,
    classes: int,
    training: DPSGD,
    *,
    pace: float,
    momentum: float,
    randomness: Randomness,
    report: Report | None = None,
) -> Floats:
    """Return weights (1 + p, classes), a constant's first: the mean over the last half of the steps.

    Stochastic gradient descent of learning rate ``pace`` with ``momentum`` from 0: post-processing of noisy
    sums.
    """
    rows = torch.from_numpy(np.pad(features, ((0, 0), (1, 0)), constant_values=1.0))
    truth = torch.nn.functional.one_hot(torch.from_numpy(labels), classes)
    weights = Parameter(torch.zeros(rows.shape[1], classes), requires_grad=False)
    optimiser = torch.optim.SGD([weights], lr=pace, momentum=momentum)
    total, done = torch.zeros_like(weights, dtype=torch.float64), 0

    def gradients(taken: Positions, _: Randomness) -> Iterator[list[Tensor]]:
        for start in range(0, len(taken), _BLOCK):
            some = taken[start : start + _BLOCK]
            residuals = torch.softmax(rows[some] @ weights, dim=1) - truth[some]
            yield [rows[some][:, :, None] * residuals[:, None, :]]

    def move(_: float) -> None:
        nonlocal done
        optimiser.step()
        done += 1
        if 2 * done > training.steps:
            total.add_(weights)

    training.train(
        [weights],
        len(rows),
        gradients,
        move,
        NoisedSums(randomness),
        report=None if report is None else lambda done: report("noisy head", done),
    )
    return np.asarray(total.numpy() / (training.steps - training.steps // 2))


@dataclass(eq=False, repr=False)
class CompactPrivate(ContractingLearner):
    """CompactDP + DP-SGD: contracted features, and a head of ``epsilon`` and ``delta`` that do not count.

    ``mode`` is ``"accountant"`` or ``"paper"``. The head makes ``steps`` steps of learning rate ``pace`` with
    ``momentum``; each takes every record with probability ``sampling``, and ``clip`` is the clipping norm, in
    units of the features' scale. The rest are parameters of stage 1
    (:class:`~.compact_classifier.ContractingLearner`).
    """

    epsilon: float = REQUIRED
    delta: float = DELTA
    _: KW_ONLY
    mode: str = "accountant"
    sampling: float = 0.1
    steps: int = 100
    clip: float = 1.0
    pace: float = 2.0
    momentum: float = 0.5

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Contract features ``X`` (n, d) by stage 1, then train the head on them with labels ``y`` (n,)."""
        features, labels = examples_of_all_classes(X, y, self.classes)
        training = self._training()
        self._forewarn(*features.shape)
        own = {field.name: getattr(self, field.name) for field in fields(ContractingLearner)}
        stage = CompactClassifier(**own).fit(features, labels, report=report)
        return self._fit_head(stage, features, labels, training, report)

    def fit_behind(self, stage: CompactClassifier, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Train the head alone, behind a ``stage`` that was fitted to the same ``X`` and ``y``.

        ``stage`` has the parameters of this one's stage 1, or is refused; with the randomness of it too, what
        is learned is what :meth:`fit` learns, to the last bit. Several heads can so share one contraction.
        """
        features, labels = examples_of_all_classes(X, y, self.classes)
        stage._fitted("network_")
        for name in stage.public():
            if getattr(stage, name) != getattr(self, name):
                raise BadInput(
                    f"stage 1 has {name} = {getattr(stage, name)!r}: this learner needs one with "
                    f"{getattr(self, name)!r}."
                )
        training = self._training()
        self._forewarn(*features.shape)
        return self._fit_head(stage, features, labels, training, report)

    def _training(self) -> DPSGD:
        """Return the training that proves ε for features fixed beforehand."""
        self._mode()
        for name in ("sampling", "momentum"):
            share(name, getattr(self, name))
        return DPSGD.calibrated(
            self.epsilon, self.delta, rate=self.sampling, steps=self.steps, clip=self.clip
        )

    def _mode(self) -> str:
        return one_of("mode", self.mode, ("accountant", "paper"))

    def _fit_head(
        self,
        stage: CompactClassifier,
        features: NDArray[np.floating],
        labels: Labels,
        training: DPSGD,
        report: Report | None,
    ) -> Self:
        """Train stage 2 behind a fitted ``stage``."""
        if self.mode == "paper":
            eta = float(stage.profile_.eta.max())
            training = DPSGD(eta * training.multiplier, self.sampling, self.steps, self.clip)
        weights = noisy_head(
            stage.network_.contracted_units(features),
            labels,
            len(stage.classes_),
            training,
            pace=positive("pace", self.pace),
            momentum=self.momentum,
            randomness=self._randomness(),
            report=report,
        )
        alone = training.guarantee(self.delta).epsilon()
        kept = {"head": weights, "run": np.array([training.multiplier, alone, len(features)])}
        self._take(stage.network_.tensors() | {"profile": stage.profile_.table()} | kept)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the head's probabilities (n, classes) for contracted features."""
        moved = self._contracted(X)
        return class_probabilities(self.coef_, moved)

    def guarantee(self) -> Guarantee:
        """Return a guarantee of nothing in both modes, with the reason."""
        self._mode()
        return Guarantee.nothing(
            "the contraction is trained on the same records without noise: one changed record changes it and "
            "with it every feature, so the head's inputs are not neighbours",
            RECORD,
            Neighbours.ZERO_OUT,
        )

    def claim(self) -> Claim:
        """Return the authors' claim, with the ε and δ that they would name."""
        paper = self._mode() == "paper"
        return Claim(
            text="“To maintain (α, ρ)-RDP, the noise can be reduced by a factor of η⁻¹: σ₂ = ησ₁”"
            if paper
            else "“leveraging the optimized feature embedding, DP-SGD maintains robust model utility while "
            "preserving rigorous privacy guarantees”",
            source="CompactDP: Category-aware Feature Compactness for Differential Privacy, "
            + ("equation 16 and Algorithm 1" if paper else "abstract and Algorithm 1"),
            epsilon=positive("epsilon", self.epsilon),
            delta=delta_between(self.delta),
        )

    def notes(self) -> tuple[str, ...]:
        """Return the ε of the head alone, and why it does not count."""
        alone = (
            "would be the head's, on features fixed before training; here they are not, so it does not count"
        )
        if self.mode == "paper" and not hasattr(self, "head_epsilon_"):
            return ("the ε of the head alone is known after fit, when η is",)
        if self.mode == "paper":
            eta = float(self.profile_.eta.max())
            named = (
                f"σ = ησ₁ with η = {eta:.4g}: ε = {format_upper(self.head_epsilon_)} at δ = {self.delta:g}"
            )
            first = f"{named}, not {self.epsilon:g}, {alone}"
        else:
            first = f"ε = {self.epsilon:g} at δ = {self.delta:g} {alone}"
        return (first,)

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """Return the gradient sums of all steps, in clipping norms, before any η."""
        kept = (
            dimension if self.dimension is None else min(whole_number("dimension", self.dimension), dimension)
        )
        weights = (1 + kept) * (2 if self.classes is None else self.classes)
        noise = self._training().multiplier * math.sqrt(self.steps * weights)
        return (NoisyRelease("the gradient sums", "head", self.steps * self.sampling * records, noise),)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return network, class profile, ``head`` (1 + p, classes) and ``run``: multiplier, ε alone, n."""
        network: ContractionNetwork = self._fitted("network_")
        run = np.array([self.multiplier_, self.head_epsilon_, self.records_])
        return network.tensors() | {"profile": self.profile_.table(), "head": self.coef_, "run": run}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.coef_ = tensors["head"]
        self.multiplier_, self.head_epsilon_ = (float(value) for value in tensors["run"][:2])
        self.records_ = int(tensors["run"][2])
        profile = ClassProfile.from_table(tensors["profile"])
        self._use(ContractionNetwork.restored(tensors), profile, self.coef_.shape[1])
