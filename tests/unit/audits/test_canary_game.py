"""Canaries in a learner: what one run shows of its ε, and the whole audit of a learner."""

import json
import subprocess
import sys

import numpy as np
import pytest
from audited_learners import FEATURES, LABELS, Nearest, NoisySums, NullSums
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from sfumato.audits.canary_game import KINDS, canary_records, one_run_audit
from sfumato.audits.learner_audit import audit_learner
from sfumato.errors import BadInput
from sfumato.noise import Seeded
from sfumato.privacy import format_lower, gaussian_epsilon

X, Y = FEATURES[:400], LABELS[:400]
DELTA = 1e-5
# Four findings a run fail together with a chance of at most 4e-7.
SURE = 1.0 - 1e-7


def strict(**parameters):
    """PrivateSoftmax with few steps and known noise."""
    pytest.importorskip("torch")
    from sfumato.learners import PrivateSoftmax

    return PrivateSoftmax(**{"delta": DELTA, "steps": 8, "randomness": Seeded(5), **parameters})


@pytest.mark.parametrize("kind", KINDS)
def test_canaries_follow_their_rule_and_the_coins(kind):
    made = canary_records(kind, X, Y, 10, 60, length=2.0, rng=np.random.default_rng(0))
    coins = np.random.default_rng(1).integers(0, 2, 60)
    rows, labels = made.dataset(coins, pairs=True)
    assert len(rows) == len(labels) == len(made.features) + 60
    place = len(made.features) + 7
    np.testing.assert_array_equal(rows[place], (made.canaries if coins[7] else made.others)[7])
    fewer, fewer_labels = made.dataset(coins, pairs=False)
    assert len(fewer) == len(fewer_labels) == len(made.features) + coins.sum()
    if kind == "mislabelled":
        assert len(made.features) == 340
        for row, wrong, other in zip(made.canaries, made.canary_labels, made.other_labels, strict=True):
            true = Y[np.flatnonzero((row == X).all(axis=1))]
            assert true.size
            assert wrong not in true
            assert other not in true
            assert wrong != other
        return
    np.testing.assert_allclose(np.linalg.norm(made.canaries, axis=1), 2.0)
    np.testing.assert_array_equal(made.others, -made.canaries)
    np.testing.assert_array_equal(made.other_labels, made.canary_labels)
    if kind == "axes":
        assert made.features.shape == (400, 64 + 60)
        assert not made.features[:, 64:].any()
        np.testing.assert_allclose(made.canaries @ made.canaries.T, 4.0 * np.eye(60))
        assert not (made.canaries @ made.features.T).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", ["add/remove", "replace", "zero-out"])
def test_a_learner_that_keeps_its_records_is_found_out(kind, neighbours):
    found = one_run_audit(Nearest, X, Y, canaries=200, kind=kind, neighbours=neighbours)
    assert found.epsilon_lower > (0.9 if neighbours == "zero-out" else 1.8)
    assert found.findings[0].neighbours == neighbours
    assert found.proven.proves_nothing
    assert found.consistent
    assert not found.surely_more
    assert found.sentence().endswith("nothing is proven.")


def test_a_regression_without_regularisation_is_found_out():
    found = one_run_audit(lambda: LogisticRegression(C=1e4, max_iter=300), X, Y, canaries=200)
    assert found.epsilon_lower > 2.5
    assert found.findings[0].neighbours == "add/remove"
    again = one_run_audit(lambda: LogisticRegression(C=1e4, max_iter=300), X, Y, canaries=200)
    assert again == found


@pytest.mark.parametrize(
    ("learner", "neighbours", "zero_outs"),
    [
        (NoisySums, "add/remove", 1),
        (NoisySums, "replace", 1),
        (NoisySums, "zero-out", 2),
        (NullSums, "zero-out", 1),
    ],
)
def test_every_game_measures_at_most_what_a_gaussian_mechanism_has(learner, neighbours, zero_outs):
    """μ = 2 exactly: each bound exceeds its ε in at most 1% of 20 runs (false-alarm rate 1e-6 a bound)."""
    runs = [
        one_run_audit(
            lambda seed=seed: learner(2.0, neighbours, seed), X[:50], Y[:50], canaries=300, seed=seed
        )
        for seed in range(20)
    ]
    proven = gaussian_epsilon(2.0, DELTA)
    for place, attack in enumerate(
        (
            "one-run audit by answers",
            "one-run audit by answers, Gaussian curve",
            "one-run audit by weights",
            "one-run audit by weights, Gaussian curve",
        )
    ):
        found = [run.findings[place] for run in runs]
        assert {item.attack for item in found} == {attack}
        assert np.sum([item.epsilon_lower > proven for item in found]) <= binom.isf(1e-6, 20, 0.01)
        assert np.median([item.epsilon_lower for item in found]) > 0.5
    assert {run.zero_outs for run in runs} == {zero_outs}
    assert {run.findings[0].neighbours for run in runs} == {neighbours}
    assert ("two zero-outs" in runs[0].findings[0].note) == (zero_outs == 2)


@pytest.mark.parametrize("neighbours", ["add/remove", "zero-out", "replace"])
def test_a_mechanism_that_claims_far_too_little_is_caught_beyond_doubt(neighbours):
    found = one_run_audit(lambda: NoisySums(0.3, neighbours, 1, excess=20.0), X[:50], Y[:50], canaries=500)
    assert found.surely_more
    assert not found.consistent
    assert "the proof, the code or the audit is wrong, beyond a doubt of 1e-06" in found.sentence()


def certified(**parameters):
    """CertifiedCompact with few steps and known noise."""
    pytest.importorskip("torch")
    from sfumato.learners import CertifiedCompact

    return CertifiedCompact(**{"delta": DELTA, "steps": 8, "randomness": Seeded(5), **parameters})


CLASSIFIERS = {"softmax": strict, "contraction": certified}


def audited_strictly(make):
    """False-alarm rate 1e-6: four findings at a confidence of 1 − 1e-7, and a doubt of 5e-7.

    At a δ so small that bounds of this confidence can exist.
    """
    return one_run_audit(make, X, Y, canaries=300, delta=1e-9, confidence=SURE, chance=5e-7)


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_private_classifier_shows_no_more_than_is_proven(kind, epsilon, neighbours):
    """False-alarm rate 1e-6; the next test has the same audit fail."""
    make, given = CLASSIFIERS[kind], {"epsilon": epsilon, "neighbours": neighbours, "randomness": None}
    found = audited_strictly(lambda: make(**given))
    assert found.consistent
    assert not found.surely_more
    assert found.proven.epsilon(DELTA) == pytest.approx(epsilon)
    assert [item.attack.split(" by ")[1] for item in found.findings] == [
        "answers",
        "answers, Gaussian curve",
        "weights",
        "weights, Gaussian curve",
    ]


@pytest.mark.parametrize("neighbours", ["zero-out", "replace"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize(("kind", "noise"), [("softmax", "_multiplier"), ("contraction", "_multipliers")])
def test_a_private_classifier_with_a_hundredth_of_the_noise_is_caught(
    kind, noise, epsilon, neighbours, monkeypatch
):
    """The same audit; what is proven stays what it was."""
    made = type(CLASSIFIERS[kind]())
    whole = getattr(made, noise)
    monkeypatch.setattr(made, noise, lambda self: np.multiply(0.01, whole(self)))
    found = audited_strictly(lambda: CLASSIFIERS[kind](epsilon=epsilon, neighbours=neighbours))
    assert found.proven.epsilon(DELTA) == pytest.approx(epsilon)
    assert found.surely_more
    assert all(item.epsilon_lower > found.proven.epsilon(item.delta) for item in found.findings[2:])


@pytest.mark.parametrize(("neighbours", "least"), [("zero-out", 2.0), ("replace", 3.5)])
def test_little_noise_is_seen_through(neighbours, least):
    found = one_run_audit(
        lambda: strict(epsilon=60.0, neighbours=neighbours), X, Y, canaries=500, delta=DELTA
    )
    assert least < found.epsilon_lower < 60.0
    assert f"shows ε ≥ {format_lower(found.epsilon_lower, 3)}" in found.sentence()
    assert found.sentence().endswith("against a proven ε of 60.")


def test_a_classifier_with_a_fifth_of_the_noise_is_caught():
    """An honest one would be caught in all three runs with a chance of 1e-6: each bound is at 99%."""
    pytest.importorskip("torch")
    from sfumato.learners import PrivateSoftmax

    honest = PrivateSoftmax(1.0, DELTA).guarantee()

    class Boaster(PrivateSoftmax):
        def guarantee(self):
            return honest

    # The ε of a fifth of the noise that ε = 1 takes.
    real = gaussian_epsilon(5.0 * (1.0 / honest.event.noise_multiplier), DELTA)
    for seed in range(3):
        found = one_run_audit(
            lambda seed=seed: Boaster(real, DELTA, steps=8, randomness=Seeded(seed)),
            X[:200],
            Y[:200],
            canaries=1000,
            seed=seed,
        )
        best = found.findings[-1]
        assert best.attack == "one-run audit by weights, Gaussian curve"
        assert best.epsilon_lower > honest.epsilon(DELTA)
        assert not found.consistent
        assert "more than is proven" in found.sentence()


def network(columns):
    """Two layers, so that there are layers to clip, of which the first starts from zeros.

    Random weights along the axis of a canary would hide what is learned of it.
    """
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        last = torch.nn.Linear(16, 10)
    first = torch.nn.Linear(columns, 16)
    torch.nn.init.zeros_(first.weight)
    torch.nn.init.zeros_(first.bias)
    return torch.nn.Sequential(first, torch.nn.Tanh(), last)


def empty(columns):
    """One layer that starts from zeros."""
    torch = pytest.importorskip("torch")
    made = torch.nn.Linear(columns, 10)
    torch.nn.init.zeros_(made.weight)
    torch.nn.init.zeros_(made.bias)
    return made


def private(start, **options):
    """What ``fit_private`` trains, in few steps with known noise."""
    pytest.importorskip("torch")
    from sfumato.learners import PrivateLearner

    return PrivateLearner(
        start, **{"delta": DELTA, "batch": 300, "steps": 20, "randomness": Seeded(9), **options}
    )


def test_a_network_trained_with_little_noise_is_seen_through():
    """Poisson-sampled steps, whose curve is no Gaussian and is known once the records are counted."""
    found = one_run_audit(lambda: private(empty, epsilon=100.0, pace=1.0), X, Y, canaries=300)
    assert [item.attack for item in found.findings] == ["one-run audit by answers"]
    assert found.proven.slack == 0.0  # the guarantee of what was trained, not of what was asked for
    assert found.proven.epsilon(DELTA) == pytest.approx(100.0, rel=0.02)
    assert 0.5 <= found.epsilon_lower < 100.0


def factored(name, *given):
    """Correlated noise by a factor of that ``name``."""
    pytest.importorskip("torch")
    import sfumato.learners

    return {"noise": "correlated", "factor": getattr(sfumato.learners, name)(*given)}


WAYS = {
    "default": dict,
    "automatic clipping": lambda: {"clipping": "automatic"},
    "quantile clipping": lambda: {"clipping": "quantile"},
    "layer clipping": lambda: {"clipping": "layers"},
    "layer quantiles": lambda: {"clipping": "layer-quantiles"},
    "Adam": lambda: {"optimiser": "adam"},
    "unbiased Adam": lambda: {"optimiser": "adam", "unbiased": True},
    "schedule": lambda: {"schedule": "decreasing"},
    "correlated noise": lambda: {"noise": "correlated"},
    "factor": lambda: factored("Factor", np.eye(12) + 0.1 * np.tril(np.ones((12, 12)), -1)),
    "noise with momentum": lambda: factored("Momentum", 0.3),
}


def audited_way(way, randomness):
    """Steps on half of the records at once; at a δ so small that bounds of this confidence can exist."""
    return one_run_audit(
        lambda: private(network, epsilon=0.5, batch=750, steps=12, randomness=randomness, **WAYS[way]()),
        FEATURES[:1200],
        LABELS[:1200],
        canaries=300,
        delta=1e-9,
        confidence=SURE,
        chance=5e-7,
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_training_with_noise_shows_no_more_than_is_proven(way):
    """False-alarm rate 1e-6: two findings at most at a confidence of 1 − 1e-7, and a doubt of 5e-7."""
    found = audited_way(way, None)
    assert found.zero_outs == 2
    assert 0.45 < found.proven.epsilon(DELTA) <= 0.5 * (1.0 + 1e-9)
    assert found.consistent
    assert not found.surely_more


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_training_with_a_hundredth_of_the_noise_is_caught(way, monkeypatch):
    """The same audit; what is proven stays what it was."""
    steps = pytest.importorskip("sfumato.learners.dp_sgd").DPSGD
    correlated = pytest.importorskip("sfumato.learners.correlated_noise").StepsInTurn

    def hushed(whole):
        def noise(plan, clipped):
            noised = whole(plan, clipped)
            return lambda step, total, drawn: total + 0.01 * (noised(step, total, drawn) - total)

        return noise

    variances = steps.variances
    monkeypatch.setattr(steps, "variances", lambda plan: 1e-4 * variances(plan))
    for kind in (steps, correlated):
        monkeypatch.setattr(kind, "noise", hushed(kind.noise))
    found = audited_way(way, Seeded(9))
    assert found.proven.epsilon(DELTA) <= 0.5 * (1.0 + 1e-9)
    assert found.surely_more
    assert not found.consistent


def test_a_network_is_asked_and_stated_once_it_is_trained():
    made = private(empty, epsilon=8.0)
    assert made.guarantee().epsilon(DELTA) == pytest.approx(8.0)
    for question in (lambda: made.predict_proba(X), made.statement):
        with pytest.raises(BadInput, match="nothing has been fitted"):
            question()
    made.fit(X, Y)
    assert made.statement().proven == made.guarantee()
    np.testing.assert_allclose(made.predict_proba(X[:5]).sum(axis=1), 1.0)


def test_null_records_are_counted():
    """A learner that can be told of null records gets as many records whatever the coins say."""
    made = []

    def make(seed):
        made.append(NullSums(1.0, "zero-out", seed))
        return made[-1]

    for seed in range(5):
        one_run_audit(lambda seed=seed: make(seed), X, Y, canaries=20, seed=seed)
    assert [learner.records for learner in made] == [420] * 5


def test_other_neighbours_than_the_guarantees_prove_nothing():
    found = one_run_audit(lambda: NoisySums(5.0, "replace", 0), X, Y, canaries=100, neighbours="add/remove")
    assert found.proven.proves_nothing
    assert len(found.findings) == 2
    assert found.findings[0].neighbours == "add/remove"


def test_the_whole_audit_of_a_learner(quick_classifiers):
    told = []
    found = audit_learner(
        Nearest,
        FEATURES[:300],
        LABELS[:300],
        report=lambda stage, share: told.append(share),
    )
    assert (found.members, found.nonmembers) == (240, 60)
    assert found.accuracy[0] == 1.0
    assert found.accuracy[1] < 1.0
    assert found.privacy_risk == pytest.approx(2.0 * found.strongest.value - 1.0)
    assert all(item.value <= found.strongest.value for item in found.findings if item.measure == "AUC")
    assert [row.label for row in found.classes] == list(range(10))
    assert found.consistent
    # Two conversions, each there or missing for a reason; none of them a bound.
    assert len(found.heuristics) + len(found.notes) == 2
    assert "advantage" in {item.name for item in found.heuristics}
    assert all("heuristic" in item.caution for item in found.heuristics)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["heuristic"][0]["caution"].startswith("heuristic")
    assert document["privacy_risk"] == found.privacy_risk
    bounds = [item.attack for item in found.findings if item.epsilon_lower is not None]
    assert bounds == ["stored records"]
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"canaries": 9}, "`canaries` must be a whole number, 10 or more"),
        ({"kind": "loud"}, "'loud' is no kind of canary: choose among directions, axes, mislabelled"),
        (
            {"kind": "mislabelled", "canaries": 401},
            "401 mislabelled canaries were asked for among 400 records",
        ),
        ({"X": 0.0 * X}, "must be above 0 and finite"),
        ({"delta": 1.0}, "`delta` was 1.0"),
        ({"neighbours": "swap"}, "are not known"),
        ({"X": X[:, 0]}, "features of shape"),
        ({"X": np.where(np.arange(400)[:, None] == 3, np.nan, X)}, "row 4, column 1 of features is not"),
        ({"y": Y[:10]}, "one whole number for each of 400 records"),
        ({"y": np.zeros(400, dtype=int)}, "two classes or more"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, match):
    given = {"X": X, "y": Y, "canaries": 20, **change}
    with pytest.raises(BadInput, match=match):
        one_run_audit(Nearest, given.pop("X"), given.pop("y"), **given)


def test_mislabelled_canaries_need_a_choice_of_wrong_labels():
    with pytest.raises(BadInput, match="need three classes"):
        one_run_audit(Nearest, X, Y % 2, canaries=20, kind="mislabelled")


def test_audits_of_learners_need_no_torch():
    asked = "import sys, sfumato.audits.learner_audit; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_largest_bound_holds_with_the_confidence_that_was_asked_for():
    """Each of the four bounds has a quarter of the error, and the sentence names the confidence of all."""
    found = one_run_audit(lambda: strict(epsilon=1.0), X, Y, canaries=50, confidence=0.96)
    assert [item.confidence for item in found.findings] == pytest.approx([0.99] * 4)
    assert found.to_dict()["confidence"] == 0.96
    assert "confidence 0.96)" in found.sentence()
