"""What utility costs in privacy: the Pareto frontier, its knee, and the weighted objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.errors import BadInput

__all__ = ["Choice", "frontier", "knee", "weighted_objective"]


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
    """The choices that no other beats, by rising cost and so by rising utility.

    One choice beats another if it is better in one respect and not worse in the other; of choices that are
    equal in both, the first is kept.
    """
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda one: (one.cost, -one.utility)):
        if not kept or choice.utility > kept[-1].utility:
            kept.append(choice)
    return kept


def knee(choices: Iterable[Choice], *, scale: Literal["linear", "log"] = "linear") -> Choice | None:
    """The choice on the frontier farthest above the straight line between the frontier's ends.

    Cost and utility are first brought to [0, 1], so the answer does not depend on units; ``scale="log"``
    takes the logarithm of the cost before, for an ε that spans orders of magnitude. Of several at the same
    distance (to twelve digits) the one with the lowest cost is the knee. Infinite costs take no part. None
    where there is no knee: fewer than three choices on the frontier, or none above the line.
    """
    if scale not in ("linear", "log"):
        raise BadInput(f"`scale` was {scale!r}; accepted are 'linear' and 'log'.", parameter="scale")
    on = [choice for choice in frontier(choices) if math.isfinite(choice.cost)]
    if len(on) < 3:
        return None
    if scale == "log" and on[0].cost <= 0.0:
        raise BadInput(
            f"the cost of {on[0].name!r} is {on[0].cost:g}; a logarithmic scale needs costs above 0."
        )
    costs = [math.log(one.cost) if scale == "log" else one.cost for one in on]
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


def weighted_objective(
    *, epsilon: float, utility: float, overhead: float, epsilon_max: float, weights: Sequence[float]
) -> float:
    """J = w_p·(1 − ε/ε_max) + w_u·utility + w_e·(1 − overhead) (adaptive multimedia privacy, section 4.3.3).

    ``weights`` are (w_p, w_u, w_e), not negative and with sum 1; ε lies in [0, ``epsilon_max``], utility in
    [0, 1], and ``overhead`` is extra time as a share of unprotected time (0.31 for 31%), 0 or more.
    """
    if len(weights) != 3 or min(weights) < 0.0 or not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
        raise BadInput(
            f"`weights` were {tuple(weights)}; give three, none negative, that sum to 1.", parameter="weights"
        )
    if not (0.0 < epsilon_max < math.inf and 0.0 <= epsilon <= epsilon_max):
        raise BadInput(
            f"ε was {epsilon} with epsilon_max={epsilon_max}; ε must lie between 0 and epsilon_max."
        )
    if not 0.0 <= utility <= 1.0:
        raise BadInput(f"`utility` was {utility}; it must lie between 0 and 1.", parameter="utility")
    if not 0.0 <= overhead < math.inf:
        raise BadInput(
            f"`overhead` was {overhead}; give extra time as a share of unprotected time, 0 or more.",
            parameter="overhead",
        )
    privacy, use, speed = weights
    return privacy * (1.0 - epsilon / epsilon_max) + use * utility + speed * (1.0 - overhead)
