"""Secure sums over Flower's messages: by hand, message for message, and in one real simulation."""

from importlib.util import find_spec

import numpy as np
import pytest

import sfumato.learners.federated.flower_client  # noqa: F401  (before Flower and Ray)

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from sfumato.errors import BadInput
from sfumato.learners.federated import make_protection
from sfumato.learners.federated.flower_client import PrivacyMod
from sfumato.learners.federated.protections import randomness_of
from sfumato.learners.federated.secure import MaskedInput, Quantiser, SecureSum
from sfumato.learners.federated.secure.noise_share import NoiseShare
from sfumato.learners.federated.secure.secure_flower import (
    RECORD,
    SecureFedAvg,
    SecureRound,
    SecureSumMod,
    stage_record,
    terms_values,
)
from sfumato.noise import Seeded
from sfumato.release import keep_ray_private

MODEL = {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.ones(2, dtype=np.float32)}


@pytest.fixture(autouse=True)
def inside_a_task(monkeypatch):
    """Flower makes messages only where it knows which run they belong to."""
    for one in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, one, 1)


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(one)) for name, one in arrays.items()})


def trained(name):
    """What node ``name`` answers: the model, moved by its number in steps that float32 and the grid hold."""
    return {key: one + np.float32(name / 8) for key, one in MODEL.items()}


def make_app(*mods, answer=trained, **options):
    app = ClientApp(mods=[SecureSumMod(**options), *mods])

    @app.train()
    def train(message, context):
        assert RECORD not in message.content
        np.testing.assert_array_equal(message.content["arrays"]["bias"].numpy(), MODEL["bias"])
        arrays = answer(context.node_id)
        if arrays is None:
            raise RuntimeError("this client is gone")
        metrics = MetricRecord({"num-examples": 10, "loss": 0.25})
        return Message(RecordDict({"arrays": record(arrays), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        pytest.fail("it was asked to evaluate")

    return app


class LoopbackGrid:
    """Carries real Flower messages to ClientApps in this process; keeps what the server was shown.

    ``gone`` maps a stage to the nodes that do not answer in it. What an app raises is kept in ``raised``:
    Flower sends the text of it to the server.
    """

    def __init__(self, apps, gone=None):
        self.apps, self.gone, self.seen, self.raised = apps, gone or {}, [], []
        self.contexts = {
            name: Context(run_id=1, node_id=name, node_config={}, state=RecordDict(), run_config={})
            for name in apps
        }

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, *, timeout=None):
        replies = []
        for message in messages:
            name = message.metadata.dst_node_id
            told = message.content.config_records.get(RECORD)
            if told is not None and name in self.gone.get(told["stage"], ()):
                continue
            message.metadata.__dict__["_message_id"] = f"to {name}"
            try:
                reply = self.apps[name](message, self.contexts[name])
            except (BadInput, RuntimeError) as error:
                self.raised.append(str(error))
                continue
            self.seen.append((None if told is None else told["stage"], reply))
            replies.append(reply)
        return replies


def one_round(grid, **options):
    strategy = SecureFedAvg(**options)
    messages = strategy.configure_train(1, record(MODEL), ConfigRecord(), grid)
    return strategy, *strategy.aggregate_train(1, grid.send_and_receive(messages))


def assert_mean(arrays, names):
    for key, one in MODEL.items():
        mean = one + np.mean([name / 8 for name in names])
        np.testing.assert_array_equal(arrays[key].numpy(), mean.astype(np.float32))
        assert arrays[key].numpy().dtype == np.float32


@pytest.mark.parametrize(
    ("gone", "arrived"),
    [
        ({}, (1, 2, 3, 4)),
        ({"keys": [4]}, (1, 2, 3)),
        ({"shares": [1]}, (2, 3, 4)),
        ({"input": [2]}, (1, 3, 4)),
        ({"unmasking": [3]}, (1, 2, 3, 4)),
    ],
)
def test_a_round_gives_the_exact_mean_whoever_leaves(gone, arrived):
    grid = LoopbackGrid(dict.fromkeys(range(1, 5), make_app()), gone)
    strategy, arrays, metrics = one_round(grid)
    assert_mean(arrays, arrived)
    assert metrics["clients-in-the-sum"] == len(arrived)
    assert strategy.failed == 0


def test_the_server_is_shown_nothing_but_masked_vectors_and_shares():
    """The chance that one of 32 masked numbers equals the plain one is 32·2⁻⁶⁴."""
    grid = LoopbackGrid(dict.fromkeys(range(1, 5), make_app()))
    one_round(grid)
    inputs = [reply for stage, reply in grid.seen if stage == "input"]
    assert len(inputs) == 4
    for _, reply in grid.seen:
        assert list(reply.content) == [RECORD]
        assert list(reply.content[RECORD]) == ["message"]
    for reply in inputs:
        seen = MaskedInput.from_bytes(reply.content[RECORD]["message"])
        plain = np.concatenate([one.ravel() for one in trained(seen.sender).values()])
        assert not np.any(seen.vector == Quantiser().integers(plain).astype(np.uint64))
    # Nothing is left on the clients, whose secrets would unmask what was sent.
    assert all(RECORD not in context.state for context in grid.contexts.values())


def test_two_rounds_of_one_grid_use_other_masks():
    grid = LoopbackGrid(dict.fromkeys(range(1, 4), make_app()))
    for _ in range(2):
        one_round(grid)
    sent = [reply.content[RECORD]["message"] for stage, reply in grid.seen if stage == "input"]
    vectors = [MaskedInput.from_bytes(one).vector for one in sent]
    assert len(np.unique(np.concatenate(vectors))) == 6 * 8


def test_noise_comes_before_masks():
    """A mod inside changes the answer, as a privacy mod does; what is summed is what it let out."""

    def noisy_mod(message, context, call_next):
        received = message.content["arrays"]["bias"].numpy()
        reply = call_next(message, context)
        key, arrays = next(iter(reply.content.array_records.items()))
        reply.content[key] = record({name: one.numpy() + 0.5 * received[0] for name, one in arrays.items()})
        return reply

    grid = LoopbackGrid(dict.fromkeys(range(1, 4), make_app(noisy_mod)))
    _, arrays, _ = one_round(grid)
    for key, one in MODEL.items():
        np.testing.assert_array_equal(arrays[key].numpy(), one + np.float32(0.75))


def test_it_goes_together_with_the_privacy_mod():
    """The noise of local protections, in float32, through a secure sum: the mean of what they let out."""
    protection = make_protection("gaussian", epsilon=5.0, clip=1.0)
    apps = {
        name: make_app(PrivacyMod(protection, name=f"client {name}", randomness=Seeded(name)))
        for name in range(1, 4)
    }
    grid = LoopbackGrid(apps)
    _, arrays, _ = one_round(grid)
    for _, reply in grid.seen:
        assert list(reply.content) == [RECORD]
    received = list(MODEL.values())
    sent = [
        protection.protect(
            list(trained(name).values()), received, randomness_of(Seeded(name), f"client {name}", 1)
        )
        for name in range(1, 4)
    ]
    for layer, key in enumerate(MODEL):
        mean = np.mean([one[layer].astype(np.float64) for one in sent], axis=0)
        np.testing.assert_allclose(arrays[key].numpy(), mean, rtol=1e-6, atol=2.0**-29)


def test_with_shares_of_noise_only_a_noised_mean_update_leaves():
    """Eight means of four clients, each within seven deviations: false-alarm rate 8·2.6e-12."""
    paid = []
    noise = NoiseShare(clip=0.5, sigma=1.0, honest=2)
    apps = dict.fromkeys(
        range(1, 5), make_app(noise=noise, pay=lambda number, one: paid.append((number, one.epsilon(1e-6))))
    )
    _, arrays, _ = one_round(LoopbackGrid(apps), rule=noise)
    assert paid == [(1, noise.guarantee().epsilon(1e-6))] * 4
    # Each update is the same number everywhere, of L2 norm above the clip.
    update = 0.5 / np.sqrt(8)
    # Four shares of 1/√2 each, two more than were counted on.
    reach = 7 * np.sqrt(4 / 2) / 4
    for key, one in MODEL.items():
        moved = arrays[key].numpy().astype(np.float64) - one
        assert np.all(np.abs(moved - update) < reach)
        assert np.all(moved != update)


def test_what_an_app_says_when_it_fails_stays_with_the_client(caplog):
    """Nor does what a ledger says that cannot be asked."""

    def fail(name):
        raise RuntimeError("record 17 says 4711")

    def unpaid(number, guarantee):
        raise RuntimeError("ledger of ward 17")

    for rule, bad in (
        (None, {"answer": fail}),
        (NoiseShare(clip=0.5, sigma=1.0, honest=2), {"pay": unpaid}),
    ):
        same = {} if rule is None else {"noise": rule}
        apps = dict.fromkeys(range(1, 4), make_app(**same)) | {4: make_app(**same, **bad)}
        grid = LoopbackGrid(apps)
        _, _, metrics = one_round(grid, **({} if rule is None else {"rule": rule}))
        assert metrics["clients-in-the-sum"] == 3
        assert len(grid.raised) == 1
        assert "17" not in grid.raised[0]
    assert "4711" in caplog.text
    assert "ledger of ward 17" in caplog.text


def test_with_noise_a_failed_training_is_not_told():
    noise = NoiseShare(clip=0.5, sigma=1.0, honest=2)
    bad = [
        lambda name: None,
        lambda name: {"weight": MODEL["weight"]},
        lambda name: {**MODEL, "bias": np.full(2, np.nan, dtype=np.float32)},
    ]
    apps = {name: make_app(noise=noise, answer=one) for name, one in enumerate([trained, *bad])}
    _, _, metrics = one_round(LoopbackGrid(apps), rule=noise)
    assert metrics["clients-in-the-sum"] == 4


def test_a_client_whose_budget_is_spent_trains_nothing():
    noise, asked_to_train = NoiseShare(clip=0.5, sigma=1.0, honest=2), []

    def refuse(number, guarantee):
        raise BadInput("the budget is spent.")

    def answer(name):
        asked_to_train.append(name)
        return trained(name)

    apps = dict.fromkeys(range(1, 4), make_app(noise=noise, answer=answer))
    apps[4] = make_app(noise=noise, answer=answer, pay=refuse)
    _, _, metrics = one_round(LoopbackGrid(apps), rule=noise)
    assert metrics["clients-in-the-sum"] == 3
    assert sorted(asked_to_train) == [1, 2, 3]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (None, NoiseShare(clip=0.5, sigma=1.0, honest=2)),
        (NoiseShare(clip=0.5, sigma=1.0, honest=2), None),
        (NoiseShare(clip=0.5, sigma=0.9, honest=2), NoiseShare(clip=0.5, sigma=1.0, honest=2)),
    ],
)
def test_a_client_keeps_to_its_own_noise(theirs, ours):
    app = make_app(noise=ours)
    terms = SecureSum(clients=4, length=8)
    proposed = question("keys", **terms_values(terms, theirs or Quantiser()))
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(BadInput, match="the server proposed a sum with other noise, or without the noise"):
        app(proposed, context)
    with pytest.raises(BadInput, match="without shares of noise promises nothing that could be paid for"):
        SecureSumMod(pay=lambda number, guarantee: None)


@pytest.mark.parametrize("stage", ["keys", "shares", "input", "unmasking"])
def test_a_round_with_too_few_clients_leaves_the_model_as_it_was(stage):
    grid = LoopbackGrid(dict.fromkeys(range(1, 5), make_app()), {stage: [1, 2]})
    strategy, arrays, metrics = one_round(grid)
    assert arrays is None
    assert metrics is None
    assert strategy.failed == 1


@pytest.mark.parametrize(
    "answer",
    [
        lambda name: None,
        lambda name: {"weight": MODEL["weight"]},
        lambda name: {**MODEL, "bias": np.ones(3, dtype=np.float32)},
        lambda name: {**MODEL, "bias": np.full(2, np.nan, dtype=np.float32)},
    ],
    ids=["fails", "an array less", "another shape", "NaN"],
)
def test_a_client_with_a_bad_answer_has_dropped_out(answer):
    apps = {1: make_app(), 2: make_app(), 3: make_app(), 4: make_app(answer=answer)}
    _, arrays, _ = one_round(LoopbackGrid(apps))
    assert_mean(arrays, (1, 2, 3))


def question(stage, name=1, kind="train", **values):
    message = Message(
        RecordDict({RECORD: stage_record(stage, **values)}), dst_node_id=name, message_type=kind
    )
    message.metadata.__dict__["_message_id"] = "1"
    return message


def test_a_mod_refuses_what_would_show_an_update():
    app = make_app()
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    plain = Message(RecordDict({"arrays": record(MODEL)}), dst_node_id=1, message_type="train")
    with pytest.raises(
        BadInput, match="without the record of a secure sum: an answer would have shown a plain update"
    ):
        app(plain, context)
    with pytest.raises(BadInput, match="client 1 was asked to go on with a secure sum that it has not begun"):
        app(question("input", message=b""), context)
    with pytest.raises(
        BadInput, match="asked for 'all': a secure sum has the stages keys, shares, input, unmasking"
    ):
        app(question("all"), context)
    with pytest.raises(BadInput, match="the terms of a secure sum came without 'clients'"):
        app(question("keys"), context)
    terms = {"clients": 3, "length": 8, "threshold": 2, "bits": 64, "session": bytes(16)}
    with pytest.raises(BadInput, match="a threshold of 1 for 3 clients"):
        app(question("keys", clip=1.0, step=0.5, **{**terms, "threshold": 1}), context)
    with pytest.raises(BadInput, match="do not fit into sums of 16 bits"):
        app(question("keys", clip=2.0**14, step=1.0, **{**terms, "bits": 16}), context)
    shy = ClientApp(mods=[SecureSumMod(least=3)])
    shy.train()(lambda message, context: message)
    with pytest.raises(BadInput, match="takes part in sums of at least 3 clients, and one of 2 was proposed"):
        shy(question("keys", clip=1.0, step=0.5, **terms), context)
    with pytest.raises(BadInput, match="`least` was 1: a sum is of at least 2 clients"):
        SecureSumMod(least=1)


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.probe"])
def test_what_would_leave_without_a_mask_is_not_answered(kind):
    """Metrics on parameters of the server's choice tell a client's numbers exactly."""
    app = make_app()
    app.query()(lambda message, context: pytest.fail("it was asked"))
    app.evaluate("probe")(lambda message, context: pytest.fail("it was asked"))
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    message = Message(RecordDict({"arrays": record(MODEL)}), dst_node_id=1, message_type=kind)
    with pytest.raises(BadInput, match="are not answered: nothing in a reply would be masked"):
        app(message, context)


def test_no_client_is_asked_to_evaluate():
    grid = LoopbackGrid(dict.fromkeys(range(1, 5), make_app()))
    strategy, arrays, _ = one_round(grid)
    assert list(strategy.configure_evaluate(1, arrays, ConfigRecord(), grid)) == []
    with pytest.raises(
        BadInput, match=r"`fraction_evaluate` was 0\.5: clients of a secure sum are not asked"
    ):
        SecureFedAvg(fraction_evaluate=0.5)


def test_a_node_cannot_speak_for_another():
    grid = LoopbackGrid(dict.fromkeys(range(1, 4), make_app()))
    grid.contexts[3].node_id = 2
    _, arrays, metrics = one_round(grid)
    assert metrics["clients-in-the-sum"] == 2
    assert_mean(arrays, (1, 2))


def test_a_round_checks_that_sums_fit():
    grid = LoopbackGrid({})
    with pytest.raises(BadInput, match="do not fit into sums of 32 bits"):
        SecureRound(grid, SecureSum(clients=3, length=8, bits=32), Quantiser())


def test_a_real_simulation_with_a_client_that_fails_in_every_round():
    """Flower's own simulation, two rounds of four nodes; one fails while it trains, the others count."""
    # Ray is told how to be private before it is imported; later it would not mind.
    if find_spec("ray") is None:
        pytest.skip("Ray is missing")
    keep_ray_private()
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    app = ClientApp(mods=[SecureSumMod()])

    @app.train()
    def train(message, context):
        partition = int(context.node_config["partition-id"])
        if partition == 3:
            raise RuntimeError("this client is gone")
        arrays = {
            name: one.numpy() + np.float32(2.0**partition) for name, one in message.content["arrays"].items()
        }
        return Message(RecordDict({"arrays": record(arrays)}), reply_to=message)

    server, results = ServerApp(), []

    @server.main()
    def main(grid, context):
        strategy = SecureFedAvg(min_train_nodes=4, min_available_nodes=4)
        results.append(strategy.start(grid, record(MODEL), num_rounds=2, timeout=60))
        results.append(strategy.failed)

    run_simulation(
        server_app=server,
        client_app=app,
        num_supernodes=4,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False},
        },
    )
    result, failed = results
    assert failed == 0
    assert [one["clients-in-the-sum"] for one in result.train_metrics_clientapp.values()] == [3, 3]
    for name, one in MODEL.items():
        # Two rounds, each of which adds the mean of 1, 2 and 4 and rounds to float32.
        np.testing.assert_allclose(result.arrays[name].numpy(), one + 14.0 / 3.0, rtol=1e-6)
