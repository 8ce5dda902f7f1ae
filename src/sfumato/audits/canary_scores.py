"""What a fitted model gives away about its canaries: one number for each coin, higher where it is 1.

Two readers: one sees the probability that the model gives to the label of a canary, the other the weights of
a linear model. Neither sees the coins; both know all canaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.audited_learner import answers_of
from sfumato.audits.canary_records import CanaryRecords
from sfumato.audits.roc import check_scores

__all__ = ["answer_certainty", "weight_certainty"]

Floats = NDArray[np.float64]


def answer_certainty(learner: Any, records: CanaryRecords, *, pairs: bool) -> Floats:
    """From the scaled logit of each canary's label: minus that of its other record, or minus the median."""
    first = _logits(learner, records.canaries, records.canary_labels)
    if pairs:
        return first - _logits(learner, records.others, records.other_labels)
    return np.asarray(first - np.median(first))


def weight_certainty(learner: Any, records: CanaryRecords, *, pairs: bool) -> Floats | None:
    """From the weights of a linear learner, along the gradient of each canary at equal probabilities.

    The gradient of a record x with label c is x (1/C − e_c)ᵀ, and the weights move against it. None for
    learners whose ``tensors()`` have no ``weights`` of shape (1 + d, classes) or (d, classes). Those of a
    constant, which stand first, are left alone: all canaries of a label share them.
    """
    tensors = learner.tensors() if hasattr(learner, "tensors") else {}
    found = tensors.get("weights") if isinstance(tensors, Mapping) else None
    if found is None or np.ndim(found) != 2:
        return None
    weights, columns = np.asarray(found, dtype=np.float64), records.canaries.shape[1]
    if len(weights) not in (columns, columns + 1) or weights.shape[1] <= int(records.labels.max()):
        return None
    pulled = weights[len(weights) - columns :]
    pulled = pulled - pulled.mean(axis=1, keepdims=True)
    first = _along(pulled, records.canaries, records.canary_labels)
    if pairs:
        return check_scores(first - _along(pulled, records.others, records.other_labels), "weights")
    return check_scores(first - np.median(first), "weights")


def _logits(learner: Any, features: Floats, labels: NDArray[np.int64]) -> Floats:
    return answers_of(learner, features, labels).scaled_logit


def _along(weights: Floats, features: Floats, labels: NDArray[np.int64]) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", features, weights.T[labels]))
