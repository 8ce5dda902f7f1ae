"""The mod on anybody's app, and the strategy on anybody's replies; no processes are started here."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr")

from flower_rounds import average
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from sfumato.learners.federated import OutOfBudget, federate, make_protection
from sfumato.learners.federated.central_noise import CentralGaussian
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CHALLENGE,
    CONFIG,
    METRICS,
    NAME,
    ROUND,
    ROUNDS,
    PrivacyMod,
    make_client_app,
    new_secret,
    proven_name,
    record_of,
)
from sfumato.learners.federated.flower_client import CLIENT as CLIENT_RECORD
from sfumato.learners.federated.local_training import flat_vector
from sfumato.learners.federated.rounds import client_names
from sfumato.noise import Keyed, Seeded

RECEIVED = [np.zeros((2, 3), np.float32), np.ones(3, np.float32)]
GAUSSIAN = make_protection("gaussian", epsilon=5.0, clip=1.0)
RUN = {"dataset": "run", "version": "1", "release": "r"}


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Who sends: Flower fills it in when it starts a server, and takes it from here."""
    for field in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, field, 1)


def context(number: int = 0) -> Context:
    config = {"partition-id": number}
    return Context(run_id=1, node_id=number, node_config=config, state=RecordDict(), run_config={})


def asked(arrays=RECEIVED, kind: str = "train", number: int = 1, challenge: str | None = None) -> Message:
    record = arrays if isinstance(arrays, ArrayRecord) else record_of(arrays)
    settings = {ROUND: number, ROUNDS: 4} | ({} if challenge is None else {CHALLENGE: challenge})
    content = RecordDict({ARRAYS: record, CONFIG: ConfigRecord(settings)})
    return Message(content, dst_node_id=7, message_type=kind)


def foreign_app(mods, make=lambda arrays: [array + 1 for array in arrays]) -> ClientApp:
    """An app that knows nothing of Sfumato, and tells much about its records."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        record = message.content["arrays"]
        made = make(record.to_numpy_ndarrays())
        named = ArrayRecord(made) if len(made) != len(record) else record_of(made, record)
        told = {"arrays": named, "metrics": MetricRecord({"num-examples": 812, "loss": 0.25})}
        told["notes"] = ConfigRecord({"diagnosis": "seven of them"})
        return Message(RecordDict(told), reply_to=message)

    @app.query()
    @app.evaluate()
    def tell(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"accuracy": 0.5})}), reply_to=message)

    return app


def test_the_mod_protects_an_app_that_knows_nothing_of_it():
    app = foreign_app([PrivacyMod(GAUSSIAN, randomness=Seeded(1))])
    reply = app(asked(), context())
    assert not reply.has_error()
    sent = reply.content["arrays"].to_numpy_ndarrays()
    moved = flat_vector(sent) - flat_vector(RECEIVED)
    assert not np.array_equal(moved, np.ones(9))
    quiet = make_protection("gaussian", epsilon=1e7, clip=1.0)
    near = foreign_app([PrivacyMod(quiet)])(asked(), context()).content["arrays"].to_numpy_ndarrays()
    assert flat_vector(near) - flat_vector(RECEIVED) == pytest.approx(np.full(9, 1.0 / 3.0), abs=0.02)


def test_nothing_else_that_the_app_says_leaves():
    reply = foreign_app([PrivacyMod(GAUSSIAN, name="north", secret=new_secret())])(asked(), context())
    assert set(reply.content) == {ARRAYS, METRICS}
    assert dict(reply.content[METRICS]) == {"num-examples": 1}


def test_a_name_is_proven_where_the_server_asks_for_it():
    secrets = {"north": new_secret(), "south": new_secret()}
    app = foreign_app([PrivacyMod(GAUSSIAN, name="north", secret=secrets["north"])])
    reply = app(asked(challenge="fresh"), context())
    assert set(reply.content) == {ARRAYS, METRICS, CLIENT_RECORD}
    said = dict(reply.content[CLIENT_RECORD])
    assert proven_name(said, "fresh", secrets) == "north"
    assert secrets["north"] not in str(said)
    # For another challenge, another name or without a secret it proves nothing.
    assert proven_name(said, "other", secrets) is None
    assert proven_name({**said, NAME: "south"}, "fresh", secrets) is None
    assert proven_name(said, "fresh", {"south": secrets["south"]}) is None
    assert proven_name({NAME: "north"}, "fresh", secrets) is None
    with pytest.raises(ValueError, match="without the name that it proves"):
        PrivacyMod(GAUSSIAN, secret="s")


def test_the_first_mod_of_a_list_is_the_last_to_touch_the_reply():
    """As the mod's page says: what a later mod in the list adds does not leave."""

    def chatty(message, context, call_next):
        reply = call_next(message, context)
        reply.content["more"] = ConfigRecord({"diagnosis": "eight of them"})
        return reply

    reply = foreign_app([PrivacyMod(GAUSSIAN), chatty])(asked(), context())
    assert set(reply.content) == {ARRAYS, METRICS}


def test_names_and_types_of_layers_are_kept():
    record = ArrayRecord(array_dict={})
    made = record_of([np.zeros((2, 2), np.float64), np.array([3], np.int64)])
    for key, name in zip(made, ("conv.weight", "norm.num_batches_tracked"), strict=True):
        record[name] = made[key]
    reply = foreign_app([PrivacyMod(GAUSSIAN)])(asked(record), context())
    leaving = reply.content["arrays"]
    assert list(leaving) == ["conv.weight", "norm.num_batches_tracked"]
    assert [array.dtype for array in leaving.to_numpy_ndarrays()] == [np.float64, np.int64]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda arrays: [array.T + 1 for array in arrays], "other names or shapes"),
        (lambda arrays: arrays[:1], "other names or shapes"),
    ],
)
def test_layers_that_were_not_received_are_refused_without_their_numbers(make, said):
    reply = foreign_app([PrivacyMod(GAUSSIAN)], make)(asked(), context())
    assert reply.has_error()
    assert said in reply.error.reason


def test_a_failing_training_sends_what_one_that_learned_nothing_sends():
    """Neither the text of an exception nor the fact of it leaves the client."""

    def fails(arrays):
        raise ValueError("record 17 says 4711")

    def diverges(arrays):
        return [np.full_like(array, np.nan) for array in arrays]

    sent = [
        foreign_app([PrivacyMod(GAUSSIAN, randomness=Seeded(3))], make)(asked(), context()).content[ARRAYS]
        for make in (fails, diverges, lambda arrays: arrays)
    ]
    first, *others = (flat_vector(record.to_numpy_ndarrays()) for record in sent)
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("kind", ["evaluate", "query"])
def test_what_would_not_be_protected_is_not_answered(kind):
    reply = foreign_app([PrivacyMod(GAUSSIAN)])(asked(kind=kind), context())
    assert reply.has_error()
    assert "are not answered" in reply.error.reason


def test_a_message_without_one_record_of_parameters_is_refused():
    empty = Message(RecordDict({CONFIG: ConfigRecord({ROUND: 1})}), dst_node_id=1, message_type="train")
    reply = foreign_app([PrivacyMod(GAUSSIAN)])(empty, context())
    assert reply.has_error()


def test_the_client_pays_before_it_trains_and_refuses_when_it_cannot():
    order: list[str] = []

    def pay(number, guarantee):
        order.append(f"paid {number}")
        if number == 2:
            raise OutOfBudget("nothing is left.")

    def make(arrays):
        order.append("trained")
        return arrays

    app = foreign_app([PrivacyMod(GAUSSIAN, pay=pay)], make)
    assert not app(asked(), context()).has_error()
    reply = app(asked(number=2), context())
    assert reply.error.reason == "out of budget: nothing is left."
    assert order == ["paid 1", "trained", "paid 2"]


def test_why_a_ledger_does_not_answer_stays_with_the_client(caplog):
    def pay(number, guarantee):
        raise ConnectionError("no route to 10.0.0.7 for ward-17")

    reply = foreign_app([PrivacyMod(GAUSSIAN, pay=pay)])(asked(), context())
    assert reply.error.reason == "the client cannot pay for the round; its own log says why."
    assert "ward-17" in caplog.text


def test_a_round_that_was_agreed_to_is_answered_once():
    app, here = foreign_app([PrivacyMod(GAUSSIAN, rounds=2)]), context()
    answers = [app(asked(number=number), here).has_error() for number in (1, 1, 2, 3, 0, 2)]
    assert answers == [False, True, False, True, True, True]


class Adds:
    def __init__(self, step: float) -> None:
        self.step = step

    def trained(self, arrays, *, round=0):
        return [array + np.float32(self.step * round) for array in arrays]


class HandGrid:
    """Carries messages to apps in this process; a node whose app is None never answers."""

    def __init__(self, apps) -> None:
        self.apps = apps

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            app = self.apps[node]
            if isinstance(app, Error):
                replies.append(Message(app, reply_to=message))
            elif app is not None:
                replies.append(app(message, context(node)))
        return replies


def apps_of(clients, protection, randomness=None, pays=None):
    names = client_names(len(clients))
    return {
        100 + i: make_client_app(
            lambda _, client=client: client,
            lambda _, name=name: PrivacyMod(
                protection, name=name, randomness=randomness, pay=None if pays is None else pays(name)
            ),
        )
        for i, (name, client) in enumerate(zip(names, clients, strict=True))
    }


def run(strategy, apps):
    return strategy(HandGrid(apps))


@pytest.mark.parametrize("name", ["gaussian", "llagp", "tensor-ldp", "piecewise", "none"])
def test_flower_and_one_process_agree_bit_by_bit(name):
    bounds = {} if name in ("none", "tensor-ldp") else {"clip": 1.0, "limit": 0.5}
    protection = make_protection(name, epsilon=5.0, **bounds)
    clients = [Adds(0.1), Adds(0.2), Adds(-0.4)]
    here = federate(clients, RECEIVED, protection, rounds=3, randomness=Seeded(9))
    strategy = average(client_names(3), RECEIVED, protection, rounds=3)
    there = run(strategy, apps_of(clients, protection, Seeded(9)))
    assert there.rounds == 3
    assert all(np.array_equal(x, y) for x, y in zip(here.arrays, there.arrays, strict=True))
    assert here.paid == there.paid


@pytest.mark.parametrize("sample", [1.0, 0.6])
def test_flower_and_one_process_agree_bit_by_bit_with_noise_at_the_server(sample):
    central, nothing = CentralGaussian(multiplier=0.5, clip=1.0, sample=sample), make_protection("none")
    clients, names = [Adds(0.1), Adds(0.2), Adds(-0.4)], client_names(3)
    paid: list[int] = []
    here = federate(clients, RECEIVED, nothing, rounds=3, central=central, randomness=Seeded(9))
    strategy = average(
        names,
        RECEIVED,
        nothing,
        rounds=3,
        central=central,
        randomness=Seeded(9),
        pay=lambda number, guarantee: paid.append(number),
    )
    there = run(strategy, apps_of(clients, nothing))
    assert all(np.array_equal(x, y) for x, y in zip(here.arrays, there.arrays, strict=True))
    assert paid == [1, 2, 3]


@pytest.mark.parametrize("central", [None, CentralGaussian(multiplier=0.5, clip=1.0, sample=0.6)])
def test_a_run_that_goes_on_after_a_round_makes_what_a_whole_run_makes(central):
    """By Flower and in one process, after each round; clients are not asked for rounds before it."""
    protection = make_protection("none") if central else GAUSSIAN
    clients, noise, states = [Adds(0.1), Adds(0.2), Adds(-0.4)], Keyed(bytes(32), **RUN), []
    given = {"rounds": 4, "central": central, "randomness": noise}
    whole = federate(clients, RECEIVED, protection, **given, each_round=states.append)
    assert [state.rounds for state in states] == [1, 2, 3, 4]
    for begun in states:
        later, paid_for = [], []
        made = average(client_names(3), RECEIVED, protection, **given, begun=begun, each_round=later.append)
        there = run(
            made,
            apps_of(
                clients, protection, noise, lambda name, paid=paid_for: lambda *round: paid.append(round)
            ),
        )
        here = federate(clients, RECEIVED, protection, **given, begun=begun)
        for done in (here, there):
            assert all(np.array_equal(x, y) for x, y in zip(done.arrays, whole.arrays, strict=True))
            assert (done.rounds, done.paid, done.refused) == (4, whole.paid, whole.refused)
        assert [state.rounds for state in later] == list(range(begun.rounds + 1, 5))
        assert {number for number, _ in paid_for} <= {state.rounds for state in later}


def test_keyed_noise_is_keyed_by_what_it_is_added_to():
    """A round that was interrupted may have other replies; two sums must not share noise."""
    noise, central = Keyed(bytes(32), **RUN), CentralGaussian(multiplier=0.5, clip=100.0)
    sums = [
        federate([Adds(step)], RECEIVED, make_protection("none"), rounds=1, central=central, randomness=noise)
        for step in (0.1, 0.1, 0.2)
    ]
    first, again, other = (flat_vector(made.arrays) for made in sums)
    assert np.array_equal(first, again)
    assert len(set(np.round(other - first, 3))) > 1  # the difference is not that of the replies


def test_replies_that_cannot_be_used_are_said_and_left_out():
    nothing = make_protection("none")
    apps = apps_of([Adds(1.0), Adds(1.0)], nothing)
    apps[102] = foreign_app([], lambda arrays: [np.full_like(array, np.nan) for array in arrays])
    apps[103] = foreign_app([], lambda arrays: [np.zeros(2, np.float32)])
    apps[104] = Error(2, "ValueError: no\nTraceback")
    strategy = average(client_names(5), RECEIVED, nothing, rounds=1)
    done = run(strategy, apps)
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 1.0)
    said = sorted(item.why for item in done.refused)
    assert len(said) == 3
    assert "client-3 sent layer 1 with NaN" in said[0]
    assert "client-4 sent 1 layers, and the model has 2" in said[1]
    assert said[2] == "client-5 answered with an error: ValueError: no"


def test_a_silent_client_is_left_out_asked_again_and_counted_each_time():
    nothing = make_protection("none")
    apps = apps_of([Adds(1.0), Adds(1.0)], nothing) | {102: None}
    done = run(average(client_names(3), RECEIVED, nothing, rounds=3), apps)
    assert done.rounds == 3
    assert flat_vector(done.arrays) == pytest.approx(flat_vector(RECEIVED) + 6.0)
    assert [(item.round, item.why) for item in done.refused] == [
        (number, "client-3 did not answer.") for number in (1, 2, 3)
    ]
    assert done.paid == {"client-1": 3, "client-2": 3, "client-3": 3}


def test_a_spent_budget_stops_the_run_before_the_round():
    def pays(name):
        def pay(number, guarantee):
            if name == "client-2" and number == 3:
                raise OutOfBudget("client-2 has nothing left.")

        return pay

    protection = make_protection("gaussian", epsilon=5.0, clip=1.0)
    clients = [Adds(0.1), Adds(0.2)]
    strategy = average(client_names(2), RECEIVED, protection, rounds=5)
    done = run(strategy, apps_of(clients, protection, Seeded(2), pays))
    two = federate(clients, RECEIVED, protection, rounds=2, randomness=Seeded(2))
    assert done.rounds == 2
    assert done.stopped == "stopped before round 3 of 5: client-2 has nothing left."
    assert all(np.array_equal(x, y) for x, y in zip(done.arrays, two.arrays, strict=True))
    # What client-1 sent in round 3 was not used; that it may have been seen is counted.
    assert done.paid == {"client-1": 3, "client-2": 3}


def test_nobody_answers_and_the_run_says_so():
    done = run(average(["client-1"], RECEIVED, GAUSSIAN, rounds=2), {5: None})
    assert done.rounds == 0
    assert done.stopped == "stopped in round 1 of 2: no client sent parameters that can be used"


def test_clients_that_do_not_appear_are_missed():
    strategy = average(client_names(3), RECEIVED, GAUSSIAN, rounds=1, patience=0.2)
    with pytest.raises(ValueError, match="1 of 3 clients appeared"):
        run(strategy, {5: None})


@pytest.mark.parametrize("proven", [False, True])
def test_with_noise_at_the_server_a_run_begins_without_a_client_that_does_not_appear(proven):
    """Its sum misses one term, as where that client answers nothing; the divisor stays what it was."""
    nothing, central = make_protection("none"), CentralGaussian(multiplier=0.5, clip=1.0)
    secrets = {name: new_secret() for name in client_names(3)}
    apps = {10 + i: proving(0.1 * i, name, secret) for i, (name, secret) in enumerate(secrets.items(), 1)}

    def made(apps):
        strategy = average(
            client_names(3),
            RECEIVED,
            nothing,
            rounds=2,
            central=central,
            randomness=Seeded(4),
            patience=0.2,
            secrets=secrets if proven else None,
        )
        return run(strategy, apps)

    missing, silent = made({node: app for node, app in apps.items() if node != 11}), made(apps | {11: None})
    assert [str(item) for item in missing.refused] == [
        "round 1: 2 of 3 clients appeared within 0.2 seconds: the run began without the others."
    ]
    assert (missing.rounds, missing.stopped, missing.paid) == (2, None, dict.fromkeys(client_names(3), 2))
    for x, y in zip(missing.arrays, silent.arrays, strict=True):
        np.testing.assert_array_equal(x, y)
    assert made({}).rounds == 2


def proving(step, name, secret):
    """The app of a client that proves ``name`` by ``secret``."""
    mod = PrivacyMod(make_protection("none"), name=name, secret=secret)
    return make_client_app(lambda _: Adds(step), lambda _: mod)


def test_two_nodes_of_one_client_count_once():
    secrets = {name: new_secret() for name in client_names(2)}
    app = proving(1.0, "client-1", secrets["client-1"])
    strategy = average(client_names(2), RECEIVED, make_protection("none"), rounds=1, secrets=secrets)
    done = run(strategy, {1: app, 2: app})
    assert [item.why for item in done.refused] == [
        "a second node proved to be client-1: nothing of it is used."
    ]


class ForgingGrid(HandGrid):
    """Carries also what the first node sends beside or instead of its reply, in the order it is sent in."""

    def __init__(self, apps, forged) -> None:
        super().__init__(apps)
        self.forged = forged

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        return [*self.forged(messages), *super().send_and_receive(messages[1:], timeout=timeout)]


def forged(message, step, *, source=None, answers=None):
    """A reply to ``message`` that says to come from ``source``, or to answer the message ``answers``."""
    arrays = [array + np.float32(step) for array in RECEIVED]
    reply = Message(RecordDict({"arrays": record_of(arrays)}), reply_to=message)
    if source is not None:
        reply.metadata.__dict__["_src_node_id"] = source
    if answers is not None:
        reply.metadata.__dict__["_reply_to_message_id"] = answers
    return reply


FORGED = {
    "the number of another node": lambda sent: [forged(sent[0], -9.0, source=101)],
    "numbers of all others, and its own twice": lambda sent: [
        *(forged(sent[0], 9.0, source=node) for node in (101, 102)),
        forged(sent[0], 9.0, source=100),
        forged(sent[0], -9.0, source=100),
    ],
    "the number of a message that was not sent": lambda sent: [
        forged(sent[0], -9.0, source=101, answers=answers) for answers in ("", "0" * 64)
    ],
}


@pytest.mark.parametrize("what", FORGED)
def test_a_reply_counts_for_the_node_whose_message_it_answers_and_once(what):
    """Whatever node a reply says to come from, its sender moves the sum by a clip, and displaces nobody."""
    central = CentralGaussian(multiplier=0.5, clip=1.0)
    apps = apps_of([Adds(0.0), Adds(0.1), Adds(0.2)], make_protection("none"))

    def made(sends):
        strategy = average(
            client_names(3),
            RECEIVED,
            make_protection("none"),
            rounds=1,
            central=central,
            randomness=Seeded(4),
        )
        grid = ForgingGrid(apps, sends)
        return strategy(grid)

    absent, there = made(lambda sent: []), made(FORGED[what])
    moved = [x.astype(float) - y for x, y in zip(absent.arrays, there.arrays, strict=True)]
    assert 3.0 * np.sqrt(sum(float((layer**2).sum()) for layer in moved)) <= 1.0 + 1e-5
    assert {item.client for item in there.refused} <= {"client-1"}


@pytest.mark.parametrize("sample", [1.0, 0.5])
def test_nobody_takes_the_name_of_another_client(sample):
    """Whoever calls itself client-2 without its secret counts as nobody, and client-2 stays in the sum."""
    secrets = {name: new_secret() for name in client_names(3)}
    central = CentralGaussian(multiplier=0.5, clip=1.0, sample=sample)

    def made(first):
        apps = {10 + i: proving(0.1 * i, name, secret) for i, (name, secret) in enumerate(secrets.items(), 1)}
        strategy = average(
            client_names(3),
            RECEIVED,
            make_protection("none"),
            rounds=2,
            central=central,
            randomness=Seeded(4),
            secrets=secrets,
        )
        return run(strategy, apps | {11: first})

    absent = made(None)
    for liar in (
        proving(5.0, "client-2", new_secret()),
        proving(5.0, "client-2", secrets["client-1"]),
        proving(5.0, None, None),
    ):
        there = made(liar)
        assert all(np.array_equal(x, y) for x, y in zip(absent.arrays, there.arrays, strict=True))
        assert {item.why for item in there.refused} == {"node 11 did not prove the name of a client."}
