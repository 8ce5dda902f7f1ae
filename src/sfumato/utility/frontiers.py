"""The privacy–utility frontier: Pareto-optimal choices and their knee."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.errors import BadInput

__all__ = ["Choice", "frontier", "knee"]


@dataclass(frozen=True)
class Choice:
    """One way to release: what it is good for and what it costs.

    ``cost`` is a proven ε (infinite where nothing is proven) or the success of an attack; less is better.
    ``utility`` is better the larger it is.
    """

    name: str
    utility: float
    cost: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.utility):
            raise BadInput(f"the utility of {self.name!r} was {self.utility}; it must be a finite number.")
        if math.isnan(self.cost) or self.cost == -math.inf:
            raise BadInput(f"the cost of {self.name!r} was {self.cost}; give ε or an attack's success.")


def frontier(choices: Iterable[Choice]) -> list[Choice]:
    """Return the choices that no other beats, by rising cost and so by rising utility.

    One choice beats another if it is better in one respect and not worse in the other; of choices that are
    equal in both, the first is kept.
    """
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.cost, -one.utility)):
        if not kept or choice.utility > kept[-1].utility:
            kept.append(choice)
    return kept


def knee(choices: Iterable[Choice]) -> Choice | None:
    """Return the choice on the frontier farthest above the straight line between the frontier's ends.

    Cost and utility are first brought to [0, 1], so the answer does not depend on units. Of several at the
    same distance (to twelve digits) the one with the lowest cost is the knee. Infinite costs take no part.
    None where there is no knee: fewer than three choices on the frontier, or none above the line.
    """
    on = [choice for choice in frontier(choices) if math.isfinite(choice.cost)]
    if len(on) < 3:
        return None
    costs = [one.cost for one in on]
    # On the unit square the line is the diagonal: the distance from it is proportional to utility − cost.
    heights = [
        (one.utility - on[0].utility) / (on[-1].utility - on[0].utility)
        - (cost - costs[0]) / (costs[-1] - costs[0])
        for one, cost in zip(on, costs, strict=True)
    ]
    best = max(heights)
    if best <= 1e-12:
        return None
    return next(one for one, height in zip(on, heights, strict=True) if height >= best - 1e-12)
