"""Contraction and classifier with one proven (ε, δ) for both.

CompactDP trains its contraction on private records without noise, and nothing is proven of it. Here the
contraction is computed from noisy statistics: class counts and class sums (the anchors), and the second
moment of all features, two Gaussian releases on integer grids (``CellSums``). A linear head then learns from
contracted features by noisy gradient sums (``private_softmax``).

**Guarantee.** With shares s₁ (anchors), s₂ (second moment) and s₃ = 1 − s₁ − s₂ of the budget and M the
noise multiplier of (ε, δ), each part is a Gaussian mechanism of multiplier M/√sᵢ over its own sensitivity
under the stated neighbours, the third one T sums of M·√(T/s₃) each. Gaussian mechanisms compose to one of
multiplier (Σ sᵢ/M²)^(−½) = M, also where a later one depends on what earlier ones released (Dong, Roth & Su
2022, corollary 3.3): the contraction is such a release, and given it every contracted row is a function of
its own record. A null record (zero-out) lies in no cell and has no gradient. Shares, steps, clipping norm
and learning rate are parameters or functions of them and of the number of records, which is public.

**Edge cases.** A δ of 1/n or more, and noise beyond any signal in one of the three parts, are warned of
before training and noted in the statement (``learner``). More than ``MOST_FEATURES``
features are refused before anything is drawn.

**Contraction in closed form**, from noisy class sums and noisy second moments. With class anchors a_c and the
second moment S of all features, W = S − Σ_c (n_c/n)·a_c a_cᵀ is how features vary inside classes. The map

    g(z) = (W + ρ)^(−½) (z − mean),   brought to length 1,

shrinks every direction by how much it varies inside classes: what all members of a class share is kept and
what tells them apart is contracted. Along the directions that separate classes, members come to lie nearer to
each other relative to the distance between classes; it is no smaller ruler, which would change nothing. It is
computed from released numbers alone and applied to each record by itself, so it costs nothing more.

Noise on S of deviation s off the diagonal has eigenvalues inside ±e, e = 2s√d. An eigenvalue v above e is
that of λ + e²/4λ (Benaych-Georges & Nadakuditi 2011), so λ is taken; the others get their common mean, which
the trace tells well. ρ is a share of e: directions that noise has hidden are contracted alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.learner import (
    Floats,
    Labels,
    NoisyRelease,
    Report,
    checked_features,
)
from sfumato.learners.private_softmax import PrivateSoftmax, class_probabilities
from sfumato.mechanisms import CellSums, Sums, delta_between, known_neighbours, noise_multiplier, positive
from sfumato.noise import NoisedSums
from sfumato.privacy import Guarantee

__all__ = ["CertifiedCompact"]

#: A second moment has the square of so many values, of which some copies are held at once: half a gigabyte.
MOST_FEATURES = 4_000

# The share ρ of the edge of the noise.
_RIDGE = 0.4
_LEAST = 1e-9
# Slightly more noise, so that rounding cannot make the parts cost more than the whole.
_HAIR = 1.0 + 1e-12
# Entries beyond it are cut to it first.
_FINITE = 1e300


@dataclass(frozen=True, eq=False)
class ClosedContraction:
    """The map z ↦ (z − ``mean``) ``matrix``, brought to length 1; ``mean`` (d,), ``matrix`` (d, d)."""

    mean: Floats
    matrix: Floats

    @classmethod
    def of(cls, anchors: Sums, moments: Sums, records: int) -> ClosedContraction:
        """Return the map of class sums, and the second moment of all in one cell, of ``records`` features."""
        counts = np.maximum(anchors.counts, 1.0)
        centres = anchors.firsts / counts[:, None]
        assert moments.seconds is not None
        inside = moments.seconds[0] / records - (centres.T * (counts / counts.sum())) @ centres
        values, axes = np.linalg.eigh(0.5 * (inside + inside.T))
        edge = 2.0 * moments.second_noise * np.sqrt(len(values)) / records
        above = values > edge
        clean = np.where(above, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
        if not above.all():
            rest = (values.sum() - clean.sum()) / np.count_nonzero(~above)
            clean = np.where(above, clean, max(rest, _LEAST))
        matrix = (axes / np.sqrt(clean + _RIDGE * edge + _LEAST)) @ axes.T
        return cls(anchors.firsts.sum(axis=0) / records, matrix)

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """Return the contracted rows (n, d), each of length 1, from its own row alone."""
        turned = (rows - self.mean) @ self.matrix
        return np.asarray(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12))


@dataclass(eq=False, repr=False)
class CertifiedCompact(PrivateSoftmax):
    """Contracted softmax regression on features (n, d) of length ``reach`` or less; longer ones are cut.

    ``epsilon`` and ``delta`` are the promise for contraction and head together. ``anchors`` and ``moments``
    are the shares of the budget that class sums and second moments get; all else is that of
    :class:`~.private_softmax.PrivateSoftmax`, but for samples. More features than ``most_features`` are
    refused.
    """

    _: KW_ONLY
    anchors: float = 0.04
    moments: float = 0.2
    sampling: float = field(default=1.0, init=False)

    most_features = MOST_FEATURES
    _composed = "anchors, moments and gradient sums"

    def parts(self) -> tuple[Guarantee, Guarantee, Guarantee]:
        """Return what anchors, moments and gradient sums prove each; together they are :meth:`guarantee`."""
        names = ("class counts and sums", "second moment", f"{self.steps} gradient sums")
        anchors, moments, head = map(self._gaussian, self._multipliers(), names)
        return anchors, moments, head

    def _prepared(
        self,
        features: NDArray[np.floating],
        labels: Labels,
        records: int,
        sums: NoisedSums,
        report: Report | None,
    ) -> tuple[dict[str, NDArray[Any]], Floats, float]:
        """Return the contraction, and contracted rows, which have length 1."""
        rows = self._cut(np.asarray(features, dtype=np.float64))
        if report is not None:
            report("anchors and moments", 0.0)
        (anchors, moments), (of_anchors, of_moments, _) = self._cells(), self._multipliers()
        means = anchors.release(rows, labels, of_anchors, sums)
        squares = moments.release(rows, np.zeros_like(labels), of_moments, sums)
        contraction = ClosedContraction.of(means, squares, records)
        return {"mean": contraction.mean, "contraction": contraction.matrix}, contraction(rows), 1.0

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """Return the class sums, the second moment and the gradient sums of all steps, with their shares.

        A record is at most 1 long, and so is its square zzᵀ; that one has d(d + 1)/2 entries of its own,
        those off the diagonal twice, with √½ of the noise that is on it. Refuses too many features.
        """
        if dimension > MOST_FEATURES:
            raise BadInput(
                f"a certified contraction of {dimension:,} features would release a square of that side, and "
                f"{MOST_FEATURES:,} are the most: take an extractor with fewer features, or dp-sgd."
            )
        gradients = super().releases(records, dimension)
        (anchors, moments), (of_anchors, of_moments, _) = self._cells(), self._multipliers()
        first, second = anchors.deviations(of_anchors)[1], moments.deviations(of_moments)[2]
        sums = first * math.sqrt(self.classes * dimension)
        squares = second * math.sqrt(dimension * (dimension + 1))
        return (
            NoisyRelease("the class sums", "contraction", records, sums),
            NoisyRelease("the second moment", "contraction", records, squares),
            *gradients,
        )

    def contract(self, X: Any) -> Floats:
        """Return the contracted features (n, d) of ``X``, each of length 1; costs nothing more."""
        contraction = self._fitted("contraction_")
        features = checked_features(X, self.n_features_in_)
        return np.asarray(contraction(self._cut(np.asarray(features, dtype=np.float64))))

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes); costs nothing more."""
        contracted = self.contract(X)
        return class_probabilities(self.coef_, contracted)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return ``mean`` and ``contraction`` of the map, and ``weights`` (1 + d, classes), bias first."""
        contraction = self._fitted("contraction_")
        return {"mean": contraction.mean, "contraction": contraction.matrix, "weights": self.coef_}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.contraction_ = ClosedContraction(tensors["mean"], tensors["contraction"])
        super()._take(tensors)

    def _cut(self, rows: Floats) -> Floats:
        """Return rows in units of ``reach``, scaled back to length 1 where they are longer."""
        with np.errstate(over="ignore"):
            scaled = np.clip(rows / self.reach, -_FINITE, _FINITE)
        largest = np.maximum(np.abs(scaled).max(axis=1, keepdims=True), 1.0)
        scaled /= largest
        return np.asarray(scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0 / largest))

    def _cells(self) -> tuple[CellSums, CellSums]:
        """Return the release of the sums of each class, and that of the second moment of all records."""
        neighbours = known_neighbours(self.neighbours)
        return CellSums(self.classes, 1.0, False, neighbours), CellSums(1, 1.0, True, neighbours)

    def _calibrated(self) -> float:
        return self._multipliers()[2] * math.sqrt(self.steps)

    def _multipliers(self) -> tuple[float, float, float]:
        """Return the noise of each part over its own sensitivity."""
        whole = noise_multiplier(positive("epsilon", self.epsilon), delta_between(self.delta)) * _HAIR
        anchors, moments, head = (whole / math.sqrt(share) for share in self._shares())
        return anchors, moments, head

    def _shares(self) -> tuple[float, float, float]:
        anchors, moments = positive("anchors", self.anchors), positive("moments", self.moments)
        if anchors + moments >= 1.0:
            raise BadInput(
                f"`anchors` and `moments` were {anchors:g} and {moments:g}: together they must leave some "
                "of the budget, 1, to the head.",
                parameter="anchors",
            )
        return anchors, moments, 1.0 - anchors - moments
