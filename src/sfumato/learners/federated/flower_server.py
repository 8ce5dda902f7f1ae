"""A Flower strategy that averages replies, or sums and noises them, and the Flower app of the server.

It takes the same steps in the same order as ``rounds.federate``. Each reply is read by itself: one of another
shape, with NaN, too long, without a proof of its name, that cannot be read or with an error is refused in a
sentence and not used, and changes nothing for the others. A reply counts for the node whose message it
answers, and only the first of each. Every node is asked in every round, also after one
in which it did not answer; it counts as having sent what it was asked for.

With noise at the server nothing that a client says or does ends the run: it begins also without clients that
do not appear, and a round in which nobody answers releases noise alone (the theorem is in ``central_noise``).
Otherwise, if a client says that its budget is spent, the run stops before the round: what others sent in it
is not used, and stays paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from logging import WARNING
from typing import cast

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, Metadata, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated.central_noise import Central
from sfumato.learners.federated.flower_apps import (
    ARRAYS,
    CLIENT,
    CONFIG,
    OUT_OF_BUDGET,
    ROUND,
    ROUNDS,
    record_of,
)
from sfumato.learners.federated.grpc_grid import CHALLENGE, DeadlineGrid, new_secret, proven_name
from sfumato.learners.federated.local_training import Arrays, checked_reply
from sfumato.learners.federated.protections import Protection, own
from sfumato.learners.federated.rounds import (
    BEFORE,
    SERVER,
    Federated,
    OutOfBudget,
    Pay,
    Refused,
    combined,
    round_guarantee,
)
from sfumato.noise import Randomness

__all__ = ["PrivateAverage", "make_server_app"]

_POLL = 0.1


class PrivateAverage(Strategy):
    """Federated averaging of protected replies, or with ``central`` noise on the sum at the server.

    ``names`` are the public names of the clients, whose number is public; ``protection`` is what clients
    promise to do, ``initial`` the first model. ``pay(client, round, guarantee)`` is called for every client
    before a round where the server pays (with ``central``), as in ``rounds.federate``. ``patience`` is how
    many seconds the server waits for all clients to appear (with ``central`` it then begins without those
    that are missing), ``timeout`` how many each client has in a round, None for as long as it takes. While
    the server waits for clients to appear, ``appearing`` is told how many have, and may raise.

    ``each_round`` is given the state after every round before anybody is sent it, and a run goes on after the
    state ``begun``: the rounds before it are not asked for again.

    Which node is which client no client decides by itself. ``known`` holds names of nodes that were proven
    when they connected. With ``secrets``, those of the clients by name, every reply must prove the name that
    it is for. Without either, nodes are given the names in the order of their numbers.
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
        timeout: float | None = 3600.0,
        known: Mapping[int, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        appearing: Callable[[int], None] | None = None,
        begun: Federated | None = None,
        each_round: Callable[[Federated], None] | None = None,
    ) -> None:
        self.names, self.rounds, self.central, self.pay = sorted(names), rounds, central, pay
        self.randomness, self.patience, self.timeout = randomness, patience, timeout
        self.appearing, self.each_round = appearing, each_round
        self._arrays = checked_reply(initial, initial, client="the initial model")
        self._guarantee = round_guarantee(protection, central, self._arrays, len(names))
        begun = begun or Federated(self._arrays, 0, self._guarantee, dict.fromkeys(self.names, 0))
        self._arrays, self._done, self._refused = begun.arrays, begun.rounds, list(begun.refused)
        self._before = begun
        self._stopped: str | None = None
        self._rounds_of: dict[int, int] = {}
        self._rounds_of_all = 0
        self._known = dict(known or {})
        self._secrets = None if secrets is None else dict(secrets)
        self._begun = False
        self._taken: frozenset[str] = frozenset()
        # The nodes of the round, each with a challenge of its own, and the messages that were sent to them.
        self._asked: dict[int, str] = {}
        self._sent: list[Metadata] = []
        # No honest reply is longer: extended precision, and a header for each layer.
        self._longest = sum(16 * array.size + 4096 for array in self._arrays)

    @property
    def stopped(self) -> str | None:
        """The reason why no further round is run, None while there is none."""
        return self._stopped

    def federated(self) -> Federated:
        """Return the result so far; a node that never named itself counts as any such node."""
        named: dict[str, int] = {}
        for node, count in self._rounds_of.items():
            if node in self._known:
                named[self._known[node]] = named.get(self._known[node], 0) + count
        unnamed = [count for node, count in self._rounds_of.items() if node not in self._known]
        most = max(unnamed, default=0)
        since = {name: self._rounds_of_all + named.get(name, most) for name in self.names}
        paid = {name: self._before.paid[name] + count for name, count in since.items()}
        ended = self._stopped is not None and self._stopped.startswith(BEFORE)
        refused = tuple(self._refused)
        return Federated(self._arrays, self._done, self._guarantee, paid, refused, self._stopped, ended)

    def summary(self) -> None:
        """Nothing: what would be told is in the statement."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return one message for each client of the round; none once the run has stopped."""
        if self._stopped is not None or server_round <= self._before.rounds:
            return []
        if not self._begun:
            self._begin(grid)
        try:
            for name in self.names if self.pay is not None else ():
                self.pay(name, server_round, self._guarantee)  # type: ignore[misc]
        except OutOfBudget as spent:
            self._stopped = f"{BEFORE}{server_round} of {self.rounds}: {spent}"
            return []
        if self.central is None:
            self._taken = frozenset(self.names)
        else:
            self._rounds_of_all += 1
            coins = own(self.randomness, SERVER, -server_round)
            self._taken = frozenset(self.central.sampled(self.names, coins))
        self._asked = {node: new_secret() for node in sorted(grid.get_node_ids()) if self._may_count(node)}
        for node in self._asked if self.central is None else ():
            self._rounds_of[node] = self._rounds_of.get(node, 0) + 1
        arrays, settings = record_of(self._arrays), {**dict(config), ROUND: server_round, ROUNDS: self.rounds}
        messages = []
        for node, challenge in self._asked.items():
            own_settings = settings if self._secrets is None else {**settings, CHALLENGE: challenge}
            content = RecordDict({ARRAYS: arrays, CONFIG: ConfigRecord(own_settings)})
            # Grids number messages, some by what these hold: with a secret in each nobody guesses another's.
            message = Message(content, dst_node_id=node, message_type="train", group_id=challenge)
            message.metadata.__dict__["_message_id"] = challenge
            messages.append(message)
        self._sent = [message.metadata for message in messages]
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the parameters after the round, or None where the run has stopped."""
        if self._stopped is not None:
            return None, None
        if server_round <= self._before.rounds:
            return record_of(self._arrays), None
        usable, spent, answered = dict[str, Arrays](), list[str](), set[int]()
        nodes = {sent.message_id: sent.dst_node_id for sent in self._sent}
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            # What a reply says of its sender was written by the sender: it must name the message as well.
            node = reply.metadata.src_node_id
            if nodes.get(reply.metadata.reply_to_message_id) != node or node in answered or _gone(reply):
                continue  # told below, with all who did not answer
            answered.add(node)
            try:
                name, arrays = self._read(reply, node)
                if name in usable:
                    raise BadInput(f"a second node proved to be {name}: nothing of it is used.")
                if name in self._taken:
                    usable[name] = arrays
            except OutOfBudget as refusal:
                spent.append(str(refusal))
            except BadInput as error:
                self._refuse(server_round, node, str(error))
            except Exception as error:  # whatever Flower or NumPy stumble over in what came from outside
                why = f"{self._name(node)} sent what cannot be read ({type(error).__name__})."
                self._refuse(server_round, node, why)
        for node in self._asked:
            if node not in answered:
                self._refuse(server_round, node, f"{self._name(node)} did not answer.")
        if spent:
            self._stopped = f"{BEFORE}{server_round} of {self.rounds}: {spent[0]}"
        elif self.central is None and not usable:
            place = f"stopped in round {server_round} of {self.rounds}"
            self._stopped = f"{place}: no client sent parameters that can be used"
        if self._stopped is not None:
            return None, None
        self._arrays = combined(
            usable,
            self._arrays,
            central=self.central,
            clients=len(self.names),
            number=server_round,
            randomness=self.randomness,
        )
        self._done = server_round
        if self.each_round is not None:
            self.each_round(self.federated())
        return record_of(self._arrays), None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return no messages: what clients would say of their records is not protected."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return None: nothing was asked."""
        return None

    def _begin(self, grid: Grid) -> None:
        """Wait until as many nodes are there as there are clients; before that no client is sent anything.

        With noise at the server a run begins without clients that do not appear, else they are an error. A
        node that was there once counts: whether it has to be there at another moment would be for others to
        decide.
        """
        until, seen = time.monotonic() + self.patience, set[int]()
        while True:
            seen |= set(grid.get_node_ids())
            found = sorted(seen)
            if self.appearing is not None:
                self.appearing(len(found))
            if len(found) >= len(self.names):
                break
            if time.monotonic() > until:
                came = f"{len(found)} of {len(self.names)} clients appeared within {self.patience:g} seconds"
                if self.central is None:
                    raise BadInput(f"{came}.")
                self._refused.append(Refused(1, "clients", f"{came}: the run began without the others."))
                break
            time.sleep(_POLL)
        if not self._known and self._secrets is None:
            self._known = dict(zip(found, self.names, strict=False))
        self._begun = True

    def _may_count(self, node: int) -> bool:
        """Return whether ``node`` is, or may prove to be, a client that takes part in the round."""
        name = self._known.get(node)
        return self._secrets is not None if name is None else name in self._taken

    def _read(self, reply: Message, node: int) -> tuple[str, Arrays]:
        """Return the client that ``reply`` is of, and its parameters."""
        if reply.has_error():
            reason = reply.error.reason or ""
            if self.central is None and reason.startswith(OUT_OF_BUDGET):
                raise OutOfBudget(reason.removeprefix(OUT_OF_BUDGET))
            raise BadInput(
                f"{self._name(node)} answered with an error: {reason.splitlines()[0] if reason else 'none'}"
            )
        if self._secrets is not None:
            said = reply.content.config_records.get(CLIENT)
            name = None if said is None else proven_name(said, self._asked[node], self._secrets)
            if name is None:
                raise BadInput(f"{self._name(node)} did not prove the name of a client.")
            self._known[node] = name
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise BadInput(f"{self._name(node)} sent {len(records)} records of parameters: one is needed.")
        length = sum(len(array.data) for array in records[0].values())
        if length > self._longest:
            raise BadInput(
                f"{self._name(node)} sent {length:,} bytes, and no reply has more than {self._longest:,}."
            )
        arrays = records[0].to_numpy_ndarrays()
        return self._known[node], checked_reply(arrays, self._arrays, client=self._name(node))

    def _refuse(self, number: int, node: int, why: str) -> None:
        self._refused.append(Refused(number, self._name(node), why))
        log(WARNING, "round %s: %s", number, why)

    def _name(self, node: int) -> str:
        return self._known.get(node, f"node {node}")


def _gone(reply: Message) -> bool:
    """Return whether Flower says that the node is no longer there, or lost the message."""
    lost = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
    return bool(reply.has_error() and reply.error.code in lost)


def make_server_app(
    strategy_of: Callable[[Context], PrivateAverage],
    finished: Callable[[Context, Federated], None],
    failed: Callable[[Context, SfumatoError], None] | None = None,
) -> ServerApp:
    """Return a ``ServerApp`` that runs the rounds of ``strategy_of(context)`` and hands over to ``finished``.

    ``failed`` is told of an error that has a sentence for people before it is raised.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            strategy = strategy_of(context)
            first = record_of(strategy.federated().arrays)
            patient = cast("Grid", DeadlineGrid(grid))
            # Flower takes None for no deadline, and does not say so in the type.
            timeout = cast("float", strategy.timeout)
            strategy.start(patient, first, num_rounds=strategy.rounds, timeout=timeout)
        except SfumatoError as error:
            if failed is not None:
                failed(context, error)
            raise
        finished(context, strategy.federated())

    return app
