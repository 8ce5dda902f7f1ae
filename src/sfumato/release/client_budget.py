"""Budgets of the clients of a federated run: each pays for each round before anything of it is drawn.

Each client is a dataset of its own in a ledger, ``NAME/client-1`` and so on, with the unit client. A client
without a budget is refused, and so is a ledger that is not there. Whoever starts a run may name the dataset
and say that nothing is charged; the statement then says so.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput
from sfumato.learners.federated import OutOfBudget
from sfumato.ledger import BudgetRefused, Ledger, Preview, printable_name
from sfumato.privacy import Guarantee

if TYPE_CHECKING:
    from sfumato.release.path import Content, Kind, Paid

__all__ = ["ClientBudgets", "Waiting"]

_PLACE = "{client}"


@dataclass(frozen=True)
class ClientCost:
    """What a run would cost one client: ``admitted`` of the rounds fit, and what the first one leaves.

    ``preview`` is None where nothing is charged.
    """

    client: str
    dataset: str
    admitted: int
    preview: Preview | None


@dataclass(frozen=True)
class ClientBudgets:
    """Budgets of clients: ``dataset`` is what their names begin with, ``url`` the ledger.

    A ``url`` with ``{client}`` in it names a ledger of its own for every client. ``purpose`` stands in the
    rows. Without a dataset nothing is charged, nor where that is asked for (``uncharged``).
    """

    dataset: str | None
    url: str | None
    purpose: str = ""
    uncharged: bool = False

    def __post_init__(self) -> None:
        name = self.dataset
        if name is not None:
            printable_name(name)
        if name is not None and self.url is None and not self.uncharged:
            raise BadInput(f"the dataset {name!r} came without a ledger: say which one its clients pay from.")

    def name_of(self, client: str) -> str:
        """The dataset of ``client``."""
        return f"{self.dataset}/{client}"

    def url_of(self, client: str) -> str:
        """The ledger of ``client``."""
        assert self.url is not None  # asked for where something is charged only
        return self.url.replace(_PLACE, client)

    @property
    def charged(self) -> bool:
        """Whether any client is to be charged."""
        return self.dataset is not None and not self.uncharged

    def ledger_of(self, client: str) -> Ledger:
        """The ledger of ``client``, opened; refused where it is not there."""
        return Ledger(self.url_of(client), charging=self.name_of(client), unit="client")

    def pay(self, client: str, number: int, guarantee: Guarantee) -> None:
        """Spend one round of ``client``; raises :class:`OutOfBudget` where it does not fit.

        A client without a budget is no client whose budget has ended: what is wrong stays with its owner.
        """
        if not self.charged:
            return
        with self.ledger_of(client) as ledger:
            if not ledger.has(self.name_of(client)):
                raise BadInput(f"no budget was opened for dataset {self.name_of(client)!r}.")
            try:
                ledger.spend(self.name_of(client), guarantee, f"{self.purpose} round {number}".strip())
            except BudgetRefused as refused:
                raise OutOfBudget(str(refused)) from None

    def pay_all(self, clients: Sequence[str], number: int, guarantee: Guarantee) -> None:
        """Spend one round of all ``clients``, once it is known that every one of them can."""
        self.require_all(clients, guarantee)
        for client in clients:
            self.pay(client, number, guarantee)

    def require_all(self, clients: Sequence[str], guarantee: Guarantee) -> None:
        """Raise :class:`OutOfBudget` unless every one of ``clients`` can pay for one round."""
        for client in clients:
            cost = self.cost(client, guarantee, 1)
            if cost.preview is not None and not cost.preview.fits:
                raise OutOfBudget(cost.preview.refusal or f"{cost.dataset} has nothing left.")

    def cost(self, client: str, guarantee: Guarantee, rounds: int) -> ClientCost:
        """How many of ``rounds`` rounds the budget of ``client`` admits; nothing is spent."""
        name = self.name_of(client)
        if not self.charged:
            return ClientCost(client, name, rounds, None)
        with self.ledger_of(client) as ledger:
            first = ledger.preview(name, guarantee)
            low, high = (1, rounds) if first.fits else (0, 0)
            while low < high:
                middle = (low + high + 1) // 2
                after = ledger.preview(name, guarantee.times(middle))
                # Several rounds as one release may use a budget up that would not admit them one by one.
                fits = after.fits and after.balance.state == "open"
                low, high = (middle, high) if fits else (low, middle - 1)
            return ClientCost(client, name, low, first)

    def spends(self, client: str) -> list[dict[str, object]]:
        """The rows of ``client`` with this purpose, as certificates name rows."""
        if not self.charged:
            return []
        with self.ledger_of(client) as ledger:
            return [
                {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}
                for entry in ledger.history(self.name_of(client))
                if entry.kind == "spend" and entry.purpose.startswith(f"{self.purpose} round ")
            ]


@dataclass(frozen=True)
class RoundPayment:
    """Pays for each round of a run: every one of ``clients`` from its own budget, before it draws.

    ``each`` is what one round costs a client. Whoever runs the rounds is handed the ``budgets``, which a
    client in another process can open too.
    """

    budgets: ClientBudgets
    clients: tuple[str, ...]
    each: Guarantee
    row: Paid = None

    @property
    def dataset(self) -> str | None:
        """What the names of the clients' datasets begin with."""
        return self.budgets.dataset

    def paying(self, kind: Kind[Any], content: Content) -> RoundPayment:
        """What pays for ``kind``; refused where a client cannot pay for one round."""
        self.budgets.require_all(self.clients, self.each)
        # What tells the rows of this run in a ledger from those of another one.
        return replace(self, budgets=replace(self.budgets, purpose=f"{kind.name}-{secrets.token_hex(4)}"))

    def spends(self) -> dict[str, list[dict[str, object]]]:
        """The rows of every client that this run has paid for."""
        return {client: self.budgets.spends(client) for client in self.clients}

    def keep(self, certificate: bytes) -> bytes:
        """Remember ``certificate`` beside the last row of every client; returns it."""
        for client, rows in self.spends().items():
            if rows:
                with self.budgets.ledger_of(client) as ledger:
                    number = int(str(rows[-1]["number"]))
                    ledger.keep_certificate(self.budgets.name_of(client), number, certificate.decode())
        return certificate


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


@dataclass(frozen=True)
class Waiting:
    """Seconds: ``patience`` for clients to appear, ``timeout`` for each client to answer in a round.

    Both are public, and the same for all: when one client answers leaves the others the time that they have.
    """

    patience: float = 120.0
    timeout: float = 600.0

    def __post_init__(self) -> None:
        for name in ("patience", "timeout"):
            if not 0.0 < (given := getattr(self, name)) < math.inf:
                raise BadInput(f"`{name}` was {given!r}", parameter=name, accepted="a finite number above 0")
