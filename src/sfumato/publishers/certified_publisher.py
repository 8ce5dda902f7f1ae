"""A publisher with one proven (ε, δ) for each record, whatever is done with what it publishes.

``fit`` makes a few noisy releases of counts, sums and second moments of cells (``cell_sums``) in a public
basis: class means; with ``parts`` > 1 some rounds that split each class; with ``embeddings`` > 0 class means
of Fourier features (``kernel_means``); then all moments of the cells, about their centres. Everything after
that, drawing pictures and choosing among them included, is post-processing.

**Guarantee.** Release i has noise of multiplier m/√sᵢ over its own L2 sensitivity, with Σsᵢ = 1, so that it
is Gaussian-DP with μᵢ = √sᵢ/m; releases chosen from earlier ones compose to μ² = Σμᵢ² = 1/m² (Dong, Roth &
Su 2022, corollary 3.3), which is one analytic Gaussian of multiplier m. Pictures, labels, class counts and
the number of records (add/remove) are all covered. Shape and range of pictures, and the classes, are public.

**Edge cases.** Pictures are cut to the declared range of values. NaN, labels outside the declared classes
and wrong shapes are refused before any noise is drawn. A class without records is published as rarely as its
noisy count says, and looks like noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.cell_sums import CellSums, Sums
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, positive
from sfumato.mechanisms.release_value import Release
from sfumato.noise import Randomness
from sfumato.privacy import RECORD, Guarantee, Neighbours
from sfumato.privacy.defaults import DELTA, PUBLICATIONS, REQUIRED
from sfumato.publishers.basis import CosineBasis
from sfumato.publishers.kernel_means import FourierFeatures
from sfumato.publishers.labelled_images import Labelled
from sfumato.publishers.mixture import Mixture
from sfumato.publishers.partition import Partition
from sfumato.publishers.publisher import Progress, Publisher, published_randomness, whole
from sfumato.publishers.shrinkage import shrunk
from sfumato.publishers.tilting import Tilted

__all__ = ["CertifiedPublisher"]

Array = NDArray[np.float64]

# Shares of the budget: class means, each round that splits classes, kernel means; moments take the rest.
_MEANS = 0.1
_ROUND = 0.05
_ROUNDS = 4
_EMBEDDINGS = 0.1
# Coordinates are a unit vector and a brightness that is rarely above 1.
_LENGTH = math.sqrt(2.0)
# Residuals are clipped at this multiple of their root mean square, which is known from the noisy means.
_REACH = 1.1
# Bandwidths of the kernel, relative to that root mean square.
_BANDWIDTHS = (0.7, 1.4)


class CertifiedPublisher(Publisher):
    """Publishes pictures of ``shape`` with values from 0 to ``top`` and labels 0…``classes``−1.

    ``epsilon`` and ``delta`` are the promise for one record under ``neighbours`` (``"replace"``,
    ``"zero-out"`` or ``"add/remove"``); ``kept`` frequencies each way make the basis; ``parts`` is the number
    of Gaussians of a class, by default 1 up to ε = 2, 4 up to ε = 5 and 8 beyond; ``embeddings`` is the even
    number of Fourier features whose class means are released too, by default none. All parameters are public.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        *,
        shape: tuple[int, ...] = (28, 28),
        classes: int = 10,
        top: float = 255.0,
        neighbours: str = PUBLICATIONS.neighbours,
        kept: int = 14,
        parts: int | None = None,
        embeddings: int = 0,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = positive("epsilon", epsilon)
        self.delta = delta_between(delta)
        self.top = positive("top", top)
        self.neighbours = Neighbours(neighbours)
        self.basis = CosineBasis(tuple(shape), kept)
        self.classes = whole("classes", classes, 2)
        if parts is None:
            parts = 1 if self.epsilon <= 2.0 else 4 if self.epsilon <= 5.0 else 8
        self.parts = whole("parts", parts, 1)
        self.embeddings = whole("embeddings", embeddings, 0)
        if self.embeddings % 2:
            raise BadInput(
                f"`embeddings` was {embeddings!r}: features come in pairs, so an even number is needed.",
                parameter="embeddings",
            )
        self.randomness = published_randomness(randomness)
        self._mixture: Mixture | Tilted | None = None
        self._published = self._records = 0

    def guarantee(self) -> Guarantee:
        """ε at δ for one record; known before ``fit``, the same however often ``publish`` is called."""
        return Guarantee.gaussian(
            self._multiplier(),
            unit=RECORD,
            neighbours=self.neighbours,
            theorem="analytic Gaussian, adaptive composition of Gaussian releases",
            at_delta=self.delta,
        )

    def fit(self, X: Any, y: Any, *, report: Progress | None = None) -> Self:
        """Spend the guarantee on pictures ``X`` (n, *shape) and labels ``y`` (n,); each call spends it."""
        data = Labelled.checked(X, y, top=self.top, shape=self.basis.shape, classes=self.classes)
        labels, tell = data.labels.astype(np.intp), report or (lambda stage, share, facts: None)
        vectors = self.basis.coordinates(data.pictures.astype(np.float64))
        tell("releasing class statistics", 0.2, {})
        shares = self.shares()
        rng = self._generator(b"publisher centres")
        start = Partition(np.zeros((self.classes, 1, vectors.shape[1])))
        sums = self._sums(start, vectors, labels, _LENGTH, shares[0], "means")
        means = start.moved(sums)
        spread = _spread(sums, means)
        partition = Partition.around(means.centres[:, 0], self.parts, 0.5 * spread, rng)
        reach = _REACH * spread
        for number, share in enumerate(shares[1 : 1 + _ROUNDS] if self.parts > 1 else ()):
            sums = self._sums(partition, vectors, labels, reach, share, f"round {number}")
            partition = partition.moved(sums)
        if self.parts > 1:
            reach = _REACH * _spread(sums, partition)
        if self.embeddings:
            widths = (_BANDWIDTHS[0] * spread, _BANDWIDTHS[1] * spread)
            features = FourierFeatures.public(vectors.shape[1], self.embeddings, widths)
            kernels = self._kernel_sums(features, vectors, labels, shares[-2])
        sums = self._sums(partition, vectors, labels, reach, shares[-1], "moments", moments=True)
        mixture = _mixture(self.basis, partition, sums).corrected(rng)
        self._mixture = Tilted.toward(mixture, features, kernels, rng) if self.embeddings else mixture
        # Known to everybody under replace and zero-out; under add/remove only as the noisy counts say it.
        noisy = max(int(np.rint(sums.counts.sum())), 1)
        self._records = noisy if self.neighbours is Neighbours.ADD_REMOVE else len(labels)
        self._published = 0
        tell("class statistics released", 1.0, {})
        return self

    def publish(self, n: int | None = None) -> Release:
        """``n`` pictures of the data's range, as float32, and their labels; costs nothing more.

        Without ``n`` as many as were read, which under add/remove neighbours is known by noisy counts only.
        """
        if self._mixture is None:
            raise BadInput("nothing has been fitted: call fit(X, y) before publish(n).")
        n = self._records if n is None else whole("n", n, 1)
        rng = self._generator(f"publisher pictures {self._published}".encode())
        self._published += 1
        labels = self._mixture.labels(n, rng)
        pictures = (self._mixture.pictures(labels, rng) * self.top).astype(np.float32)
        return self._release(pictures, labels.astype(np.int64))

    def parameters(self) -> Mapping[str, Any]:
        """The public parameters."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "shape": list(self.basis.shape),
            "classes": self.classes,
            "top": self.top,
            "neighbours": str(self.neighbours),
            "kept": self.basis.kept,
            "parts": self.parts,
            "embeddings": self.embeddings,
        }

    def shares(self) -> tuple[float, ...]:
        """What each release of a fit takes of μ², together 1: means, rounds, kernel means, moments."""
        rounds = (_ROUND,) * (_ROUNDS if self.parts > 1 else 0)
        kernels = (_EMBEDDINGS,) * bool(self.embeddings)
        return (_MEANS, *rounds, *kernels, 1.0 - _MEANS - sum(rounds) - sum(kernels))

    def _multiplier(self) -> float:
        return noise_multiplier(self.epsilon, self.delta)

    def _sums(
        self,
        partition: Partition,
        vectors: Array,
        labels: NDArray[np.intp],
        clip: float,
        share: float,
        name: str,
        *,
        moments: bool = False,
    ) -> Sums:
        """One release, of ``share`` of the budget, of the residuals about the centres of ``partition``."""
        cells = partition.assign(vectors, labels)
        # A hair more than m/√s, so that rounding cannot make the shares add up to more than the whole.
        multiplier = self._multiplier() / math.sqrt(share) * (1.0 + 1e-12)
        stream = self.randomness.stream(f"publisher {name}".encode())
        plan = CellSums(partition.cells, clip, moments, self.neighbours)
        return plan.release(vectors - partition.flat[cells], cells, multiplier, stream)

    def _kernel_sums(
        self, features: FourierFeatures, vectors: Array, labels: NDArray[np.intp], share: float
    ) -> Sums:
        """One release, of ``share`` of the budget, of features by class; their length is the clip."""
        about = Partition(np.zeros((self.classes, 1, self.embeddings)))
        return self._sums(about, features.of(vectors), labels, features.LENGTH, share, "kernel means")

    def _generator(self, label: bytes) -> np.random.Generator:
        return np.random.default_rng(self.randomness.stream(label).integer(128))


def _spread(sums: Sums, moved: Partition) -> float:
    """About the root mean square distance of records from the centres ``moved`` of their cells.

    Directions have length 1, so it follows from the lengths of the noisy means; brightness is left out.
    """
    weights = np.maximum(sums.counts, 0.0)
    weights = weights / max(weights.sum(), 1e-300)
    lengths = 1.0 + np.square(moved.flat[:, -1])
    return math.sqrt(max(float(weights @ (lengths - np.square(moved.flat).sum(axis=1))), 0.01))


def _mixture(basis: CosineBasis, partition: Partition, sums: Sums) -> Mixture:
    """Weights, means and covariances of all cells from their noisy sums."""
    assert sums.seconds is not None
    classes, parts = partition.centres.shape[:2]
    counts = np.maximum(sums.counts, 4.0 * sums.count_noise)
    shifts = sums.firsts / counts[:, None]
    centred = sums.seconds - counts[:, None, None] * (shifts[:, :, None] * shifts[:, None, :])
    enough = np.where(sums.counts > 4.0 * sums.count_noise, counts, 1e-6).reshape(classes, parts)
    means = (partition.flat + shifts).reshape(classes, parts, -1)
    covariances = shrunk(centred, counts, sums.second_noise).smoothed()
    return Mixture(basis, enough / enough.sum(), means, covariances)
