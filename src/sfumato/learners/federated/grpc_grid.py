"""Messages to clients and back, with a deadline: over any Flower grid, and over Flower's gRPC service.

The service (``flwr.server.superlink.fleet.grpc_bidi``) is older than messages, and Flower calls its client
deprecated; but it knows at once when a client is gone, and starts no process for a message.

**Deadlines.** Every client is waited for by itself, up to one public deadline. Flower's own HTTP grid reads
all replies in one thread: while it reads a long one, time runs out for the others, and one that cannot be
read raises an exception in the place of all. Here a thread of its own asks for the reply of each client, so
that what one of them sends, or when, decides about no other one: a reply counts if it was read completely by
the deadline, and one that cannot be read is no reply.

**Admission.** Any process of a machine can connect to a port of it. So the server asks everybody who connects
for a name and a proof of it (``flower_client``). A process that proves nothing is no client: it is
disconnected, and never asked to train.

**Messages.** The service knows parameters (the bytes of ``numpy.save``, never pickled), a configuration of
single values, a status and metrics. So layers keep their order, types and shapes, and lose their names; a
reply is its one record of arrays; and an error is a status that is not OK, with its reason.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from logging import WARNING
from threading import Condition, Lock, Thread
from typing import TypeVar

import numpy as np
from flwr.app import (
    DEFAULT_TTL,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)
from flwr.app.message import make_message
from flwr.client import Client
from flwr.clientapp import ClientApp
from flwr.common import (
    GRPC_MAX_MESSAGE_LENGTH,
    Code,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    Scalar,
    Status,
    bytes_to_ndarray,
    ndarrays_to_parameters,
    now,
)
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.server import ClientManager, SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.superlink.fleet.grpc_bidi.grpc_bridge import GrpcBridgeClosed
from flwr.server.superlink.fleet.grpc_bidi.grpc_client_proxy import GrpcClientProxy
from flwr.serverapp import Grid
from flwr.supercore import log
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CHALLENGE,
    CONFIG,
    METRICS,
    Credential,
    new_secret,
    proven_name,
    record_of,
)

__all__ = ["GrpcClient", "GrpcGrid", "grpc_service"]

_NUMPY = "numpy.ndarray"
_Answer = tuple[Message, FitRes | Error]
_NUMBERS = "fiub"
_SCALARS = (bool, int, float, str, bytes)
_UNANSWERED = "only training is answered: nothing in another reply would be protected."
_FAILED = "the client's app failed; why is not told, since that may speak of its records."
_log = logging.getLogger(__name__)
_GONE = "its connection was closed before it answered."
# Connections of others that do not keep clients from connecting, until they are told to go.
_STRANGERS = 16


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


class Admission(SimpleClientManager):
    """Flower's clients by their names, each from when it has proven to know the secret of its name.

    ``known`` holds the secrets by name. Who proves nothing within ``patience`` seconds, or proves a name that
    was proven before, is disconnected: a name is given to one connection in a run.
    """

    def __init__(self, known: Mapping[str, str], patience: float) -> None:
        super().__init__()
        self._known, self._patience = dict(known), patience
        self._one = Lock()

    def register(self, client: ClientProxy) -> bool:
        """Ask ``client`` who it is; it counts when it has answered."""
        assert isinstance(client, GrpcClientProxy)  # what the service makes for a connection
        Thread(target=self._ask, args=(client,), daemon=True).start()
        return True

    def _ask(self, client: GrpcClientProxy) -> None:
        challenge = new_secret()
        try:
            answer = client.get_properties(GetPropertiesIns({CHALLENGE: challenge}), self._patience, None)
        except Exception:  # it hung up, took too long, or sent bytes that Flower stumbles over
            client.bridge.close()
            return
        with self._one:
            said = answer.properties if answer.status.code == Code.OK else {}
            name = proven_name(said, challenge, self._known)
            if name is not None:
                del self._known[name]
        if name is None:
            client.bridge.close()
            return
        client.cid = name
        super().register(client)


def fit_ins_of(message: Message) -> FitIns:
    """Return a message of type train as the service carries it to a client."""
    kind = message.metadata.message_type
    if kind != "train":
        raise BadInput(f"messages of type {kind} are not sent: clients answer those of type train alone.")
    config: dict[str, Scalar] = {}
    for record in message.content.config_records.values():
        for key, value in record.items():
            if not isinstance(value, _SCALARS):
                raise BadInput(f"{key!r} in the configuration is a list: only single values are carried.")
            config[key] = value
    return FitIns(_parameters(message), config)


def message_of(ins: FitIns) -> Message:
    """Return what arrived at a client as the message that its app is to answer."""
    content = RecordDict({ARRAYS: _record(ins.parameters), CONFIG: ConfigRecord({**ins.config})})
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


def refusing(why: str) -> FitRes:
    """Return an answer without parameters that says ``why``."""
    return FitRes(Status(Code.FIT_NOT_IMPLEMENTED, why), Parameters([], _NUMPY), 0, {})


def _parameters(message: Message) -> Parameters:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise BadInput(f"a message holds {len(records)} records of arrays: one is carried.")
    return ndarrays_to_parameters(records[0].to_numpy_ndarrays())


def _record(parameters: Parameters) -> ArrayRecord:
    if parameters.tensor_type != _NUMPY:
        raise BadInput(f"parameters came as {parameters.tensor_type!r}: {_NUMPY!r} is needed.")
    arrays = []
    for number, tensor in enumerate(parameters.tensors, 1):
        try:
            array = bytes_to_ndarray(tensor)
        except Exception:  # NumPy's reader has many ways to say that bytes are no array
            raise BadInput(f"the bytes of layer {number} are no array that can be read.") from None
        if not isinstance(array, np.ndarray) or array.dtype.kind not in _NUMBERS:
            raise BadInput(f"the bytes of layer {number} are no array of numbers.")
        arrays.append(array)
    return record_of(arrays)


class GrpcClient(Client):
    """Answers what it is asked to train with ``app``, for ``flwr.client.start_client``.

    ``context`` is the client's own and kept over all rounds, so that each of them is answered once. An app
    that raises is answered for with one fixed sentence, since its exception may speak of records. With a
    ``credential`` the client proves its name to a server that asks for it (see ``grpc_admission``); every
    other kind of question is refused.
    """

    def __init__(self, app: ClientApp, context: Context, credential: Credential | None = None) -> None:
        self._app, self._context, self._credential = app, context, credential

    def fit(self, ins: FitIns) -> FitRes:
        """Return the parameters that the app answers with and nothing else, or why there are none."""
        try:
            message = message_of(ins)
        except BadInput as error:
            return refusing(str(error))
        try:
            reply = self._app(message, self._context)
            if reply.has_error():
                return refusing(reply.error.reason or "the client gave no reason.")
            return FitRes(Status(Code.OK, ""), _parameters(reply), 1, {})
        except Exception:
            _log.exception("the app failed, and the server is told that it did")
            return refusing(_FAILED)

    def evaluate(self, ins: EvaluateIns) -> EvaluateRes:
        """Refuse: what the model does on the client's records is not protected."""
        return EvaluateRes(Status(Code.EVALUATE_NOT_IMPLEMENTED, _UNANSWERED), 0.0, 0, {})

    def get_parameters(self, ins: GetParametersIns) -> GetParametersRes:
        """Refuse: parameters leave only as a reply to training."""
        return GetParametersRes(
            Status(Code.GET_PARAMETERS_NOT_IMPLEMENTED, _UNANSWERED), Parameters([], _NUMPY)
        )

    def get_properties(self, ins: GetPropertiesIns) -> GetPropertiesRes:
        """Return the client's public name, proven by its credential; a refusal of every other question."""
        challenge = ins.config.get(CHALLENGE)
        if self._credential is not None and isinstance(challenge, str):
            return GetPropertiesRes(Status(Code.OK, ""), {**self._credential.answer(challenge)})
        return GetPropertiesRes(Status(Code.GET_PROPERTIES_NOT_IMPLEMENTED, _UNANSWERED), {})


class GrpcGrid:
    """Sends to the clients that ``clients`` manages, each of which is a node.

    Those that it manages under one of ``names`` are the nodes 1, 2, … in the order of the names; others get
    the numbers after these in the order of their appearance.

    A client that is gone, and a node that never was, answer at once that the node is unavailable. What cannot
    be read in a reply becomes an error in a sentence.
    """

    def __init__(self, clients: ClientManager, names: Sequence[str] = ()) -> None:
        self._clients = clients
        self._nodes = {name: node for node, name in enumerate(names, 1)}
        self.names = {node: name for name, node in self._nodes.items()}
        self._gone: set[str] = set()
        self._one = Lock()

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are connected now, in the order of their numbers."""
        return sorted(self._connected())

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Return the replies that come within ``timeout`` seconds."""
        connected, asking = self._connected(), list[Callable[[float], _Answer]]()
        for message in messages:
            message.metadata.__dict__["_message_id"] = uuid.uuid4().hex
            ins: FitIns | Error
            try:
                ins = fit_ins_of(message)
            except BadInput as error:
                ins = Error(ErrorCode.UNKNOWN, str(error))
            asking.append(partial(self._ask, message, connected.get(message.metadata.dst_node_id), ins))
        # Threads wait for clients, and no more: what Python 3.11 has for the headers of arrays fails now and
        # then in two threads at once (python/cpython#106905).
        return [_reply(message, answer) for message, answer in gather(asking, timeout)]

    def _connected(self) -> dict[int, ClientProxy]:
        """Return the clients that are connected now, by node; new ones get the next numbers."""
        found = {}
        with self._one:
            for name, proxy in self._clients.all().copy().items():
                node = self._nodes.setdefault(name, len(self._nodes) + 1)
                if name not in self._gone:
                    found[node] = proxy
        return found

    def _ask(self, message: Message, proxy: ClientProxy | None, ins: FitIns | Error, until: float) -> _Answer:
        """Return the answer of the client behind ``proxy``, or a reason why there is none."""
        if isinstance(ins, Error):
            return message, ins
        if proxy is None:
            return message, Error(ErrorCode.NODE_UNAVAILABLE, "it is not connected.")
        try:
            return message, proxy.fit(ins, message.metadata.ttl, None)
        except GrpcBridgeClosed:
            with self._one:
                self._gone.add(proxy.cid)
            return message, Error(ErrorCode.NODE_UNAVAILABLE, _GONE)
        except Exception as error:  # whatever Flower stumbles over in bytes that came from outside
            return message, Error(ErrorCode.UNKNOWN, f"the exchange failed with {type(error).__name__}.")


def _reply(message: Message, answer: FitRes | Error) -> Message:
    """Return what came as a reply to ``message``, an error where it cannot be read."""
    if isinstance(answer, Error):
        return Message(answer, reply_to=message)
    if answer.status.code != Code.OK:
        return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, answer.status.message), reply_to=message)
    try:
        content = RecordDict({ARRAYS: _record(answer.parameters), METRICS: MetricRecord({"num-examples": 1})})
    except BadInput as error:
        return Message(Error(ErrorCode.UNKNOWN, str(error)), reply_to=message)
    return Message(content, reply_to=message)


@contextmanager
def grpc_service(secrets: Mapping[str, str], patience: float, longest: int) -> Iterator[tuple[str, GrpcGrid]]:
    """Flower's service on a free port of this machine: its address, and the grid of its clients.

    ``secrets`` are those of the clients by name, who have ``patience`` seconds to prove their names. Messages
    have at most ``longest`` bytes. Those that are made in the block are the server's.
    """
    try:
        from flwr.server.superlink.fleet.grpc_bidi.grpc_server import start_grpc_server
    except ImportError as missing:
        raise BadInput(
            f"`engine='grpc'` needs Flower's older gRPC service, which this flwr does not have: {missing}.",
            parameter="engine",
        ) from None
    admission = Admission(secrets, patience)
    server = start_grpc_server(
        admission,
        "127.0.0.1:0",
        max_concurrent_workers=len(secrets) + _STRANGERS,
        max_message_length=min(longest, GRPC_MAX_MESSAGE_LENGTH),
    )
    try:
        with as_server():
            yield server.bound_address, GrpcGrid(admission, list(secrets))
    finally:
        server.stop(None).wait()


@contextmanager
def as_server() -> Iterator[None]:
    """Messages that are made in the block are the server's; in runs of its own Flower sees to that."""
    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = SUPERLINK_NODE_ID
    try:
        yield
    finally:
        TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before
