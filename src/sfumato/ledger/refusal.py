"""Why a spend was refused: what was asked, how much is gone, and the largest ε that would still fit."""

from __future__ import annotations

import math
from dataclasses import replace

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)

from sfumato.ledger.account import Account
from sfumato.ledger.dataset import Dataset
from sfumato.ledger.errors import BudgetRefused
from sfumato.ledger.text import short
from sfumato.privacy import Guarantee
from sfumato.privacy.events import composed, curve_of, repeated, response_event

__all__ = ["refusal"]

_PRECISION = 1e-5
_MOST_STEPS = 60


def refusal(known: Dataset, account: Account, guarantee: Guarantee) -> BudgetRefused:
    """The refusal of ``guarantee``, which does not fit what ``account`` has left."""
    rule, name = known.filter, short(known.name)
    if account.state == "closed":
        return BudgetRefused(f"dataset {name} is closed and admits no further release.", 0.0)
    delta = guarantee.at_delta if math.isfinite(guarantee.epsilon()) else rule.delta
    largest = 0.0 if account.state == "exhausted" else _largest(known, account, guarantee, delta)
    fits = (
        f"the largest ε of this kind that would still fit is {_down(largest)}"
        if largest > 0.0
        else "nothing more fits"
        if account.state == "exhausted"
        else "nothing more of this kind fits"
    )
    return BudgetRefused(
        f"ε={guarantee.epsilon(delta):.4g} at δ={delta:g} was asked of {name}, whose budget of "
        f"ε={rule.epsilon:g} at δ={rule.delta:g} is {rule.used(account.spent):.1%} used: {fits}.",
        largest,
    )


def _largest(known: Dataset, account: Account, guarantee: Guarantee, delta: float) -> float:
    """ε at ``delta`` of the largest release of the same kind that fits: less sensitivity until it does."""
    if guarantee.event is None:
        return 0.0
    low, high, best = 0.0, 1.0, guarantee
    for _ in range(_MOST_STEPS):
        if high - low <= _PRECISION * low:
            break
        middle = 0.5 * (low + high)
        smaller = replace(guarantee, event=_smaller(guarantee.event, middle))
        if known.filter.verdict(account.spent, smaller, first=account.spends == 0) == "refused":
            high = middle
        else:
            low, best = middle, smaller
    epsilon = best.epsilon(delta) if low > 0.0 else 0.0
    return epsilon if math.isfinite(epsilon) else 0.0


def _smaller(event: DpEvent, fraction: float) -> DpEvent:
    """The same event with this ``fraction`` of its sensitivity, or of its pure ε."""
    if isinstance(event, ComposedDpEvent):
        return composed(_smaller(inner, fraction) for inner in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return repeated(_smaller(event.event, fraction), event.count)
    if isinstance(event, PoissonSampledDpEvent):
        return PoissonSampledDpEvent(event.sampling_probability, _smaller(event.event, fraction))
    if isinstance(event, GaussianDpEvent | LaplaceDpEvent):
        return type(event)(event.noise_multiplier / fraction)
    buckets = event.num_buckets if isinstance(event, RandomizedResponseDpEvent) else 2
    return response_event(fraction * curve_of(event).pure, buckets)


def _down(value: float) -> str:
    """``value`` in four digits, rounded down: an ε printed as fitting does fit."""
    text = f"{value:.4g}"
    return text if float(text) <= value else f"{value * (1.0 - 5e-4):.4g}"
