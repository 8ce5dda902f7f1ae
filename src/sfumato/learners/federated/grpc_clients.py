"""Clients in processes of this machine that answer over gRPC: the server's side and the client's.

A client holds one stream open, so that its end is known at once, and no round needs a new process. Questions
and answers go over it in turn, each of them JSON values and layers (``layers_to_bytes``). So layers keep
their order, types and shapes; an answer is its layers, or a reason why there are none; and nothing but
training is asked.

**Admission.** Any process of a machine can connect to a port of it. So a call must prove the name of a client
by its metadata (``Credential``, with the address of the server as the challenge), before a thread is given to
it. A call that proves nothing, or a name that was proven before, is refused at once, and holds nothing that a
client needs. A name is given to one call in a run: no client takes the place of another, or two places.

**What a client may send.** Its answers count for its own name, whatever they say: a second answer to one
question can only stand where its own next one would. A message that is longer than a public number of bytes
ends the stream, and compressed messages are not taken, so that nothing is unpacked to more than that. An
answer counts if it came by the deadline of the round; one that comes later is dropped, and until it comes the
client is not asked again.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Any

import grpc  # type: ignore[import-untyped]
from flwr.app import DEFAULT_TTL, ConfigRecord, Context, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.clientapp import ClientApp
from flwr.common import now

from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CONFIG,
    ROUND,
    ROUNDS,
    Credential,
    proven_name,
    record_of,
)
from sfumato.learners.federated.local_training import (
    Arrays,
    check_reply,
    layers_from_bytes,
    layers_to_bytes,
)
from sfumato.learners.federated.rounds import RemoteClients, Replies, gather

__all__ = ["GrpcClients", "answer_server", "serve_clients"]

_METHOD = "/sfumato.Federation/Join"
_FAILED = "the client's app failed; why is not told, since that may speak of its records."
# Of all ways to compress messages the first alone, which is none.
_UNCOMPRESSED = ("grpc.compression_enabled_algorithms_bitset", 1)
_log = logging.getLogger(__name__)


class _Connection:
    """The stream of one client: one question at a time, and its answer, None where the stream has ended."""

    def __init__(self) -> None:
        self.questions, self.answers = SimpleQueue[bytes | None](), SimpleQueue[bytes | None]()
        self._busy = Lock()

    def ask(self, name: str, question: bytes, until: float) -> tuple[str, bytes] | None:
        """Return the answer of ``name``; None where the stream ends, or an earlier answer is still to come.

        This waits beyond ``until``: an answer that comes too late is taken off, before the next question.
        """
        if not self._busy.acquire(blocking=False):
            return None
        self.questions.put(question)
        answer = self.answers.get()
        if answer is None:
            return None
        self._busy.release()
        return name, answer

    def close(self) -> None:
        """Let nobody wait any more."""
        self.questions.put(None)
        self.answers.put(None)


class GrpcClients(RemoteClients, grpc.GenericRpcHandler):  # type: ignore[misc]
    """The clients that have proven one of the names of ``secrets`` to the server at ``address``."""

    def __init__(self, secrets: Mapping[str, str], address: str, **options: Any) -> None:
        super().__init__(list(secrets), **options)
        self.address = address
        self._secrets = dict(secrets)
        self._connected: dict[str, _Connection] = {}
        self._lock = Lock()
        self._rounds_of = Counter[str]()

    def present(self) -> list[str]:
        """Return the names of the clients that are connected now."""
        with self._lock:
            return sorted(self._connected)

    def asked(self) -> Mapping[str, int] | None:
        """Return how often each client was asked, unless the server pays."""
        return None if self.central else {name: self._rounds_of[name] for name in self.names}

    def ask(self, number: int, received: Arrays, taken: Sequence[str]) -> Replies:
        """Send ``received`` to those of ``taken`` that are connected, and read what they answer in time."""
        replies = Replies(number)
        self.begin(replies)
        with self._lock:
            asked = {name: self._connected[name] for name in taken if name in self._connected}
        self._rounds_of.update(asked.keys())
        question = layers_to_bytes({ROUND: number, ROUNDS: self.rounds}, received)
        asking = [partial(connection.ask, name, question) for name, connection in asked.items()]
        answers = dict(gather(asking, self.timeout))
        # Answers are read here and not in threads: what Python 3.11 has for the headers of arrays fails now
        # and then in two threads at once (python/cpython#106905).
        for name in asked:
            if name in answers:
                replies.take(name, partial(self._read, name, answers[name], received))
            else:
                replies.refuse(name, f"{name} did not answer.")
        return replies

    def _read(self, name: str, answer: bytes, received: Arrays) -> Arrays:
        told, layers = layers_from_bytes(answer)
        if told.get("error") is not None:
            self.raise_error(name, str(told["error"]))
        return check_reply(layers, received, client=name)

    def service(self, handler_call_details: Any) -> Any:
        """Return what serves a call that proves a name, or None, which refuses it."""
        given = dict(handler_call_details.invocation_metadata)
        with self._lock:
            name = proven_name(given, self.address, self._secrets)
            if handler_call_details.method != _METHOD or name is None:
                return None
            del self._secrets[name]
        return grpc.stream_stream_rpc_method_handler(partial(self._serve, name))

    def _serve(self, name: str, answers: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Pass questions to ``name`` and its answers on until the stream ends."""
        connection = _Connection()
        with self._lock:
            self._connected[name] = connection
        if not context.add_callback(partial(self._leave, name, connection)):
            self._leave(name, connection)
        for question in iter(connection.questions.get, None):
            yield question
            try:
                connection.answers.put(next(answers))
            except Exception:  # it hung up, or sent more than is read
                return

    def _leave(self, name: str, connection: _Connection) -> None:
        with self._lock:
            self._connected.pop(name, None)
        connection.close()


@contextmanager
def serve_clients(secrets: Mapping[str, str], longest: int, **options: Any) -> Iterator[GrpcClients]:
    """Serve clients on a free port of this machine, without encryption, until the block ends.

    ``secrets`` are those of the clients by name. Messages have at most ``longest`` bytes. ``options`` are
    those of :class:`~sfumato.learners.federated.rounds.RemoteClients`.
    """
    # One process holds the port: no other one may listen on it too.
    limits = [*_lengths(longest), _UNCOMPRESSED, ("grpc.so_reuseport", 0)]
    # A thread for each client: who is none is refused without one.
    server = grpc.server(ThreadPoolExecutor(len(secrets)), options=limits)
    port = server.add_insecure_port("127.0.0.1:0")
    clients = GrpcClients(secrets, f"127.0.0.1:{port}", **options)
    server.add_generic_rpc_handlers((clients,))
    server.start()
    try:
        yield clients
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
                answers.put(_answer(app, context, question))
        finally:
            answers.put(None)


def _answer(app: ClientApp, context: Context, question: bytes) -> bytes:
    """Return the layers that ``app`` answers with and nothing else, or why there are none."""
    told, layers = layers_from_bytes(question)
    content = RecordDict({ARRAYS: record_of(layers), CONFIG: ConfigRecord(told)})
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
    try:
        reply: Message = app(make_message(metadata, content), context)
        if not reply.has_error():
            (record,) = reply.content.array_records.values()
            return layers_to_bytes({"error": None}, record.to_numpy_ndarrays())
        why = reply.error.reason or "the client gave no reason."
    except Exception:
        _log.exception("the app failed, and the server is told that it did")
        why = _FAILED
    return layers_to_bytes({"error": why}, [])


def _lengths(longest: int) -> list[tuple[str, int]]:
    return [(f"grpc.max_{way}_message_length", longest) for way in ("send", "receive")]
