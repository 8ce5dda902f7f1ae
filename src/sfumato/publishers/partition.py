"""Cells inside each class, found by a few noisy rounds of Lloyd's algorithm.

Each round moves every centre to the noisy mean of the records nearest to it among the centres of their own
class. It needs counts and sums only, which are cheap; earlier centres are public, so rounds compose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.cell_sums import Sums

__all__ = ["Partition"]

Array = NDArray[np.float64]
Cells = NDArray[np.intp]


@dataclass(frozen=True)
class Partition:
    """Public ``centres`` (classes, parts, d): a record's cell is the nearest centre of its class."""

    centres: Array

    @property
    def cells(self) -> int:
        """How many cells there are, all classes together."""
        return int(self.centres.shape[0] * self.centres.shape[1])

    @property
    def flat(self) -> Array:
        """The centres (cells, d), class after class."""
        return self.centres.reshape(self.cells, -1)

    @classmethod
    def around(cls, means: Array, parts: int, spread: float, rng: np.random.Generator) -> Partition:
        """Centres at a distance of about ``spread`` from the class ``means``, in random smooth directions."""
        if parts == 1:
            return cls(means[:, None])
        side = max(round((means.shape[1] - 1) ** 0.5), 1)
        order = np.add.outer(np.arange(side), np.arange(side)).reshape(-1)
        # Pictures vary most at low frequencies, whatever they show.
        fall = np.zeros(means.shape[1])
        fall[: min(order.size, fall.size)] = (1.0 / (2.0 + order))[: fall.size]
        ways = rng.normal(size=(len(means), parts, means.shape[1])) * fall
        ways *= spread / np.maximum(np.linalg.norm(ways, axis=2, keepdims=True), 1e-300)
        return cls(means[:, None] + ways)

    def assign(self, vectors: Array, labels: Cells) -> Cells:
        """The cell of each record; ties go to the first."""
        parts = self.centres.shape[1]
        if parts == 1:
            return labels
        sizes, far = np.square(self.centres).sum(axis=2), np.empty((len(labels), parts))
        for part in range(parts):
            along = np.einsum("ij,ij->i", vectors, self.centres[labels, part])
            far[:, part] = sizes[labels, part] - 2.0 * along
        return np.asarray(labels * parts + far.argmin(axis=1))

    def moved(self, sums: Sums) -> Partition:
        """Centres moved by the noisy mean residual; those with too few records to say stay where they are."""
        enough = sums.counts > 4.0 * sums.count_noise
        shift = sums.firsts / np.where(enough, sums.counts, 1.0)[:, None]
        return Partition(self.centres + (shift * enough[:, None]).reshape(self.centres.shape))
