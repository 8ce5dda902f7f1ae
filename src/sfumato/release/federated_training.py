"""The training of one client of a federated run, from the run's terms and the client's records."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.learners.federated.local_training import LocalTraining
from sfumato.release.federation import Federation

__all__ = ["kept_training", "terms_in", "training_of"]


def training_of(terms: Federation, name: str, features: Any, labels: Any) -> LocalTraining:
    """The training of client ``name`` on its own records."""
    return LocalTraining(
        terms.classifier().make,
        np.asarray(features, dtype=np.float32),
        labels,
        epochs=terms.epochs,
        batch=terms.batch,
        rate=terms.rate,
        seed=terms.seed + terms.names.index(name),
    )


@lru_cache(maxsize=8)
def terms_in(text: str) -> Federation:
    """The terms that ``text`` holds as JSON."""
    return Federation.from_json(text)


@lru_cache(maxsize=8)
def kept_training(text: str, name: str, file: str) -> LocalTraining:
    """The training of client ``name`` on ``X`` and ``y`` of an .npz; kept for the next round."""
    with np.load(file, allow_pickle=False) as archive:
        features, labels = archive["X"], archive["y"]
    return training_of(terms_in(text), name, features, labels)
