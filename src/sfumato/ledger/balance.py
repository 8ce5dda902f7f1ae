"""Balances and previews: what a dataset may still spend, and what one more release would do."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.ledger.entries import Dataset
from sfumato.ledger.refusal import Account, bisect, typable
from sfumato.privacy import Guarantee, gaussian_epsilon, gaussian_mu

__all__ = ["Balance", "Preview"]


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
