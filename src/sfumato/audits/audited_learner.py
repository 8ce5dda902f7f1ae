"""What an audit asks of a learner: records that can be learned from, a fit, and the guarantee it claims.

Any object with ``fit(X, y)`` and ``predict_proba(X)`` is a learner here, so that audits need none of the
libraries that learners are made with.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.predictions import Predictions, numbers
from sfumato.errors import BadInput, Forewarning
from sfumato.mechanisms.records import as_array
from sfumato.privacy import Guarantee, Neighbours

__all__ = ["answers_of", "checked_records", "fit_twin", "guarantee_of"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def answers_of(learner: Any, features: Floats, labels: Labels) -> Predictions:
    """The probabilities that a trained ``learner`` gives for ``features`` (n, d), with their true labels."""
    return Predictions(np.asarray(learner.predict_proba(features)), labels)


def checked_records(X: Any, y: Any) -> tuple[Floats, Labels, int]:
    """Finite features (n, d), whole labels from 0 (n,), and the number of classes that they show."""
    features, labels = numbers(X, "features"), as_array(y, "labels")
    if features.ndim != 2 or not features.size:
        raise BadInput(f"features of shape {features.shape} were given: (n, d) are needed.")
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        raise BadInput(f"the features of record {int(np.argmin(finite))} are not all finite.")
    if labels.shape != (len(features),) or labels.dtype.kind not in "ui":
        raise BadInput(
            f"labels of shape {labels.shape} and type {labels.dtype} were given: one whole number for each "
            f"of {len(features)} records is needed."
        )
    if int(labels.min()) < 0 or int(labels.max()) < 1:
        raise BadInput("labels must be whole numbers from 0, of two classes or more.")
    return features, labels.astype(np.int64), int(labels.max()) + 1


def fit_twin(learner: Any, features: Floats, labels: Labels, **given: Any) -> None:
    """Fit a ``learner`` that nobody but the audit sees; forewarnings are for the one that is used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Forewarning)
        learner.fit(features, labels, **given)


def guarantee_of(learner: Any) -> Guarantee:
    """What the learner says is proven; nothing, for records that are added or removed, where it is silent."""
    if hasattr(learner, "guarantee"):
        found: Guarantee = learner.guarantee()
        return found
    return Guarantee.nothing("the learner claims no guarantee", neighbours=Neighbours.ADD_REMOVE)
