"""Checked predictions of a model, and the quantities that attacks read off them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.errors import BadInput
from sfumato.mechanisms import finite_array

__all__ = ["Predictions"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

FLOOR = 1e-12
SUM_TOLERANCE = 1e-3  # half-precision softmaxes and answers rounded to four digits stay inside it


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of n records, shape (n, C) with C ≥ 2, and their true labels, integers 0 to C − 1.

    Any model can be described so: scikit-learn's ``predict_proba``, a softmax, the answers of a remote
    service. Rows must sum to 1 within 0.001; logits go through `from_logits`. The arrays are copied and made
    read-only.

    ``floor`` is the smallest probability that is told from 0 (and from 1): wherever a logarithm is taken,
    probabilities are raised to it first, so that a loss is at most −log(floor) and a scaled logit at most
    that in size. For a vote of k trees, 1/(2k) says the same as the votes do.
    """

    probabilities: Floats
    labels: Integers
    floor: float = FLOOR

    def __post_init__(self) -> None:
        probabilities = _matrix(self.probabilities, "probabilities")
        if not 0.0 < self.floor <= 0.1:
            raise BadInput(
                f"`floor` was {self.floor!r}: it must lie above 0 and at most at 0.1.", parameter="floor"
            )
        low = np.flatnonzero((probabilities < 0.0).any(axis=1))
        if low.size:
            raise BadInput(
                f"probabilities are negative in {low.size} rows, first in row {low[0]}: "
                "if they are logits, use Predictions.from_logits."
            )
        wrong = np.flatnonzero(np.abs(probabilities.sum(axis=1) - 1.0) > SUM_TOLERANCE)
        if wrong.size:
            raise BadInput(
                f"probabilities do not sum to 1 in {wrong.size} rows, first in row {wrong[0]}: "
                "if they are logits, use Predictions.from_logits."
            )
        probabilities.setflags(write=False)
        labels = _labels(self.labels, *probabilities.shape)
        labels.setflags(write=False)
        object.__setattr__(self, "probabilities", probabilities)
        object.__setattr__(self, "labels", labels)

    @classmethod
    def from_logits(
        cls, logits: npt.ArrayLike, labels: npt.ArrayLike, *, floor: float = FLOOR
    ) -> Predictions:
        """Return the softmax of ``logits``, shape (n, C)."""
        return cls(special.softmax(_matrix(logits, "logits"), axis=1), np.asarray(labels), floor)

    def __len__(self) -> int:
        return int(self.labels.size)

    @property
    def classes(self) -> int:
        """Return the number of classes, C."""
        return int(self.probabilities.shape[1])

    def rows(self, chosen: npt.NDArray[np.integer] | Booleans) -> Predictions:
        """Return the predictions of some of the records, by index or mask."""
        return Predictions(self.probabilities[chosen], self.labels[chosen], self.floor)

    @property
    def true_probability(self) -> Floats:
        """Return the probability of the true label, as the model gave it."""
        return np.asarray(self.probabilities[np.arange(len(self)), self.labels])

    @property
    def loss(self) -> Floats:
        """Return the cross-entropy of the true label, −log max(p, floor)."""
        return np.asarray(-np.log(np.maximum(self.true_probability, self.floor)))

    @property
    def confidence(self) -> Floats:
        """Return the largest probability."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def entropy(self) -> Floats:
        """Return the entropy in nats; a probability of 0 contributes nothing."""
        return np.asarray(special.entr(self.probabilities).sum(axis=1))

    @property
    def correct(self) -> Booleans:
        """Return whether the true label has the largest probability (of equals, the first one counts)."""
        return np.asarray(self.probabilities.argmax(axis=1) == self.labels)

    @property
    def gap(self) -> Floats:
        """Return the largest probability minus the second largest."""
        top = np.partition(self.probabilities, self.classes - 2, axis=1)[:, -2:]
        return np.asarray(top[:, 1] - top[:, 0])

    @property
    def margin(self) -> Floats:
        """Return the probability of the true label minus the largest other one; negative if wrong."""
        others = self.probabilities.copy()
        others[np.arange(len(self)), self.labels] = -np.inf
        return np.asarray(self.true_probability - others.max(axis=1))

    @property
    def scaled_logit(self) -> Floats:
        """Return the true label's logit log p − log(1 − p), near normal over models (Carlini et al. 2022).

        1 − p is the sum of the other probabilities, which stays exact where p rounds to 1.
        """
        others = self.probabilities.copy()
        others[np.arange(len(self)), self.labels] = 0.0
        rest = np.maximum(others.sum(axis=1), self.floor)
        return np.asarray(np.log(np.maximum(self.true_probability, self.floor)) - np.log(rest))


def check_comparable(first: Predictions, second: Predictions) -> None:
    """Raise for predictions with different numbers of classes: they cannot come from one kind of model."""
    if first.classes != second.classes:
        raise BadInput(
            f"predictions have {first.classes} classes in one group and {second.classes} in another: "
            "all must be answers of one kind of model."
        )


def numbers(values: npt.ArrayLike, name: str) -> Floats:
    """Return a copy as floats, or raise if it is not an array of finite numbers."""
    return finite_array(values, name).astype(np.float64)


def _matrix(values: npt.ArrayLike, name: str) -> Floats:
    array = numbers(values, name)
    if array.ndim != 2 or array.shape[1] < 2:
        raise BadInput(
            f"{name} must have one row a record and one column a class, two classes or more: "
            f"got shape {array.shape}."
        )
    return array


def _labels(values: npt.ArrayLike, records: int, classes: int) -> Integers:
    array = np.array(values)
    if array.shape != (records,):
        raise BadInput(f"labels must be one a record, shape ({records},): got shape {array.shape}.")
    kind = array.dtype.kind
    if kind not in "biuf" or (kind == "f" and not np.array_equal(array, np.floor(array))):
        raise BadInput(f"labels must be whole numbers from 0 to {classes - 1}, the column of the true class.")
    outside = np.flatnonzero((array < 0) | (array >= classes))
    if outside.size:
        raise BadInput(
            f"labels lie outside 0 to {classes - 1} in {outside.size} rows, first in row {outside[0]}."
        )
    return array.astype(np.int64)
