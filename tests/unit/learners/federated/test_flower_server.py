"""Who is in a central sum: whatever one client does moves the sum by its own clip, and no farther."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("flwr")

from flower_rounds import average
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from sfumato.learners.federated import federate, make_protection
from sfumato.learners.federated.central_noise import CentralGaussian
from sfumato.learners.federated.flower_client import (
    ARRAYS,
    CLIENT,
    METRICS,
    NAME,
    PrivacyMod,
    make_client_app,
    new_secret,
)
from sfumato.learners.federated.flower_server import exchange
from sfumato.learners.federated.local_training import flat_vector
from sfumato.learners.federated.rounds import client_names
from sfumato.noise import Seeded

NAMES = client_names(20)
SECRETS = {name: new_secret() for name in NAMES}
NODES = {100 + number: name for number, name in enumerate(NAMES)}
ODD = min(NODES)  # the node of client-01
RECEIVED = [np.zeros((2, 3), np.float32), np.ones(3, np.float32)]
CLIP = 0.5
CENTRAL = CentralGaussian(multiplier=1.0, clip=CLIP)
NOTHING = make_protection("none")
# The others answer after LATER seconds, and have TIMEOUT.
LATER, TIMEOUT = 0.3, 1.5


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    """Who sends: Flower fills it in when it starts a server, and takes it from here."""
    for field in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, field, 1)


class Adds:
    """The clip, and more, in one direction."""

    def __init__(self, step=1.0):
        self.step = step

    def trained(self, arrays, *, round=0):
        return [array + np.float32(self.step) for array in arrays]


def context(node=0):
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


def app_of(name, step=1.0):
    mod = PrivacyMod(NOTHING, name=name, secret=SECRETS[name])
    return make_client_app(lambda _: Adds(step), lambda _: mod)


def right(message):
    """What the odd client would answer if it were not odd."""
    return app_of(NODES[ODD])(message, context())


@Grid.register
class TimedGrid:
    """Twenty nodes behind a SuperLink: node by node a delay, an answer, and how long it takes to read it.

    ``odd`` is the answer of the first node. It takes ``reading`` seconds to pull, or raises ``unreadable``.
    """

    def __init__(self, odd, *, delay=0.0, others=0.0, reading=0.0, unreadable=None):
        self.odd, self.reading, self.unreadable = odd, reading, unreadable
        self.delays = {node: delay if node == ODD else others for node in NODES}
        self.apps = {node: app_of(name) for node, name in NODES.items()}
        self.sent = {}

    def get_node_ids(self):
        return list(NODES)

    def push_messages(self, messages):
        now = time.monotonic()
        identifiers = []
        for message in messages:
            identifiers.append(f"{len(self.sent)}")
            message.metadata.__dict__["_message_id"] = identifiers[-1]
            self.sent[identifiers[-1]] = now + self.delays[message.metadata.dst_node_id], message
        return identifiers

    def pull_messages(self, identifiers):
        found = []
        for one in list(identifiers):
            ready, message = self.sent.get(one, (np.inf, None))
            if ready > time.monotonic():
                continue
            del self.sent[one]
            if message.metadata.dst_node_id != ODD:
                found.append(self.apps[message.metadata.dst_node_id](message, context()))
                continue
            time.sleep(self.reading)
            if self.unreadable is not None:
                raise self.unreadable
            found.append(self.odd(message))
        return found


def run(grid, *, timeout=20.0, rounds=1):
    strategy = average(
        NAMES,
        RECEIVED,
        NOTHING,
        rounds=rounds,
        central=CENTRAL,
        randomness=Seeded(9),
        timeout=timeout,
        secrets=SECRETS,
    )
    return strategy(grid)


def in_one_process(odd, rounds=1):
    """The same run with ``odd`` in the place of the first client, drawn with the same noise."""
    clients = {name: Adds() for name in NAMES} | {NAMES[0]: odd}
    return federate(clients, RECEIVED, NOTHING, rounds=rounds, central=CENTRAL, randomness=Seeded(9))


WITHOUT = in_one_process(Adds(0.0))


def clips_moved(made):
    """By how many clips the sum before the noise, which is the same, lies from the one without the client."""
    return float(np.linalg.norm(flat_vector(made.arrays) - flat_vector(WITHOUT.arrays))) * len(NAMES) / CLIP


def answered(message, arrays, *, metrics=None, proof=True):
    """A reply with these ``arrays``, whatever they are."""
    reply = right(message)
    content = {METRICS: MetricRecord(metrics or {"num-examples": 1}), **arrays}
    if proof:
        content[CLIENT] = reply.content[CLIENT]
    return Message(RecordDict(content), reply_to=message)


def filled(value, kind=np.float32):
    return ArrayRecord([np.full(array.shape, value, kind) for array in RECEIVED])


def forged(message):
    """Another node's number as the sender: what a reply says of itself was written by its sender."""
    reply = right(message)
    reply.metadata.__dict__["_src_node_id"] = ODD + 1
    return reply


def named(message, name):
    arrays = {ARRAYS: filled(-5.0), CLIENT: ConfigRecord({NAME: name, "sfumato-proof": "0" * 64})}
    return answered(message, arrays, proof=False)


JUNK = Array("float32", (2, 3), "numpy.ndarray", b"junk")
FOREIGN = Array("float32", (2, 3), "pickle", b"junk")
ANSWERS = {
    "an update": right,
    "huge": lambda message: answered(message, {ARRAYS: filled(3e38)}),
    "huge in double precision": lambda message: answered(message, {ARRAYS: filled(1e300, np.float64)}),
    "NaN": lambda message: answered(message, {ARRAYS: filled(np.nan)}),
    "whole numbers": lambda message: answered(message, {ARRAYS: filled(3, np.int64)}),
    "other shapes": lambda message: answered(message, {ARRAYS: ArrayRecord([np.ones(2, np.float32)])}),
    "bytes that are no array": lambda message: answered(message, {ARRAYS: ArrayRecord({"a": JUNK})}),
    "bytes of another kind": lambda message: answered(message, {ARRAYS: ArrayRecord({"a": FOREIGN})}),
    "too many bytes": lambda message: answered(message, {ARRAYS: ArrayRecord([np.ones(10**5)])}),
    "no arrays": lambda message: answered(message, {}),
    "two records of arrays": lambda message: answered(message, {ARRAYS: filled(1.0), "b": filled(1.0)}),
    "odd metrics": lambda message: answered(
        message, {ARRAYS: filled(1.0)}, metrics={"num-examples": -(10**9), "loss": float("nan")}
    ),
    "an error": lambda message: Message(Error(2, "ValueError: record 17"), reply_to=message),
    "an error without a reason": lambda message: Message(Error(2, ""), reply_to=message),
    "out of budget": lambda message: Message(Error(2, "out of budget: nothing is left."), reply_to=message),
    "no proof": lambda message: answered(message, {ARRAYS: filled(-5.0)}, proof=False),
    "the name of another client": lambda message: named(message, NAMES[1]),
    "the name of nobody": lambda message: named(message, "server"),
    "the number of another node": forged,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_answer_moves_the_sum_by_more_than_one_clip(answer):
    made = run(TimedGrid(answer))
    assert (made.rounds, made.stopped) == (1, None)
    assert clips_moved(made) <= 1.0 + 1e-5
    # Everybody has paid, whether it was used or not.
    assert made.paid == dict.fromkeys(NAMES, 1)


def test_an_update_does_move_the_sum():
    assert clips_moved(run(TimedGrid(right))) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    "timing",
    [
        {"delay": 0.0},
        {"delay": LATER / 2, "reading": 2 * TIMEOUT},
        {"delay": np.inf},
        {"unreadable": ValueError("this is no message")},
    ],
    ids=["at once", "long to read", "never", "cannot be read"],
)
def test_neither_when_a_client_answers_nor_how_moves_the_sum_by_more_than_one_clip(timing):
    """The others answer later than a client that answers at once, and in time."""
    begun = time.monotonic()
    made = run(TimedGrid(right, others=LATER, **timing), timeout=TIMEOUT)
    assert time.monotonic() - begun < TIMEOUT + 5.0
    assert clips_moved(made) <= 1.0 + 1e-5
    assert len(made.refused) <= 1


def test_a_client_that_missed_a_round_is_asked_again():
    """Late in the first round and in time for the second, it counts in the second."""

    class OnceLate(TimedGrid):
        def push_messages(self, messages):
            identifiers = super().push_messages(messages)
            self.delays[ODD] = 0.0
            return identifiers

    grid = OnceLate(right, delay=np.inf)
    made = run(grid, timeout=0.5, rounds=2)
    assert [(item.round, item.client) for item in made.refused] == [(1, f"node {ODD}")]

    class Misses(Adds):
        def trained(self, arrays, *, round=0):
            return arrays if round == 1 else super().trained(arrays)

    expected = in_one_process(Misses(), rounds=2)
    assert all(np.array_equal(x, y) for x, y in zip(made.arrays, expected.arrays, strict=True))


def test_a_round_without_answers_releases_noise_alone():
    grid = TimedGrid(ANSWERS["an error"])
    grid.apps = dict.fromkeys(NODES, lambda message, _: ANSWERS["an error"](message))
    made = run(grid, rounds=2)
    assert (made.rounds, made.stopped, len(made.refused)) == (2, None, 40)
    noise = flat_vector(made.arrays) - flat_vector(RECEIVED)
    assert 0.0 < np.linalg.norm(noise) < 10.0 * CENTRAL.sigma()


def test_without_a_deadline_replies_are_the_grids_own():
    class Own:
        def send_and_receive(self, messages):
            return list(messages)

    assert exchange(Own(), ["a"], None) == ["a"]
    assert exchange(TimedGrid(right), [], 3.0) == []
