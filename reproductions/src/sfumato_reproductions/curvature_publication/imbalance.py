"""The paper's class imbalance: private pictures, few of some classes, tests as they are, a public rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato_reproductions.curvature_publication.protocol import TAIL_SHARE, TAILS, Run
from sfumato_reproductions.datasets import load_parts

__all__ = ["TOP", "Imbalanced", "Part"]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

#: Pictures have values from 0 to TOP.
TOP = 255.0


@dataclass(frozen=True, eq=False)
class Part:
    """Pictures (n, height, width[, channels]) from 0 to 255 and their labels (n,)."""

    pictures: Floats
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, chosen: NDArray[np.intp]) -> Part:
        """Some of them."""
        return Part(self.pictures[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class Imbalanced:
    """What is published, what classifiers are tested on, and what is public; no picture is in two of them."""

    name: str
    private: Part
    tests: Part
    public: Part
    classes: int
    tail: tuple[int, ...]

    @classmethod
    def of(cls, name: str, run: Run, seed: int) -> Imbalanced:
        """The data set ``name``, cut as :class:`Run` says; which pictures are kept depends on ``seed``.

        A head class keeps ``run.head`` pictures, or as many as leave ``run.public`` of the smallest one.
        """
        learned, tested = load_parts(name)
        tail, classes = TAILS[name], int(learned.labels.max()) + 1
        counts = np.bincount(learned.labels, minlength=classes)
        head = min(run.head, int(counts.min()) - run.public)
        if round(TAIL_SHARE * head) < 2:
            raise BadInput(
                f"{name} has {counts.min()} pictures in its smallest class, {run.public} of them public: "
                "too few are left for a tail class."
            )
        rng = np.random.default_rng(seed)
        private, public = [], []
        for label in range(classes):
            rows = rng.permutation(np.flatnonzero(learned.labels == label))
            kept = round(TAIL_SHARE * head) if label in tail else head
            private.append(rows[:kept])
            public.append(rows[kept : kept + run.public])
        everything = Part(learned.pictures * np.float32(TOP), learned.labels)
        return cls(
            name,
            everything.rows(rng.permutation(np.concatenate(private))),
            Part(tested.pictures * np.float32(TOP), tested.labels),
            everything.rows(rng.permutation(np.concatenate(public))),
            classes,
            tail,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one picture."""
        return self.private.pictures.shape[1:]
