"""How a client pays for a round: from a budget of its own, durably, before anything of the round is drawn.

Each client is a dataset of its own in a ledger, ``NAME/client-1`` and so on, with the unit client. A client
without a budget is refused, and so is a ledger that is not there. Whoever starts a run may name the dataset
and say that nothing is charged; the statement then says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import BadInput
from sfumato.learners.federated.rounds import OutOfBudget
from sfumato.ledger import BudgetRefused, Ledger, Preview
from sfumato.ledger.ledger_names import printable_name
from sfumato.privacy import Guarantee

__all__ = ["ClientBudgets", "ClientCost"]

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
        for client in clients:
            cost = self.cost(client, guarantee, 1)
            if cost.preview is not None and not cost.preview.fits:
                raise OutOfBudget(cost.preview.refusal or f"{cost.dataset} has nothing left.")
        for client in clients:
            self.pay(client, number, guarantee)

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

    def keep(self, client: str, number: int, certificate: bytes) -> None:
        """Remember ``certificate`` beside the last row that paid for its release."""
        with self.ledger_of(client) as ledger:
            ledger.keep_certificate(self.name_of(client), number, certificate.decode())
