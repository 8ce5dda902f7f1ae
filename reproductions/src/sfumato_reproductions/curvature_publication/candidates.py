"""Whom a membership attack is asked about: members and non-members, known ones and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.curvature_publication.imbalance import Imbalanced, Labels
from sfumato_reproductions.proportions import interval

__all__ = ["AS_THE_PAPER", "CONFIDENCE", "MATCHED", "Candidates", "Success", "label_alone", "rounds"]

Rows = NDArray[np.intp]

AS_THE_PAPER, MATCHED = "as the paper", "class-matched"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Success:
    """How often an attack was ``right`` when it was ``asked``, members and non-members in equal numbers."""

    right: int
    asked: int

    @property
    def rate(self) -> float:
        """The share of right answers; a half is what a coin reaches."""
        return self.right / self.asked

    @property
    def interval(self) -> tuple[float, float]:
        """Holds the true rate with probability 0.95 (Clopper–Pearson)."""
        return interval(self.right, self.asked, CONFIDENCE)

    def __add__(self, other: Success) -> Success:
        return Success(self.right + other.right, self.asked + other.asked)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"right": self.right, "asked": self.asked, "rate": self.rate, "interval": list(self.interval)}


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows of the private part and of the tests: ``known`` ones train an attack, ``asked`` ones try it."""

    known: tuple[Rows, Rows]
    asked: tuple[Rows, Rows]

    def success(self, members: NDArray[np.bool_], nonmembers: NDArray[np.bool_]) -> Success:
        """From which of those asked about the attack called members, in their order."""
        right = int(np.count_nonzero(members)) + int(np.count_nonzero(~nonmembers))
        return Success(right, members.size + nonmembers.size)


def rounds(data: Imbalanced, protocol: str, count: int, seed: int) -> tuple[Candidates, ...]:
    """Half of those drawn are known, half are asked about.

    As the paper: ``count`` members and as many tests, drawn from all, one round. Class-matched: of every
    class as many of both as the smaller side has, and a second round in which the halves change places, so
    that everybody is asked about by an attack that did not know them.
    """
    first = _halves(data, protocol, count, seed)
    return (first, Candidates(first.asked, first.known)) if protocol == MATCHED else (first,)


def _halves(data: Imbalanced, protocol: str, count: int, seed: int) -> Candidates:
    rng = np.random.default_rng([seed, protocol == MATCHED])
    sides = (data.private.labels, data.tests.labels)
    known: list[list[Rows]] = [[], []]
    asked: list[list[Rows]] = [[], []]
    if protocol == MATCHED:
        counts = [np.bincount(labels, minlength=data.classes) for labels in sides]
        groups = [[np.flatnonzero(labels == label) for labels in sides] for label in range(data.classes)]
        sizes = [int(min(pair)) for pair in zip(*counts, strict=True)]
    else:
        groups = [[np.arange(len(labels)) for labels in sides]]
        sizes = [min(count, *(len(labels) for labels in sides))]
    for group, size in zip(groups, sizes, strict=True):
        for side, rows in enumerate(group):
            chosen = rng.permutation(rows)[: 2 * (size // 2)]
            known[side].append(chosen[: size // 2])
            asked[side].append(chosen[size // 2 :])
    first, second = (tuple(np.concatenate(rows) for rows in part) for part in (known, asked))
    return Candidates((first[0], first[1]), (second[0], second[1]))


def label_alone(members: Labels, nonmembers: Labels) -> float:
    """Success of the best guess from the label, members and non-members being equally likely.

    With p(c) and q(c) the shares of class c among members and non-members it is ½ Σ max(p(c), q(c)).
    """
    classes = int(max(members.max(), nonmembers.max())) + 1
    shares = [np.bincount(labels, minlength=classes) / len(labels) for labels in (members, nonmembers)]
    return float(np.maximum(*shares).sum() / 2.0)
