"""A linear classifier with one proven (ε, δ): noisy gradient descent on all examples at once.

Every step releases the sum of all clipped gradients with noise; momentum, steps along it and the mean of the
last weights are post-processing.

**Guarantee.** With ``steps`` sums of multiplier m each, over the sensitivity of the neighbours, all together
are one analytic Gaussian of multiplier m/√steps (Gaussian differential privacy composes so, also when each
step depends on those before it: Dong, Roth & Su 2022, corollary 3.3). On samples it is what
:class:`~sfumato.learners.DPSGD` proves. Shapes, classes and the number of examples are public; learning rate,
steps, clipping norm and reach are parameters and are never read off the data.

**Edge cases.** Values that are not finite and labels outside the classes are refused before any noise is
drawn. A class without examples is learned as one that never occurs. A δ of 1/n or more, and noise beyond any
signal, are warned of before training and noted in the statement (``learner``).

**Gradient sums without the gradients of single examples** (``LinearHead``). For softmax regression the
gradient of one example is the outer product of its features, with a constant in front, and its residual
r = p − e_y. Its length is the product of two lengths, and the sum of all clipped gradients is one matrix
product. Features are put on an integer grid once, k = rint(x/step), a constant first; in each step the
residual is scaled, to length L/‖k‖ − √C/2 at most with C classes, and rounded to whole numbers m, which
lengthens it by √C/2 at most, such that

    ‖k‖·‖m‖ ≤ L = 2⁴¹,

and KᵀM is summed: in float64 for few rows, where whole numbers stay below 2⁵³ and are hence exact whatever
the order, and over all rows in integers. Noise cannot be drawn that finely, so the sum S is rounded to whole
numbers of 2¹³ steps, T = ⌊S/2¹³ + ½⌋, before the noise is added.

*Guarantee.* A null record in the place of an example (zero-out) takes its own k mᵀ, of Frobenius length
‖k‖‖m‖ ≤ L, from S; another record in its place (replace) moves S by at most 2L. All other rows stay as they
are: a row of M is computed from its own row of K, its label and the weights, in products whose shapes do not
depend on the example (of those taken by a Poisson sample a null record is one, which adds nothing). An entry
of T moves by less than 1 more than that of S/2¹³, so that T with N entries moves by at most
D = L/2¹³ + √N (zero-out) and by at most 2D (replace). To T a real Gaussian of deviation ``multiplier``·D,
rounded to whole numbers, is added, so that a step is the Gaussian mechanism with that multiplier; no slack is
left. √N is 4·10⁻⁷ of D for ten classes of a thousand features.
The scale of m is safe to rounding: ‖k‖² is a whole number below 2⁵³ and exact, the length of a residual comes
from float64 sums of fewer than 2²⁴ squares, which are off by a factor of at most 1 ± 2⁻²⁸, and a share of
2⁻²⁶ is left as margin.

**Learning rate.** Over T steps of learning rate a with momentum β a weight moves by about a/(1 − β) times T
mean gradients, each of length c (the clipping norm) or less, and the noise moves it by a/(1 − β)·√T·m·c/n,
where m is the multiplier of one step and n the number of records. With m = √T·M, M being that of all steps
together, both grow with a·T alone: noise in a logit has a deviation of P·M/n for the path P = a·c·T/(1 − β).
The path is therefore set by the noise it collects, P = S·n/M for a ``spread`` S, and not by the data;
``SPREAD`` was chosen on training pictures of MNIST and Fashion-MNIST (``benchmarks/compact_defaults.py
--certified``). A step is never larger than ``LARGEST`` clipping norms, where more noise would be allowed than
is needed to get there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import DPSGD, is_reported
from sfumato.learners.learner import (
    Floats,
    Learner,
    NoisyRelease,
    Report,
    checked_classes,
    checked_examples,
    checked_features,
    public_notes,
    whole_number,
)
from sfumato.mechanisms import delta_between, known_neighbours, noise_multiplier, positive, share
from sfumato.noise import NORMAL, NoisedSums, Randomness, Rounded, Stream
from sfumato.privacy import DELTA, MODELS, RECORD, REQUIRED, Guarantee, Neighbours

__all__ = ["PrivateSoftmax"]

# Steps across the longest feature vector, and the bound L on ‖k‖‖m‖.
_RADIUS = float(1 << 21)
_BOUND = float(1 << 41)
_MARGIN = 1.0 - 2.0**-26
# Noise is added to whole numbers of this many steps.
_COARSE_BITS = 13
_COARSE_BOUND = _BOUND / (1 << _COARSE_BITS)
# Noise of 2⁴⁰ can be drawn, that is of 4096 · 2²⁸; the rest is left for √N, which is below 2²².
_LARGEST_MULTIPLIER = 4000.0
# Rows that are summed at a time: each entry at most L, hence below 2⁵³.
_TOGETHER = 512
# Sums over this many examples stay below 2⁶³.
_MOST = 1 << 22
SPREAD = 2.3
LARGEST = 100.0
# Weights of the last third of the steps are averaged.
_LAST = 1.0 / 3.0


class LinearHead:
    """Clipped gradient sums of softmax regression on ``features`` (n, d) with ``labels`` (n,).

    Features are as long as ``reach``, a public number, or are scaled back to it; a constant of the same
    length stands in front of them. ``clip`` bounds the gradient of one example. Weights (1 + d, classes)
    belong to features in units of ``reach``.
    """

    def __init__(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.integer],
        classes: int,
        *,
        reach: float,
        clip: float,
    ) -> None:
        if len(features) >= _MOST or features.shape[1] >= 1 << 24:
            raise BadInput(f"{len(features)} examples were given: sums are exact below {_MOST}.")
        self.reach, self.clip = positive("reach", reach), positive("clip", clip)
        self.classes = classes
        self._rows = torch.from_numpy(self._whole(features))
        self._lengths = self._rows.square().sum(dim=1).sqrt()
        self._truth = torch.nn.functional.one_hot(torch.from_numpy(labels.astype(np.int64)), classes).double()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of weights and gradients."""
        return self._rows.shape[1], self.classes

    def logits(self, weights: Tensor, features: NDArray[np.floating] | None = None) -> Tensor:
        """Return logits of the own examples, or of other ``features``, under ``weights``."""
        rows = self._rows if features is None else torch.from_numpy(self._whole(features))
        return rows @ (weights.double() / _RADIUS)

    def total(self, weights: Tensor, taken: NDArray[np.intp] | None = None) -> Tensor:
        """Return the exact sum of whole-number gradients of ``taken`` examples (default: all), as int64."""
        rows, lengths, truth = self._rows, self._lengths, self._truth
        if taken is not None:
            some = torch.from_numpy(taken)
            rows, lengths, truth = rows[some], lengths[some], truth[some]
        total = torch.zeros(self.shape[::-1], dtype=torch.int64)
        # Whole numbers add up to the same whatever the order; a few rows stay in the processor's cache.
        for start in range(0, len(rows), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            total += (self._residuals(weights, rows[part], lengths[part], truth[part]).T @ rows[part]).long()
        return total.T

    def noisy(
        self, weights: Tensor, multiplier: float, stream: Stream, taken: NDArray[np.intp] | None = None
    ) -> Tensor:
        """Return the sum of clipped gradients with noise of ``multiplier`` × ``clip``, in gradient units."""
        rows, columns = self.shape
        # Each factor is rounded up, and the product once more.
        moved = math.nextafter(_COARSE_BOUND + math.sqrt(rows * columns), math.inf)
        noise = Rounded(NORMAL, [math.nextafter(positive("multiplier", multiplier) * moved, math.inf)])
        drawn = torch.from_numpy(noise.draw(stream, rows * columns)[0]).reshape(rows, columns)
        coarse = (self.total(weights, taken) + (1 << (_COARSE_BITS - 1))) >> _COARSE_BITS
        return (coarse + drawn) * (self.clip / _COARSE_BOUND)

    def _residuals(self, weights: Tensor, rows: Tensor, lengths: Tensor, truth: Tensor) -> Tensor:
        """Return whole-number residuals (n, classes); one whose gradient is not clipped keeps its size."""
        found = torch.softmax(rows @ (weights.double() / _RADIUS), dim=1) - truth
        longest = _BOUND / lengths - 0.5 * math.sqrt(self.classes)
        # A gradient in units of `reach` is k/RADIUS times r; of length `clip` it stands for L whole steps.
        plain = _BOUND / (_RADIUS * self.clip)
        sizes = found.square().sum(dim=1).sqrt()
        scale = torch.clamp(longest / sizes.clamp_min(1e-300), max=plain) * _MARGIN
        return (found * scale.unsqueeze(1)).round_()

    def _whole(self, features: NDArray[np.floating]) -> NDArray[np.float64]:
        rows = np.empty((len(features), features.shape[1] + 1))
        rows[:, 0] = _RADIUS
        rows[:, 1:] = features
        lengths = np.sqrt(np.einsum("ij,ij->i", rows[:, 1:], rows[:, 1:]))
        rows[:, 1:] *= (_RADIUS / np.maximum(lengths, self.reach))[:, None]
        return np.rint(rows, out=rows)


def class_probabilities(weights: Floats, rows: NDArray[Any]) -> Floats:
    """Return class probabilities (n, classes) of ``rows`` (n, d) under ``weights`` (1 + d, classes)."""
    return np.asarray(softmax(weights[0] + rows @ weights[1:], axis=1))


@dataclass(eq=False, repr=False)
class PrivateSoftmax(Learner):
    """Softmax regression on features (n, d) of length ``reach`` or less; longer ones are scaled back.

    ``epsilon`` and ``delta`` are the promise for one record under ``neighbours``, ``"zero-out"`` or
    ``"replace"``. Labels are 0…``classes``−1. ``steps`` with ``momentum`` of learning rate ``pace``; unless
    that is given, they go as far as gives a logit noise of deviation ``spread``. ``clip`` is the clipping
    norm of the gradient of one example. At a ``sampling`` below 1 each step takes every record with that
    chance, by coins of its own (DP-SGD; zero-out neighbours alone).
    """

    epsilon: float = REQUIRED
    delta: float = DELTA
    _: KW_ONLY
    classes: int = 10
    neighbours: str = MODELS.neighbours
    reach: float = 1.0
    clip: float = 0.02
    steps: int = 200
    pace: float | None = None
    momentum: float = 0.9
    spread: float = SPREAD
    sampling: float = 1.0
    randomness: Randomness | None = None

    _composed = "noisy gradient sums"

    def guarantee(self) -> Guarantee:
        """Return ε at δ for one record; known before ``fit``, which spends it at each call."""
        self._step()  # refuses what cannot be drawn
        if self.sampling < 1.0:
            return DPSGD(self._multiplier(), self.sampling, self.steps).guarantee(self.delta)
        whole = noise_multiplier(self.epsilon, self.delta)
        return self._gaussian(whole, f"adaptive composition of {self._composed}")

    def _gaussian(self, multiplier: float, what: str) -> Guarantee:
        """Return what one Gaussian mechanism of ``multiplier`` proves; ``what`` it releases, in words."""
        return Guarantee.gaussian(
            multiplier,
            unit=RECORD,
            neighbours=known_neighbours(self.neighbours),
            theorem=f"analytic Gaussian, {what}",
            at_delta=self.delta,
        )

    def releases(self, records: int, dimension: int) -> tuple[NoisyRelease, ...]:
        """Return the gradient sums of all steps together, in clipping norms."""
        noise = self._step() * math.sqrt(self.steps * (1 + dimension) * self.classes)
        return (NoisyRelease("the gradient sums", "model", self.steps * self.sampling * records, noise),)

    def notes(self) -> tuple[str, ...]:
        """Return notes on what is public and what must have been chosen before."""
        return public_notes()

    def resolved(self, records: int) -> dict[str, Any]:
        """Return the learning rate, from the noise and the number of records, unless it was given."""
        if self.pace is not None:
            return {"pace": self.pace}
        path = self.spread * self.sampling * records * math.sqrt(self.steps) / self._step()
        return {"pace": min(path * (1.0 - self.momentum) / self.steps, LARGEST) / self.clip}

    def _step(self) -> float:
        """Return the noise of one gradient sum in clipping norms."""
        # Replacing a record takes one away and adds one.
        moved = 2.0 if known_neighbours(self.neighbours) is Neighbours.REPLACE else 1.0
        noise = moved * self._multiplier()
        if noise > _LARGEST_MULTIPLIER:
            raise BadInput(
                f"so small an epsilon over {self.steps} steps needs noise of {noise:.3g} times the clipping "
                f"norm (at most {_LARGEST_MULTIPLIER:g} can be drawn): take a larger epsilon, or fewer steps."
            )
        return noise

    def _multiplier(self) -> float:
        """Return the noise of one step over its sensitivity; refuse parameters that cannot be used."""
        checked_classes(self.classes)
        whole_number("steps", self.steps)
        for name in ("epsilon", "reach", "clip", "spread", "sampling"):
            positive(name, getattr(self, name))
        delta_between(self.delta)
        if self.pace is not None:
            positive("pace", self.pace)
        if share("momentum", self.momentum) == 1.0:
            raise BadInput(
                f"`momentum` was {self.momentum!r}: it must lie below 1, or no step comes to rest.",
                parameter="momentum",
            )
        if self.sampling > 1.0:
            raise BadInput(
                f"`sampling` was {self.sampling!r}: the chance of a record to be taken is at most 1.",
                parameter="sampling",
            )
        return self._calibrated()

    def _calibrated(self) -> float:
        """Return the noise of one step over its sensitivity that proves ``epsilon`` at ``delta``."""
        if self.sampling == 1.0:
            # Slightly more, so that rounding cannot make the steps cost more than the whole.
            return noise_multiplier(self.epsilon, self.delta) * math.sqrt(self.steps) * (1.0 + 1e-12)
        if known_neighbours(self.neighbours) is not Neighbours.ZERO_OUT:
            raise BadInput("steps on samples (sampling below 1) are proven for zero-out neighbours only.")
        return DPSGD.calibrated(self.epsilon, self.delta, rate=self.sampling, steps=self.steps).multiplier

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        records: int | None = None,
        report: Report | None = None,
        sums: NoisedSums | None = None,
    ) -> Self:
        """Learn from features ``X`` (n, d) and labels ``y`` (n,); spends the guarantee.

        ``records`` is the public number of records where some of them are null and are left out of the n, as
        audits do; where it is given, rounding in products of other shapes may move other gradients by a
        step of the grid. ``sums`` draws the noised sums, or returns those that were drawn before.
        """
        features, labels = checked_examples(X, y, checked_classes(self.classes))
        number = len(features) if records is None else whole_number("records", records, len(features))
        self.guarantee()
        self._forewarn(number, features.shape[1])
        noised = sums or NoisedSums(self._randomness())
        learned, rows, reach = self._prepared(features, labels, number, noised, report)
        head = LinearHead(rows, labels, self.classes, reach=reach, clip=self.clip)
        self._take({**learned, "weights": self._descend(head, number, noised, report)})
        return self

    def _prepared(
        self,
        features: NDArray[np.floating],
        labels: NDArray[np.int64],
        records: int,
        sums: NoisedSums,
        report: Report | None,
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.floating], float]:
        """Return what is learned before the head, the rows that the head learns from, and their reach."""
        return {}, features, self.reach

    def _descend(self, head: LinearHead, records: int, sums: NoisedSums, report: Report | None) -> Floats:
        """Return the mean of the last weights of noisy gradient descent on ``head``."""
        multiplier, pace = self._step(), self.resolved(records)["pace"]
        sampled = DPSGD(multiplier, self.sampling, self.steps) if self.sampling < 1.0 else None
        weights = torch.zeros(head.shape, dtype=torch.float64)
        speed, mean, kept = torch.zeros_like(weights), torch.zeros_like(weights), 0

        def draw(randomness: Randomness) -> NDArray[Any]:
            taken = None if sampled is None else sampled.sample(len(head), randomness.stream(b"samples"))
            found = head.noisy(weights, multiplier, randomness.stream(b"gradients"), taken)
            return np.asarray(found.numpy())

        for step in range(self.steps):
            speed = self.momentum * speed + torch.from_numpy(sums(draw)) / (self.sampling * records)
            weights = weights - pace * speed
            if step + 1 > (1.0 - _LAST) * self.steps:
                mean, kept = mean + weights, kept + 1
            if report is not None and is_reported(step, self.steps):
                report("noisy gradients", (step + 1) / self.steps)
        return np.asarray((mean / kept).numpy())

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return ``weights`` (1 + d, classes): those of a constant first, then those of features."""
        return {"weights": self._fitted("coef_")}

    def _take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.coef_ = tensors["weights"]
        self.classes_ = np.arange(self.classes)
        self.n_features_in_ = len(self.coef_) - 1

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes); costs nothing more."""
        weights = self._fitted("coef_")
        features = checked_features(X, self.n_features_in_)
        with np.errstate(over="ignore"):  # as in the fit, what is longer than any number counts as zero
            scale = np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
        scale = np.maximum(scale, self.reach)
        return class_probabilities(weights, features / scale)
