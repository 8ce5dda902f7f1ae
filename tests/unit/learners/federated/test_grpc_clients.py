"""Real gRPC streams between a server and clients that are threads of this process."""

from __future__ import annotations

import ast
import contextlib
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
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput
from sfumato.learners.federated import federate, make_protection
from sfumato.learners.federated.central_noise import CentralGaussian
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
from sfumato.learners.federated.grpc_clients import answer_server, as_server, grpc_service
from sfumato.learners.federated.local_training import flat_vector, layers_from_bytes, layers_to_bytes
from sfumato.learners.federated.rounds import OutOfBudget, client_names
from sfumato.noise import Seeded

RECEIVED = [np.zeros((2, 3), np.float32), np.ones(3, np.float32)]
NOTHING = make_protection("none")
# So long a wait would be a failure; what is promised at once comes in milliseconds.
PATIENCE = 20.0
SECRETS = {name: new_secret() for name in client_names(4)}
# What a client that nobody of us wrote may send as an answer.
NAN = layers_to_bytes({"error": None}, [np.full((2, 3), np.nan, np.float32), RECEIVED[1]])
GOOD = layers_to_bytes({"error": None}, [array + np.float32(1.0) for array in RECEIVED])
UNLIMITED = [("grpc.max_send_message_length", -1)]
CLIP = 0.5
CENTRAL = CentralGaussian(multiplier=1.0, clip=CLIP)


class Service:
    """A service on a free port, the grid over it, and the clients that were connected to it."""

    def __init__(self, address, grid):
        self.address, self.grid = address, grid
        self._threads = []

    def connect(self, app, name="client-1", secret=None) -> int:
        """Let ``app`` answer from a thread as the client ``name``; returns its node."""
        credential = Credential(name, SECRETS[name] if secret is None else secret)
        own = Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={})
        return self._joined(lambda: answer_server(self.address, app, own, credential))

    def connect_raw(self, *answers, name="client-1") -> int:
        """A client that sends ``answers`` to every question, or hangs up where there are none."""
        proof = Credential(name, SECRETS[name]).answer(self.address)
        return self._joined(lambda: self.talk(proof, *answers))

    def talk(self, metadata, *answers, compression=None):
        """Connect with ``metadata``, and send ``answers`` to every question; returns questions and status."""
        asked, sent, pairs = [], queue.SimpleQueue(), tuple(metadata.items())
        with grpc.insecure_channel(self.address, options=UNLIMITED) as channel:
            call = channel.stream_stream("/sfumato.Federation/Join")
            questions = call(iter(sent.get, None), metadata=pairs, compression=compression)
            try:
                for question in questions:
                    asked.append(question)
                    if not answers:
                        break
                    for answer in answers:
                        sent.put(answer)
            except grpc.RpcError as error:
                return asked, error.code()
            finally:
                sent.put(None)
        return asked, None

    def _joined(self, work) -> int:
        before = set(self.grid.get_node_ids())

        def until_the_server_ends():
            with contextlib.suppress(grpc.RpcError, SystemExit):
                work()

        self._threads.append(threading.Thread(target=until_the_server_ends, daemon=True))
        self._threads[-1].start()
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

    def ask_all(self, *nodes):
        replies = self.grid.send_and_receive([asking(node) for node in nodes], timeout=PATIENCE)
        return sorted(replies, key=lambda reply: reply.metadata.src_node_id)

    def close(self):
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def serve(monkeypatch, caplog):
    """Starts a service."""
    monkeypatch.setenv("no_grpc_proxy", "127.0.0.1")
    # NumPy reads headers by what fails now and then in two threads (python/cpython#106905); clients are
    # threads here alone.
    one, read = threading.Lock(), ast.literal_eval

    def one_at_a_time(text):
        with one:
            return read(text)

    monkeypatch.setattr(ast, "literal_eval", one_at_a_time)
    for logger in ("grpc", "flwr"):
        caplog.set_level("CRITICAL", logger=logger)
    made = []
    with contextlib.ExitStack() as held:

        def started(longest=2**20):
            made.append(Service(*held.enter_context(grpc_service(SECRETS, longest))))
            return made[-1]

        yield started
    for service in made:
        service.close()


@pytest.fixture
def service(serve):
    return serve()


def asking(node, arrays=RECEIVED, number=1, kind="train", **more):
    record = arrays if isinstance(arrays, ArrayRecord) else record_of(arrays)
    config = ConfigRecord({ROUND: number, ROUNDS: 4, **more})
    return Message(RecordDict({ARRAYS: record, CONFIG: config}), dst_node_id=node, message_type=kind)


def answering(answer) -> ClientApp:
    """An app that answers a message with ``answer(message)``."""
    app = ClientApp()
    app.train()(lambda message, context: answer(message))
    return app


class Adds:
    def __init__(self, step: float) -> None:
        self.step = step

    def trained(self, arrays, *, round=0):
        return [array + np.float32(self.step * round) for array in arrays]


def protected(name, training, protection, **more) -> ClientApp:
    mod = PrivacyMod(protection, name=name, **more)
    return make_client_app(lambda _: training, lambda _: mod)


def plain(name, step=1.0) -> ClientApp:
    return protected(name, Adds(step), NOTHING)


def run(service, names, **options):
    strategy = average(names, RECEIVED, NOTHING, known=service.grid.names, **{"rounds": 2, **options})
    return strategy(service.grid)


def clips_moved(made, rounds):
    """By how many clips the sums before the noise, which is the same, lie from those without client-1."""
    clients = {name: Adds(float(name != "client-1")) for name in client_names(4)}
    options = {"rounds": rounds, "central": CENTRAL, "randomness": Seeded(9)}
    without = federate(clients, RECEIVED, NOTHING, **options)
    return float(np.linalg.norm(flat_vector(made.arrays) - flat_vector(without.arrays))) * 4 / CLIP


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
    settings = {"flag": True, "rate": 0.1, "text": "ä", "whole": -(2**40)}
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


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda node: asking(node, kind="evaluate"), "messages of type evaluate are not sent"),
        (lambda node: asking(node, secret=b"x"), "a configuration holds bytes"),
        (lambda node: Message(RecordDict(), node, "train"), "holds 0 records of arrays"),
    ],
)
def test_what_cannot_be_carried_is_not_sent(service, make, said):
    node = service.connect(answering(lambda message: pytest.fail("it was asked")))
    with pytest.raises(BadInput, match=said):
        service.ask(node, make(node))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"junk",
        pickle.dumps([1.0]),
        layers_to_bytes({"error": None}, RECEIVED)[:-1],
        layers_to_bytes({"error": None}, [np.array(["a"])]),
        layers_to_bytes([1], []),
        RECEIVED[1].tobytes(),
    ],
)
def test_an_answer_that_cannot_be_read_is_refused_in_a_sentence(service, answer):
    said = "the bytes hold no layers of numbers that can be read."
    node = service.connect_raw(answer)
    assert [service.ask(node).error.reason for _ in range(2)] == [said, said]
    with pytest.raises(BadInput, match=said):
        layers_from_bytes(answer)


def test_an_answer_that_is_too_long_ends_the_connection_of_its_client_alone(serve):
    service = serve(longest=10_000)
    node = service.connect_raw(bytes(20_000))
    stays = service.connect(plain("client-2"), "client-2")
    lost, came = service.ask_all(node, stays)
    assert lost.error.code == ErrorCode.NODE_UNAVAILABLE
    assert not came.has_error()
    assert service.grid.get_node_ids() == [stays]


def test_messages_that_would_have_to_be_unpacked_are_not_taken(serve):
    service = serve(longest=10_000)
    proof = Credential("client-1", SECRETS["client-1"]).answer(service.address)
    asked, status = service.talk(proof, bytes(10**7), compression=grpc.Compression.Gzip)
    assert (asked, status) == ([], grpc.StatusCode.UNIMPLEMENTED)
    assert service.grid.get_node_ids() == []


def test_a_client_that_answers_twice_moves_no_sum_by_more_than_its_clip(service):
    """Its second answer stands where its own next one would, and nobody else's is read for it."""
    far = layers_to_bytes({"error": None}, [array + 1e6 for array in RECEIVED])
    service.connect_raw(GOOD, far, far)
    for name in client_names(4)[1:]:
        service.connect(plain(name), name)
    made = run(service, client_names(4), rounds=1, central=CENTRAL, randomness=Seeded(9), timeout=PATIENCE)
    assert made.refused == ()
    assert clips_moved(made, 1) <= 1.0 + 1e-5
    made = run(service, client_names(4), rounds=3, central=CENTRAL, randomness=Seeded(9), timeout=PATIENCE)
    assert made.refused == ()
    assert clips_moved(made, 3) <= 3.0 + 1e-5


@pytest.mark.parametrize(
    "answers",
    [(), (b"junk",), (bytes(2**21),), (NAN,), (GOOD, GOOD), None],
    ids=["hangs up", "junk", "too long", "NaN", "twice", "never"],
)
def test_whatever_one_client_does_moves_a_central_sum_by_its_own_clip_alone(service, answers):
    silent = threading.Event()
    if answers is None:
        service.connect(answering(lambda message: silent.wait(PATIENCE)))
    else:
        service.connect_raw(*answers)
    for name in client_names(4)[1:]:
        service.connect(plain(name), name)
    made = run(service, client_names(4), rounds=2, central=CENTRAL, randomness=Seeded(9), timeout=1.5)
    silent.set()
    assert (made.rounds, made.stopped) == (2, None)
    assert {item.client for item in made.refused} <= {"client-1"}
    assert clips_moved(made, 2) <= 2.0 + 1e-5


def test_a_client_that_hangs_up_while_it_is_asked_is_missed_at_once(service):
    gone = service.connect_raw()
    stays = service.connect(plain("client-2"), "client-2")
    begun = time.monotonic()
    lost, came = service.ask_all(gone, stays)
    assert time.monotonic() - begun < 5.0
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
    assert service.grid.send_and_receive([asking(node)], timeout=0.1) == []
    assert service.ask(node).error.reason == "it is still at work on an earlier message."
    let_go.set()
    # What came late is dropped, and the client is there for the next message.
    until = time.monotonic() + PATIENCE
    late = asking(node, [RECEIVED[1]])
    while (reply := service.ask(node, late)).has_error():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert len(reply.content[ARRAYS]) == 1


@pytest.mark.parametrize("name", ["gaussian", "none"])
def test_over_grpc_and_in_one_process_rounds_agree_bit_by_bit(service, name):
    protection = make_protection(name, epsilon=5.0, **({} if name == "none" else {"clip": 1.0}))
    clients, names = [Adds(0.1), Adds(0.2), Adds(-0.4)], client_names(3)
    here = federate(clients, RECEIVED, protection, rounds=3, randomness=Seeded(9))
    for one, client in zip(names, clients, strict=True):
        service.connect(protected(one, client, protection, randomness=Seeded(9)), one)
    there = average(names, RECEIVED, protection, rounds=3, known=service.grid.names)(service.grid)
    assert there.rounds == 3
    assert all(np.array_equal(x, y) for x, y in zip(here.arrays, there.arrays, strict=True))
    assert here.paid == there.paid


def test_a_run_goes_on_without_those_it_cannot_use(service):
    service.connect(plain("client-1"), "client-1")
    service.connect_raw(b"junk", name="client-2")
    service.connect_raw(NAN, name="client-3")
    service.connect_raw(name="client-4")
    done = run(service, client_names(4))
    assert done.rounds == 2
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 3.0)
    unread = "client-2 answered with an error: the bytes hold no layers of numbers that can be read."
    nan = "client-3 sent layer 1 with NaN or infinite parameters: nothing of it is used."
    assert [(item.round, item.why) for item in done.refused] == [
        (1, unread),
        (1, nan),
        (1, "client-4 did not answer."),
        (2, unread),
        (2, nan),
    ]


def test_who_proves_a_name_is_the_node_of_that_name(service):
    for name, node in (("client-3", 3), ("client-1", 1)):
        assert service.connect(plain(name), name) == node
    assert service.grid.names == {1: "client-1", 2: "client-2", 3: "client-3", 4: "client-4"}
    assert service.ask(2).error == Error(ErrorCode.NODE_UNAVAILABLE, "it is not connected.")


@pytest.mark.parametrize(
    "said",
    [
        lambda address: {},
        lambda address: {NAME: "client-1"},
        lambda address: {NAME: "client-1", "sfumato-proof": ""},
        lambda address: {NAME: "client-1", "sfumato-proof": address},
        lambda address: {NAME: "client-1", "sfumato-proof": SECRETS["client-1"]},
        lambda address: Credential("client-9", new_secret()).answer(address),
        lambda address: Credential("client-1", new_secret()).answer(address),
        # The secret of one client proves no other name, and a proof for another server proves nothing here.
        lambda address: {**Credential("client-2", SECRETS["client-2"]).answer(address), NAME: "client-1"},
        lambda address: Credential("client-1", SECRETS["client-1"]).answer(address[:-1]),
    ],
)
def test_a_stranger_is_refused_and_never_asked_to_train(service, said):
    """It was the first to connect; nothing waits for it, and nothing of it is used."""
    asked, status = service.talk(said(service.address), NAN)
    for name in ("client-1", "client-2"):
        service.connect(plain(name), name)
    done = run(service, client_names(2))
    assert (done.rounds, done.refused) == (2, ())
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 3.0)
    assert (asked, status) == ([], grpc.StatusCode.UNIMPLEMENTED)


def test_strangers_that_hold_calls_open_keep_no_client_out(service):
    """More of them than there are threads, and none of them ever says anything or hangs up."""
    with contextlib.ExitStack() as held:
        for _ in range(100):
            channel = held.enter_context(grpc.insecure_channel(service.address))
            channel.stream_stream("/sfumato.Federation/Join")(iter(queue.SimpleQueue().get, None))
        for name in client_names(4):
            service.connect(plain(name), name)
        assert run(service, client_names(4)).refused == ()


def test_other_methods_are_refused_and_use_no_name_up(service):
    proof = tuple(Credential("client-1", SECRETS["client-1"]).answer(service.address).items())
    with grpc.insecure_channel(service.address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/sfumato.Federation/Leave")(b"", metadata=proof)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert service.connect(plain("client-1")) == 1


def test_a_name_is_proven_by_one_call_and_secrets_are_not_shown(service):
    node = service.connect(plain("client-1"))
    credential = Credential("client-1", SECRETS["client-1"])
    assert service.talk(credential.answer(service.address)) == ([], grpc.StatusCode.UNIMPLEMENTED)
    assert service.grid.get_node_ids() == [node]
    assert flat_vector(service.ask(node).content[ARRAYS].to_numpy_ndarrays()) == pytest.approx(
        flat_vector(RECEIVED) + 1.0
    )
    assert SECRETS["client-1"] not in repr(credential)


def test_a_client_that_dies_in_the_first_round_is_named(service):
    """It was the first to connect, and is not the first by name."""

    def dies(message):
        raise SystemExit

    service.connect(answering(dies), "client-2")
    service.connect(plain("client-1"))
    done = run(service, client_names(2))
    (missed,) = done.refused
    assert (missed.round, missed.client) == (1, "client-2")
    assert missed.why == "client-2 did not answer."
    assert done.paid == {"client-1": 2, "client-2": 1}


def test_a_node_keeps_its_name_whatever_it_calls_itself(service):
    service.connect(plain("client-1"), "client-2")
    service.connect(plain("client-1"))
    done = run(service, client_names(2), rounds=1)
    assert (done.rounds, done.refused) == (1, ())


def test_whose_messages_they_are_is_said_for_a_block_alone():
    before = TaskIdentity._run_id
    with as_server():
        assert asking(1).metadata.src_node_id == TaskIdentity.node_id
    assert TaskIdentity._run_id is before
