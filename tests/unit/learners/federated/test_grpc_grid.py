"""Messages over Flower's gRPC service: a real server, and clients that connect to it from threads."""

from __future__ import annotations

import ast
import contextlib
import io
import pickle
import queue
import threading
import time

import numpy as np
import pytest

pytest.importorskip("flwr")

import grpc
from flower_rounds import average
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.client import Client, start_client
from flwr.clientapp import ClientApp
from flwr.common import (
    Code,
    EvaluateIns,
    FitRes,
    GetParametersIns,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    Status,
    ndarrays_to_parameters,
)
from flwr.common.constant import ErrorCode
from flwr.proto.transport_pb2 import ClientMessage
from flwr.proto.transport_pb2_grpc import FlowerServiceStub
from flwr.server import SimpleClientManager
from flwr.server.superlink.fleet.grpc_bidi.grpc_server import start_grpc_server
from flwr.supercore.task_identity import TaskIdentity

from sfumato.learners.federated import federate, make_protection
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CLIENT,
    CONFIG,
    METRICS,
    NAME,
    ROUND,
    ROUNDS,
    Credential,
    PrivacyMod,
    make_client_app,
    new_secret,
    record_of,
)
from sfumato.learners.federated.grpc_grid import (
    Admission,
    GrpcClient,
    GrpcGrid,
    as_server,
)
from sfumato.learners.federated.local_training import flat_vector
from sfumato.learners.federated.rounds import OutOfBudget, client_names
from sfumato.noise import Seeded

RECEIVED = [np.zeros((2, 3), np.float32), np.ones(3, np.float32)]
NOTHING = make_protection("none")
# So long a wait would be a failure; what is promised at once comes in milliseconds.
PATIENCE = 20.0


class Service:
    """Flower's service on a free port, the grid over it, and the clients that were connected to it."""

    def __init__(self):
        self._threads = []
        self.admit(SimpleClientManager())

    def admit(self, manager, names=()):
        """Start the service with the clients that ``manager`` knows."""
        self.manager = manager
        self.server = start_grpc_server(self.manager, "127.0.0.1:0", max_concurrent_workers=8)
        self.address = self.server.bound_address
        self.grid = GrpcGrid(self.manager, names)

    def connect(self, client) -> int:
        """Let ``client`` answer from a thread; returns its node."""
        before = set(self.grid.get_node_ids())
        self._run(lambda: start_client(server_address=self.address, client=client, insecure=True))
        return self._new(before)

    def hang(self, client):
        """Let ``client`` connect, and wait until it was told to go."""
        with contextlib.suppress(grpc.RpcError):
            start_client(server_address=self.address, client=client, insecure=True, max_retries=0)

    def connect_raw(self, answer) -> int:
        """A client that sends ``answer`` whatever it is asked, or hangs up where that is None."""
        before = set(self.grid.get_node_ids())

        def run():
            sent = queue.Queue()
            with grpc.insecure_channel(self.address) as channel:
                for _ in FlowerServiceStub(channel).Join(iter(sent.get, "end")):
                    if answer is None:
                        break
                    sent.put(answer)
                sent.put("end")

        self._run(run)
        return self._new(before)

    def _run(self, work):
        def until_the_server_ends():
            with contextlib.suppress(grpc.RpcError, SystemExit):
                work()

        self._threads.append(threading.Thread(target=until_the_server_ends, daemon=True))
        self._threads[-1].start()

    def _new(self, before) -> int:
        until = time.monotonic() + PATIENCE
        while not (found := set(self.grid.get_node_ids()) - before):
            assert time.monotonic() < until
            time.sleep(0.01)
        (node,) = found
        return node

    def ask(self, node, message=None):
        (reply,) = self.grid.send_and_receive([message or asking(node)], timeout=PATIENCE)
        assert reply.metadata.src_node_id == node
        return reply

    def close(self):
        self.server.stop(None).wait()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def service(monkeypatch, caplog):
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")
    # NumPy reads headers by what fails now and then in two threads (python/cpython#106905); clients are
    # threads here alone.
    one, read = threading.Lock(), ast.literal_eval

    def one_at_a_time(text):
        with one:
            return read(text)

    monkeypatch.setattr(ast, "literal_eval", one_at_a_time)
    caplog.set_level("CRITICAL", logger="grpc")
    caplog.set_level("CRITICAL", logger="flwr")
    made = Service()
    with as_server():
        yield made
    made.close()


def asking(node, arrays=RECEIVED, number=1, kind="train", **more):
    record = arrays if isinstance(arrays, ArrayRecord) else record_of(arrays)
    config = ConfigRecord({ROUND: number, ROUNDS: 4, **more})
    return Message(RecordDict({ARRAYS: record, CONFIG: config}), dst_node_id=node, message_type=kind)


def context():
    return Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={})


def answering(answer) -> GrpcClient:
    """A client whose app answers a message with ``answer(message)``."""
    app = ClientApp()
    app.train()(lambda message, context: answer(message))
    return GrpcClient(app, context())


class Adds:
    def __init__(self, step: float) -> None:
        self.step = step

    def trained(self, arrays, *, round=0):
        return [array + np.float32(self.step * round) for array in arrays]


def protected(name, training, protection, **more) -> GrpcClient:
    mod = PrivacyMod(protection, name=name, **more)
    return GrpcClient(make_client_app(lambda _: training, lambda _: mod), context())


def test_layers_and_settings_come_back_as_they_went(service):
    layers = [
        np.array([[1.5, -0.0], [np.inf, 5e-324]]),
        np.arange(6, dtype=np.int64).reshape(1, 2, 3),
        np.array(0.1, dtype=np.float16),
        np.zeros((0, 3), np.float32),
        np.array([True, False]),
    ]
    seen = []

    def echo(message):
        seen.append(dict(message.content[CONFIG]))
        told = RecordDict({ARRAYS: message.content[ARRAYS], CLIENT: ConfigRecord({NAME: "south"})})
        told["notes"] = ConfigRecord({"diagnosis": "seven of them"})
        return Message(told, reply_to=message)

    node = service.connect(answering(echo))
    settings = {"flag": True, "rate": 0.1, "text": "ä", "bytes": b"\0\xff", "whole": -(2**40)}
    message = asking(node, layers, 3, **settings)
    reply = service.ask(node, message)
    assert seen == [{ROUND: 3, ROUNDS: 4, **settings}]
    assert set(reply.content) == {ARRAYS, METRICS}
    assert reply.metadata.reply_to_message_id == message.metadata.message_id
    for before, after in zip(layers, reply.content[ARRAYS].to_numpy_ndarrays(), strict=True):
        assert (before.dtype, before.shape) == (after.dtype, after.shape)
        assert before.tobytes() == after.tobytes()


def test_a_refusal_keeps_its_reason(service):
    def spent(number, guarantee):
        raise OutOfBudget("client-1 has nothing left.")

    gaussian = make_protection("gaussian", epsilon=5.0, clip=1.0)
    reply = service.ask(service.connect(protected("client-1", Adds(1.0), gaussian, pay=spent)))
    assert reply.error.code == ErrorCode.MOD_FAILED_PRECONDITION
    assert reply.error.reason == "out of budget: client-1 has nothing left."


def test_a_client_answers_each_round_once_over_one_connection(service):
    node = service.connect(protected("client-1", Adds(1.0), NOTHING, rounds=2))
    answers = [service.ask(node, asking(node, number=number)).has_error() for number in (1, 1, 2, 3)]
    assert answers == [False, True, False, True]


def test_an_app_that_fails_says_that_and_no_more_and_is_there_for_the_next_message(service, caplog):
    caplog.set_level("CRITICAL", logger="sfumato")
    failing = [True]

    def answer(message):
        if failing.pop():
            failing.append(False)
            raise ValueError("record 17 says 4711")
        return Message(RecordDict({ARRAYS: message.content[ARRAYS]}), reply_to=message)

    node = service.connect(answering(answer))
    assert service.ask(node).error.reason == (
        "the client's app failed; why is not told, since that may speak of its records."
    )
    assert not service.ask(node).has_error()


def test_other_questions_are_refused(service):
    """Nothing but protected parameters may leave a client, whatever a server asks by Flower's own means."""
    service.connect(protected("client-1", Adds(1.0), NOTHING))
    (proxy,) = service.manager.all().values()
    asked = ndarrays_to_parameters(RECEIVED)
    evaluated = proxy.evaluate(EvaluateIns(asked, {}), PATIENCE, None)
    parameters = proxy.get_parameters(GetParametersIns({}), PATIENCE, None)
    properties = proxy.get_properties(GetPropertiesIns({}), PATIENCE, None)
    assert evaluated.status.code == Code.EVALUATE_NOT_IMPLEMENTED
    assert parameters.status.code == Code.GET_PARAMETERS_NOT_IMPLEMENTED
    assert properties.status.code == Code.GET_PROPERTIES_NOT_IMPLEMENTED
    for answer in (evaluated, parameters, properties):
        assert answer.status.message.startswith("only training is answered")
    assert (evaluated.loss, evaluated.num_examples, evaluated.metrics) == (0.0, 0, {})
    assert (parameters.parameters.tensors, properties.properties) == ([], {})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda node: asking(node, kind="evaluate"), "messages of type evaluate are not sent"),
        (lambda node: asking(node, sizes=[1, 2]), "'sizes' in the configuration is a list"),
        (lambda node: Message(RecordDict(), node, "train"), "holds 0 records of arrays"),
    ],
)
def test_what_the_service_cannot_carry_is_not_sent(service, make, said):
    node = service.connect(answering(lambda message: pytest.fail("it was asked")))
    reply = service.ask(node, make(node))
    assert said in reply.error.reason


class Sends(Client):
    """A client of somebody else: it sends parameters as it likes."""

    def __init__(self, tensors, kind="numpy.ndarray", metrics=None):
        self.tensors, self.kind, self.metrics = tensors, kind, metrics or {}

    def fit(self, ins):
        return FitRes(Status(Code.OK, ""), Parameters(list(self.tensors), self.kind), 1, self.metrics)


def saved(save, value) -> bytes:
    file = io.BytesIO()
    save(file, value)
    return file.getvalue()


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Sends([b"junk"]), "the bytes of layer 1 are no array that can be read."),
        (Sends([b""]), "the bytes of layer 1 are no array that can be read."),
        (Sends([pickle.dumps([1.0])]), "the bytes of layer 1 are no array that can be read."),
        (Sends([saved(np.save, np.array([None]))]), "the bytes of layer 1 are no array that can be read."),
        (Sends([saved(np.savez, RECEIVED[1])]), "the bytes of layer 1 are no array of numbers."),
        (Sends([saved(np.save, np.array(["a"]))]), "the bytes of layer 1 are no array of numbers."),
        (Sends([saved(np.save, RECEIVED[1])[:-1]]), "the bytes of layer 1 are no array that can be read."),
        (Sends([], kind="torch.Tensor"), "parameters came as 'torch.Tensor': 'numpy.ndarray' is needed."),
    ],
)
def test_a_reply_that_cannot_be_read_is_refused_in_a_sentence(service, client, said):
    node = service.connect(client)
    assert service.ask(node).error.reason == said
    assert service.ask(node).error.reason == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ClientMessage(), "parameters came as ''"),
        (ClientMessage(evaluate_res=ClientMessage.EvaluateRes(loss=1.0)), "parameters came as ''"),
        (ClientMessage(fit_res=ClientMessage.FitRes(metrics={"name": {}})), "the exchange failed with "),
    ],
)
def test_an_answer_to_another_question_is_refused_in_a_sentence(service, answer, said):
    node = service.connect_raw(answer)
    assert service.ask(node).error.reason.startswith(said)


def test_a_client_that_hangs_up_while_it_is_asked_is_missed_at_once(service):
    gone = service.connect_raw(None)
    stays = service.connect(protected("client-1", Adds(1.0), NOTHING))
    begun = time.monotonic()
    replies = service.grid.send_and_receive([asking(gone), asking(stays)], timeout=PATIENCE)
    assert time.monotonic() - begun < 5.0
    lost, came = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
    assert lost.error == Error(ErrorCode.NODE_UNAVAILABLE, "its connection was closed before it answered.")
    assert not came.has_error()
    assert service.grid.get_node_ids() == [stays]
    # It is not there any more for another message, and one that never came is not there either.
    for node in (gone, 99):
        assert service.ask(node).error == Error(ErrorCode.NODE_UNAVAILABLE, "it is not connected.")


def test_who_takes_too_long_is_not_waited_for(service):
    let_go = threading.Event()

    def slow(message):
        let_go.wait(PATIENCE)
        return Message(RecordDict({ARRAYS: message.content[ARRAYS]}), reply_to=message)

    node = service.connect(answering(slow))
    message = asking(node)
    assert service.grid.send_and_receive([message], timeout=0.1) == []
    assert service.ask(node).error.reason.startswith("the exchange failed with")
    let_go.set()
    # What came late is dropped, and the client is there for the next message.
    until = time.monotonic() + PATIENCE
    while service.ask(node).has_error():
        assert time.monotonic() < until
        time.sleep(0.01)


def run(service, strategy):
    return strategy(service.grid)


@pytest.mark.parametrize("name", ["gaussian", "llagp", "tensor-ldp", "none"])
def test_over_grpc_and_in_one_process_rounds_agree_bit_by_bit(service, name):
    protection = make_protection(
        name, epsilon=5.0, **({} if name in ("none", "tensor-ldp") else {"clip": 1.0})
    )
    clients, names = [Adds(0.1), Adds(0.2), Adds(-0.4)], client_names(3)
    here = federate(clients, RECEIVED, protection, rounds=3, randomness=Seeded(9))
    for called, client in zip(names, clients, strict=True):
        service.connect(protected(called, client, protection, rounds=3, randomness=Seeded(9)))
    there = run(service, average(names, RECEIVED, protection, rounds=3))
    assert there.rounds == 3
    assert there.refused == ()
    assert all(np.array_equal(x, y) for x, y in zip(here.arrays, there.arrays, strict=True))
    assert here.paid == there.paid


def test_a_strategy_goes_on_without_those_it_cannot_use(service):
    nan = saved(np.save, np.full((2, 3), np.nan, np.float32)), saved(np.save, RECEIVED[1])
    service.connect(protected("client-1", Adds(1.0), NOTHING))
    service.connect(Sends([b"junk"]))
    service.connect(Sends(nan, metrics={NAME: "client-1"}))
    service.connect_raw(None)
    done = run(service, average(client_names(4), RECEIVED, NOTHING, rounds=2))
    assert done.rounds == 2
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 3.0)
    assert [(item.round, item.why) for item in done.refused] == [
        (1, "client-2 answered with an error: the bytes of layer 1 are no array that can be read."),
        (1, "client-3 sent layer 1 with NaN or infinite parameters: nothing of it is used."),
        (1, "client-4 did not answer."),
        (2, "client-2 answered with an error: the bytes of layer 1 are no array that can be read."),
        (2, "client-3 sent layer 1 with NaN or infinite parameters: nothing of it is used."),
    ]


SECRETS = {name: new_secret() for name in client_names(3)}


@pytest.fixture
def guarded(service):
    """The service, which counts those that prove a name."""
    service.server.stop(None).wait()
    service.admit(Admission(SECRETS, PATIENCE), client_names(3))
    return service


def proving(name, secret=None, training=None):
    mod = PrivacyMod(NOTHING, name=name)
    app = make_client_app(lambda _: training or Adds(1.0), lambda _: mod)
    return GrpcClient(app, context(), Credential(name, SECRETS[name] if secret is None else secret))


def test_who_proves_a_name_is_the_node_of_that_name(guarded):
    for name, node in (("client-3", 3), ("client-1", 1)):
        assert guarded.connect(proving(name)) == node
    assert guarded.grid.names == {1: "client-1", 2: "client-2", 3: "client-3"}
    assert guarded.ask(2).error == Error(ErrorCode.NODE_UNAVAILABLE, "it is not connected.")


class Stranger(Client):
    """Connects, says what it likes of itself, and would send a model if it were asked for one."""

    def __init__(self, said=None):
        self.said, self.asked, self.trained = said, [], []

    def get_properties(self, ins):
        self.asked.append(ins.config["sfumato-challenge"])
        return GetPropertiesRes(Status(Code.OK, ""), {} if self.said is None else self.said(self.asked[-1]))

    def fit(self, ins):
        self.trained.append(ins)
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(RECEIVED), 1, {NAME: "client-1"})


@pytest.mark.parametrize(
    "said",
    [
        None,
        lambda challenge: {NAME: "client-1", "sfumato-proof": ""},
        lambda challenge: {NAME: "client-1", "sfumato-proof": challenge},
        lambda challenge: {NAME: "client-1", "sfumato-proof": "ä"},
        lambda challenge: {NAME: "client-1", "sfumato-proof": 1.5},
        lambda challenge: {NAME: 1, "sfumato-proof": b"x"},
        lambda challenge: Credential("client-9", new_secret()).answer(challenge),
        lambda challenge: Credential("client-1", new_secret()).answer(challenge),
        # The secret of one client proves no other name, and what was proven once proves nothing again.
        lambda challenge: {**Credential("client-2", SECRETS["client-2"]).answer(challenge), NAME: "client-1"},
        lambda challenge: Credential("client-1", SECRETS["client-1"]).answer(challenge[:-1]),
    ],
)
def test_a_stranger_is_dropped_and_never_asked_to_train(guarded, said):
    """It was the first to connect; nothing waits for it, and nothing of it is used."""
    stranger = Stranger(said)
    guarded.hang(stranger)
    for name in ("client-1", "client-2"):
        guarded.connect(proving(name))
    strategy = average(client_names(2), RECEIVED, NOTHING, rounds=2, known=guarded.grid.names)
    done = run(guarded, strategy)
    assert (done.rounds, done.refused) == (2, ())
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 3.0)
    assert len(stranger.asked) == 1
    assert stranger.trained == []


def test_a_name_is_proven_by_one_connection(guarded):
    node = guarded.connect(proving("client-1"))
    second = proving("client-1", training=Adds(5.0))
    guarded.hang(second)
    assert guarded.grid.get_node_ids() == [node]
    assert flat_vector(guarded.ask(node).content[ARRAYS].to_numpy_ndarrays()) == pytest.approx(
        flat_vector(RECEIVED) + 1.0
    )


def test_challenges_are_new_and_secrets_are_not_printed(guarded):
    strangers = [Stranger(), Stranger()]
    for stranger in strangers:
        guarded.hang(stranger)
    assert len({stranger.asked[0] for stranger in strangers}) == 2
    assert SECRETS["client-1"] not in repr(Credential("client-1", SECRETS["client-1"]))


def test_who_says_nothing_is_dropped_after_a_while(service):
    service.server.stop(None).wait()
    service.admit(Admission(SECRETS, 0.2), client_names(3))
    hung_up = threading.Event()

    def listen():
        with grpc.insecure_channel(service.address) as channel:
            with contextlib.suppress(grpc.RpcError):
                for _ in FlowerServiceStub(channel).Join(iter(queue.Queue().get, "end")):
                    pass
            hung_up.set()

    threading.Thread(target=listen, daemon=True).start()
    assert hung_up.wait(PATIENCE)
    assert service.grid.get_node_ids() == []


def test_a_client_that_dies_in_the_first_round_is_named(guarded):
    """It was the first to connect, and is not the first by name."""

    class Dies(GrpcClient):
        def fit(self, ins):
            raise SystemExit

    mod = PrivacyMod(NOTHING, name="client-2")
    app = make_client_app(lambda _: Adds(1.0), lambda _: mod)
    guarded.connect(Dies(app, context(), Credential("client-2", SECRETS["client-2"])))
    guarded.connect(proving("client-1"))
    strategy = average(client_names(2), RECEIVED, NOTHING, rounds=2, known=guarded.grid.names)
    done = run(guarded, strategy)
    (missed,) = done.refused
    assert (missed.round, missed.client) == (1, "client-2")
    assert missed.why == "client-2 did not answer."
    assert done.paid == {"client-1": 2, "client-2": 1}


def test_a_node_keeps_its_name_whatever_it_calls_itself(guarded):
    app = make_client_app(lambda _: Adds(1.0), lambda _: PrivacyMod(NOTHING, name="client-1"))
    guarded.connect(GrpcClient(app, context(), Credential("client-2", SECRETS["client-2"])))
    guarded.connect(proving("client-1"))
    strategy = average(client_names(2), RECEIVED, NOTHING, rounds=1, known=guarded.grid.names)
    done = run(guarded, strategy)
    assert (done.rounds, done.refused) == (1, ())


def test_whose_messages_they_are_is_said_for_a_block_alone():
    before = TaskIdentity._run_id
    with as_server():
        assert asking(1).metadata.src_node_id == TaskIdentity.node_id
    assert TaskIdentity._run_id is before
