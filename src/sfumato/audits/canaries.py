"""Records that coins keep out of a publication, so that what it shows of them can be measured in one run.

Each canary is fitted or left out by its own fair coin, drawn without a look at the data; the coins and who
was chosen stay secret. Records that are left out cost utility and nothing else:

**Guarantee.** Whatever the coins say, what is fitted of two neighbouring datasets is the same or is
neighbouring, because the choice never depends on a record: under ``replace`` and ``zero-out`` it depends on
the number of records alone, which is public there; under ``add/remove`` every record is chosen by coins of
its own, with a probability that is a constant. So a guarantee of what is fitted holds for all records.

**The games.** Under ``add/remove`` and ``zero-out`` the coin of a canary says whether it is there. A record
that is left out is one that is zeroed out for publishers which a null record adds nothing to, and which are
told how many records there are by somebody else; of all others it is absent, and the game is that of
``add/remove`` (:meth:`Canaries.absent`). Under ``replace`` a canary is a place that one of two records takes,
and the coin says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.privacy import Neighbours

__all__ = ["Canaries"]

Indices = NDArray[np.intp]

# One record in ten is left out, and no more than this many, where the number of records is public.
_SHARE, _MOST = 10, 1000
# Where it is not: one record in ten is a canary, so that one in twenty is left out, whatever their number.
_PROBABILITY = 0.1
# Fewer coins than this bound nothing.
_FEWEST = 10


@dataclass(frozen=True, eq=False)
class Canaries:
    """``certain`` records are fitted; of each canary the ``first`` if its coin is 1, else the ``second``.

    ``second`` is None where nothing takes the place of a record that is left out. ``inside`` are the canaries
    that are fitted, in random order.
    """

    neighbours: Neighbours
    certain: Indices
    first: Indices
    second: Indices | None
    coins: NDArray[np.int64]
    inside: Indices

    @classmethod
    def drawn(cls, records: int, neighbours: Neighbours, rng: np.random.Generator) -> Canaries:
        """Canaries among ``records`` records; none where the number of records is public and too small."""
        if records < 1:
            raise BadInput(
                f"`records` was {records}: 1 or more are needed to choose from.", parameter="records"
            )
        second: Indices | None = None
        if neighbours is Neighbours.ADD_REMOVE:
            first = np.flatnonzero(rng.random(records) < _PROBABILITY)
        else:
            count = cls.most(records, neighbours) or 0
            first = rng.permutation(records)[: 2 * count if neighbours is Neighbours.REPLACE else count]
            if neighbours is Neighbours.REPLACE:
                first, second = first[:count], first[count:]
        coins = rng.integers(0, 2, first.size)
        taken = first[coins == 1] if second is None else np.where(coins == 1, first, second)
        outside = np.zeros(records, dtype=bool)
        outside[first] = True
        if second is not None:
            outside[second] = True
        return cls(neighbours, np.flatnonzero(~outside), first, second, coins, rng.permutation(taken))

    @staticmethod
    def most(records: int, neighbours: Neighbours) -> int | None:
        """How many coins are drawn among ``records`` records; None where their number is not public."""
        if neighbours is Neighbours.ADD_REMOVE:
            return None
        count = min(_MOST, records // _SHARE)
        count = count if count >= _FEWEST else 0
        return count if neighbours is Neighbours.REPLACE else 2 * count

    def absent(self) -> Canaries:
        """The same canaries, where one that is left out is absent instead of null: a game of add/remove."""
        return replace(self, neighbours=Neighbours.ADD_REMOVE) if self.second is None else self

    @property
    def fitted(self) -> Indices:
        """The records to fit: those that are certain, in their order, then the canaries that are in."""
        return np.concatenate([self.certain, self.inside])

    @property
    def left_out(self) -> Indices:
        """The records that are not fitted."""
        out: Indices = self.first[self.coins == 0]
        if self.second is not None:
            out = np.where(self.coins == 1, self.second, self.first)
        return out

    @property
    def enough(self) -> bool:
        """Whether there are coins enough to say anything, and both sides of them came up."""
        return self.coins.size >= _FEWEST and 0 < int(self.coins.sum()) < self.coins.size
