"""Clients that answer over Flower, and the Flower app of the server.

Each reply is read by itself: one of another shape, with NaN, too long, without a proof of its name, that
cannot be read or with an error is refused in a sentence and not used, and changes nothing for the others. A
reply counts for the node whose message it answers, and only the first of each. Every node is asked in every
round, also after one in which it did not answer; it counts as having sent what it was asked for.

With noise at the server nothing that a client says or does ends the run: it begins also without clients that
do not appear, and a round in which nobody answers releases noise alone (the theorem is in ``central_noise``).
Otherwise, if a client says that its budget is spent, the run stops before the round: what others sent in it
is not used, and stays paid for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from logging import WARNING

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from sfumato.errors import BadInput, SfumatoError
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CHALLENGE,
    CLIENT,
    CONFIG,
    OUT_OF_BUDGET,
    ROUND,
    ROUNDS,
    new_secret,
    proven_name,
    record_of,
)
from sfumato.learners.federated.grpc_clients import GrpcGrid, exchange
from sfumato.learners.federated.local_training import Arrays, check_reply
from sfumato.learners.federated.rounds import Clients, Federated, OutOfBudget, Refused, Replies

__all__ = ["FlowerClients", "make_server_app"]

_POLL = 0.1


class FlowerClients(Clients):
    """Clients behind ``grid``, whose number is public, as their ``names`` are.

    With ``central`` the server adds the noise and pays; otherwise clients pay by themselves. ``patience`` is
    how many seconds the server waits for all clients to appear (with ``central`` it then begins without those
    that are missing), ``timeout`` how many each client has in a round, None for as long as it takes. While
    the server waits for clients to appear, ``appearing`` is told how many have, and may raise.

    Which node is which client no client decides by itself. ``known`` holds names of nodes that were proven
    when they connected. With ``secrets``, those of the clients by name, every reply must prove the name that
    it is for. Without either, nodes are given the names in the order of their numbers.
    """

    def __init__(
        self,
        grid: Grid | GrpcGrid,
        names: Sequence[str],
        *,
        rounds: int,
        central: bool = False,
        patience: float = 60.0,
        timeout: float | None = 3600.0,
        known: Mapping[int, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        appearing: Callable[[int], None] | None = None,
    ) -> None:
        self._grid, self.names, self._rounds, self._central = (
            grid,
            sorted(names),
            rounds,
            central,
        )
        self._patience, self._timeout, self._appearing = patience, timeout, appearing
        self._known = dict(known or {})
        self._secrets = None if secrets is None else dict(secrets)
        self._begun = False
        self._rounds_of = Counter[int]()
        self._taken: frozenset[str] = frozenset()

    def asked(self) -> Mapping[str, int] | None:
        """Return how often each client was asked; a node that never named itself counts as any such node."""
        if self._central:
            return None
        named, unnamed = Counter[str](), 0
        for node, count in self._rounds_of.items():
            if node in self._known:
                named[self._known[node]] += count
            else:
                unnamed = max(unnamed, count)
        return {name: named.get(name, unnamed) for name in self.names}

    def ask(self, number: int, received: Arrays, taken: Sequence[str]) -> Replies:
        """Send ``received`` to all nodes that may be one of ``taken``, and read what they answer in time."""
        replies = Replies()
        if not self._begun:
            self._begin(replies)
        self._taken = frozenset(taken)
        # Each node is asked with a challenge of its own.
        asked = {node: new_secret() for node in sorted(self._grid.get_node_ids()) if self._may_count(node)}
        messages = [self._message(node, challenge, number, received) for node, challenge in asked.items()]
        self._rounds_of.update(asked.keys())
        came = exchange(self._grid, messages, self._timeout)
        sent = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        answered = set[int]()
        for reply in sorted(came, key=lambda reply: reply.metadata.src_node_id):
            # What a reply says of its sender was written by the sender: it must name the message as well.
            node = reply.metadata.src_node_id
            if sent.get(reply.metadata.reply_to_message_id) != node or node in answered or _gone(reply):
                continue  # told below, with all who did not answer
            answered.add(node)
            try:
                name, arrays = self._read(reply, node, asked[node], received)
                if name in replies.usable:
                    raise BadInput(f"a second node proved to be {name}: nothing of it is used.")
                if name in self._taken:
                    replies.usable[name] = arrays
            except OutOfBudget as refusal:
                replies.spent = replies.spent or str(refusal)
            except BadInput as error:
                self._refuse(replies, number, node, str(error))
            except Exception as error:  # whatever Flower or NumPy stumble over in what came from outside
                why = f"{self._name(node)} sent what cannot be read ({type(error).__name__})."
                self._refuse(replies, number, node, why)
        for node in asked:
            if node not in answered:
                self._refuse(replies, number, node, f"{self._name(node)} did not answer.")
        return replies

    def _message(self, node: int, challenge: str, number: int, received: Arrays) -> Message:
        settings: dict[str, int | str] = {ROUND: number, ROUNDS: self._rounds}
        if self._secrets is not None:
            settings[CHALLENGE] = challenge
        content = RecordDict({ARRAYS: record_of(received), CONFIG: ConfigRecord({**settings})})
        # Grids number messages, some by what these hold: with a secret in each nobody guesses another's.
        message = Message(content, dst_node_id=node, message_type="train", group_id=challenge)
        message.metadata.__dict__["_message_id"] = challenge
        return message

    def _begin(self, replies: Replies) -> None:
        """Wait until as many nodes are there as there are clients; before that no client is sent anything.

        With noise at the server a run begins without clients that do not appear, else they are an error. A
        node that was there once counts: whether it has to be there at another moment would be for others to
        decide.
        """
        until, seen = time.monotonic() + self._patience, set[int]()
        while True:
            seen |= set(self._grid.get_node_ids())
            if self._appearing is not None:
                self._appearing(len(seen))
            if len(seen) >= len(self.names):
                break
            if time.monotonic() > until:
                came = f"{len(seen)} of {len(self.names)} clients appeared within {self._patience:g} seconds"
                if not self._central:
                    raise BadInput(f"{came}.")
                said = f"{came}: the run began without the others."
                replies.refused.append(Refused(1, "clients", said))
                break
            time.sleep(_POLL)
        if not self._known and self._secrets is None:
            self._known = dict(zip(sorted(seen), self.names, strict=False))
        self._begun = True

    def _may_count(self, node: int) -> bool:
        """Return whether ``node`` is, or may prove to be, a client that takes part in the round."""
        name = self._known.get(node)
        return self._secrets is not None if name is None else name in self._taken

    def _read(self, reply: Message, node: int, challenge: str, received: Arrays) -> tuple[str, Arrays]:
        """Return the client that ``reply`` is of, and its parameters."""
        if reply.has_error():
            reason = reply.error.reason or ""
            if not self._central and reason.startswith(OUT_OF_BUDGET):
                raise OutOfBudget(reason.removeprefix(OUT_OF_BUDGET))
            raise BadInput(
                f"{self._name(node)} answered with an error: {reason.splitlines()[0] if reason else 'none'}"
            )
        if self._secrets is not None:
            said = reply.content.config_records.get(CLIENT)
            name = None if said is None else proven_name(said, challenge, self._secrets)
            if name is None:
                raise BadInput(f"{self._name(node)} did not prove the name of a client.")
            self._known[node] = name
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise BadInput(f"{self._name(node)} sent {len(records)} records of parameters: one is needed.")
        length = sum(len(array.data) for array in records[0].values())
        # No honest reply is longer: extended precision, and a header for each layer.
        longest = sum(16 * array.size + 4096 for array in received)
        if length > longest:
            raise BadInput(
                f"{self._name(node)} sent {length:,} bytes, and no reply has more than {longest:,}."
            )
        arrays = records[0].to_numpy_ndarrays()
        return self._known[node], check_reply(arrays, received, client=self._name(node))

    def _refuse(self, replies: Replies, number: int, node: int, why: str) -> None:
        replies.refused.append(Refused(number, self._name(node), why))
        log(WARNING, "round %s: %s", number, why)

    def _name(self, node: int) -> str:
        return self._known.get(node, f"node {node}")


def _gone(reply: Message) -> bool:
    """Return whether Flower says that the node is no longer there, or lost the message."""
    lost = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
    return bool(reply.has_error() and reply.error.code in lost)


def make_server_app(
    run: Callable[[Context, Grid], Federated],
    finished: Callable[[Context, Federated], None],
    failed: Callable[[Context, SfumatoError], None] | None = None,
) -> ServerApp:
    """Return a ``ServerApp`` that makes ``run(context, grid)``, and hands the result over to ``finished``.

    ``failed`` is told of an error that has a sentence for people before it is raised.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            made = run(context, grid)
        except SfumatoError as error:
            if failed is not None:
                failed(context, error)
            raise
        finished(context, made)

    return app
