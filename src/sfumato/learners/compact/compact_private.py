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
beyond any signal, are warned of before training and noted
(:mod:`~sfumato.learners.warnings_before_training`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import skip_init

from sfumato.errors import BadInput
from sfumato.learners.compact.class_densities import ClassProfile, examples_of_all_classes
from sfumato.learners.compact.compact_classifier import CompactClassifier
from sfumato.learners.compact.contraction import ContractionNetwork
from sfumato.learners.dp_sgd import DPSGD, calibrated_multiplier
from sfumato.learners.learner import Floats, Labels, Learner, Report, checked_features, whole_number
from sfumato.learners.warnings_before_training import NoisyRelease
from sfumato.mechanisms import delta_between, one_of, positive, share
from sfumato.noise import Randomness
from sfumato.privacy import DELTA, RECORD, REQUIRED, Claim, Guarantee, Neighbours, format_upper

__all__ = ["CompactPrivate"]
_STAGE_ONE = (
    *("classes", "bandwidth", "share", "references", "width", "dimension", "whiten"),
    *("epochs", "batch", "rate"),
)


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

    Steps have size ``pace`` with ``momentum`` and start from 0; both are post-processing of noisy sums.
    """
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise BadInput("gradients of single examples need Opacus: pip install 'sfumato[learn]'.") from None
    layer: nn.Linear = skip_init(nn.Linear, features.shape[1], classes)  # type: ignore[no-untyped-call]
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    wrapped = GradSampleModule(layer, loss_reduction="sum")
    parameters = list(layer.parameters())
    optimiser = torch.optim.SGD(parameters, lr=pace, momentum=momentum)
    noisy = training.noisy(randomness)
    rows, kinds = torch.from_numpy(features), torch.from_numpy(labels)
    mean, kept = torch.zeros(1 + features.shape[1], classes, dtype=torch.float64), 0
    for step, taken in enumerate(training.samples(len(rows), randomness.stream(b"head samples"))):
        if taken.size:
            # Asked for a gradient, which nobody uses, so that torch's backward hooks do not warn of it.
            logits = wrapped(rows[taken].requires_grad_())
            loss = nn.functional.cross_entropy(logits, kinds[taken], reduction="sum")
            loss.backward()  # type: ignore[no-untyped-call]
        training.set_gradients(parameters, noisy, len(rows), len(taken))
        optimiser.step()
        if 2 * (step + 1) > training.steps:
            mean += torch.cat([layer.bias.detach()[None], layer.weight.detach().T]).double()
            kept += 1
        if report is not None:
            report("noisy head", (step + 1) / training.steps)
    wrapped.to_standard_module()
    return np.asarray((mean / kept).numpy())


class CompactPrivate(Learner):
    """CompactDP + DP-SGD: contracted features, and a head of ``epsilon`` and ``delta`` that do not count.

    ``mode`` is ``"accountant"`` or ``"paper"``. The head makes ``steps`` steps of size ``pace`` with
    ``momentum``; each takes every record with probability ``sampling`` and clips gradients to ``clip``, in
    units of the features' scale. The rest are parameters of stage 1
    (:class:`~sfumato.learners.compact.CompactClassifier`).
    """

    classes: int | None  # type: ignore[assignment]

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        *,
        mode: str = "accountant",
        classes: int | None = None,
        bandwidth: str | float = "adaptive",
        share: float = 0.5,
        references: int | None = 100,
        width: int = 1024,
        dimension: int | None = None,
        whiten: bool = False,
        epochs: int = 20,
        batch: int = 4096,
        rate: float = 0.1,
        sampling: float = 0.1,
        steps: int = 100,
        clip: float = 1.0,
        pace: float = 2.0,
        momentum: float = 0.5,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon, self.delta, self.mode, self.classes = epsilon, delta, mode, classes
        self.bandwidth, self.share, self.references, self.width = bandwidth, share, references, width
        self.dimension, self.whiten, self.epochs, self.batch, self.rate = (
            dimension,
            whiten,
            epochs,
            batch,
            rate,
        )
        self.sampling, self.steps, self.clip = sampling, steps, clip
        self.pace, self.momentum, self.randomness = pace, momentum, randomness

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Contract features ``X`` (n, d) by stage 1, then train the head on them with labels ``y`` (n,)."""
        features, labels = examples_of_all_classes(X, y, self.classes)
        training = self._training()
        self._forewarn(*features.shape)
        stage = CompactClassifier(
            **{name: getattr(self, name) for name in _STAGE_ONE}, randomness=self.randomness
        ).fit(features, labels, report=report)
        return self._head(stage, features, labels, training, report)

    def fit_behind(self, stage: CompactClassifier, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Train the head alone, behind a ``stage`` that was fitted to the same ``X`` and ``y``.

        ``stage`` has the parameters of this one's stage 1, or is refused; with the randomness of it too, what
        is learned is what :meth:`fit` learns, to the last bit. Several heads can so share one contraction.
        """
        features, labels = examples_of_all_classes(X, y, self.classes)
        stage._fitted("network_")
        for name in _STAGE_ONE:
            if getattr(stage, name) != getattr(self, name):
                raise BadInput(
                    f"stage 1 has {name} = {getattr(stage, name)!r}: this learner needs one with "
                    f"{getattr(self, name)!r}."
                )
        training = self._training()
        self._forewarn(*features.shape)
        return self._head(stage, features, labels, training, report)

    def _training(self) -> DPSGD:
        """Return the training that proves ε for features fixed beforehand."""
        one_of("mode", self.mode, ("accountant", "paper"))
        for name in ("sampling", "momentum"):
            share(name, getattr(self, name))
        return DPSGD(self._multiplier(), self.sampling, self.steps, self.clip)

    def _head(
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

    def contract(self, X: Any) -> Floats:
        """Return g_φ of features ``X`` (n, d), in their units: (n, p)."""
        network: ContractionNetwork = self._fitted("network_")
        return network.contract(checked_features(X, self.n_features_in_))

    def predict_proba(self, X: Any) -> Floats:
        """Return the head's probabilities (n, classes) for contracted features."""
        network: ContractionNetwork = self._fitted("network_")
        moved = network.contracted_units(checked_features(X, self.n_features_in_))
        logits = self.coef_[0] + moved @ self.coef_[1:]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def guarantee(self) -> Guarantee:
        """Return a guarantee of nothing in both modes, with the reason."""
        one_of("mode", self.mode, ("accountant", "paper"))
        return Guarantee.nothing(
            "the contraction is trained on the same records without noise: one changed record changes it and "
            "with it every feature, so the head's inputs are not neighbours",
            RECORD,
            Neighbours.ZERO_OUT,
        )

    def claim(self) -> Claim:
        """Return the authors' claim, with the ε and δ that they would name."""
        paper = one_of("mode", self.mode, ("accountant", "paper")) == "paper"
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
        """Return the gradient sums of all steps, in clips, before any η; two classes if none are given."""
        kept = (
            dimension if self.dimension is None else min(whole_number("dimension", self.dimension), dimension)
        )
        weights = (1 + kept) * (2 if self.classes is None else self.classes)
        noise = self._multiplier() * math.sqrt(self.steps * weights)
        return (NoisyRelease("the gradient sums", "head", self.steps * self.sampling * records, noise),)

    def _multiplier(self) -> float:
        """Return the noise of one gradient sum in clips, σ₁."""
        return calibrated_multiplier(self.epsilon, self.delta, rate=self.sampling, steps=self.steps)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return network, class profile, ``head`` (1 + p, classes) and ``run``: multiplier, ε alone, n."""
        network: ContractionNetwork = self._fitted("network_")
        run = np.array([self.multiplier_, self.head_epsilon_, self.records_])
        return network.tensors() | {"profile": self.profile_.table(), "head": self.coef_, "run": run}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.coef_ = tensors["head"]
        self.multiplier_, self.head_epsilon_ = (float(value) for value in tensors["run"][:2])
        self.records_ = int(tensors["run"][2])
        self.profile_ = ClassProfile.from_table(tensors["profile"])
        self.network_ = ContractionNetwork.restored(tensors)
        self.classes_ = np.arange(self.coef_.shape[1])
        self.n_features_in_ = len(self.network_.centre)
