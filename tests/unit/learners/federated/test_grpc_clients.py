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
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from sfumato.errors import BadInput
from sfumato.learners.federated import federate, make_protection
from sfumato.learners.federated.central_noise import CentralGaussian
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CLIENT,
    CONFIG,
    NAME,
    ROUND,
    ROUNDS,
    Credential,
    PrivacyMod,
    make_client_app,
    new_secret,
    record_of,
)
from sfumato.learners.federated.grpc_clients import answer_server, serve_clients
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
    """The clients of a server, and the threads that answer it."""

    def __init__(self, clients):
        self.clients, self.address = clients, clients.address
        self._threads = []

    def connect(self, app, name="client-1") -> None:
        """Let ``app`` answer from a thread as the client ``name``."""
        own = Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={})
        self._join(name, lambda: answer_server(self.address, app, own, Credential(name, SECRETS[name])))

    def connect_raw(self, *answers, name="client-1") -> None:
        """A client that sends ``answers`` to every question, or hangs up where there are none."""
        proof = Credential(name, SECRETS[name]).answer(self.address)
        self._join(name, lambda: self.talk(proof, *answers))

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

    def _join(self, name, work) -> None:
        def until_the_server_ends():
            with contextlib.suppress(grpc.RpcError, SystemExit):
                work()

        self._threads.append(threading.Thread(target=until_the_server_ends, daemon=True))
        self._threads[-1].start()
        until = time.monotonic() + PATIENCE
        while name not in self.clients.present():
            assert time.monotonic() < until
            time.sleep(0.01)

    def ask(self, number=1, *, names=("client-1",), timeout=PATIENCE):
        """Ask ``names`` in round ``number``, though others may be missing; returns replies."""
        self.clients.timeout, self.clients._begun = timeout, True
        return self.clients.ask(number, RECEIVED, list(names))

    def refusal(self, number=1):
        """Ask client-1; returns why nothing of it is used."""
        (refused,) = self.ask(number).refused
        assert (refused.round, refused.client) == (number, "client-1")
        return refused.why

    def close(self):
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def serve(monkeypatch, caplog):
    """Starts a service for the first ``count`` clients."""
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

        def started(count=4, *, longest=2**20, **options):
            options = {"rounds": 2, "patience": PATIENCE, "timeout": PATIENCE, **options}
            secrets = {name: SECRETS[name] for name in client_names(count)}
            made.append(Service(held.enter_context(serve_clients(secrets, longest, **options))))
            return made[-1]

        yield started
    for service in made:
        service.close()


@pytest.fixture
def service(serve):
    return serve()


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


def run(service, protection=NOTHING, **options):
    return federate(service.clients, RECEIVED, protection, rounds=service.clients.rounds, **options)


def run_central(serve, connect_first, rounds=2, timeout=1.5):
    """A run of four clients with noise at the server, the first of which is not like the others."""
    service = serve(rounds=rounds, central=True, timeout=timeout)
    connect_first(service)
    for name in client_names(4)[1:]:
        service.connect(plain(name), name)
    return run(service, central=CENTRAL, randomness=Seeded(9))


def clips_moved(made):
    """By how many clips the sums before the noise, which is the same, lie from those without client-1."""
    clients = {name: Adds(float(name != "client-1")) for name in client_names(4)}
    options = {"rounds": made.rounds, "central": CENTRAL, "randomness": Seeded(9)}
    without = federate(clients, RECEIVED, NOTHING, **options)
    return float(np.linalg.norm(flat_vector(made.arrays) - flat_vector(without.arrays))) * 4 / CLIP


def test_a_client_is_told_the_round_and_nothing_but_layers_comes_back(service):
    seen = []

    def echo(message):
        seen.append((dict(message.content[CONFIG]), message.content[ARRAYS].to_numpy_ndarrays()))
        told = RecordDict({ARRAYS: message.content[ARRAYS], CLIENT: ConfigRecord({NAME: "client-2"})})
        told["notes"] = ConfigRecord({"diagnosis": "seven of them"})
        return Message(told, reply_to=message)

    service.connect(answering(echo))
    replies = service.ask(3)
    ((settings, layers),) = seen
    assert settings == {ROUND: 3, ROUNDS: 2}
    assert list(replies.usable) == ["client-1"]
    for before, asked, after in zip(RECEIVED, layers, replies.usable["client-1"], strict=True):
        assert before.dtype == asked.dtype == after.dtype
        assert before.tobytes() == asked.tobytes() == after.tobytes()
        assert before.shape == asked.shape == after.shape


def test_a_spent_budget_keeps_its_reason_and_stops_the_run(serve):
    def spent(number, guarantee):
        raise OutOfBudget("client-1 has nothing left.")

    service = serve(1)
    gaussian = make_protection("gaussian", epsilon=5.0, clip=1.0)
    service.connect(protected("client-1", Adds(1.0), gaussian, pay=spent))
    made = run(service)
    assert (made.rounds, made.out_of_budget) == (0, True)
    assert made.stopped == "stopped before round 1 of 2: client-1 has nothing left."


def test_a_client_answers_each_round_once_over_one_connection(service):
    service.connect(protected("client-1", Adds(1.0), NOTHING, rounds=2))
    assert [bool(service.ask(number).usable) for number in (1, 1, 2, 3)] == [True, False, True, False]


def test_an_app_that_fails_says_that_and_no_more_and_is_there_for_the_next_round(service, caplog):
    caplog.set_level("CRITICAL", logger="sfumato")
    failing = [True]

    def answer(message):
        if failing.pop():
            failing.append(False)
            raise ValueError("record 17 says 4711")
        return Message(RecordDict({ARRAYS: message.content[ARRAYS]}), reply_to=message)

    service.connect(answering(answer))
    why = "the client's app failed; why is not told, since that may speak of its records."
    assert service.refusal() == f"client-1 answered with an error: {why}"
    assert service.ask(2).usable


@pytest.mark.parametrize("begins", ["", "out of budget: "])
def test_of_a_reason_that_a_client_gives_one_short_printable_line_is_kept(serve, begins):
    service = serve(1)
    service.connect_raw(layers_to_bytes({"error": f"{begins}\x1b[2J{'x' * 10**5}\nsecond"}, []))
    made = run(service)
    said = made.stopped if begins else made.refused[0].why
    assert said.isprintable()
    assert "second" not in said
    assert 400 < len(said) < 600


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
    service.connect_raw(answer)
    assert [service.refusal(number) for number in (1, 2)] == [f"client-1: {said}"] * 2
    with pytest.raises(BadInput, match=said):
        layers_from_bytes(answer)


def test_an_answer_that_is_too_long_ends_the_connection_of_its_client_alone(serve):
    service = serve(longest=10_000)
    service.connect_raw(bytes(20_000))
    service.connect(plain("client-2"), "client-2")
    replies = service.ask(names=("client-1", "client-2"))
    assert [refused.why for refused in replies.refused] == ["client-1 did not answer."]
    assert list(replies.usable) == service.clients.present() == ["client-2"]


def test_messages_that_would_have_to_be_unpacked_are_not_taken(serve):
    service = serve(longest=10_000)
    proof = Credential("client-1", SECRETS["client-1"]).answer(service.address)
    asked, status = service.talk(proof, bytes(10**7), compression=grpc.Compression.Gzip)
    assert (asked, status) == ([], grpc.StatusCode.UNIMPLEMENTED)
    assert service.ask().usable == {}


def test_a_client_that_hangs_up_while_it_is_asked_is_missed_at_once(service):
    service.connect_raw()
    service.connect(plain("client-2"), "client-2")
    begun = time.monotonic()
    replies = service.ask(names=("client-1", "client-2"))
    assert time.monotonic() - begun < 5.0
    assert [refused.why for refused in replies.refused] == ["client-1 did not answer."]
    assert list(replies.usable) == service.clients.present() == ["client-2"]
    # It is not asked any more, and one that never came is not asked either.
    assert service.ask(2, names=("client-1", "client-3")) == type(replies)(2)
    assert service.clients.asked() == {"client-1": 1, "client-2": 1, "client-3": 0, "client-4": 0}


def test_who_takes_too_long_is_not_waited_for_and_is_asked_again(service):
    let_go = threading.Event()

    def slow(message):
        let_go.wait(PATIENCE)
        number = message.content[CONFIG][ROUND]
        made = [array + np.float32(number) for array in message.content[ARRAYS].to_numpy_ndarrays()]
        return Message(RecordDict({ARRAYS: record_of(made)}), reply_to=message)

    service.connect(answering(slow))
    assert service.ask(timeout=0.1).refused[0].why == "client-1 did not answer."
    assert service.refusal(2) == "client-1 did not answer."
    let_go.set()
    # What came late is dropped, and the client is there for the next round.
    until = time.monotonic() + PATIENCE
    while not (replies := service.ask(7)).usable:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert flat_vector(replies.usable["client-1"]) == pytest.approx(flat_vector(RECEIVED) + 7.0)


def test_a_client_that_answers_twice_moves_no_sum_by_more_than_its_clip(serve):
    """Its second answer stands where its own next one would, and nobody else's is read for it."""
    far = layers_to_bytes({"error": None}, [array + 1e6 for array in RECEIVED])
    made = run_central(serve, lambda service: service.connect_raw(GOOD, far, far), rounds=3, timeout=PATIENCE)
    assert made.refused == ()
    assert clips_moved(made) <= 3.0 + 1e-5


@pytest.mark.parametrize(
    "answers",
    [(), (b"junk",), (bytes(2**21),), (NAN,), (GOOD, GOOD), None],
    ids=["hangs up", "junk", "too long", "NaN", "twice", "never"],
)
def test_whatever_one_client_does_moves_a_central_sum_by_its_own_clip_alone(serve, answers):
    silent = threading.Event()

    def connect(service):
        if answers is None:
            service.connect(answering(lambda message: silent.wait(PATIENCE)))
        else:
            service.connect_raw(*answers)

    made = run_central(serve, connect)
    silent.set()
    assert (made.rounds, made.stopped) == (2, None)
    assert {item.client for item in made.refused} <= {"client-1"}
    assert clips_moved(made) <= 2.0 + 1e-5
    # Everybody has paid, whether it was used or not.
    assert made.paid == dict.fromkeys(client_names(4), 2)


def test_with_noise_at_the_server_a_client_that_never_connects_is_waited_for_once(serve):
    service = serve(central=True, patience=0.3)
    for name in client_names(4)[1:]:
        service.connect(plain(name), name)
    made = run(service, central=CENTRAL, randomness=Seeded(9))
    said = "3 of 4 clients appeared within 0.3 seconds: the run began without the others."
    assert [item.why for item in made.refused] == [said]
    assert clips_moved(made) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "none"])
def test_over_grpc_and_in_one_process_rounds_agree_bit_by_bit(serve, name):
    protection = make_protection(name, epsilon=5.0, **({} if name == "none" else {"clip": 1.0}))
    clients, service = [Adds(0.1), Adds(0.2), Adds(-0.4)], serve(3, rounds=3)
    here = federate(clients, RECEIVED, protection, rounds=3, randomness=Seeded(9))
    for one, client in zip(client_names(3), clients, strict=True):
        service.connect(protected(one, client, protection, randomness=Seeded(9)), one)
    there = run(service, protection)
    assert there.rounds == 3
    assert all(np.array_equal(x, y) for x, y in zip(here.arrays, there.arrays, strict=True))
    assert here.paid == there.paid


def test_a_run_goes_on_without_those_it_cannot_use(service):
    service.connect(plain("client-1"), "client-1")
    service.connect_raw(b"junk", name="client-2")
    service.connect_raw(NAN, name="client-3")
    service.connect_raw(name="client-4")
    done = run(service)
    assert done.rounds == 2
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 3.0)
    unread = "client-2: the bytes hold no layers of numbers that can be read."
    nan = "client-3 sent layer 1 with NaN or infinite parameters: nothing of it is used."
    assert [(item.round, item.why) for item in done.refused] == [
        (1, unread),
        (1, nan),
        (1, "client-4 did not answer."),
        (2, unread),
        (2, nan),
    ]


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
def test_a_stranger_is_refused_and_never_asked_to_train(serve, said):
    """It was the first to connect; nothing waits for it, and nothing of it is used."""
    service = serve(2)
    asked, status = service.talk(said(service.address), NAN)
    for name in ("client-1", "client-2"):
        service.connect(plain(name), name)
    done = run(service)
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
        assert run(service).refused == ()


def test_other_methods_are_refused_and_use_no_name_up(service):
    proof = tuple(Credential("client-1", SECRETS["client-1"]).answer(service.address).items())
    with grpc.insecure_channel(service.address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/sfumato.Federation/Leave")(b"", metadata=proof)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    service.connect(plain("client-1"))
    assert service.ask().usable


def test_a_name_is_proven_by_one_call_and_secrets_are_not_shown(service):
    service.connect(plain("client-1"))
    credential = Credential("client-1", SECRETS["client-1"])
    assert service.talk(credential.answer(service.address)) == ([], grpc.StatusCode.UNIMPLEMENTED)
    assert service.clients.present() == ["client-1"]
    assert flat_vector(service.ask().usable["client-1"]) == pytest.approx(flat_vector(RECEIVED) + 1.0)
    assert SECRETS["client-1"] not in repr(credential)


def test_a_client_that_dies_in_the_first_round_is_named_and_has_paid_for_it(serve):
    def dies(message):
        raise SystemExit

    service = serve(2)
    service.connect(answering(dies), "client-2")
    service.connect(plain("client-1"))
    done = run(service)
    (missed,) = done.refused
    assert (missed.round, missed.client, missed.why) == (1, "client-2", "client-2 did not answer.")
    assert done.paid == {"client-1": 2, "client-2": 1}


def test_an_answer_counts_for_the_name_that_was_proven_whatever_its_app_is_called(serve):
    service = serve(2, rounds=1)
    service.connect(plain("client-1", 3.0), "client-2")
    service.connect(plain("client-1"))
    done = run(service)
    assert (done.rounds, done.refused) == (1, ())
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 2.0)
