"""Why a spend was refused: what was asked, how much is gone, and the largest ε that would still fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_DOWN, Context

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
from sfumato.ledger.filter import add
from sfumato.ledger.text import short
from sfumato.privacy import Guarantee
from sfumato.privacy.events import composed, curve_of, repeated, response_event

__all__ = ["refusal"]

_MOST_STEPS = 60
# What is left of a full budget by the rounding of its digits is nothing.
_CRUMBS = 1e-9


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
    rule, spent = known.filter, account.spent
    fraction = _bisect(lambda part: rule.fits(add(spent, rule.price(_part(guarantee, part)))), 0.0, 1e-6)
    if account.spends == 0:  # dearer to find out, so asked only above what the accounts admit
        fraction = _bisect(lambda part: rule.covers(_part(guarantee, part)), fraction, 1e-3)
    epsilon = _part(guarantee, fraction).epsilon(delta) if fraction > 0.0 else 0.0
    return epsilon if _CRUMBS * rule.epsilon < epsilon < math.inf else 0.0


def _bisect(fits: Callable[[float], bool], low: float, precision: float) -> float:
    """The largest part below 1 that fits, not below ``low``, to a relative ``precision``."""
    high = 1.0
    for _ in range(_MOST_STEPS):
        if high - low <= precision * low:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _part(guarantee: Guarantee, fraction: float) -> Guarantee:
    return (
        guarantee
        if guarantee.event is None
        else replace(guarantee, event=_smaller(guarantee.event, fraction))
    )


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
    return f"{float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(value)):.4g}"
