"""A Flower grid over Flower's gRPC service: messages of strategies to clients that hold a connection open.

The service (``flwr.server.superlink.fleet.grpc_bidi``) is older than messages, and Flower calls its client
deprecated; but it knows at once when a client is gone, and starts no process for a message. A strategy speaks
to this grid as it does to a SuperLink.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Thread

from flwr.app import Error, Message, RecordDict
from flwr.common import FitIns, FitRes
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.superlink.fleet.grpc_bidi.grpc_bridge import GrpcBridgeClosed
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput
from sfumato.learners.federated.grpc_records import asking, reply_of

__all__ = ["GrpcGrid", "as_server"]

_GONE = "its connection was closed before it answered."


class GrpcGrid(Grid):
    """Sends to the clients that ``clients`` manages, each of which is a node.

    Those that it manages under one of ``names`` are the nodes 1, 2, … in the order of the names; others get
    the numbers after these in the order of their appearance.

    A client that is gone, and a node that never was, answer at once that the node is unavailable. What cannot
    be read in a reply becomes an error in a sentence.

    A thread of its own waits for each client, and replies are read when time is over, so that no client has
    less time because of another one.
    """

    #: So that nobody has to see to that (see ``deadline_grid``).
    keeps_deadlines = True

    def __init__(self, clients: ClientManager, names: Sequence[str] = ()) -> None:
        self._clients = clients
        self._nodes = {name: node for node, name in enumerate(names, 1)}
        self.names = {node: name for name, node in self._nodes.items()}
        self._gone: set[str] = set()
        self._answers: dict[str, tuple[Message, FitRes | Error]] = {}
        # Messages whose replies came too late for ``send_and_receive``: they are dropped when they come.
        self._over: set[str] = set()
        self._came = Condition()
        self._run = Run.create_empty(SUPERLINK_NODE_ID)

    def set_run(self, run: Run) -> None:
        """Remember ``run``; nothing depends on it."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run that was set, an empty one before."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """A message to one node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """The nodes that are connected now, in the order of their numbers."""
        return sorted(self._connected())

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send ``messages``, each of which gets an identifier; returns those."""
        connected, sent = self._connected(), []
        for message in messages:
            sent.append(uuid.uuid4().hex)
            message.metadata.__dict__["_message_id"] = sent[-1]
            proxy = connected.get(message.metadata.dst_node_id)
            if proxy is None:
                self._keep(message, Error(ErrorCode.NODE_UNAVAILABLE, "it is not connected."))
                continue
            try:
                ins = asking(message)
            except BadInput as error:
                self._keep(message, Error(ErrorCode.UNKNOWN, str(error)))
                continue
            # A thread waits for the client, and no more: what Python 3.11 has for the headers of arrays fails
            # now and then in two threads at once (python/cpython#106905). Nobody waits for the thread itself.
            Thread(target=self._ask, args=(message, proxy, ins), daemon=True).start()
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies to these messages that have come; each is handed out once."""
        with self._came:
            answers = [self._answers.pop(sent) for sent in list(message_ids) if sent in self._answers]
        return [_reply(message, answer) for message, answer in answers]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that come within ``timeout`` seconds."""
        sent = self.push_messages(messages)
        with self._came:
            self._came.wait_for(lambda: self._answers.keys() >= set(sent), timeout)
            answers = [self._answers.pop(one) for one in sent if one in self._answers]
            self._over |= set(sent) - {message.metadata.message_id for message, _ in answers}
        return [_reply(message, answer) for message, answer in answers]

    def _connected(self) -> dict[int, ClientProxy]:
        """The clients that are connected now, by node; new ones get the next numbers."""
        found = {}
        with self._came:
            for name, proxy in self._clients.all().copy().items():
                node = self._nodes.setdefault(name, len(self._nodes) + 1)
                if name not in self._gone:
                    found[node] = proxy
        return found

    def _ask(self, message: Message, proxy: ClientProxy, ins: FitIns) -> None:
        """Wait for the answer of the client behind ``proxy``, or for a reason why there is none."""
        try:
            self._keep(message, proxy.fit(ins, message.metadata.ttl, None))
        except GrpcBridgeClosed:
            with self._came:
                self._gone.add(proxy.cid)
            self._keep(message, Error(ErrorCode.NODE_UNAVAILABLE, _GONE))
        except Exception as error:  # whatever Flower stumbles over in bytes that came from outside
            why = f"the exchange failed with {type(error).__name__}."
            self._keep(message, Error(ErrorCode.UNKNOWN, why))

    def _keep(self, message: Message, answer: FitRes | Error) -> None:
        with self._came:
            if message.metadata.message_id in self._over:
                self._over.remove(message.metadata.message_id)
                return
            self._answers[message.metadata.message_id] = message, answer
            self._came.notify_all()


def _reply(message: Message, answer: FitRes | Error) -> Message:
    """What came as a reply to ``message``, an error where it cannot be read."""
    if isinstance(answer, FitRes):
        try:
            return reply_of(answer, message)
        except BadInput as error:
            answer = Error(ErrorCode.UNKNOWN, str(error))
    return Message(answer, reply_to=message)


@contextmanager
def as_server() -> Iterator[None]:
    """Messages that are made in the block are the server's; in runs of its own Flower sees to that."""
    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = SUPERLINK_NODE_ID
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before
