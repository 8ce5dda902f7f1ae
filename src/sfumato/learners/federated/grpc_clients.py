"""Messages to clients and back, with a deadline: over any Flower grid, and over gRPC to processes.

**Deadlines.** Every client is waited for by itself, up to one public deadline. Flower's own HTTP grid reads
all replies in one thread: while it reads a long one, time runs out for the others, and one that cannot be
read raises an exception in the place of all. Here a thread of its own asks for the reply of each client, so
that what one of them sends, or when, decides about no other one: a reply counts if it was read completely by
the deadline, and one that cannot be read is no reply.

**gRPC.** A client holds one stream open, so that its end is known at once, and no message needs a new
process. Questions and answers go over it in turn, each of them JSON values and layers
(``layers_to_bytes``). So layers keep their order, types and shapes, and lose their names; a reply is its one
record of arrays, or a reason why there is none; and nothing but training is asked.

**Admission.** Any process of a machine can connect to a port of it. So a call must prove the name of a client
by its metadata (``Credential``, with the address of the server as the challenge), before a thread is given to
it. A call that proves nothing, or a name that was proven before, is refused at once, and holds nothing that a
client needs. A name is given to one call in a run: no client takes the place of another, or two places.

**What a client may send.** Its answers count for its own node, whatever they say: a second answer to one
question can only stand where its own next one would. A message that is longer than a public number of bytes
ends the stream, and compressed messages are not taken, so that nothing is unpacked to more than that.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from logging import WARNING
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
from flwr.app import DEFAULT_TTL, ConfigRecord, Context, Error, Message, Metadata, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.clientapp import ClientApp
from flwr.common import now
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CONFIG,
    METRICS,
    Credential,
    proven_name,
    record_of,
)
from sfumato.learners.federated.local_training import layers_from_bytes, layers_to_bytes

__all__ = ["GrpcGrid", "answer_server", "grpc_service"]

_METHOD = "/sfumato.Federation/Join"
_FAILED = "the client's app failed; why is not told, since that may speak of its records."
_ABSENT, _GONE = "it is not connected.", "its connection was closed before it answered."
_BUSY = "it is still at work on an earlier message."
# Of all ways to compress messages the first alone, which is none.
_UNCOMPRESSED = ("grpc.compression_enabled_algorithms_bitset", 1)
_log = logging.getLogger(__name__)
_Answer = tuple[Message, bytes | Error]

# Seconds until a client is looked for again: a tenth of the time that has gone by, within these bounds.
_SOONEST, _LATEST = 0.05, 1.0
_Found = TypeVar("_Found")


def gather(asking: Sequence[Callable[[float], _Found | None]], timeout: float | None) -> list[_Found]:
    """Call each of ``asking`` in a thread of its own; return what was found within ``timeout`` seconds.

    Each is given the moment when time is over. What is found later is dropped, and nobody waits for the
    threads: so no client has less time because of another one.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    came, found, done = Condition(), list[_Found](), list[None]()

    def run(ask: Callable[[float], _Found | None]) -> None:
        answer = ask(until)
        with came:
            if answer is not None and time.monotonic() <= until:
                found.append(answer)
            done.append(None)
            came.notify_all()

    for ask in asking:
        Thread(target=run, args=(ask,), daemon=True).start()
    with came:
        left = None if timeout is None else max(0.0, until - time.monotonic())
        came.wait_for(lambda: len(done) == len(asking), left)
        return list(found)


def exchange(grid: Grid | GrpcGrid, messages: Sequence[Message], timeout: float | None) -> list[Message]:
    """Return the replies to ``messages`` that were read within ``timeout`` seconds, at most one to each.

    Without a timeout, and over a grid that keeps deadlines by itself, replies are those of the grid.
    """
    if timeout is None or not isinstance(grid, Grid):
        return list(grid.send_and_receive(messages, timeout=timeout))
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


def question_of(message: Message) -> bytes:
    """Return a message of type train as bytes for a client."""
    kind = message.metadata.message_type
    if kind != "train":
        raise BadInput(f"messages of type {kind} are not sent: clients answer those of type train alone.")
    config: dict[str, Any] = {}
    for record in message.content.config_records.values():
        config |= dict(record)
    try:
        return layers_to_bytes({CONFIG: config}, _layers(message))
    except TypeError:
        raise BadInput("a configuration holds bytes: text and numbers are carried.") from None


def message_of(question: bytes) -> Message:
    """Return what arrived at a client as the message that its app is to answer."""
    told, layers = layers_from_bytes(question)
    content = RecordDict({ARRAYS: record_of(layers), CONFIG: ConfigRecord(told[CONFIG])})
    metadata = Metadata(
        run_id=0,
        message_id=uuid.uuid4().hex,
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id="",
        group_id="",
        created_at=now().timestamp(),
        ttl=DEFAULT_TTL,
        message_type="train",
    )
    return make_message(metadata, content)


def answer_of(app: ClientApp, context: Context, question: bytes) -> bytes:
    """Return the layers that ``app`` answers with and nothing else, or why there are none."""
    try:
        reply = app(message_of(question), context)
        if not reply.has_error():
            return layers_to_bytes({"error": None}, _layers(reply))
        why = reply.error.reason or "the client gave no reason."
    except Exception:
        _log.exception("the app failed, and the server is told that it did")
        why = _FAILED
    return layers_to_bytes({"error": why}, [])


def reply_of(message: Message, answer: bytes | Error) -> Message:
    """Return what came as a reply to ``message``, an error where it cannot be read."""
    if isinstance(answer, bytes):
        try:
            told, layers = layers_from_bytes(answer)
            if told.get("error") is None:
                metrics = MetricRecord({"num-examples": 1})
                return Message(RecordDict({ARRAYS: record_of(layers), METRICS: metrics}), reply_to=message)
            answer = Error(ErrorCode.MOD_FAILED_PRECONDITION, str(told["error"]))
        except BadInput as error:
            answer = Error(ErrorCode.UNKNOWN, str(error))
    return Message(answer, reply_to=message)


def _layers(message: Message) -> list[Any]:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise BadInput(f"a message holds {len(records)} records of arrays: one is carried.")
    return records[0].to_numpy_ndarrays()


class _Connection:
    """The stream of one client: one question at a time, and its answer, None where the stream has ended."""

    def __init__(self) -> None:
        self.questions, self.answers = SimpleQueue[bytes | None](), SimpleQueue[bytes | None]()
        self.busy = Lock()

    def close(self) -> None:
        """Let nobody wait any more."""
        self.questions.put(None)
        self.answers.put(None)


class GrpcGrid(grpc.GenericRpcHandler):  # type: ignore[misc]
    """The clients that have proven one of the names of ``secrets``: nodes 1, 2, … in the order of these.

    ``address`` is that of the server. A client that is gone, and a node that never was, answer at once that
    the node is unavailable. What cannot be read in a reply becomes an error in a sentence.
    """

    def __init__(self, secrets: Mapping[str, str], address: str) -> None:
        self.names = dict(enumerate(secrets, 1))
        self._secrets, self._address = dict(secrets), address
        self._connected: dict[int, _Connection] = {}
        self._one = Lock()

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are connected now, in the order of their numbers."""
        with self._one:
            return sorted(self._connected)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Return the replies that come within ``timeout`` seconds."""
        asking = list[Callable[[float], _Answer]]()
        for message in messages:
            message.metadata.__dict__["_message_id"] = uuid.uuid4().hex
            asking.append(partial(self._ask, message, question_of(message)))
        # Threads wait for clients, and no more: what Python 3.11 has for the headers of arrays fails now and
        # then in two threads at once (python/cpython#106905).
        return [reply_of(message, answer) for message, answer in gather(asking, timeout)]

    def _ask(self, message: Message, question: bytes, until: float) -> _Answer:
        """Return the answer of the client, or a reason why there is none."""
        with self._one:
            connection = self._connected.get(message.metadata.dst_node_id)
        if connection is None:
            return message, Error(ErrorCode.NODE_UNAVAILABLE, _ABSENT)
        if not connection.busy.acquire(blocking=False):
            return message, Error(ErrorCode.UNKNOWN, _BUSY)
        connection.questions.put(question)
        answer = connection.answers.get()  # also one that comes too late: the next question waits for it
        if answer is None:
            return message, Error(ErrorCode.NODE_UNAVAILABLE, _GONE)
        connection.busy.release()
        return message, answer

    def service(self, handler_call_details: Any) -> Any:
        """Return what serves a call that proves a name, or None, which refuses it."""
        given = dict(handler_call_details.invocation_metadata)
        with self._one:
            name = proven_name(given, self._address, self._secrets)
            if handler_call_details.method != _METHOD or name is None:
                return None
            del self._secrets[name]
        (node,) = (node for node, one in self.names.items() if one == name)
        return grpc.stream_stream_rpc_method_handler(partial(self._serve, node))

    def _serve(self, node: int, answers: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Pass questions and answers of ``node`` on until its stream ends."""
        connection = _Connection()
        with self._one:
            self._connected[node] = connection
        if not context.add_callback(partial(self._leave, node, connection)):
            self._leave(node, connection)
        for question in iter(connection.questions.get, None):
            yield question
            try:
                connection.answers.put(next(answers))
            except Exception:  # it hung up, or sent more than is read
                return

    def _leave(self, node: int, connection: _Connection) -> None:
        with self._one:
            self._connected.pop(node, None)
        connection.close()


@contextmanager
def grpc_service(secrets: Mapping[str, str], longest: int) -> Iterator[tuple[str, GrpcGrid]]:
    """A service on a free port of this machine, without encryption: its address, and the grid of its clients.

    ``secrets`` are those of the clients by name. Messages have at most ``longest`` bytes. Those that are made
    in the block are the server's.
    """
    # One process holds the port: no other one may listen on it too.
    options = [*_lengths(longest), _UNCOMPRESSED, ("grpc.so_reuseport", 0)]
    # A thread for each client: who is none is refused without one.
    server = grpc.server(ThreadPoolExecutor(len(secrets)), options=options)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    grid = GrpcGrid(secrets, address)
    server.add_generic_rpc_handlers((grid,))
    server.start()
    try:
        with as_server():
            yield address, grid
    finally:
        server.stop(None).wait()


def answer_server(address: str, app: ClientApp, context: Context, credential: Credential) -> None:
    """Prove the name of ``credential`` to the server at ``address``, and answer until it ends the stream.

    ``context`` is the client's own and kept over all rounds. Raises ``grpc.RpcError`` where the server ends
    in another way.
    """
    with grpc.insecure_channel(address, options=_lengths(-1)) as channel:
        answers = SimpleQueue[bytes | None]()
        proof = tuple(credential.answer(address).items())
        questions = channel.stream_stream(_METHOD)(iter(answers.get, None), metadata=proof)
        try:
            for question in questions:
                answers.put(answer_of(app, context, question))
        finally:
            answers.put(None)


def _lengths(longest: int) -> list[tuple[str, int]]:
    return [(f"grpc.max_{way}_message_length", longest) for way in ("send", "receive")]


@contextmanager
def as_server() -> Iterator[None]:
    """Messages that are made in the block are the server's; in runs of its own Flower sees to that."""
    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = SUPERLINK_NODE_ID
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before
