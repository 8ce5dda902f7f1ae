"""What a mechanism promises of a component or of a tensor, and how TLDP is brought to a promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sfumato.mechanisms import TensorLDP, WeightedTensorLDP
from sfumato.privacy import Guarantee

__all__ = ["DELTA", "Promise", "claim_for", "own_promise", "proven_epsilon", "unit_guarantee"]

#: Of mechanisms that need a δ and of the Gaussian noise inside TLDP; the paper's own.
DELTA = 1e-5

_CLAIMS = (1e-30, 1e4)
_SCANNED = 171


@dataclass(frozen=True)
class Promise:
    """(ε, δ)-LDP for one ``unit``, "component" or "tensor", under replace."""

    unit: str
    epsilon: float
    delta: float

    def kept_by(self, epsilon: float) -> bool:
        """Whether an ``epsilon`` proven at this δ is no larger, to a part in 10⁹."""
        return epsilon <= self.epsilon * (1.0 + 1e-9)


def unit_guarantee(mechanism: TensorLDP, unit: str, size: int) -> Guarantee:
    """What TLDP proves of ``unit`` for tensors of ``size`` components."""
    asked = type(mechanism)(**(mechanism.get_params(deep=False) | {"unit": unit}))
    return asked.guarantee(size)


def proven_epsilon(mechanism: TensorLDP, unit: str, size: int, delta: float) -> float:
    """ε of TLDP at ``delta``; infinite below the chance that something is shown.

    Weights that are read off the tensor make coins that look at the data: each is (log 1/(1 − p), p)-LDP,
    and the sum of these ε and of that of the noise is taken. That is never below what the guarantee gives,
    and, unlike it, is quick at every ε of a search.
    """
    guarantee = unit_guarantee(mechanism, unit, size)
    if not isinstance(mechanism, WeightedTensorLDP) or not isinstance(mechanism.weights, str):
        return guarantee.epsilon(delta)
    given = mechanism.get_params(deep=False)
    given.pop("weights")
    shown = guarantee.slack
    if guarantee.proves_nothing or delta < shown * (1.0 - 1e-12):
        return math.inf
    coins = size if unit == "tensor" or mechanism.weights == "saliency" else 1
    noise = TensorLDP(**given).noise_alone(unit, size).epsilon(max(0.0, delta - shown))
    return noise - coins * math.log1p(-mechanism.keep_probability(size))


def own_promise(mechanism: TensorLDP, unit: str, size: int) -> Promise:
    """TLDP's (ε, δ) at its own δ: the chance that something is shown, and ``DELTA`` of Gaussian noise."""
    delta = unit_guarantee(mechanism, unit, size).at_delta
    return Promise(unit, proven_epsilon(mechanism, unit, size, delta), delta)


def claim_for(make: Callable[[float], TensorLDP], promise: Promise, size: int) -> float:
    """The largest claimed ε with which TLDP keeps to ``promise``.

    Of a geometric scan the last claim that keeps to it, and from there a bisection: the chance that a value
    is shown rises and falls with the claim of Gaussian noise, so that claims in between may fail.
    """

    def kept(claim: float) -> bool:
        return promise.kept_by(proven_epsilon(make(claim), promise.unit, size, promise.delta))

    low, high = (math.log(end) for end in _CLAIMS)
    steps = [low + (high - low) * step / (_SCANNED - 1) for step in range(_SCANNED)]
    good = max(step for step in steps if kept(math.exp(step)))
    bad = good + (high - low) / (_SCANNED - 1)
    for _ in range(60):
        middle = (good + bad) / 2.0
        good, bad = (middle, bad) if kept(math.exp(middle)) else (good, middle)
    return math.exp(good)
