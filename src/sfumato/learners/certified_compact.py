"""Contraction and classifier with one proven (ε, δ) for both.

CompactDP trains its contraction on private records without noise, and nothing is proven of it. Here the
contraction is computed from noisy statistics: class counts and class sums (the anchors), and the second
moment of all features, two Gaussian releases on integer grids (:mod:`sfumato.mechanisms.cell_sums`). A linear
head then learns from contracted features by noisy gradient sums (:mod:`sfumato.learners.linear_head`).

**Guarantee.** With shares s₁ (anchors), s₂ (second moment) and s₃ = 1 − s₁ − s₂ of the budget and M the noise
multiplier of (ε, δ), each part is a Gaussian mechanism of multiplier M/√sᵢ over its own sensitivity under the
stated neighbours, the third one T sums of M·√(T/s₃) each. Gaussian mechanisms compose to one of multiplier
(Σ sᵢ/M²)^(−½) = M, also where a later one depends on what earlier ones released (Dong, Roth & Su 2022,
corollary 3.3): the contraction is such a release, and given it every contracted row is a function of its own
record. A null record (zero-out) lies in no cell and has no gradient. Shares, steps, clip and pace are
parameters or functions of them and of the number of records, which is public.

**Edge cases.** A δ of 1/n or more, and noise beyond any signal in one of the three parts, are warned of
before training and noted in the statement (:mod:`~.forewarnings`). More than ``MOST_FEATURES`` features are
refused before anything is drawn (:mod:`~.closed_contraction`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.closed_contraction import MOST_FEATURES, ClosedContraction, check_width
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
from sfumato.mechanisms.cell_sums import CellSums
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, known_neighbours, positive
from sfumato.noise import Randomness
from sfumato.privacy import RECORD, Guarantee, Neighbours
from sfumato.privacy.defaults import DELTA, MODELS, REQUIRED

__all__ = ["CertifiedCompact"]

# A hair more noise, so that rounding cannot make the parts cost more than the whole.
_HAIR = 1.0 + 1e-12
# Entries beyond it are cut to it first.
_FINITE = 1e300


class CertifiedCompact(Learner):
    """Contracted softmax regression on features (n, d) of length ``reach`` or less; longer ones are cut.

    ``epsilon`` and ``delta`` are the promise for one record under ``neighbours``, ``"zero-out"`` or
    ``"replace"``, for contraction and head together. ``anchors`` and ``moments`` are the shares of the
    budget that class sums and second moments get; ``steps``, ``momentum``, ``pace``, ``spread`` and
    ``clip`` are those of :class:`~.private_softmax.PrivateSoftmax`.
    More features than ``most_features`` are refused.
    """

    most_features = MOST_FEATURES

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        *,
        classes: int = 10,
        neighbours: str = MODELS.neighbours,
        reach: float = 1.0,
        anchors: float = 0.04,
        moments: float = 0.2,
        clip: float = 0.02,
        steps: int = 200,
        pace: float | None = None,
        momentum: float = 0.9,
        spread: float = SPREAD,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon, self.delta, self.classes, self.neighbours = epsilon, delta, classes, neighbours
        self.reach, self.anchors, self.moments = reach, anchors, moments
        self.clip, self.steps, self.pace, self.momentum = clip, steps, pace, momentum
        self.spread, self.randomness = spread, randomness

    def guarantee(self) -> Guarantee:
        """ε at δ for one record, contraction and head together; known before ``fit``, which spends it."""
        checked_classes(self.classes)
        positive("reach", self.reach)
        neighbours = known_neighbours(self.neighbours)
        self._descent().check(self._step(neighbours))
        return Guarantee.gaussian(
            noise_multiplier(self.epsilon, self.delta),
            unit=RECORD,
            neighbours=neighbours,
            theorem="analytic Gaussian, adaptive composition of anchors, moments and gradient sums",
            at_delta=self.delta,
        )

    def parts(self) -> tuple[Guarantee, Guarantee, Guarantee]:
        """What anchors, moments and gradient sums prove each; together they are :meth:`guarantee`."""
        names = ("class counts and sums", "second moment", f"{self.steps} gradient sums")
        anchors, moments, head = (
            Guarantee.gaussian(
                multiplier,
                unit=RECORD,
                neighbours=known_neighbours(self.neighbours),
                theorem=f"analytic Gaussian, {name}",
                at_delta=self.delta,
            )
            for name, multiplier in zip(names, self._multipliers(), strict=True)
        )
        return anchors, moments, head

    def fit(self, X: Any, y: Any, *, records: int | None = None, report: Report | None = None) -> Self:
        """Learn from features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee.

        ``records`` is the public number of records where some of them are null and are left out of the n, as
        audits do; where it is given, rounding in products of other shapes may move other gradients by a
        step of the grid.
        """
        features, labels = checked_examples(X, y, checked_classes(self.classes))
        number = checked_number(records, len(features))
        neighbours = self.guarantee().neighbours
        self._forewarn(number, features.shape[1])
        of_anchors, of_moments, _ = self._multipliers()
        randomness = self._randomness()
        rows = self._cut(np.asarray(features, dtype=np.float64))
        if report is not None:
            report("anchors and moments", 0.0)
        anchors, moments = self._cells(neighbours)
        sums = anchors.release(rows, labels, of_anchors, randomness.stream(b"anchors"))
        squares = moments.release(rows, np.zeros_like(labels), of_moments, randomness.stream(b"moments"))
        contraction = ClosedContraction.of(sums, squares, number)
        head = LinearHead(contraction(rows), labels, self.classes, reach=1.0, clip=self.clip)
        weights = self._descent().weights(
            head,
            self._step(neighbours),
            randomness.stream(b"softmax gradients"),
            records=number,
            report=report,
        )
        found = {"mean": contraction.mean, "contraction": contraction.matrix, "weights": weights}
        self._take(found)
        return self

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """The class sums, the second moment and the gradient sums of all steps, each with its own share.

        A record is at most 1 long, and so is its square zzᵀ; that one has d(d + 1)/2 entries of its own,
        those off the diagonal twice, with √½ of the noise that is on it. Refuses too many features.
        """
        check_width(dimension)
        classes, neighbours = checked_classes(self.classes), known_neighbours(self.neighbours)
        anchors, moments = self._cells(neighbours)
        of_anchors, of_moments, _ = self._multipliers()
        first, second = anchors.deviations(of_anchors)[1], moments.deviations(of_moments)[2]
        gradients = self._step(neighbours) * math.sqrt(self.steps * (1 + dimension) * classes)
        sums, squares = (
            first * math.sqrt(classes * dimension),
            second * math.sqrt(dimension * (dimension + 1)),
        )
        return (
            NoisyRelease("the class sums", "contraction", records, sums),
            NoisyRelease("the second moment", "contraction", records, squares),
            NoisyRelease("the gradient sums", "model", self.steps * records, gradients),
        )

    def contract(self, X: Any) -> Floats:
        """The contracted features (n, d) of ``X``, each of length 1; costs nothing more."""
        contraction = self._fitted("contraction_")
        features = checked_features(X, self.n_features_in_)
        return np.asarray(contraction(self._cut(np.asarray(features, dtype=np.float64))))

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities (n, classes); costs nothing more."""
        contracted = self.contract(X)
        return shares(self.coef_, contracted)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """``mean`` and ``contraction`` of the map, and ``weights`` (1 + d, classes), a constant first."""
        contraction = self._fitted("contraction_")
        return {"mean": contraction.mean, "contraction": contraction.matrix, "weights": self.coef_}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.contraction_ = ClosedContraction(tensors["mean"], tensors["contraction"])
        self.coef_ = tensors["weights"]
        self.classes_ = np.arange(self.classes)
        self.n_features_in_ = len(self.coef_) - 1

    def _cut(self, rows: Floats) -> Floats:
        """Rows in units of ``reach``, scaled back to length 1 where they are longer."""
        with np.errstate(over="ignore"):
            scaled = np.clip(rows / self.reach, -_FINITE, _FINITE)
        largest = np.maximum(np.abs(scaled).max(axis=1, keepdims=True), 1.0)
        scaled /= largest
        return np.asarray(scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0 / largest))

    def _cells(self, neighbours: Neighbours) -> tuple[CellSums, CellSums]:
        """What releases the sums of each class, and the second moment of all records."""
        return CellSums(self.classes, 1.0, False, neighbours), CellSums(1, 1.0, True, neighbours)

    def notes(self) -> tuple[str, ...]:
        """What is public, and what must have been chosen before."""
        return public_notes()

    def resolved(self, records: int) -> dict[str, Any]:
        """The pace, from the noise and the number of records, unless it was given."""
        step = self._step(known_neighbours(self.neighbours))
        return {"pace": self._descent().pace_used(records, step)}

    def _descent(self) -> Descent:
        return Descent(self.steps, self.clip, self.momentum, self.pace, self.spread)

    def _step(self, neighbours: Neighbours) -> float:
        """Noise of one gradient sum in clips: over a sensitivity of one clip, or of two under replace."""
        twice = 2.0 if neighbours is Neighbours.REPLACE else 1.0
        return twice * self._multipliers()[2] * math.sqrt(self._descent().steps)

    def _multipliers(self) -> tuple[float, float, float]:
        """Noise of each part over its own sensitivity."""
        whole = noise_multiplier(positive("epsilon", self.epsilon), delta_between(self.delta)) * _HAIR
        anchors, moments, head = (whole / math.sqrt(share) for share in self._shares())
        return anchors, moments, head

    def _shares(self) -> tuple[float, float, float]:
        anchors, moments = positive("anchors", self.anchors), positive("moments", self.moments)
        if anchors + moments >= 1.0:
            raise BadInput(
                f"`anchors` and `moments` were {anchors:g} and {moments:g}: together they must leave some "
                "of the "
                "budget, 1, to the head.",
                parameter="anchors",
            )
        return anchors, moments, 1.0 - anchors - moments
