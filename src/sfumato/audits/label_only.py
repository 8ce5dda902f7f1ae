"""A model that answers with a label alone: members are answered rightly more often, and more steadily."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.audits.findings import Finding
from sfumato.audits.roc import finding_from_scores
from sfumato.errors import BadInput

__all__ = ["label_only", "share_correct"]

Floats = npt.NDArray[np.float64]


def share_correct(predicted: npt.ArrayLike, labels: npt.ArrayLike, name: str = "records") -> Floats:
    """The share of a record's answers that are right, shape (n,).

    ``predicted`` holds the labels the model answered, (n,) for one query a record or (n, queries) for
    several noisy or augmented copies of it. Labels may be of any type that can be compared.
    """
    answers, truth = np.asarray(predicted), np.asarray(labels)
    for array, what in ((answers, "predicted labels"), (truth, "labels")):
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise BadInput(f"{what} of {name} hold NaN, first in row {np.argwhere(np.isnan(array))[0, 0]}.")
    if (answers.dtype.kind in "biuf") != (truth.dtype.kind in "biuf"):
        raise BadInput(f"of {name}, either labels or predicted labels are numbers: both or neither must be.")
    if truth.ndim != 1 or truth.size == 0:
        raise BadInput(f"labels of {name} must be one a record, at least one: got shape {truth.shape}.")
    if answers.ndim == 1:
        answers = answers[:, np.newaxis]
    if answers.ndim != 2 or answers.shape[0] != truth.size or answers.shape[1] == 0:
        raise BadInput(
            f"predicted labels of {name} must have shape ({truth.size},) or ({truth.size}, queries): "
            f"got {np.shape(predicted)}."
        )
    share: Floats = np.mean(answers == truth[:, np.newaxis], axis=1)
    return share


def label_only(
    members: npt.ArrayLike,
    member_labels: npt.ArrayLike,
    nonmembers: npt.ArrayLike,
    nonmember_labels: npt.ArrayLike,
    *,
    confidence: float = 0.99,
) -> Finding:
    """The correctness gap, or label-only inference with perturbed queries (Choquette-Choo et al. 2021).

    ``members`` and ``nonmembers`` are predicted labels as `share_correct` takes them. With one query a
    record the AUC is half of one plus the difference in accuracy; with several, a record far from the
    decision boundary is answered rightly more often, and members are. Both groups must be queried equally
    often.
    """
    first = share_correct(members, member_labels, "members")
    second = share_correct(nonmembers, nonmember_labels, "non-members")
    queries = [1 if np.ndim(array) == 1 else np.shape(array)[1] for array in (members, nonmembers)]
    if queries[0] != queries[1]:
        raise BadInput(
            f"`members` were queried {queries[0]} times and non-members {queries[1]} times: "
            "both must be queried equally often.",
            parameter="members",
        )
    note = f"accuracy {np.mean(first):.4g} on members and {np.mean(second):.4g} on non-members"
    plural = "" if queries[0] == 1 else f" of {queries[0]} perturbed copies of a record"
    return finding_from_scores(
        "label only" if queries[0] == 1 else "label only, perturbed queries",
        f"sees only the predicted label{plural}",
        first,
        second,
        confidence=confidence,
        note=note,
    )
