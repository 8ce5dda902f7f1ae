"""How strong a round may be, so that all rounds together keep a promise made to each client.

The ε that people ask for is that of one client over all rounds. Each round has the same guarantee, and its
noise is found by bisection: the least with which the rounds, composed by dp-accounting, keep to (ε, δ). That
is sound for rounds whose inputs depend on earlier rounds, since what is fixed in advance is every round's
privacy curve. Whatever the search does, what it returns was checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee

__all__ = ["calibrated"]

_TURNS = 44
_WEAKEST, _STRONGEST = 1e-9, 1e9
# A step of the search costs a composition; what is left on the table is less noise by this share.
_CLOSE = 5e-4


def calibrated(
    guarantee_of: Callable[[float], Guarantee],
    *,
    rounds: int,
    epsilon: float,
    delta: float,
    also: Callable[[Guarantee], bool] | None = None,
) -> float:
    """The largest strength whose guarantee, ``rounds`` times, is at most (``epsilon``, ``delta``).

    ``guarantee_of(strength)`` is that of one round, and its ε must not fall with the strength: the ε of one
    round, or one over a noise multiplier. ``also(guarantee)`` may refuse more, such as what a budget would
    not admit.
    """

    def keeps(strength: float) -> bool:
        try:
            one = guarantee_of(strength)
        except BadInput:
            return False  # parameters so extreme that nothing can be drawn with them
        held = one.times(rounds).epsilon(delta) <= epsilon
        return held and (also is None or also(one))

    low = epsilon / rounds
    while not keeps(low):
        low /= 4.0
        if low < _WEAKEST * epsilon:
            guarantee_of(epsilon)  # says in its own sentence what is wrong with the parameters
            raise BadInput(
                f"no noise keeps {rounds} rounds to ε = {epsilon:g} at δ = {delta:g}: take a larger ε or "
                "δ, or fewer rounds."
            )
    high = 2.0 * low
    while keeps(high):
        low, high = high, 4.0 * high
        if high > _STRONGEST * epsilon:
            return low
    for _ in range(_TURNS):
        if high / low < 1.0 + _CLOSE:
            break
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
