"""What was measured of one method: utility, membership, what is proven, and how long it took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy import Guarantee
from sfumato_reproductions.curvature_publication.candidates import Success

__all__ = ["Measured", "Proven", "picked"]

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Proven:
    """ε at δ = 1e-5 for one record, ``inf`` for nothing, the neighbours it holds for, and its theorem."""

    epsilon: float
    neighbours: str
    theorem: str

    @classmethod
    def of(cls, guarantee: Guarantee | None, delta: float) -> Proven:
        """What ``guarantee`` says at ``delta``; None stands for pictures that are published as they are."""
        if guarantee is None:
            return cls(math.inf, "", "")
        epsilon = math.inf if guarantee.event is None else float(guarantee.epsilon(delta))
        neighbours = str(guarantee.neighbours) if math.isfinite(epsilon) else ""
        return cls(epsilon, neighbours, guarantee.theorem)


@dataclass(frozen=True, eq=False)
class Measured:
    """One method on one data set with one seed.

    ``learned`` is the accuracy of the classifier on what it learned from, ``accuracy`` that on the tests,
    ``tail_accuracy`` that on tests of the tail classes. ``membership`` is attack and protocol -> success.
    ``frechet`` is the distance of the private pictures from the published ones, None for the private ones
    themselves. ``seconds`` is the time to fit and publish, ``learning`` that of the classifier. ``samples``
    is one published picture of each class, black where there was none. ``right`` tells of each class-matched
    candidate, in an order that all methods share, whether the attack by loss was right about it.
    """

    method: str
    published: int
    learned: float
    accuracy: float
    tail_accuracy: float
    membership: Mapping[str, Success]
    frechet: float | None
    score: float
    proven: Proven
    seconds: float
    learning: float
    samples: Bytes
    right: NDArray[np.bool_]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values: an infinite ε, nothing proven, is null."""
        return {
            "method": self.method,
            "published": self.published,
            "learned": self.learned,
            "accuracy": self.accuracy,
            "tail_accuracy": self.tail_accuracy,
            "membership": {key: success.to_dict() for key, success in self.membership.items()},
            "frechet": self.frechet,
            "score": self.score,
            "proven": {
                "epsilon": self.proven.epsilon if math.isfinite(self.proven.epsilon) else None,
                "neighbours": self.proven.neighbours,
                "theorem": self.proven.theorem,
            },
            "seconds": self.seconds,
            "learning": self.learning,
        }

    def kept(self) -> dict[str, Any]:
        """Everything, samples and single answers included, to be read again by :meth:`read`."""
        return self.to_dict() | {"samples": self.samples.tolist(), "right": self.right.astype(int).tolist()}

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Measured:
        """What :meth:`kept` wrote."""
        got = dict(value)
        proven = got["proven"]
        epsilon = math.inf if proven["epsilon"] is None else proven["epsilon"]
        got["proven"] = Proven(epsilon, proven["neighbours"], proven["theorem"])
        got["membership"] = {
            key: Success(success["right"], success["asked"]) for key, success in got["membership"].items()
        }
        got["samples"] = np.array(got["samples"], dtype=np.uint8)
        got["right"] = np.array(got["right"], dtype=bool)
        return cls(**got)


def picked(pictures: NDArray[Any], labels: NDArray[np.int64], classes: int) -> Bytes:
    """The first picture of each class, as bytes; black where a class has none."""
    chosen = np.zeros((classes, *pictures.shape[1:]), dtype=np.uint8)
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        if rows.size:
            chosen[label] = np.clip(np.rint(pictures[rows[0]]), 0, 255).astype(np.uint8)
    return chosen
