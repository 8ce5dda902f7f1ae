"""CompactDP as published: contract features class by class, then classify by the largest class density.

Stage 1 of Algorithm 1 and equation 5. Densities for classification are those of contracted anchors ("sampled
anchors to form class-wise PDFs", Theorem 3), with classes taken as equally frequent; eq. 5 has no
frequencies.

**Guarantee.** Nothing is proven. The contraction learns from private features without noise, and the
contracted features of some training records, the anchors, are kept as they are in the model: who has the
model can look for them. A contraction ratio is no privacy: multiply all features by 0.05, and every diameter,
h and scale shrinks along, while every answer of the model and every attack on it stays the same.

**Edge cases.** A class with fewer than two records, features that are not finite or all the same, and labels
outside 0…C−1 are refused before anything is trained.

**Anchors** of a class are its records of highest density (CompactDP, equation 2).

*What the paper leaves open.* With γ = 0.5 it names "approximately 50 samples per class of CIFAR10", which
has 5,000 of each, so the densities must have been those of about 100 records of a class. They are drawn here
at random, ``references`` of each class; ``None`` takes all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.compact.class_densities import (
    ClassDensities,
    ClassProfile,
    checked_bandwidth,
    examples_of_all_classes,
)
from sfumato.learners.compact.contraction import ContractionNetwork, train_contraction
from sfumato.learners.learner import Floats, Labels, Learner, Report, checked_features, whole_number
from sfumato.mechanisms import positive
from sfumato.noise import Randomness, Stream, random_permutation
from sfumato.privacy import Claim, Guarantee

__all__ = ["CompactClassifier"]
# Of few records a batch is a tenth, the share that 4,096 is of the paper's 40,000, but not less than this.
_SMALLEST_BATCH = 32


def draw_references(labels: Labels, classes: int, references: int | None, stream: Stream) -> NDArray[np.intp]:
    """Return at most ``references`` positions of each class, drawn by ``stream``, in rising order."""
    if references is not None:
        references = whole_number("references", references, least=2)
    chosen = []
    for kind in range(classes):
        own = np.flatnonzero(labels == kind)
        if references is not None and len(own) > references:
            own = own[random_permutation(stream, len(own))[:references]]
        chosen.append(own)
    return np.sort(np.concatenate(chosen))


def choose_anchors(densities: ClassDensities, *, share: float = 0.5) -> NDArray[np.intp]:
    """Return positions of the points above the (1 − ``share``) quantile of ``densities`` of their class.

    The density of a point counts the point itself, which adds the same to all of a class. A class keeps its
    densest point whatever the share; points as dense as the quantile are anchors. The quantile is taken of
    log-densities: that of densities lies between the same two points, so the anchors are the same.
    """
    if positive("share", share) > 1.0:
        raise BadInput(f"`share` was {share!r}: it must lie above 0 and be at most 1.", parameter="share")
    chosen = []
    for kind in range(densities.classes):
        own = np.flatnonzero(densities.labels == kind)
        logs = densities.log_density(densities.points[own], kind)
        chosen.append(own[logs >= np.quantile(logs, 1.0 - share)])
    return np.sort(np.concatenate(chosen))


@dataclass(eq=False, repr=False)
class ContractingLearner(Learner):
    """Base of learners that contract features (n, d) by stage 1 of CompactDP.

    ``classes`` None means as many as there are labels. ``bandwidth`` is ``"adaptive"`` or a number in units
    of the features' scale (their root mean square distance from their mean). Of each class ``references``
    records, drawn at random, give its density, and the ``share`` γ of highest density are its anchors.
    ``width`` is that of the hidden layer, ``dimension`` that of contracted features (None: that of features).
    ``whiten`` evens out how much features vary in different directions; contracted features and the profile
    are then those of whitened features. ``epochs``, ``batch``, the batch size (the paper's 4,096, or a tenth
    of the records where that is less), and ``rate``, the learning rate (the paper's 0.1), are those of
    training. Defaults that the paper does not state were chosen on training pictures held back, by
    ``benchmarks/compact_defaults.py``; a larger ``width`` is slower and a little more accurate. See
    :mod:`~sfumato.learners.compact.contraction`.

    After ``fit``: ``network_`` and ``profile_``.
    """

    _: KW_ONLY
    classes: int | None = None  # type: ignore[assignment]
    bandwidth: str | float = "adaptive"
    share: float = 0.5
    references: int | None = 100
    width: int = 1024
    dimension: int | None = None
    whiten: bool = False
    epochs: int = 20
    batch: int = 4096
    rate: float = 0.1
    randomness: Randomness | None = None

    def contract(self, X: Any) -> Floats:
        """Return g_φ of features ``X`` (n, d), in their units: (n, p)."""
        network: ContractionNetwork = self._fitted("network_")
        return network.contract(checked_features(X, self.n_features_in_))

    def _contracted(self, X: Any) -> NDArray[np.float32]:
        """Return g_φ of features ``X`` (n, d), in units of the network: (n, p)."""
        network: ContractionNetwork = self._fitted("network_")
        return network.contracted_units(checked_features(X, self.n_features_in_))

    def _use(self, network: ContractionNetwork, profile: ClassProfile, classes: int) -> None:
        self.network_, self.profile_ = network, profile
        self.classes_ = np.arange(classes)
        self.n_features_in_ = len(network.centre)


@dataclass(eq=False, repr=False)
class CompactClassifier(ContractingLearner):
    """Classifies features (n, d) by class densities in a contracted space.

    After ``fit``: ``network_``, ``densities_`` (in the network's units), ``profile_``, ``bandwidth_`` and
    ``contracted_bandwidth_`` (in the units of the features), ``losses_``, one an epoch.
    """

    def fit(self, X: Any, y: Any, *, report: Report | None = None) -> Self:
        """Learn the contraction and the class densities from features ``X`` (n, d) and labels ``y`` (n,)."""
        features, labels = examples_of_all_classes(X, y, self.classes)
        fixed = checked_bandwidth(self.bandwidth)
        for name in ("epochs", "batch"):
            whole_number(name, getattr(self, name))
        randomness = self._randomness()
        generator = torch.Generator().manual_seed(randomness.stream(b"compact weights").integer(64) % 2**63)
        classes = int(labels.max()) + 1
        network = ContractionNetwork.of_features(
            features,
            width=self.width,
            dimension=self.dimension,
            whiten=self.whiten,
            generator=generator,
        )
        chosen = draw_references(labels, classes, self.references, randomness.stream(b"compact references"))
        before = ClassDensities(
            network.in_units(features[chosen]), labels[chosen], classes, bandwidth=fixed or "adaptive"
        )
        anchors = chosen[choose_anchors(before, share=self.share)]
        self.losses_ = train_contraction(
            network,
            features,
            labels,
            network.in_units(features[anchors]),
            labels[anchors],
            bandwidth=before.bandwidth,
            epochs=self.epochs,
            batch=min(self.batch, max(_SMALLEST_BATCH, -(-len(features) // 10))),
            rate=positive("rate", self.rate),
            generator=generator,
            report=report,
        )
        # With one record of a class as anchor there is no spread to adapt to; its references have one.
        adapted = ClassDensities(
            network.contracted_units(features[chosen]), labels[chosen], classes, bandwidth=fixed or "adaptive"
        ).bandwidth
        after = ClassDensities(
            network.contracted_units(features[anchors]), labels[anchors], classes, bandwidth=adapted
        )
        profile = ClassProfile.of(
            (
                (network.on_axes(features[labels == kind]), network.contract(features[labels == kind]))
                for kind in range(classes)
            ),
            bandwidth=before.bandwidth * network.scale,
            contracted_bandwidth=after.bandwidth * network.scale,
        )
        self._set(network, after, profile, before.bandwidth)
        return self

    def _set(
        self, network: ContractionNetwork, densities: ClassDensities, profile: ClassProfile, before: float
    ) -> None:
        self._use(network, profile, densities.classes)
        self.densities_ = densities
        self.bandwidth_ = before * network.scale
        self.contracted_bandwidth_ = densities.bandwidth * network.scale

    def forms(self, X: Any) -> dict[str, NDArray[np.float32]]:
        """Return records as they look in :meth:`tensors`: contracted, in the units of the network."""
        return {"contracted": self._contracted(X)}

    def predict_proba(self, X: Any) -> Floats:
        """Return each class's density over the sum, (n, classes): mostly 0 or 1 in many dimensions."""
        return self._fitted("densities_").probabilities(self._contracted(X))  # type: ignore[no-any-return]

    def predict(self, X: Any) -> Labels:
        """Return the class of largest density (equation 5), also where probabilities are all 0 or 1."""
        return np.asarray(self._fitted("densities_").log_densities(self._contracted(X)).argmax(axis=1))

    def guarantee(self) -> Guarantee:
        """Return a guarantee of nothing, with the reason."""
        return Guarantee.nothing(
            "the contraction is trained on private features without noise, and the model keeps contracted "
            "features of training records as anchors"
        )

    def claim(self) -> Claim:
        """Return the authors' claim: an empirical comparison, no ε."""
        return Claim(
            text="“a superior privacy-utility trade-off, with empirical privacy guarantee comparable to "
            "DP-SGD (ϵ = 1)”; (α, ρ)-RDP becomes (α, ρη²)-RDP after contraction",
            source="CompactDP: Category-aware Feature Compactness for Differential Privacy, abstract and "
            "equation 15",
        )

    def notes(self) -> tuple[str, ...]:
        """Return notes on what the model holds, and on what a contraction ratio is not."""
        held = (
            (
                f"the model holds the contracted features of {len(self.densities_.points)} training records "
                "as they are",
            )
            if hasattr(self, "densities_")
            else ()
        )
        return (
            *held,
            "a contraction ratio is a change of ruler: features, bandwidths and scale shrink together, and "
            "no attack changes",
        )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return network, profile, bandwidths and ``anchors``: contracted features of training records."""
        network: ContractionNetwork = self._fitted("network_")
        return network.tensors() | {
            "anchors": self.densities_.points,
            "anchor_labels": self.densities_.labels,
            "bandwidths": np.array([self.bandwidth_ / network.scale, self.densities_.bandwidth]),
            "profile": self.profile_.table(),
        }

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        profile = ClassProfile.from_table(tensors["profile"])
        before, after = (float(value) for value in tensors["bandwidths"])
        densities = ClassDensities(
            tensors["anchors"], tensors["anchor_labels"], len(profile.count), bandwidth=after
        )
        self._set(ContractionNetwork.restored(tensors), densities, profile, before)
