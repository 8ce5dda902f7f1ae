"""What should be said before anything is learned: promises that mean little, and noise that drowns all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.privacy import Neighbours

if TYPE_CHECKING:
    from sfumato.learn import Learner

__all__ = ["forewarnings"]


def forewarnings(learner: Learner, *, records: int, dimension: int) -> tuple[str, ...]:
    """Sentences about a ``learner`` with an ε and a δ, for ``records`` records of ``dimension`` features.

    A function of what is public. One is about a δ that is not below 1/n, which would allow to publish a
    record chosen at random; one about noise that is longer than the sum of all records can be, whatever they
    are: n times the length that each of them is cut to.
    """
    epsilon, delta = getattr(learner, "epsilon", None), getattr(learner, "delta", None)
    if epsilon is None or delta is None:
        return ()
    said = []
    if delta >= 1.0 / records:
        said.append(
            f"δ = {delta:g} is not below 1/n for n = {records} records: so large a δ would allow to publish "
            f"one of them whole, chosen at random; take --delta {_below(0.1 / records):g} or less"
        )
    twice = 2.0 if learner.guarantee().neighbours is Neighbours.REPLACE else 1.0
    weights = (dimension + 1) * learner.classes
    length = twice * noise_multiplier(epsilon, delta) * math.sqrt(weights) / records
    if length >= 1.0:
        said.append(
            f"the noise of ε = {epsilon:.3g} is {length:.2g} times as long as the sum of what {records} "
            "records say can be: expect a model that knows next to nothing; take a larger ε, more records or "
            "fewer features"
        )
    return tuple(said)


def _below(value: float) -> float:
    """``value`` rounded down to one digit."""
    scale = 10.0 ** math.floor(math.log10(value))
    return math.floor(value / scale * (1.0 + 1e-12)) * scale
