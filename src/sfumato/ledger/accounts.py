"""Running totals of a dataset: what they admit, what is left of the budget, and why a spend is refused.

``Account`` says what each kind of entry does to the totals and what they still admit, ``Balance`` what is
left and ``refusal`` why a spend does not fit and which ε would. People type these numbers again. So they have
four digits, rounded down, and are found by the rule that admits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_DOWN, Context
from typing import Any, Literal

from sfumato.errors import BadInput, SfumatoError
from sfumato.ledger.entries import FIRST, Dataset, Entry, call_to_open, short
from sfumato.ledger.rdp_filter import Filter, Prices, add_prices
from sfumato.privacy import (
    RECORD,
    Guarantee,
    Neighbours,
    Unit,
    format_lower,
    format_upper,
    gaussian_epsilon,
    gaussian_mu,
)

__all__ = ["Balance", "BudgetRefused", "LedgerUnavailable", "Preview", "used_shares"]

#: What was asked for, where that is not what the budget pays, and whose ε that is: "in each of the 3 files".
Asked = tuple[Guarantee, str]
#: "exhausted": one release used the budget up by its own curve, outside the filter.
State = Literal["open", "exhausted", "closed"]

_MOST_STEPS = 60
# Finer than the twelve digits to which budgets are kept: what fills a budget of 8 is 8, and not 7.999.
_PRECISION = 1e-14
# What is left of a full budget by the rounding of its digits is nothing.
_CRUMBS = 1e-9


@dataclass(frozen=True)
class Account:
    """Running totals of a dataset's entries. Spends include holds that were not given back."""

    spent: Prices
    entries: int = 0
    spends: int = 0
    holds: int = 0
    state: State = "open"
    head: str = FIRST
    at: str = ""

    def admits(self, rule: Filter, prices: Prices, *, covered: bool) -> bool:
        """Return whether a release of these prices fits; ``covered`` if the budget is enough for it alone."""
        if self.state != "open":
            return False
        return rule.fits(add_prices(self.spent, prices)) or (covered and self.spends == 0)

    def after(self, entry: Entry, rule: Filter, held: Prices | None = None) -> Account:
        """Return the totals after ``entry``; ``held`` are the prices of the hold that it settles."""
        spent, spends, holds, state = self.spent, self.spends, self.holds, self.state
        if entry.kind in ("spend", "hold"):
            assert entry.prices is not None
            spent, spends, holds = add_prices(spent, entry.prices), spends + 1, holds + (entry.kind == "hold")
            state = "open" if rule.fits(spent) else "exhausted"
        elif entry.kind in ("commit", "release"):
            holds -= 1
            if entry.kind == "release":
                assert held is not None
                spent, spends = add_prices(spent, held, -1), spends - 1
                state = "open" if state == "exhausted" else state
        elif entry.kind == "close":
            state = "closed"
        return Account(spent, entry.number, spends, holds, state, entry.hash, entry.at)


def used_shares(history: Sequence[Entry]) -> list[float]:
    """Return the share of the budget that was used after each entry of the whole ``history`` of a dataset."""
    if not history or history[0].kind != "open" or history[0].terms_wire is None:
        raise BadInput("the history of a budget must start with its opening, as the ledger tells it.")
    rule = Dataset.stored(0, history[0].dataset, history[0].terms_wire).filter
    account, prices, used = Account(rule.nothing()), {}, []
    for entry in history:
        prices[entry.number] = entry.prices
        account = account.after(entry, rule, prices.get(entry.refers_to or 0))
        used.append(1.0 if account.state == "exhausted" else rule.used(account.spent))
    return used


@dataclass(frozen=True)
class Balance:
    """The rest of a dataset's budget.

    ``used`` is the share of the budget that is gone by the filter; ``left`` is the largest ε, at the budget's
    δ, of one more Gaussian release, and ``left_pure`` that of one more release without δ, of whatever kind:
    of Laplace noise, for one, more may fit. Both have four digits and fit when they are typed. ``spends``
    includes the ``open_holds``, which are not settled yet. ``state`` is open, closed, or exhausted: used up
    by one release that fits the budget alone.
    """

    dataset: str
    epsilon: float
    delta: float
    unit: str
    neighbours: str
    state: str
    spends: int
    open_holds: int
    used: float
    left: float
    left_pure: float

    @classmethod
    def of(cls, known: Dataset, account: Account) -> Balance:
        """Return the balance that ``account`` leaves."""
        rule, shut = known.filter, account.state != "open"
        return cls(
            dataset=known.name,
            epsilon=rule.epsilon,
            delta=rule.delta,
            unit=str(known.unit),
            neighbours=str(known.neighbours),
            state=account.state,
            spends=account.spends,
            open_holds=account.holds,
            used=rule.used(account.spent),
            left=0.0 if shut else _left(known, account),
            left_pure=0.0 if shut else _left_pure(known, account),
        )

    @property
    def gaussian_left(self) -> str:
        """How much Gaussian noise still fits, with the δ that has to be given with it."""
        if self.left == 0.0:
            return "no Gaussian noise"
        return f"Gaussian noise up to ε = {self.left:.4g} with `delta={float(self.delta)!r}`"

    def to_dict(self) -> dict[str, Any]:
        """Return the balance as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Preview:
    """The effect of one more release: whether it ``fits``, and the balance afterwards.

    Where it does not fit, ``balance`` is as it stands, ``largest`` the ε of this kind that would still fit,
    and ``refusal`` the sentence that would be said.
    """

    fits: bool
    balance: Balance
    largest: float
    refusal: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the preview as JSON values."""
        return asdict(self)


class BudgetRefused(SfumatoError):
    """There is no budget, or the spend would pass it; nothing was spent.

    ``largest`` is the ε that would still fit, in four digits.
    """

    exit_code = 3

    def __init__(self, sentence: str, largest: float) -> None:
        super().__init__(sentence)
        self.largest = largest


class LedgerUnavailable(SfumatoError):
    """The ledger cannot be read or written, so nothing may be released.

    Nothing was spent, unless the connection broke while the answer was under way: asking again with the
    same idempotency key then finds the entry and pays no second time.
    """

    exit_code = 2


def no_budget(
    name: str,
    unit: Unit = RECORD,
    neighbours: Neighbours = Neighbours.REPLACE,
    *,
    ledger: str | None = None,
    missing: str | None = None,
    near: str | None = None,
) -> BudgetRefused:
    """Return the refusal to charge dataset ``name``, which has no budget, with the call that opens one.

    ``unit`` and ``neighbours`` are those of what was to be charged; ``ledger`` is the literal of the URL of
    the ledger, as in :func:`~sfumato.ledger.entries.call_to_open`, and ``missing`` where none is, for
    people. ``near`` is a dataset with a budget whose name is similar.
    """
    where = "" if missing is None else f", and there is no ledger at {missing}"
    meant = "" if near is None else f"did you mean {short(near)}? Otherwise "
    return BudgetRefused(
        f"no budget was opened for dataset {short(name)}{where}; {meant}open one with "
        f"{call_to_open(name, unit, neighbours, ledger)}.",
        0.0,
    )


def refusal(
    known: Dataset,
    account: Account,
    guarantee: Guarantee,
    asked: Asked | None,
) -> BudgetRefused:
    """Return the refusal of ``guarantee``, which does not fit what ``account`` has left.

    The ε that would still fit is that of what was ``asked`` for, if that is not ``guarantee``.
    """
    rule, name = known.filter, short(known.name)
    if account.state == "closed":
        return BudgetRefused(f"dataset {name} is closed and admits no further release.", 0.0)
    delta = guarantee.at_delta if math.isfinite(guarantee.epsilon()) else rule.delta
    # How often a coin reveals everything depends on ε by a law of the mechanism, and not by its sensitivity.
    unsaid = guarantee.revealed > 0.0 or account.state == "exhausted"
    part = 0.0 if unsaid else _largest_part(known, account, guarantee, delta)
    spoken, whose = asked or (guarantee, "of this kind")
    other = spoken.unit != guarantee.unit
    at = spoken.at_delta if math.isfinite(spoken.epsilon()) else delta
    largest = _epsilon_of(spoken, part, at)
    if largest <= _CRUMBS * rule.epsilon:
        largest = 0.0
    fits = (
        f"the largest ε {whose} that would still fit is {format_lower(largest)}"
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
        f"ε={format_upper(guarantee.epsilon(delta))} {f'per {guarantee.unit} ' if other else ''}at "
        f"δ={delta:g} was asked of {name}, whose budget of "
        f"ε={rule.epsilon:g} at δ={rule.delta:g} is {rule.used(account.spent):.1%} used: {fits}.",
        largest,
    )


def _largest_part(known: Dataset, account: Account, guarantee: Guarantee, delta: float) -> float:
    """Return the largest part of ``guarantee``, by its sensitivity, that fits."""
    rule, spent = known.filter, account.spent
    part = bisect(lambda part: rule.fits(add_prices(spent, rule.price(guarantee.scaled(part)))), 0.0, 1.0)
    if account.spends > 0:
        return part
    # Dearer to find out where nothing has a closed form, so asked only above what the accounts admit.
    closed = guarantee.described is not None and guarantee.curve.alone is not None
    precision = _PRECISION if closed else 1e-3
    return bisect(lambda part: rule.covers(guarantee.scaled(part)), part, 1.0, precision)


def _epsilon_of(guarantee: Guarantee, part: float, delta: float) -> float:
    """Return ε at ``delta`` of this ``part`` of ``guarantee``, as it can be typed; 0 where it is infinite."""
    epsilon = guarantee.scaled(part).epsilon(delta) if part > 0.0 else 0.0
    return typable(epsilon) if math.isfinite(epsilon) else 0.0


def bisect(fits: Callable[[float], bool], low: float, high: float, precision: float = _PRECISION) -> float:
    """Return the largest number below ``high`` that fits, not below ``low``, to a relative ``precision``."""
    for _ in range(_MOST_STEPS):
        if high - low <= precision * low:
            break
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def typable(value: float) -> float:
    """Return ``value`` in four digits, rounded down, so that an ε that is said to fit does fit when typed."""
    return float(Context(prec=4, rounding=ROUND_DOWN).create_decimal_from_float(value))


def _left(known: Dataset, account: Account) -> float:
    rule = known.filter
    if rule.delta == 0.0:
        return 0.0
    if account.spends == 0:
        return rule.epsilon
    mu = rule.left_mu(account.spent) * (1.0 + 1e-13)
    epsilon = typable(gaussian_epsilon(mu, rule.delta)) if mu > 0.0 else 0.0
    while epsilon > 0.0 and not _admits(
        known, account, Guarantee.gaussian(1.0 / gaussian_mu(epsilon, rule.delta))
    ):
        epsilon = typable(epsilon * (1.0 - 1e-4))
    return epsilon


def _left_pure(known: Dataset, account: Account) -> float:
    rule, first = known.filter, account.spends == 0
    # Sure to fit, and for a response that tells as much as ε allows not yet all that does.
    sure = rule.left_pure(account.spent)
    # What a budget pays for is (ε, δ)-DP, so that e^ε′ is at most (e^ε + δ)/(1 − δ).
    most = rule.epsilon + rule.delta - math.log1p(-rule.delta)

    def fits(epsilon: float) -> bool:
        guarantee = Guarantee.pure(epsilon)
        return _admits(known, account, guarantee) or (first and rule.covers(guarantee))

    return typable(bisect(fits, sure, (1.0 + 1e-11) * most))


def _admits(known: Dataset, account: Account, guarantee: Guarantee) -> bool:
    return account.admits(known.filter, known.filter.price(guarantee), covered=False)
