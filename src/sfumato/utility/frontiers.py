"""The privacy–utility frontier: Pareto-optimal choices and their knee.

A choice is one way to release. Its cost is a proven ε (infinite where nothing is proven) or the success of an
attack: less is better. Its utility is better the larger it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.errors import BadInput

__all__ = ["frontier", "knee"]


def frontier(costs: Sequence[float], utilities: Sequence[float]) -> list[int]:
    """Return which choices no other beats, by rising cost and so by rising utility.

    One choice beats another if it is better in one respect and not worse in the other; of choices that are
    equal in both, the first is kept.
    """
    for place, (cost, utility) in enumerate(zip(costs, utilities, strict=True)):
        if not math.isfinite(utility):
            raise BadInput(f"the utility of choice {place} was {utility}; it must be a finite number.")
        if math.isnan(cost) or cost == -math.inf:
            raise BadInput(f"the cost of choice {place} was {cost}; give ε or an attack's success.")
    kept: list[int] = []
    for place in sorted(range(len(costs)), key=lambda place: (costs[place], -utilities[place])):
        if not kept or utilities[place] > utilities[kept[-1]]:
            kept.append(place)
    return kept


def knee(costs: Sequence[float], utilities: Sequence[float]) -> int | None:
    """Return the choice on the frontier farthest above the straight line between the frontier's ends.

    Cost and utility are first brought to [0, 1], so the answer does not depend on units. Of several at the
    same distance (to twelve digits) the one with the lowest cost is the knee. Infinite costs take no part.
    None where there is no knee: fewer than three choices on the frontier, or none above the line.
    """
    on = [place for place in frontier(costs, utilities) if math.isfinite(costs[place])]
    if len(on) < 3:
        return None
    first, last = on[0], on[-1]
    # On the unit square the line is the diagonal: the distance from it is proportional to utility − cost.
    heights = [
        (utilities[place] - utilities[first]) / (utilities[last] - utilities[first])
        - (costs[place] - costs[first]) / (costs[last] - costs[first])
        for place in on
    ]
    best = max(heights)
    if best <= 1e-12:
        return None
    return next(place for place, height in zip(on, heights, strict=True) if height >= best - 1e-12)
