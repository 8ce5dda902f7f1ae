"""Budgets of the clients of a federated run: each pays for each round before anything of it is drawn.

Each client is a dataset of its own in a ledger, ``NAME/client-1`` and so on, with the unit client. A client
without a budget is refused, and so is a ledger that is not there. Whoever starts a run may name the dataset
and say that nothing is charged; the statement then says so.

The row of a round has a key, which the seed of the run and all that is compared when a run is resumed are
part of: a round is paid for once, however often the run is resumed, and what changed finds no row. The row is
then bound to the one output of its round, so that no copy of the run draws another one.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated import Arrays, Federated, OutOfBudget, layers_to_bytes
from sfumato.ledger import BudgetRefused, Entry, Ledger, Preview, printable_name
from sfumato.privacy import Guarantee
from sfumato.release.path import Content, Paid

if TYPE_CHECKING:
    from sfumato.release.checkpoint import Checkpoint
    from sfumato.release.path import Kind

__all__ = ["ClientBudgets"]

_PLACE = "{client}"
# What a configuration calls the fields of budgets.
_SETTINGS = ("dataset", "ledger", "purpose", "key")


@dataclass(frozen=True)
class ClientCost:
    """What a run would cost one client: ``admitted`` of the rounds fit, and what the first one leaves.

    ``preview`` is None where nothing is charged.
    """

    client: str
    dataset: str
    admitted: int
    preview: Preview | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        first = None if self.preview is None else self.preview.to_dict()
        return {
            "client": self.client,
            "dataset": self.dataset,
            "admitted": self.admitted,
            "first_round": first,
        }


@dataclass(frozen=True)
class ClientBudgets:
    """Budgets of clients: ``dataset`` is what their names begin with, ``url`` the ledger.

    A ``url`` with ``{client}`` in it names a ledger of its own for every client. ``purpose`` stands in the
    rows, and ``key`` names the run that they pay for. Without a dataset nothing is charged, nor where that is
    asked for (``uncharged``).
    """

    dataset: str | None
    url: str | None
    purpose: str = ""
    uncharged: bool = False
    key: str = ""

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

    def settings(self) -> dict[str, str]:
        """Return the budgets as a configuration names them; empty text stands for none."""
        charged = (self.dataset, self.url, self.purpose, self.key) if self.charged else ("", "", "", "")
        return {name: given or "" for name, given in zip(_SETTINGS, charged, strict=True)}

    @classmethod
    def from_settings(cls, given: Mapping[str, Any]) -> ClientBudgets:
        """Return what :meth:`settings` said, or the owner of a node; a dataset needs a ledger."""
        dataset, url, purpose, key = (str(given.get(name) or "") for name in _SETTINGS)
        return cls(dataset or None, url or None, purpose, key=key)

    def for_run(self, run: Checkpoint) -> ClientBudgets:
        """Return these budgets, which pay for each round of ``run`` once."""
        return replace(self, key=f"{run.request} {run.commitment}")

    def pay(self, client: str, number: int, guarantee: Guarantee) -> None:
        """Spend one round of ``client``; raises :class:`OutOfBudget` where it does not fit.

        A client without a budget is no client whose budget has ended: what is wrong stays with its owner.
        """
        if not self.charged:
            return
        name, purpose = self.name_of(client), f"{self.purpose} round {number}".strip()
        with self.ledger_of(client) as ledger:
            if not ledger.has(name):
                raise BadInput(f"no budget was opened for dataset {name!r}.")
            try:
                ledger.spend(name, guarantee, purpose, self._key(number))
            except BudgetRefused as refused:
                raise OutOfBudget(str(refused)) from None

    def pay_all(self, clients: Sequence[str], number: int, guarantee: Guarantee) -> None:
        """Spend one round of all ``clients``, once it is known that every one of them can."""
        self.require_all(clients, number, guarantee)
        for client in clients:
            self.pay(client, number, guarantee)

    def require_all(self, clients: Sequence[str], number: int, guarantee: Guarantee) -> None:
        """Raise :class:`OutOfBudget` unless all ``clients`` can pay for round ``number``, or have done so."""
        for client in clients:
            cost = self.cost(client, guarantee, 1)
            if cost.preview is None or cost.preview.fits:
                continue
            if not any(entry.key == self._key(number) for entry in self._rows(client)):
                raise OutOfBudget(cost.preview.refusal or f"{cost.dataset} has nothing left.")

    def bind(self, client: str, number: int, output: Arrays) -> None:
        """Bind what ``client`` paid for round ``number`` to its one ``output``; refuse another one.

        Whoever sends or uses an output has bound it before, so that copies of a run draw nothing twice.
        """
        key = self._key(number)
        if self.charged and key is not None:
            digest = hashlib.sha256(layers_to_bytes({"round": number}, output)).hexdigest()
            with self.ledger_of(client) as ledger:
                ledger.bind(self.name_of(client), key, digest)

    def certificate(self, client: str, row: Mapping[str, Any]) -> str | None:
        """Return the certificate that the ledger of ``client`` keeps beside ``row``, if there is one."""
        with self.ledger_of(client) as ledger:
            return ledger.certificates(self.name_of(client)).get(row["number"])

    def keep_certificate(self, client: str, row: Mapping[str, Any], certificate: str) -> None:
        """Keep ``certificate`` beside ``row``; refuse it if another one is kept there."""
        name = self.name_of(client)
        with self.ledger_of(client) as ledger:
            kept = ledger.certificates(name).get(row["number"], certificate)
            if kept != certificate:
                raise BadInput(
                    f"row {row['number']} of {name!r} paid for another output before, whose certificate "
                    "the ledger keeps: one spend has one output."
                )
            ledger.keep_certificate(name, row["number"], certificate)

    def _key(self, number: int) -> str | None:
        """Return the key of the row that pays for round ``number``."""
        return f"{self.key} round {number}" if self.key else None

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

    def spends(self, client: str) -> list[dict[str, Any]]:
        """The rows of ``client`` with this purpose, as certificates name rows."""
        return [
            {"ledger": entry.ledger, "number": entry.number, "hash": entry.hash}
            for entry in self._rows(client)
        ]

    def _rows(self, client: str) -> list[Entry]:
        if not self.charged:
            return []
        with self.ledger_of(client) as ledger:
            return [
                entry
                for entry in ledger.history(self.name_of(client))
                if entry.kind == "spend" and entry.purpose.startswith(f"{self.purpose} round ")
            ]


class RoundPayment:
    """Pays for each round of a run: every one of ``clients`` from its own budget, before it draws.

    ``each`` is what one round costs a client. Whoever runs the rounds is handed the ``budgets``, which a
    client in another process can open too.
    """

    row: Paid = None

    def __init__(self, budgets: ClientBudgets, clients: Sequence[str], each: Guarantee) -> None:
        self.budgets, self.clients, self.each = budgets, tuple(clients), each

    @property
    def dataset(self) -> str | None:
        """What the names of the clients' datasets begin with."""
        return self.budgets.dataset

    def paying(self, kind: Kind[Any], content: Content) -> RoundPayment:
        """Return what pays for ``kind``; refuse a new run if a client cannot pay for one round."""
        if kind.checkpoint is None or not kind.checkpoint.exists:
            self.budgets.require_all(self.clients, 1, self.each)
        self._kind, self._content = kind, content
        return self

    def __call__(self) -> None:
        """Begin the run, on the disk, or find it; nothing is paid yet."""
        run, name = self._kind.checkpoint, self._kind.name
        if run is None:
            # What tells the rows of this run in a ledger from those of another one.
            self.budgets = replace(self.budgets, purpose=f"{name}-{secrets.token_hex(4)}")
            return
        asked = {
            "statement": self._kind.price.to_dict(),
            "name": name,
            "payer": [self.budgets.dataset, self.budgets.url],
            "declared": self._kind.declared,
        }
        run.begin(self._content.digest({}), asked, paid=self.budgets.charged)
        self.budgets = replace(self.budgets.for_run(run), purpose=f"{name}-{run.request[-8:]}")
        self.settle()

    def settle(self) -> None:
        """Let the folder of a run stay until the run has ended, if anything was paid for it or nothing is."""
        run = self._kind.checkpoint
        try:
            paid = not self.budgets.charged or any(self.spends().values())
        except SfumatoError:
            paid = True  # a ledger that cannot be read may have paid
        if run is not None and paid:
            run.settle()

    def bind(self, state: Federated) -> None:
        """Bind what all clients paid for the last round of ``state`` to its parameters; refuse others.

        A round that ended the run without parameters was paid for too, and is bound to none.
        """
        number, arrays = state.rounds, state.arrays
        if state.stopped is not None and not state.out_of_budget:
            number, arrays = number + 1, []
        if number:
            for client in self.clients:
                self.budgets.bind(client, number, arrays)

    def spends(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of every client that this run has paid for."""
        return {client: self.budgets.spends(client) for client in self.clients}

    def kept(self) -> bytes | None:
        """Return the certificate of this run that a ledger keeps, if the run came so far before."""
        found = (self.budgets.certificate(client, rows[-1]) for client, rows in self.spends().items() if rows)
        return next((one.encode() for one in found if one is not None), None)

    def keep(self, certificate: bytes) -> bytes:
        """Keep ``certificate`` beside the last row of every client, and return it."""
        for client, rows in self.spends().items():
            if rows:
                self.budgets.keep_certificate(client, rows[-1], certificate.decode())
        return certificate


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
