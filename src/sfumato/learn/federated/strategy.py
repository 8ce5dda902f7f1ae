"""A Flower strategy that averages what it can use, or sums and noises it, and says what it could not use.

It takes the same steps in the same order as ``rounds.federate``. Replies of another shape, with NaN, under a
name that came before or with an error are refused, each in a sentence, and not used. A node that does not
answer in time is not asked again; it counts as having sent what it was asked for. If a client says that its
budget is spent, the run stops before the round: what others sent in it is not used, and stays paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import TYPE_CHECKING

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from sfumato.errors import BadInput
from sfumato.learn.federated.central import Central
from sfumato.learn.federated.drawing import own
from sfumato.learn.federated.flower import (
    ARRAYS,
    CLIENT,
    CONFIG,
    NAME,
    OUT_OF_BUDGET,
    ROUND,
    ROUNDS,
    record_of,
)
from sfumato.learn.federated.parameters import Arrays, checked
from sfumato.learn.federated.protection import Protection
from sfumato.learn.federated.rounds import (
    BEFORE,
    SERVER,
    Federated,
    OutOfBudget,
    Pay,
    Refused,
    averaged,
    round_guarantee,
)
from sfumato.noise import Randomness

if TYPE_CHECKING:
    from flwr.serverapp import Grid

__all__ = ["PrivateAverage"]

_POLL = 0.1


class PrivateAverage(Strategy):
    """Federated averaging of protected replies, or with ``central`` noise on the sum at the server.

    ``names`` are the public names of the clients, whose number is public; ``protection`` is what clients
    promise to do, ``initial`` the first model. ``pay(client, round, guarantee)`` is called for every client
    before a round where the server pays (with ``central``), as in ``rounds.federate``. ``patience`` is how
    many seconds the server waits for all clients to appear, ``timeout`` how many a round may take: who has
    not answered by then is left out; and so is, with ``straggle``, who takes that many times as long as the
    first (see ``straggling``). While the server waits for clients to appear, ``appearing`` is told how many
    have, and may raise.

    ``known`` holds names of nodes that are known from the start. The name of another one is that of its first
    reply; what a node calls itself afterwards changes nothing.
    """

    def __init__(
        self,
        names: list[str],
        initial: Arrays,
        protection: Protection,
        *,
        rounds: int,
        central: Central | None = None,
        pay: Pay | None = None,
        randomness: Randomness | None = None,
        patience: float = 60.0,
        timeout: float = 3600.0,
        straggle: float | None = None,
        known: Mapping[int, str] | None = None,
        appearing: Callable[[int], None] | None = None,
        each_round: Callable[[int, Arrays], None] | None = None,
    ) -> None:
        self.names, self.rounds, self.central, self.pay = sorted(names), rounds, central, pay
        self.randomness, self.patience, self.timeout = randomness, patience, timeout
        self.straggle, self.appearing, self.each_round = straggle, appearing, each_round
        self._arrays = checked(initial, initial, client="the initial model")
        self._guarantee = round_guarantee(protection, central, self._arrays, len(names))
        self._done = 0
        self._stopped: str | None = None
        self._refused: list[Refused] = []
        self._rounds_of: dict[int, int] = {}
        self._rounds_of_all = 0
        self._nodes: list[int] = []
        self._known = dict(known or {})
        self._asked: list[int] = []
        self._silent: set[int] = set()

    @property
    def stopped(self) -> str | None:
        """Why no further round is run, None while there is no reason."""
        return self._stopped

    def federated(self) -> Federated:
        """What the rounds so far have made; who never said its name counts as often as any such node."""
        named = {self._known[node]: count for node, count in self._rounds_of.items() if node in self._known}
        unnamed = [count for node, count in self._rounds_of.items() if node not in self._known]
        most = max(unnamed, default=0)
        paid = {name: self._rounds_of_all + named.get(name, most) for name in self.names}
        ended = self._stopped is not None and self._stopped.startswith(BEFORE)
        refused = tuple(self._refused)
        return Federated(self._arrays, self._done, self._guarantee, paid, refused, self._stopped, ended)

    def summary(self) -> None:
        """Nothing: what would be told is in the statement."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message for each client of the round; none once the run has stopped."""
        if self._stopped is not None:
            return []
        if not self._nodes:
            self._nodes = self._appeared(grid)
        try:
            for name in self.names if self.pay is not None else ():
                self.pay(name, server_round, self._guarantee)  # type: ignore[misc]
        except OutOfBudget as spent:
            self._stopped = f"{BEFORE}{server_round} of {self.rounds}: {spent}"
            return []
        self._asked = [node for node in self._nodes if node not in self._silent]
        if self.central is not None:
            self._rounds_of_all += 1
            self._asked = self._sampled(server_round)
        else:
            for node in self._asked:
                self._rounds_of[node] = self._rounds_of.get(node, 0) + 1
        settings = ConfigRecord({**dict(config), ROUND: server_round, ROUNDS: self.rounds})
        content = RecordDict({ARRAYS: record_of(self._arrays), CONFIG: settings})
        return [Message(content, dst_node_id=node, message_type="train") for node in self._asked]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The parameters after the round, or None where the run has stopped."""
        if self._stopped is not None:
            return None, None
        usable, spent, answered = dict[str, Arrays](), list[str](), set[int]()
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            try:
                name, arrays = self._usable(reply, node)
                if name in usable:
                    raise BadInput(f"a second client called itself {name}: nothing of it is used.")
                usable[name] = arrays
                answered.add(node)
            except OutOfBudget as refusal:
                spent.append(str(refusal))
                answered.add(node)
            except BadInput as error:
                if not _gone(reply):  # those are told below, with all who did not answer
                    answered.add(node)
                    self._refuse(server_round, self._name(node), str(error))
        self._left_out(server_round, answered)
        if spent:
            self._stopped = f"{BEFORE}{server_round} of {self.rounds}: {spent[0]}"
        elif self.central is None and not usable:
            place = f"stopped in round {server_round} of {self.rounds}"
            self._stopped = f"{place}: no client sent parameters that can be used"
        if self._stopped is not None:
            return None, None
        self._arrays = (
            averaged(usable, self._arrays)
            if self.central is None
            else self.central.combined(
                usable, self._arrays, len(self.names), own(self.randomness, SERVER, server_round)
            )
        )
        self._done = server_round
        if self.each_round is not None:
            self.each_round(server_round, self._arrays)
        return record_of(self._arrays), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages: what clients would say of their records is not protected."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing was asked."""
        return None

    def _appeared(self, grid: Grid) -> list[int]:
        until = time.monotonic() + self.patience
        while True:
            found = sorted(grid.get_node_ids())
            if self.appearing is not None:
                self.appearing(len(found))
            if len(found) >= len(self.names):
                return found[: len(self.names)]
            if time.monotonic() > until:
                raise BadInput(
                    f"{len(found)} of {len(self.names)} clients appeared within {self.patience:g} seconds."
                )
            time.sleep(_POLL)

    def _sampled(self, number: int) -> list[int]:
        """The nodes of the clients that the coins of this round fell for."""
        assert self.central is not None
        taken = set(self.central.sampled(self.names, own(self.randomness, SERVER, -number)))
        # Clients whose names are not known yet take the free names in the order of their nodes.
        free = iter([name for name in self.names if name not in self._known.values()])
        drawn = {node: self._known.get(node) or next(free) for node in self._nodes}
        return [node for node, name in drawn.items() if name in taken and node not in self._silent]

    def _usable(self, reply: Message, node: int) -> tuple[str, Arrays]:
        if reply.has_error():
            reason = reply.error.reason or ""
            if reason.startswith(OUT_OF_BUDGET):
                raise OutOfBudget(reason.removeprefix(OUT_OF_BUDGET))
            raise BadInput(
                f"{self._name(node)} answered with an error: {reason.splitlines()[0] if reason else 'none'}"
            )
        said = reply.content.config_records.get(CLIENT)
        name = None if said is None else said.get(NAME)
        if isinstance(name, str) and name in self.names:
            self._known.setdefault(node, name)
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise BadInput(f"{self._name(node)} sent {len(records)} records of parameters: one is needed.")
        return self._name(node), checked(
            records[0].to_numpy_ndarrays(), self._arrays, client=self._name(node)
        )

    def _left_out(self, number: int, answered: set[int]) -> None:
        for node in self._asked:
            if node not in answered:
                self._silent.add(node)
                self._refuse(
                    number, self._name(node), f"{self._name(node)} did not answer, and is not asked again."
                )

    def _refuse(self, number: int, name: str, why: str) -> None:
        self._refused.append(Refused(number, name, why))
        log(WARNING, "round %s: %s", number, why)

    def _name(self, node: int) -> str:
        return self._known.get(node, f"node {node}")


def _gone(reply: Message) -> bool:
    """Whether Flower says that the node is no longer there, or lost the message."""
    lost = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
    return bool(reply.has_error() and reply.error.code in lost)
