"""Clients that answer over Flower.

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
from collections.abc import Mapping, Sequence
from functools import partial
from logging import WARNING
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore import log

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CHALLENGE,
    CLIENT,
    CONFIG,
    ROUND,
    ROUNDS,
    new_secret,
    proven_name,
    record_of,
)
from sfumato.learners.federated.local_training import Arrays, check_reply
from sfumato.learners.federated.rounds import RemoteClients, Replies, gather

__all__ = ["FlowerClients"]

# Seconds until a client is looked for again: a tenth of the time that has gone by, within these bounds.
_SOONEST, _LATEST = 0.05, 1.0


class FlowerClients(RemoteClients):
    """Clients behind ``grid``; ``options`` are those of :class:`RemoteClients`.

    Which node is which client no client decides by itself. With ``secrets``, those of the clients by name,
    every reply must prove the name that it is for. Without, nodes are given the names in the order of their
    numbers.
    """

    def __init__(
        self, grid: Grid, names: Sequence[str], *, secrets: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        super().__init__(names, **options)
        self._grid, self._secrets = grid, secrets
        self._known = dict[int, str]()
        self._rounds_of = Counter[int]()

    def present(self) -> list[int]:
        """Return the nodes that are connected now, in the order of their numbers."""
        return sorted(self._grid.get_node_ids())

    def asked(self) -> Mapping[str, int] | None:
        """Return how often each client was asked; a node that never named itself counts as any such node."""
        if self.central:
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
        replies = Replies(number)
        self.begin(replies)
        if self._secrets is None:
            self._known = dict(zip(sorted(self.seen), self.names, strict=False))
        # Each node is asked with a challenge of its own.
        asked = {node: new_secret() for node in self.present() if self._may_count(node, taken)}
        messages = [self._message(node, challenge, number, received) for node, challenge in asked.items()]
        self._rounds_of.update(asked.keys())
        came = exchange(self._grid, messages, self.timeout)
        sent = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        answered = set[int]()
        for reply in sorted(came, key=lambda reply: reply.metadata.src_node_id):
            # What a reply says of its sender was written by the sender: it must name the message as well.
            node = reply.metadata.src_node_id
            if sent.get(reply.metadata.reply_to_message_id) != node or node in answered or _gone(reply):
                continue  # told below, with all who did not answer
            answered.add(node)
            if not self._proves(reply, node, asked[node]):
                replies.refuse(self._name(node), f"{self._name(node)} did not prove the name of a client.")
                continue
            name = self._name(node)
            if name in replies.usable:
                replies.refuse(name, f"a second node proved to be {name}: nothing of it is used.")
            elif name in taken or reply.has_error():
                replies.take(name, partial(self._read, name, reply, received))
        for node in asked:
            if node not in answered:
                replies.refuse(self._name(node), f"{self._name(node)} did not answer.")
        for refused in replies.refused:
            log(WARNING, "%s", refused)
        return replies

    def _proves(self, reply: Message, node: int, challenge: str) -> bool:
        """Return whether ``reply`` proves the name of a client, which ``node`` then has, where it must."""
        if self._secrets is None or reply.has_error():
            return True
        said = reply.content.config_records.get(CLIENT)
        name = None if said is None else proven_name(said, challenge, self._secrets)
        if name is not None:
            self._known[node] = name
        return name is not None

    def _read(self, name: str, reply: Message, received: Arrays) -> Arrays:
        """Return the parameters in ``reply``, if they can be used."""
        if reply.has_error():
            self.raise_error(name, reply.error.reason or "")
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise BadInput(f"{name} sent {len(records)} records of parameters: one is needed.")
        length = sum(len(array.data) for array in records[0].values())
        # No honest reply is longer: extended precision, and a header for each layer.
        longest = sum(16 * array.size + 4096 for array in received)
        if length > longest:
            raise BadInput(f"{name} sent {length:,} bytes, and no reply has more than {longest:,}.")
        return check_reply(records[0].to_numpy_ndarrays(), received, client=name)

    def _message(self, node: int, challenge: str, number: int, received: Arrays) -> Message:
        settings: dict[str, int | str] = {ROUND: number, ROUNDS: self.rounds}
        if self._secrets is not None:
            settings[CHALLENGE] = challenge
        content = RecordDict({ARRAYS: record_of(received), CONFIG: ConfigRecord({**settings})})
        # Grids number messages, some by what these hold: with a secret in each nobody guesses another's.
        message = Message(content, dst_node_id=node, message_type="train", group_id=challenge)
        message.metadata.__dict__["_message_id"] = challenge
        return message

    def _may_count(self, node: int, taken: Sequence[str]) -> bool:
        """Return whether ``node`` is, or may prove to be, one of the clients ``taken``."""
        name = self._known.get(node)
        return self._secrets is not None if name is None else name in taken

    def _name(self, node: int) -> str:
        return self._known.get(node, f"node {node}")


def exchange(grid: Grid, messages: Sequence[Message], timeout: float | None) -> list[Message]:
    """Return the replies to ``messages`` that were read within ``timeout`` seconds, at most one to each.

    Flower's own HTTP grid reads all replies in one thread: while it reads a long one, time runs out for the
    others, and one that cannot be read raises an exception in the place of all. Here a thread of its own asks
    for the reply of each client: a reply counts if it was read completely by the deadline, and one that
    cannot be read is no reply. Without a timeout replies are those of the grid.
    """
    if timeout is None:
        return list(grid.send_and_receive(messages))
    identifiers = grid.push_messages(messages) if messages else []
    waiting = [
        partial(_wait, grid, message.metadata.dst_node_id, identifier)
        for message, identifier in zip(messages, identifiers, strict=True)
    ]
    return gather(waiting, timeout)


def _wait(grid: Grid, node: int, identifier: str, until: float) -> Message | None:
    """Ask for the reply of ``node`` until there is one, or time is over."""
    begun = time.monotonic()
    try:
        # A message that the SuperLink did not take, since the node is gone, has no identifier.
        while identifier and (now := time.monotonic()) < until:
            if (found := next(iter(grid.pull_messages([identifier])), None)) is not None:
                # What a reply says of its sender was written by the sender.
                return found if found.metadata.src_node_id == node else None
            pause = min(_LATEST, max(_SOONEST, (now - begun) / 10.0))
            time.sleep(max(0.0, min(pause, until - time.monotonic())))
    except Exception as error:  # whatever Flower stumbles over in what came from outside
        log(WARNING, "the reply of node %s cannot be read: %s", node, type(error).__name__)
    return None


def _gone(reply: Message) -> bool:
    """Return whether Flower says that the node is no longer there, or lost the message."""
    lost = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
    return bool(reply.has_error() and reply.error.code in lost)
