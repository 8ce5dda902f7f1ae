"""Why a spend was refused: there is no budget, or what was asked does not fit it; and what would.

Numbers that are said to fit are typed again by whoever reads them. So they have four digits, rounded down,
and :func:`refusal` and :class:`~sfumato.ledger.balance.Balance` find them by the rule that admits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Context

from sfumato.ledger.account import Account
from sfumato.ledger.dataset import Dataset
from sfumato.ledger.ledger_errors import BudgetRefused
from sfumato.ledger.ledger_names import call_to_open, short
from sfumato.ledger.rdp_filter import add
from sfumato.privacy import RECORD, Guarantee, Neighbours, Unit
from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    ResponseEvent,
    SelfComposedEvent,
    composed,
    curve_of,
    repeated,
    response_event,
)
from sfumato.privacy.wording import downward, upward

__all__ = ["OF_THIS_KIND", "bisect", "no_budget", "refusal", "typable"]

#: Whose ε is said to fit: that of the release, as it was asked for.
OF_THIS_KIND = "of this kind"

_MOST_STEPS = 60
# Finer than the twelve digits to which budgets are kept: what fills a budget of 8 is 8, and not 7.999.
_PRECISION = 1e-14
# What is left of a full budget by the rounding of its digits is nothing.
_CRUMBS = 1e-9


def no_budget(
    name: str,
    unit: Unit = RECORD,
    neighbours: Neighbours = Neighbours.REPLACE,
    *,
    ledger: str | None = None,
    missing: str | None = None,
) -> BudgetRefused:
    """The refusal to charge dataset ``name``, which has no budget, with the call that opens one.

    ``unit`` and ``neighbours`` are those of what was to be charged; ``ledger`` is the literal of the URL of
    the ledger, as in :func:`~sfumato.ledger.ledger_names.call_to_open`, and ``missing`` where none is, for
    people.
    """
    where = "" if missing is None else f", and there is no ledger at {missing}"
    return BudgetRefused(
        f"no budget was opened for dataset {short(name)}{where}; open one with "
        f"{call_to_open(name, unit, neighbours, ledger)}.",
        0.0,
    )


def refusal(
    known: Dataset,
    account: Account,
    guarantee: Guarantee,
    headline: Guarantee | None = None,
    what: str = OF_THIS_KIND,
) -> BudgetRefused:
    """The refusal of ``guarantee``, which does not fit what ``account`` has left.

    ``headline`` is what was asked for, where that is not what the budget pays: of another unit, or of one of
    many files. The ε that would still fit is then that of the headline; ``what`` says whose it is.
    """
    rule, name = known.filter, short(known.name)
    if account.state == "closed":
        return BudgetRefused(f"dataset {name} is closed and admits no further release.", 0.0)
    delta = guarantee.at_delta if math.isfinite(guarantee.epsilon()) else rule.delta
    # How often a coin reveals everything depends on ε by a law of the mechanism, and not by its sensitivity.
    unsaid = guarantee.revealed > 0.0 or account.state == "exhausted"
    part = 0.0 if unsaid else _largest_part(known, account, guarantee, delta)
    spoken = guarantee if headline is None else headline
    other = spoken.unit != guarantee.unit
    at = spoken.at_delta if math.isfinite(spoken.epsilon()) else delta
    largest = _epsilon_of(spoken, part, at)
    if largest <= _CRUMBS * rule.epsilon:
        largest = 0.0
    fits = (
        f"the largest ε {what} that would still fit is {downward(largest)}"
        + (f" per {spoken.unit}" if other else "")
        + (f" at δ = {float(at)!r}" if at > 0.0 else "")
        if largest > 0.0
        else "nothing more fits"
        if account.state == "exhausted"
        else "which smaller ε of this kind fits is not known"
        if guarantee.revealed > 0.0
        else "nothing more of this kind fits"
    )
    return BudgetRefused(
        f"ε={upward(guarantee.epsilon(delta))} {f'per {guarantee.unit} ' if other else ''}at δ={delta:g} was "
        f"asked of {name}, whose budget of "
        f"ε={rule.epsilon:g} at δ={rule.delta:g} is {rule.used(account.spent):.1%} used: {fits}.",
        largest,
    )


def _largest_part(known: Dataset, account: Account, guarantee: Guarantee, delta: float) -> float:
    """The largest part of ``guarantee``, by its sensitivity, that fits."""
    rule, spent = known.filter, account.spent
    part = bisect(lambda part: rule.fits(add(spent, rule.price(_part(guarantee, part)))), 0.0, 1.0)
    if account.spends > 0:
        return part
    # Dearer to find out where nothing has a closed form, so asked only above what the accounts admit.
    closed = guarantee.described is not None and guarantee.curve.alone is not None
    precision = _PRECISION if closed else 1e-3
    return bisect(lambda part: rule.covers(_part(guarantee, part)), part, 1.0, precision)


def _epsilon_of(guarantee: Guarantee, part: float, delta: float) -> float:
    """ε at ``delta`` of this ``part`` of ``guarantee``, as it can be typed; 0 where that is not finite."""
    epsilon = _part(guarantee, part).epsilon(delta) if part > 0.0 else 0.0
    return typable(epsilon) if math.isfinite(epsilon) else 0.0


def bisect(fits: Callable[[float], bool], low: float, high: float, precision: float = _PRECISION) -> float:
    """The largest number below ``high`` that fits, not below ``low``, to a relative ``precision``."""
    for _ in range(_MOST_STEPS):
        if high - low <= precision * low:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _part(guarantee: Guarantee, fraction: float) -> Guarantee:
    return (
        guarantee
        if guarantee.described is None
        else guarantee.changed(event=_smaller(guarantee.described, fraction))
    )


def _smaller(event: Event, fraction: float) -> Event:
    """The same event with this ``fraction`` of its sensitivity, or of its pure ε."""
    if isinstance(event, ComposedEvent):
        return composed(_smaller(inner, fraction) for inner in event.events)
    if isinstance(event, SelfComposedEvent):
        return repeated(_smaller(event.event, fraction), event.count)
    if isinstance(event, PoissonSampledEvent):
        return PoissonSampledEvent(event.sampling_probability, _smaller(event.event, fraction))
    if isinstance(event, GaussianEvent | LaplaceEvent):
        return type(event)(event.noise_multiplier / fraction)
    buckets = event.num_buckets if isinstance(event, ResponseEvent) else 2
    return response_event(fraction * curve_of(event).pure, buckets)


def typable(value: float) -> float:
    """``value`` in four digits, rounded down: an ε that is said to fit does fit when it is typed."""
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(value))
