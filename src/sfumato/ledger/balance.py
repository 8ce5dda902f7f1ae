"""What a dataset may still spend, in numbers that people can read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sfumato.ledger.account import Account
from sfumato.ledger.dataset import Dataset
from sfumato.privacy import gaussian_epsilon

__all__ = ["Balance", "Preview"]

# A release asked for with exactly what is shown as left must fit, after rounding on both ways.
_ROUNDING = 1.0 - 1e-9


@dataclass(frozen=True)
class Balance:
    """What a dataset may still spend.

    ``used`` is the share of the budget that is gone by the filter; ``left`` is the largest ε, at the budget's
    δ, of one more Gaussian release, and ``left_pure`` that of one more release without δ. ``spends`` includes
    the ``open_holds``, which are not settled yet. ``state`` is open, closed, or exhausted: used up by one
    release that fits the budget alone.
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
        """The balance that ``account`` leaves."""
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
            left_pure=0.0 if shut else rule.left_pure(account.spent) * _ROUNDING,
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Preview:
    """What asking for a release would do: whether it ``fits``, and the balance afterwards.

    Where it does not fit, ``balance`` is as it stands, ``largest`` the ε of this kind that would still fit,
    and ``refusal`` the sentence that would be said.
    """

    fits: bool
    balance: Balance
    largest: float
    refusal: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def _left(known: Dataset, account: Account) -> float:
    rule = known.filter
    if rule.delta == 0.0:
        return 0.0
    if account.spends == 0:
        return rule.epsilon
    mu = rule.left_mu(account.spent) * _ROUNDING
    return gaussian_epsilon(mu, rule.delta) if mu > 0.0 else 0.0
