"""A server that pays for its clients: all of them before a round, or none."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.privacy import Guarantee
from sfumato.release.client_budget import ClientBudgets

__all__ = ["BeforeEachRound"]


class BeforeEachRound:
    """``pay(client, round, guarantee)`` for ``rounds.federate``: the first client of a round pays for all.

    So no client pays for a round that another one cannot pay for.
    """

    def __init__(self, budgets: ClientBudgets, names: Sequence[str]) -> None:
        self._budgets, self._names, self._paid = budgets, tuple(names), 0

    def __call__(self, client: str, number: int, guarantee: Guarantee) -> None:
        """Spend round ``number`` of every client, where that was not done."""
        if number > self._paid:
            self._budgets.pay_all(self._names, number, guarantee)
            self._paid = number
