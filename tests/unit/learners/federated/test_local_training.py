"""What leaves a client, what the server makes of it, and the rounds of both."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy.special import chdtr, chdtrc

from sfumato.errors import BadInput
from sfumato.learners.federated import (
    LocalTraining,
    OutOfBudget,
    federate,
    make_protection,
    require_flower,
)
from sfumato.learners.federated.central_noise import AveragedTensors, CentralGaussian
from sfumato.learners.federated.local_training import as_layers, check_reply, flat_vector, read_parameters
from sfumato.learners.federated.protections import PROTECTIONS, TensorPaper, randomness_of
from sfumato.learners.federated.rounds import QUIET
from sfumato.noise import Keyed, Secure, Seeded
from sfumato.privacy import DELTA, Guarantee

SHAPES = ((4, 3), (3,), ())
BOUNDS = {"clip": 1.0, "limit": 0.5}


class Fixed:
    """A client that always makes the same update."""

    def __init__(self, step: float | list[np.ndarray]) -> None:
        self.step = step

    def trained(self, arrays, *, round=0):
        if isinstance(self.step, list):
            return self.step
        return [array + np.float32(self.step) for array in arrays]


def zeros() -> list[np.ndarray]:
    return [np.zeros(shape, np.float32) for shape in SHAPES]


def bounded(name: str, **more):
    needs = {} if name in ("none", "tensor-ldp") else BOUNDS
    return make_protection(name, epsilon=2.0, **needs, **more)


def test_parameters_go_to_a_vector_and_back():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    vector = flat_vector(arrays)
    assert vector.dtype == np.float64
    assert vector.shape == (16,)
    for before, after in zip(arrays, as_layers(vector, arrays), strict=True):
        assert after.dtype == np.float32
        assert np.array_equal(before, after)
    assert np.isfinite(flat_vector(as_layers(np.full(16, 1e300), arrays))).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a[:2], "client-2 sent 2 layers"),
        (lambda a: [a[0].T, *a[1:]], "client-2 sent layer 1 with the shape"),
        (lambda a: [a[0], np.full(3, np.nan, np.float32), a[2]], "client-2 sent layer 2 with NaN"),
        (lambda a: [a[0], a[1], np.float32(np.inf)], "client-2 sent layer 3 with NaN"),
        (lambda a: [a[0].astype(np.float64) + 1e300, *a[1:]], "client-2 sent layer 1 with NaN"),
        (lambda a: [a[0].astype(int), *a[1:]], "client-2 sent layer 1 as int64"),
    ],
)
def test_a_reply_that_cannot_be_used_is_refused_in_a_sentence(change, said):
    with pytest.raises(BadInput, match=said):
        check_reply(change(zeros()), zeros(), client="client-2")


@pytest.mark.parametrize("name", PROTECTIONS)
def test_every_protection_has_a_guarantee_per_client_before_any_data(name):
    proven = bounded(name).guarantee(SHAPES)
    assert str(proven.unit) == "client"
    assert str(proven.neighbours) == "replace"
    if name == "none":
        assert proven.proves_nothing
    elif name != "tensor-ldp":
        assert 1.9 < proven.epsilon(DELTA) <= 2.0


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_leaves_follows_the_shapes_and_the_seed_and_changes_nothing_it_was_given(name):
    received, made = zeros(), [array + np.float32(0.1) for array in zeros()]
    kept = [array.copy() for array in made]
    protection = bounded(name)
    first, again = (protection.protect(made, received, randomness_of(Seeded(1), "a", 1)) for _ in range(2))
    other = protection.protect(made, received, randomness_of(Seeded(1), "b", 1))
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert name == "none" or not np.array_equal(flat_vector(first), flat_vector(other))
    assert all(np.array_equal(x, y) for x, y in zip(made, kept, strict=True))
    check_reply(first, received)


@pytest.mark.parametrize("name", [name for name in PROTECTIONS if name != "none"])
def test_a_training_that_diverged_leaves_as_if_nothing_had_been_learned(name):
    """The guarantee covers every client's records, so also those that make NaN of the model."""
    received = zeros()
    diverged = [np.full(shape, np.nan, np.float32) for shape in SHAPES]
    protection = bounded(name)
    sent = protection.protect(diverged, received, randomness_of(Seeded(3), "a", 1))
    same = protection.protect(received, received, randomness_of(Seeded(3), "a", 1))
    assert all(np.array_equal(x, y) for x, y in zip(sent, same, strict=True))


@pytest.mark.parametrize(
    ("name", "needed"), [("gaussian", "clip"), ("piecewise", "limit"), ("laplace", "clip")]
)
def test_a_bound_is_declared_or_nothing_is_made(name, needed):
    with pytest.raises(BadInput, match=f"{name} needs `{needed}`"):
        make_protection(name, epsilon=1.0)


def test_names_and_options_that_do_not_exist_are_refused():
    with pytest.raises(BadInput, match="accepted are gaussian"):
        make_protection("gausian", clip=1.0)
    with pytest.raises(BadInput, match="takes no `levels`"):
        make_protection("gaussian", clip=1.0, levels=3)
    with pytest.raises(BadInput, match="takes no `curvature`"):
        make_protection("tensor-ldp", curvature="own")
    with pytest.raises(BadInput, match="replace neighbours"):
        make_protection("piecewise", limit=1.0, neighbours="zero-out")
    assert make_protection("llagp", clip=1.0).name == "layer-adaptive"
    assert make_protection("dphsgd", epsilon=1.0, clip=1.0, curvature="own").guarantee(SHAPES).proves_nothing


@pytest.mark.parametrize(("neighbours", "across"), [("replace", 2.0), ("zero-out", 1.0)])
def test_gaussian_noise_is_as_strong_as_its_guarantee_says(neighbours, across):
    """Σ(noise/σ)² over 20,000 draws; false alarms at 10⁻⁷ each side. Noise 20% too small is found surely."""
    received = [np.zeros(20_000, np.float32)]
    protection = make_protection("gaussian", epsilon=3.0, clip=0.7, neighbours=neighbours)
    sent = flat_vector(protection.protect(received, received, randomness_of(Seeded(5), "a", 1)))
    proven = protection.guarantee([(20_000,)])
    sigma = across * 0.7 * proven.event.noise_multiplier
    total = float(np.square(sent / sigma).sum())
    assert chdtr(20_000, total) > 1e-7
    assert chdtrc(20_000, total) > 1e-7
    assert chdtr(20_000, 0.64 * total) < 1e-7


@pytest.mark.parametrize("name", ["laplace", "tensor-ldp"])
def test_laplace_noise_is_as_strong_as_its_guarantee_says(name):
    """2Σ|noise|/b is χ² with two degrees a draw; false alarms at 10⁻⁷ each side."""
    received = [np.zeros(20_000, np.float32)]
    options = {"clip": 0.7} if name == "laplace" else {"clip": 1.0, "span": 256.0}
    protection = make_protection(name, epsilon=3.0, **options)
    sent = flat_vector(protection.protect(received, received, randomness_of(Seeded(6), "a", 1)))
    noise = sent if name == "laplace" else sent[sent != 0.0]  # what TLDP keeps is exactly zero
    tensors = name == "tensor-ldp"
    noised = protection.noise_apart(20_000, 2.0) if tensors else protection.guarantee([(20_000,)])
    multiplier = noised.event.noise_multiplier
    # The L1 distance of two updates, or that of two clipped parameters in every one of 20,000 places.
    scale = multiplier * (2.0 * 0.7 if name == "laplace" else 2.0 * 20_000)
    total, degrees = 2.0 * float(np.abs(noise).sum()) / scale, 2 * noise.size
    assert chdtr(degrees, total) > 1e-7
    assert chdtrc(degrees, total) > 1e-7
    assert chdtr(degrees, 0.8 * total) < 1e-7


def test_clipping_holds_in_every_norm():
    received = [np.zeros(50, np.float32)]
    far = [np.linspace(-5.0, 5.0, 50).astype(np.float32)]
    quiet = {"epsilon": 1e6, "clip": 1.0}
    both = flat_vector(make_protection("gaussian", limit=0.05, **quiet).protect(far, received, Seeded(1)))
    assert np.abs(both).max() < 0.06
    assert np.linalg.norm(both) < 1.01
    l1 = flat_vector(make_protection("laplace", **quiet).protect(far, received, Seeded(1)))
    assert 0.98 < np.abs(l1).sum() < 1.01
    l2 = flat_vector(make_protection("gaussian", **quiet).protect(far, received, Seeded(1)))
    assert 0.98 < np.linalg.norm(l2) < 1.02


def test_reports_of_a_box_are_right_on_average():
    """The mean of 4,000 reports bounded by B is off by 6B/√4000 with probability below 10⁻⁷ (Hoeffding)."""
    received, made = [np.zeros(3, np.float32)], [np.array([0.3, -0.2, 0.05], np.float32)]
    for name in ("grid-tensor-ldp", "piecewise"):
        options = {"levels": 5} if name == "grid-tensor-ldp" else {}
        protection = make_protection(name, epsilon=6.0, limit=0.5, **options)
        sent = np.array(
            [flat_vector(protection.protect(made, received, Seeded(seed))) for seed in range(4000)]
        )
        bound = np.abs(sent).max()
        assert np.abs(sent.mean(axis=0) - flat_vector(made)).max() < 6.0 * bound / math.sqrt(4000)


def test_type_three_is_what_the_paper_lists():
    """Parameters clipped to ±1, kept with p = 1/(2b + 1), b = 256/ε; the false-alarm rate is 10⁻⁷."""
    received = [np.zeros(20_000, np.float32)]
    made = [np.full(20_000, 3.0, np.float32)]
    protection = make_protection("tensor-ldp", epsilon=100.0)
    sent = flat_vector(protection.protect(made, received, Seeded(2)))
    kept = int((sent == 1.0).sum())
    p = 1.0 / (2.0 * 256.0 / 100.0 + 1.0)
    spread = math.sqrt(20_000 * p * (1.0 - p))
    assert abs(kept - 20_000 * p) < 5.4 * spread
    proven = protection.guarantee([(20_000,)])
    assert proven.proves_nothing
    assert math.isinf(proven.epsilon(0.5))
    assert protection.claim().epsilon == 100.0


def test_type_three_on_few_parameters_has_the_loss_that_clipped_values_can_have():
    tensor = TensorPaper(epsilon=1.0, span=256.0)
    proven = tensor.guarantee([(2,)])
    # Two components, each at most 2 apart, under Laplace noise of scale 256.
    assert proven.event.noise_multiplier == pytest.approx(256.0 / 4.0, rel=1e-9)
    assert proven.revealed == pytest.approx(1.0 - (512.0 / 513.0) ** 2, rel=1e-9)
    average = AveragedTensors(tensor=tensor).guarantee([(2,)], 4)
    distance = 2.0 / 4.0 + tensor.grid()
    assert average.event.noise_multiplier == pytest.approx(256.0 / (2.0 * distance), rel=1e-9)
    with pytest.raises(BadInput, match="at least twice the clip"):
        TensorPaper(epsilon=1.0, clip=200.0)


def test_no_two_clients_or_rounds_share_noise_and_secure_noise_stays_secure():
    seeds = {randomness_of(Seeded(1), who, number).seed for who in ("a", "b") for number in (1, 2)}
    assert len(seeds) == 4
    assert isinstance(randomness_of(None, "a", 1), Secure)
    assert isinstance(randomness_of(Secure(), "a", 1), Secure)
    keyed = Keyed(bytes(32), dataset="d", version="1", release="r")
    words = {randomness_of(keyed, who, 1).stream(b"x").words(1)[0] for who in ("a", "b")}
    assert len(words) == 2


@pytest.mark.parametrize(("neighbours", "across"), [("replace", 2.0), ("zero-out", 1.0)])
def test_central_noise_is_as_strong_as_its_guarantee_says(neighbours, across):
    """As for local noise: Σ(noise/σ)² over 20,000 draws, 10⁻⁷ each side."""
    central = CentralGaussian(multiplier=1.5, clip=0.4, neighbours=neighbours)
    received = [np.zeros(20_000, np.float32)]
    sent = flat_vector(central.combined({}, received, 5, Seeded(1))) * 5
    total = float(np.square(sent / (1.5 * across * 0.4)).sum())
    assert chdtr(20_000, total) > 1e-7
    assert chdtrc(20_000, total) > 1e-7
    assert chdtr(20_000, 0.64 * total) < 1e-7


def test_no_client_moves_the_central_sum_farther_than_its_clip():
    """The server clips for itself: a reply of any length moves the released sum by C, exactly on the grid."""
    central = CentralGaussian(multiplier=1.0, clip=0.4, limit=0.3)
    received = [np.zeros(100, np.float32)]
    rng = np.random.default_rng(0)
    honest = [rng.normal(size=100).astype(np.float32) * np.float32(0.01)]
    for far in (1.0, 1e6, 1e30):
        loud = [rng.normal(size=100).astype(np.float32) * np.float32(far)]
        without, beside = (
            flat_vector(central.combined(replies, received, 1, Seeded(7)))
            for replies in ({"a": honest}, {"a": honest, "b": loud})
        )
        assert 0.39 < np.linalg.norm(beside - without) < 0.4 + 1e-5


def test_clients_are_sampled_by_coins_of_their_own():
    """Binomial(100 · 200, 0.25), false alarms at 10⁻⁷; the number of one round is not fixed."""
    central = CentralGaussian(multiplier=1.0, clip=1.0, sample=0.25)
    names = [f"c{i}" for i in range(100)]
    counts = [len(central.sampled(names, randomness_of(Seeded(1), "server", -i))) for i in range(200)]
    assert abs(sum(counts) - 5000) < 5.4 * math.sqrt(20_000 * 0.25 * 0.75)
    assert len(set(counts)) > 1
    with pytest.raises(BadInput, match="zero-out"):
        CentralGaussian(multiplier=1.0, clip=1.0, sample=0.25, neighbours="replace")
    with pytest.raises(BadInput, match="`sample` was"):
        CentralGaussian(multiplier=1.0, clip=1.0, sample=0.0)


def test_sampled_rounds_are_accounted_by_dp_accounting():
    import dp_accounting as dpa

    central = CentralGaussian(multiplier=1.2, clip=1.0, sample=0.1)
    ours = central.guarantee(SHAPES, 30).times(20).epsilon(1e-5)
    accountant = dpa.pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1.2)), 20)
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    weaker = CentralGaussian(multiplier=1.2 * 0.8, clip=1.0, sample=0.1)
    assert weaker.guarantee(SHAPES, 30).times(20).epsilon(1e-5) > 1.15 * ours


def test_a_failed_client_counts_as_zero_at_a_public_denominator():
    central = CentralGaussian(multiplier=1e-3, clip=10.0)
    broken = [np.full(shape, np.nan, np.float32) for shape in SHAPES]
    done = federate([Fixed(1.0), Fixed(broken)], zeros(), make_protection("none"), rounds=1, central=central)
    assert flat_vector(done.arrays) == pytest.approx(np.full(16, 0.5), abs=0.1)
    assert [item.client for item in done.refused] == ["client-2"]


@pytest.mark.parametrize("central", [None, CentralGaussian(multiplier=0.5, clip=1.0)])
def test_a_training_that_raises_counts_as_one_that_learned_nothing(central):
    """Whether a round is finished would otherwise depend on a client's records."""

    class Fails:
        def trained(self, arrays, *, round=0):
            raise RuntimeError("record 17 says 4711")

    protection = make_protection("none") if central else make_protection("gaussian", epsilon=5.0, clip=1.0)
    failed, idle = (
        federate([Fixed(1.0), odd], zeros(), protection, rounds=2, central=central, randomness=Seeded(3))
        for odd in (Fails(), Fixed(0.0))
    )
    assert all(np.array_equal(x, y) for x, y in zip(failed.arrays, idle.arrays, strict=True))
    assert failed.rounds == 2
    assert {item.why for item in failed.refused} == {
        "the training of client-2 failed (RuntimeError), and counts as if nothing had been learned."
    }


def test_a_client_that_trains_in_place_moves_nothing_but_its_own_copy():
    """It used to move the server's parameters, and where all later clients began, without clip or noise."""

    class InPlace:
        def trained(self, arrays, *, round=0):
            for array in arrays:
                array += 1000.0
            return arrays

    central = CentralGaussian(multiplier=0.5, clip=1.0)
    given = {"rounds": 1, "central": central, "randomness": Seeded(3)}
    moved, idle = (
        federate([odd, Fixed(0.0)], zeros(), make_protection("none"), **given)
        for odd in (InPlace(), Fixed(0.0))
    )
    apart = np.concatenate([(x - y).ravel() for x, y in zip(moved.arrays, idle.arrays, strict=True)])
    assert 0.0 < np.linalg.norm(apart) * 2 <= 1.0 + 1e-5


@pytest.mark.parametrize("answer", [None, 5, (x for x in "ab"), [[1.0, [2.0]]], [object()]], ids=type)
def test_an_answer_that_is_no_parameters_is_refused_and_ends_no_run(answer):
    class Odd:
        def trained(self, arrays, *, round=0):
            return answer

    given = {"rounds": 1, "central": CentralGaussian(multiplier=0.5, clip=1.0)}
    done = federate([Fixed(1.0), Odd()], zeros(), make_protection("none"), **given)
    assert done.rounds == 1
    assert [item.client for item in done.refused] == ["client-2"]


def test_noise_that_no_sum_could_be_drawn_with_is_refused_before_anybody_pays():
    """Not only once an update has come: that one came would be told."""
    central = CentralGaussian(multiplier=1e-6, clip=1.0)
    with pytest.raises(BadInput, match="too small to protect a record"):
        federate([Fixed(1.0)], zeros(), make_protection("none"), rounds=1, central=central, pay=pytest.fail)


def test_rounds_average_and_send_on():
    done = federate([Fixed(1.0), Fixed(2.0), Fixed(6.0)], zeros(), make_protection("none"), rounds=4)
    assert flat_vector(done.arrays) == pytest.approx(np.full(16, 12.0))
    assert done.rounds == 4
    assert done.stopped is None
    assert not done.refused
    assert done.paid == {"client-1": 4, "client-2": 4, "client-3": 4}


def test_clients_of_another_shape_or_with_nan_are_left_out_by_name():
    other = [np.zeros((2, 2), np.float32)]
    nan = [np.full(shape, np.nan, np.float32) for shape in SHAPES]
    clients = {"north": Fixed(1.0), "south": Fixed(other), "west": Fixed(nan)}
    done = federate(clients, zeros(), make_protection("none"), rounds=2)
    assert flat_vector(done.arrays) == pytest.approx(np.full(16, 2.0))
    assert {(item.round, item.client) for item in done.refused} == {
        (r, c) for r in (1, 2) for c in ("south", "west")
    }


def test_a_first_round_without_a_usable_reply_ends_the_run_and_keeps_the_first_model():
    """It was paid for: an error would tell of records, and leave nothing for the money."""
    other = [np.zeros((2, 2), np.float32)]
    done = federate({"south": Fixed(other)}, zeros(), make_protection("none"), rounds=3)
    assert done.stopped == "stopped in round 1 of 3: no client sent parameters that can be used"
    assert (done.rounds, done.paid, done.out_of_budget) == (0, {"south": 1}, False)
    assert not flat_vector(done.arrays).any()


def test_a_budget_stops_the_run_before_the_round_and_keeps_the_last_model():
    asked: list[int] = []

    def pay(number: int, guarantee: Guarantee) -> None:
        if number == 3:
            raise OutOfBudget("client-2 has nothing left.")
        asked.append(number)

    done = federate([Fixed(1.0), Fixed(1.0)], zeros(), make_protection("none"), rounds=5, pay=pay)
    assert done.rounds == 2
    assert flat_vector(done.arrays) == pytest.approx(np.full(16, 2.0))
    assert done.stopped == "stopped before round 3 of 5: client-2 has nothing left."
    assert (done.paid, done.out_of_budget) == ({"client-1": 2, "client-2": 2}, True)
    assert asked == [1, 2]


def test_rounds_compose_per_client():
    protection = make_protection("gaussian", epsilon=1.0, clip=1.0)
    done = federate([Fixed(0.1)] * 2, zeros(), protection, rounds=4, randomness=Seeded(1))
    one = protection.guarantee(SHAPES)
    # Four Gaussian rounds are one of half the multiplier.
    whole = Guarantee.gaussian(one.event.noise_multiplier / 2.0).epsilon(1e-5)
    assert done.guarantee.times(done.paid["client-1"]).epsilon(1e-5) == pytest.approx(whole, rel=1e-6)


def test_shares_of_layers_follow_the_rounds():
    protection = make_protection("llagp", epsilon=1.0, clip=1.0)
    early, late = (protection.at(share).mechanism(SHAPES).sigmas() for share in (0.0, 0.9))
    assert early[0] > late[0]
    assert early[-1] < late[-1]
    assert protection.at(0.9).guarantee(SHAPES) == protection.guarantee(SHAPES)


def test_local_training_learns_and_repeats_itself():
    torch = pytest.importorskip("torch")
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = (X / 16.0).astype(np.float32)

    def model():
        return torch.nn.Linear(64, 10)

    torch.manual_seed(0)
    initial = read_parameters(model())
    clients = [LocalTraining(model, X[i::3], y[i::3], rate=0.5, batch=32, seed=i) for i in range(3)]
    seen = []
    done = federate(
        clients,
        initial,
        make_protection("none"),
        rounds=3,
        each_round=lambda state: seen.append(state.rounds),
    )
    again = federate(clients, initial, make_protection("none"), rounds=3)
    assert all(np.array_equal(x, y) for x, y in zip(done.arrays, again.arrays, strict=True))
    assert seen == [1, 2, 3]
    weights, bias = done.arrays
    assert ((X @ weights.T + bias).argmax(axis=1) == y).mean() > 0.85


def test_local_training_refuses_what_does_not_fit():
    torch = pytest.importorskip("torch")

    def model():
        return torch.nn.Linear(2, 2)

    with pytest.raises(BadInput, match="3 records and 2 labels"):
        LocalTraining(model, np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(BadInput, match="`epochs` was 0"):
        LocalTraining(model, np.zeros((2, 2)), np.zeros(2), epochs=0)
    with pytest.raises(BadInput, match="were given to a model of"):
        LocalTraining(model, np.zeros((2, 2)), np.zeros(2)).trained([np.zeros(3, np.float32)])
    empty = LocalTraining(model, np.zeros((0, 2)), np.zeros(0))
    start = read_parameters(model())
    assert np.array_equal(flat_vector(empty.trained(start)), flat_vector(start))


def test_a_missing_flower_is_answered_with_the_pip_line(monkeypatch):
    require_flower("`engine='simulation'`")
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(
        BadInput, match=r"`engine='simulation'` needs flwr: pip install 'sfumato\[federated\]'"
    ):
        require_flower("`engine='simulation'`")


def test_neither_flower_nor_ray_report_their_use():
    import os

    assert {name: os.environ.get(name) for name in QUIET} == QUIET
