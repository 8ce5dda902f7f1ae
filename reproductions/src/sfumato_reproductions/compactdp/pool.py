"""Who is a member: most records for certain, the others each by its own fair coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato_reproductions.compactdp.features import Features
from sfumato_reproductions.datasets import Dataset, load_parts
from sfumato_reproductions.regenerate import Report

__all__ = ["Part", "Pool", "Source", "Split"]

# This share of the records is a member or not by a coin; so 80% are members but for chance.
_CHOSEN = 0.4


@dataclass(frozen=True)
class Source:
    """A data set as an extractor sees it, at most so many records and tests of it.

    Where it is not ``attacked`` accuracy alone is asked.
    """

    data: str
    extractor: str
    records: int
    tests: int
    attacked: bool = True

    def __str__(self) -> str:
        return f"{self.data} by {self.extractor}" + ("" if self.attacked else f", {self.records:,} records")


@dataclass(frozen=True, eq=False)
class Part:
    """Features (n, d) with their labels (n,)."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, chosen: NDArray[np.intp]) -> Part:
        """Some of the records."""
        return Part(self.features[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class Pool:
    """What is known of one data set: ``records`` to learn from, and ``tests``."""

    classes: int
    records: Part
    tests: Part

    @classmethod
    def of(cls, source: Source, features: Features, report: Report) -> Pool:
        """The records of ``source``, with features from disk where they are kept."""
        learned, tests = load_parts(source.data)
        parts = [_some(learned, source.records), _some(tests, source.tests)]
        records, tested = (Part(features.of(part, source.extractor, report), part.labels) for part in parts)
        return cls(int(learned.labels.max()) + 1, records, tested)

    def split(self, seed: int) -> Split:
        """Members and others by ``seed``."""
        rng = np.random.default_rng([seed, 2])
        order = rng.permutation(len(self.records))
        chosen, certain = np.split(order, [round(_CHOSEN * len(order))])
        coins = rng.integers(0, 2, len(chosen)) == 1
        inside, outside = chosen[coins], chosen[~coins]
        return Split(
            self.records.rows(np.concatenate([certain, inside])), *map(self.records.rows, (inside, outside))
        )


@dataclass(frozen=True, eq=False)
class Split:
    """``members`` are learned from; fair coins put ``inside`` among them, and left ``outside`` out."""

    members: Part
    inside: Part
    outside: Part


def _some(data: Dataset, most: int) -> Dataset:
    if len(data.records) <= most:
        return data
    records, labels = data.sample(most, 0)
    return Dataset(data.name, records, labels, data.shape)
