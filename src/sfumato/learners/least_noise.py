"""The least noise that proves an asked ε, found with few questions, since each costs a convolution."""

from __future__ import annotations

import math
from collections.abc import Callable

from sfumato.errors import BadInput

__all__ = ["least_noise"]

# The search ends when the multiplier is known to this part of itself.
_CLOSE = 1e-3
_LEAST, _LARGEST = 0.05, 1e4


def least_noise(
    proven: Callable[[float], float], epsilon: float, delta: float, steps: int, *, guess: float | None = None
) -> float:
    """The least multiplier, to a part in a thousand and never less, at which ``proven`` is ≤ ``epsilon``.

    ``proven`` falls as noise grows. Never less than 0.05, even where ``epsilon`` would allow it. A good
    ``guess`` saves questions and changes nothing else; ``delta`` and ``steps`` are named in the refusal.
    """
    widening = 2.0 if guess is None else 1.1
    low = high = 1.0 if guess is None else min(max(guess, _LEAST), _LARGEST)
    at_low = at_high = proven(high)
    while at_high > epsilon:
        low, at_low, high = high, at_high, widening * high
        widening = 2.0 if widening > 1.3 else widening**2
        if high > _LARGEST:
            raise BadInput(
                f"`epsilon` {epsilon:g} at delta {delta:g} needs more than {_LARGEST:g} times the clip as "
                f"noise over {steps} steps: take fewer steps, or a larger epsilon.",
                parameter="epsilon",
            )
        at_high = proven(high)
    while at_low <= epsilon and low > _LEAST:
        high, at_high, low = low, at_low, max(low / widening, _LEAST)
        widening = 2.0 if widening > 1.3 else widening**2
        at_low = proven(low)
    if at_low <= epsilon:
        high = low
    turn = 0
    while high > low * (1.0 + _CLOSE):
        middle = _between(low, at_low, high, at_high, epsilon, turn)
        turn += 1
        if (at_middle := proven(middle)) <= epsilon:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high


def _between(low: float, at_low: float, high: float, at_high: float, epsilon: float, turn: int) -> float:
    """Where log ε, taken as linear in the logarithm of the noise, meets ``epsilon``; a hair to each side.

    Steps to alternate sides close in on it from both; every third step halves the range, whatever ε does.
    """
    if turn % 3 == 2 or not 0.0 < at_high < at_low < math.inf:
        return math.sqrt(low * high)
    share = math.log(at_low / epsilon) / math.log(at_low / at_high)
    guess = low * (high / low) ** share * (1.0 + _CLOSE / 3.0) ** (1 if turn % 3 else -1)
    return float(min(max(guess, low * (1.0 + _CLOSE / 3.0)), high / (1.0 + _CLOSE / 3.0)))
