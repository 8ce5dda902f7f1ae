"""Records that are put into the training of a model so that what it remembers of them can be measured.

Canaries are made by public rules. They should be hard: nothing else in the data may pull the model the way a
canary does, so that whatever it answers about one is the canary's own doing.

- ``directions``: random directions of the feature space with random labels.
- ``axes``: each canary has a feature of its own, which is 0 in all other records; the features get one more
  column for each. Nothing but noise hides such a canary, so this is the strongest kind; it audits a learner
  at that many more features than it will have.
- ``mislabelled``: records drawn from the data, each with one of the wrong labels.

For a game in which a coin chooses between two records, the second is the opposite direction with the same
label, or the same record with another wrong label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["KINDS", "CanaryRecords", "canary_records"]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

KINDS = ("directions", "axes", "mislabelled")


@dataclass(frozen=True, eq=False)
class CanaryRecords:
    """``features`` (n, d) and ``labels`` of the records that are surely there, and the canaries (m, d).

    Where a coin chooses between two records, ``others`` and ``other_labels`` are the second of each pair.
    """

    features: Floats
    labels: Labels
    canaries: Floats
    canary_labels: Labels
    others: Floats
    other_labels: Labels

    def dataset(self, coins: NDArray[np.int64], *, pairs: bool) -> tuple[Floats, Labels]:
        """What is trained on: of each pair the first where its coin is 1, else the second (or nothing)."""
        if pairs:
            chosen = np.where(coins[:, None] == 1, self.canaries, self.others)
            labels = np.where(coins == 1, self.canary_labels, self.other_labels)
        else:
            chosen, labels = self.canaries[coins == 1], self.canary_labels[coins == 1]
        return np.concatenate([self.features, chosen]), np.concatenate([self.labels, labels])


def canary_records(
    kind: str,
    features: Floats,
    labels: Labels,
    classes: int,
    count: int,
    *,
    length: float,
    rng: np.random.Generator,
) -> CanaryRecords:
    """``count`` canaries of a ``kind`` beside ``features`` (n, d); directions and axes have ``length``."""
    if kind == "axes":
        features = np.pad(features, ((0, 0), (0, count)))
        canaries = np.zeros((count, features.shape[1]))
        canaries[np.arange(count), np.arange(-count, 0)] = length
    elif kind == "directions":
        drawn = rng.standard_normal((count, features.shape[1]))
        canaries = length * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    elif kind == "mislabelled":
        if classes < 3:
            raise BadInput("mislabelled canaries need three classes: a true label and two wrong ones.")
        if count > len(features):
            raise BadInput(f"{count} mislabelled canaries were asked for among {len(features)} records.")
        chosen = rng.permutation(len(features))[:count]
        wrong = (labels[chosen] + rng.integers(1, classes, count)) % classes
        # Another wrong label: neither the true one nor the first wrong one.
        steps = (wrong - labels[chosen]) % classes
        others = (
            labels[chosen] + 1 + (steps - 1 + rng.integers(1, classes - 1, count)) % (classes - 1)
        ) % classes
        stay = np.ones(len(features), dtype=bool)
        stay[chosen] = False
        rows = features[chosen]
        return CanaryRecords(features[stay], labels[stay], rows, wrong, rows.copy(), others)
    else:
        raise BadInput(f"{kind!r} is no kind of canary: choose among {', '.join(KINDS)}.")
    drawn_labels = rng.integers(0, classes, count)
    return CanaryRecords(features, labels, canaries, drawn_labels, -canaries, drawn_labels)
