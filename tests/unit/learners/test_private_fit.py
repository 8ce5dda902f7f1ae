"""One call for private training: what it proves and states, what it learns, and what it refuses."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import chi2, norm
from sklearn.datasets import load_digits

from sfumato.errors import BadInput, Forewarning
from sfumato.learners import DPSGD, Learner, PrivateSoftmax
from sfumato.learners.correlated_noise import CorrelatedSteps, Factor, FactoredSteps, Momentum
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, Quantiles
from sfumato.learners.private_fit import fit_private
from sfumato.noise import Keyed, NoisedSums, Seeded
from sfumato.privacy import DELTA, Guarantee, Neighbours

KEYED = Keyed(b"k" * 32, dataset="digits", version="1", release="1")
WAYS = [
    {"clipping": "flat"},
    {"clipping": "automatic"},
    {"clipping": "quantile"},
    {"clipping": "layers"},
    {"clipping": "layers", "layer_clips": [0.5, 1.0]},
    {"clipping": "layer-quantiles"},
    {"clipping": "layer-quantiles", "layer_clips": [0.5, 1.0], "optimiser": "adam", "pace": 0.03},
    {"optimiser": "adam", "pace": 0.03},
    {"optimiser": "adam", "pace": 0.03, "unbiased": True},
    {"schedule": "decreasing"},
    {"schedule": "increasing", "clipping": "quantile", "optimiser": "adam", "pace": 0.03},
    {"noise": "correlated", "batch": 250},
    {"noise": "correlated", "batch": 250, "clipping": "automatic", "bands": 3},
    {"noise": "correlated", "factor": Momentum(0.3)},
    {"noise": "correlated", "factor": Factor(np.tri(40) - 0.5 * np.tri(40, k=-1))},
    {"noise": "correlated", "batch": 250, "clipping": "layers", "optimiser": "adam", "pace": 0.03},
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return (X / 16.0).astype(np.float32)[order], y[order]


def network(seed=0, outputs=10):
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.Tanh(), torch.nn.Linear(24, outputs))
    for part in model.parameters():
        torch.nn.init.normal_(part, std=0.1, generator=generator)
    return model


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(str(value) for value in way.values()))
def test_every_way_proves_what_was_asked_and_learns(digits, way):
    """All records in each step, or batches in turn: the accounting is in closed form, and quick."""
    X, y = digits
    options = {"epsilon": 6.0, "delta": 1e-5, "batch": 1400, "steps": 40, "randomness": Seeded(0), **way}
    fitted = fit_private(network(), X[:1400], y[:1400], **options)
    assert 5.9 < fitted.guarantee.epsilon(1e-5) <= 6.0
    assert (str(fitted.guarantee.unit), fitted.guarantee.neighbours) == ("record", Neighbours.ZERO_OUT)
    assert fitted.statement.proven == fitted.guarantee
    probabilities = fitted.predict_proba(X[1400:])
    assert probabilities.shape == (397, 10)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(fitted.predict(X[1400:]), probabilities.argmax(axis=1))
    assert np.mean(fitted.predict(X[1400:]) == y[1400:]) > 0.75


def test_samples_are_accounted_for_and_stated_completely(digits):
    X, y = digits
    fitted = fit_private(
        network(), X[:600], y[:600], epsilon=4.0, batch=100, steps=30, schedule=[2.0] * 10 + [1.0] * 20
    )
    stated = fitted.statement.parameters
    assert (stated["records"], stated["steps"], stated["batch"], stated["clip"]) == (600, 30, 100, 1.0)
    multipliers = tuple(z for z, count in stated["multipliers"] for _ in range(count))
    again = DPSGD(1.0, stated["rate"], 30, factors=multipliers).guarantee(stated["delta"])
    assert again == fitted.guarantee
    assert again.epsilon() <= 4.0
    assert stated["model"][-1] == "1810 weights"
    assert not any("reproducible" in note for note in fitted.statement.notes)
    assert any("records is public" in note for note in fitted.statement.notes)


def test_correlated_noise_is_stated_completely(digits):
    X, y = digits
    fitted = fit_private(network(), X[:300], y[:300], epsilon=9.0, noise="correlated", batch=50, steps=12)
    stated = fitted.statement.parameters
    plan = CorrelatedSteps(stated["multiplier"], stated["steps"], stated["period"], stated["bands"])
    assert (stated["period"], stated["bands"], plan.sensitivity) == (6, 6, stated["sensitivity"])
    assert plan.guarantee(DELTA) == fitted.guarantee


@pytest.mark.parametrize("factor", [Momentum(0.4), Factor(np.eye(12) + 0.5 * np.eye(12, k=-1))])
def test_a_factor_is_stated_and_proven(digits, factor):
    X, y = digits
    given = {"epsilon": 9.0, "noise": "correlated", "batch": 100, "steps": 12}
    fitted = fit_private(network(), X[:600], y[:600], factor=factor, **given)
    stated = fitted.statement.parameters
    plan = FactoredSteps(stated["multiplier"], stated["steps"], stated["period"], factor)
    assert (stated["period"], stated["sensitivity"]) == (6, plan.sensitivity)
    assert stated["factor"] == factor.described()
    assert plan.guarantee(DELTA) == fitted.guarantee
    assert "bands" not in stated


def test_defaults_follow_from_the_number_of_records_alone(digits):
    X, y = digits
    fitted = fit_private(torch.nn.Linear(64, 10), X[:1000], y[:1000], epsilon=1.0)
    stated = fitted.statement.parameters
    assert (stated["epsilon"], stated["delta"], stated["batch"], stated["steps"]) == (1.0, DELTA, 1000, 60)
    assert fitted.guarantee.epsilon() <= 1.0


def test_a_convolutional_network(digits):
    X, y = digits
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, stride=2),
        torch.nn.GroupNorm(2, 8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(72, 10),
    )
    pictures = X.reshape(-1, 1, 8, 8)
    fitted = fit_private(
        model, pictures[:1400], y[:1400], epsilon=8.0, batch=1400, steps=40, randomness=Seeded(1)
    )
    assert np.mean(fitted.predict(pictures[1400:]) == y[1400:]) > 0.6
    assert fitted.statement.parameters["model"][0].startswith("Conv2d")


def test_the_given_model_stays_as_it_was_and_runs_repeat_with_a_seed(digits):
    X, y = digits
    model = network()
    before = [part.detach().clone() for part in model.parameters()]
    options = {"epsilon": 9.0, "batch": 200, "steps": 3}
    runs = [
        fit_private(model, X[:200], y[:200], randomness=randomness, **options)
        for randomness in (Seeded(3), Seeded(3), Seeded(4), None)
    ]
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    weights = [run.model[0].weight for run in runs]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert not torch.equal(weights[2], weights[3])
    assert "reproducible run: not for release" in runs[0].statement.notes
    assert "reproducible run: not for release" not in runs[3].statement.notes


@pytest.mark.parametrize(
    ("clipping", "bound"),
    [("flat", 0.5), ("automatic", 1.0), ("quantile", 0.5), ("layers", 0.5), ("layer-quantiles", 0.5)],
)
def test_a_null_record_moves_one_step_by_the_bound(clipping, bound):
    """Same noise with and without; a record of zeros adds nothing to a layer without bias."""
    rows = np.random.default_rng(0).normal(size=(20, 30))
    null = rows.copy()
    null[7] = 0.0
    model = torch.nn.Linear(30, 3, bias=False)
    options = {"epsilon": 50.0, "steps": 1, "pace": 1.0, "clip": 0.5, "randomness": Seeded(1)}
    weights = [
        fit_private(model, records, np.arange(20) % 3, clipping=clipping, **options).model.weight.double()
        for records in (rows, null)
    ]
    moved = float((weights[0] - weights[1]).norm()) * 20
    assert 0.98 * bound < moved < bound * (1.0 + 1e-5)


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ({"clipping": "flat"}, 0.5),
        ({"clipping": "automatic"}, 1.0),
        ({"clipping": "layers", "layer_clips": [0.3]}, 0.3),
        ({"noise": "correlated"}, 0.5),
    ],
)
def test_noise_in_the_weights_is_what_was_proven(options, bound):
    """Null records alone: the sum of squares of 6000 weights is χ²; false-alarm rate 1e-6."""
    model = torch.nn.Linear(2000, 3, bias=False)
    given = {"epsilon": 9.0, "delta": 1e-5, "steps": 1, "pace": 1.0, "clip": 0.5, "classes": 3, **options}
    fitted = fit_private(model, np.zeros((200, 2000)), np.arange(200) % 3, **given)
    drawn = (fitted.model.weight.double() - model.weight.double()) * 200 / bound
    # Of a Gaussian the multiplier is where its ε meets that of the guarantee.
    multiplier = next(
        z for z in np.arange(0.3, 1.0, 1e-4) if Guarantee.gaussian(float(z)).epsilon(1e-5) <= 9.0
    )
    squares = float(drawn.detach().square().sum()) / multiplier**2
    assert 0.998 * chi2.ppf(5e-7, 6000) < squares < 1.002 * chi2.isf(5e-7, 6000)


def test_quantile_clipping_draws_its_noise_and_moves_its_clip():
    """Three steps on null records, put together again from the parts and their streams."""
    model = torch.nn.Linear(30, 3, bias=False)
    fitted = fit_private(
        model,
        np.zeros((50, 30)),
        np.arange(50) % 3,
        epsilon=40.0,
        steps=3,
        pace=1.0,
        momentum=0.0,
        clip=2.0,
        clipping="quantile",
        quantile=0.2,
        share=0.4,
        schedule=[1.0, 2.0, 3.0],
        randomness=Seeded(7),
    )
    multipliers = tuple(stage[0] for stage in fitted.statement.parameters["multipliers"])
    assert multipliers[1] / multipliers[0] == pytest.approx(2.0)
    clipped = ClippedSum(2.0, quantiles=Quantiles(50.0, 0.2, 0.4))
    noise = DPSGD(1.0, 1.0, 3, factors=multipliers).noise(clipped)
    sums, weights, clips = NoisedSums(Seeded(7)), model.weight.detach().double(), []
    for step in range(3):
        (total,), clip = clipped.exact([torch.zeros(50, 3, 30)]), clipped.clip
        drawn = sums(partial(noise, step, total.numpy().ravel()))
        weights = weights - torch.from_numpy(drawn).reshape(3, 30) * (clip / RADIUS / 50.0)
        clips.append(clip)
    assert clips[0] > clips[1] > clips[2]  # all lengths lie below the clip, and a fifth should
    assert torch.allclose(fitted.model.weight.double(), weights, atol=1e-6)


def test_layer_quantiles_cost_what_gradients_and_all_counts_cost_together(digits):
    """ε of the noise that is stated, by another way: one Gaussian of the lengths of all that moves."""
    X, y = digits
    given = {"epsilon": 5.0, "steps": 7, "share": 0.3, "schedule": [1.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0]}
    fitted = fit_private(network(), X[:500], y[:500], clipping="layer-quantiles", **given)
    stated = fitted.statement.parameters
    assert (stated["clipping"], stated["quantile"], stated["share"]) == ("layer-quantiles", 0.5, 0.3)
    square, layers = 0.0, 2
    for z, count in stated["multipliers"]:
        gradients, counts = z / math.sqrt(1.0 - 0.3), z * math.sqrt(layers / 0.3) / 2.0
        # A record moves gradients by a clip, and every count, each bit less a half, by a half.
        square += count * (gradients**-2 + layers * (0.5 / counts) ** 2)
    mu = math.sqrt(square)

    def beyond(epsilon):
        first, second = norm.logcdf(mu / 2 - epsilon / mu), norm.logcdf(-mu / 2 - epsilon / mu)
        return math.exp(first) - math.exp(epsilon + second) - DELTA

    assert fitted.guarantee.epsilon() == pytest.approx(brentq(beyond, 0.1, 50.0), rel=1e-6)


def test_frozen_parameters_stay_and_are_not_counted(digits):
    X, y = digits
    model = network()
    model[0].requires_grad_(False)
    fitted = fit_private(model, X[:200], y[:200], epsilon=9.0, batch=200, steps=3)
    assert torch.equal(fitted.model[0].weight, model[0].weight)
    assert not torch.equal(fitted.model[2].weight, model[2].weight)
    assert fitted.statement.parameters["model"][-1] == "250 weights"


def test_progress_is_reported(digits):
    X, y = digits
    seen = []
    fit_private(
        network(), X[:200], y[:200], epsilon=9.0, batch=200, steps=4, report=lambda *told: seen.append(told)
    )
    assert seen == [("noisy steps", share) for share in (0.25, 0.5, 0.75, 1.0)]


@pytest.mark.parametrize("asked", [{}, {"epsilon": 0.5}, {"delta": 1e-7}, {"epsilon": 0.5, "delta": 1e-7}])
def test_a_learner_keeps_its_own_promise(digits, asked):
    X, y = digits
    learner = PrivateSoftmax(epsilon=0.5, delta=1e-7, steps=10)
    fitted = fit_private(learner, X[:500], y[:500], randomness=Seeded(0), **asked)
    assert 0.49 < fitted.guarantee.epsilon(1e-7) <= 0.5
    assert (fitted.statement.parameters["epsilon"], fitted.statement.parameters["delta"]) == (0.5, 1e-7)
    assert fitted.statement.proven == fitted.guarantee
    assert fitted.predict_proba(X[500:]).shape == (1297, 10)
    assert not hasattr(learner, "coef_")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"epsilon": 1.0}, r"made with epsilon 0\.1, and the call asks for 1:"),
        ({"delta": 1e-5}, r"made with delta 1e-07, and the call asks for 1e-05:"),
        ({"epsilon": 0.1, "delta": 1e-6}, r"made with delta 1e-07, and the call asks for 1e-06:"),
    ],
)
def test_two_promises_for_one_run_are_refused(digits, asked, sentence):
    with pytest.raises(BadInput, match=sentence):
        fit_private(PrivateSoftmax(epsilon=0.1, delta=1e-7), *digits, **asked)


def test_learners_without_a_guarantee_or_with_a_worse_one_are_refused(digits):
    X, y = digits
    with pytest.raises(BadInput, match=r"nothing is proven of a Unproven \(it is a test\)"):
        fit_private(Unproven(), X, y)
    with pytest.raises(BadInput, match="proves no better than epsilon 3"):
        fit_private(Fixed(), X, y, epsilon=2.0)
    assert fit_private(Fixed(), X, y).guarantee.epsilon() == 3.0
    with pytest.raises(BadInput, match="belong to torch modules"):
        fit_private(PrivateSoftmax(epsilon=1.0), X, y, clipping="automatic")
    with pytest.raises(BadInput, match="scores 10 classes, and 3"):
        fit_private(PrivateSoftmax(epsilon=1.0), X, y, classes=3)


def test_a_delta_of_one_over_n_is_warned_of_in_words(digits):
    X, y = digits
    options = {"epsilon": 9.0, "steps": 2}
    for make in (lambda delta: network(), lambda delta: PrivateSoftmax(9.0, delta)):
        given = options if isinstance(make(0.01), torch.nn.Module) else {"epsilon": 9.0}
        with pytest.warns(UserWarning, match="δ = 0.01 is not below 1/n for n = 100 records") as told:
            fitted = fit_private(make(0.01), X[:100], y[:100], delta=0.01, **given)
        assert len(told) == 1
        assert sum("not below 1/n" in note for note in fitted.statement.notes) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            fitted = fit_private(make(0.0099), X[:100], y[:100], delta=0.0099, **given)
        assert not any("1/n" in note for note in fitted.statement.notes)


@pytest.mark.parametrize("noise", ["independent", "correlated"])
def test_noise_beyond_any_signal_is_said_before_training(digits, noise):
    X, y = digits
    told = []
    with pytest.raises(BadInput, match="so small that noise exceeds any signal"):
        fit_private(
            network(),
            X[:50],
            y[:50],
            epsilon=0.01,
            delta=1e-5,
            steps=5,
            noise=noise,
            report=lambda *x: told.append(x),
        )
    assert not told


def test_the_length_of_noise_is_what_the_refusal_says(digits):
    """60 steps of multiplier z on all 100 records: noise z√60·√1810 against 6000 clips."""
    X, y = digits
    plan = DPSGD.calibrated(0.05, DELTA, rate=1.0, steps=60)
    expected = plan.multiplier * math.sqrt(60.0 * 1810.0) / 6000.0
    with pytest.raises(BadInput) as refused:
        fit_private(network(), X[:100], y[:100], epsilon=0.05)
    assert float(str(refused.value).split("about ")[1].split()[0]) == pytest.approx(expected, rel=0.01)


class Mixing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 10)

    def forward(self, rows):
        return self.inner(rows - rows.mean(dim=0))


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 10)

    def forward(self, rows):
        return self.inner(rows), rows


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.BatchNorm1d(10)), "layer 1 is a BatchNorm1d"),
        (
            torch.nn.Sequential(
                torch.nn.Unflatten(1, (4, 16)),
                torch.nn.InstanceNorm1d(4, track_running_stats=True),
                torch.nn.Flatten(),
                torch.nn.Linear(64, 10),
            ),
            "track_running_stats=False",
        ),
        (Mixing(), "depends on the other records"),
        (Pair(), "gives a tuple"),
        (torch.nn.Linear(63, 10), r"does not take records of shape \(64,\)"),
        (torch.nn.Linear(64, 1), r"output of shape \(4, 1\) for 4 records"),
        (torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.Flatten(0)), r"output of shape \(40,\)"),
        (torch.nn.Linear(64, 7), "scores 7 classes, and 10 were declared"),
        (torch.nn.Linear(64, 10).double(), "not float32"),
        (torch.nn.Linear(64, 10).requires_grad_(False), "no trainable parameters"),
        (torch.nn.Flatten(), "no trainable parameters"),
        ("a model", "is a str"),
    ],
)
def test_models_that_cannot_be_trained_are_refused(digits, model, sentence):
    X, y = digits
    with pytest.raises(BadInput, match=sentence):
        fit_private(model, X[:200], y[:200], epsilon=1.0, classes=10)


def test_weights_that_are_no_numbers_are_refused(digits):
    X, y = digits
    model = network()
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
    with pytest.raises(BadInput, match="not finite: initialise"):
        fit_private(model, X, y, epsilon=1.0)


@pytest.mark.parametrize("value", [1.7976931348623157e308, -9e307, 1e39, 3e38, 5e-324])
def test_no_finite_record_stops_a_fit_or_spoils_it(digits, value):
    X, y = digits[0][:200].astype(np.float64), digits[1][:200]
    X[3] = value
    X[7, ::2] = -value
    network = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Forewarning)
        made = fit_private(network, X, y, epsilon=8.0, steps=5)
    assert all(torch.isfinite(part).all() for part in made.model.parameters())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda X, y: (np.where(np.arange(64) == 3, math.nan, X), y), "features of record 0"),
        (lambda X, y: (math.inf * (X.astype(np.float64) + 1.0), y), "not all finite"),
        (lambda X, y: (X[:, 0], y), "numbers"),
        (lambda X, y: (X[:0], y[:0]), "features of shape"),
        (lambda X, y: (X.astype(str), y), "numbers"),
        (lambda X, y: (X, y[:-1]), "one whole number for each of 200"),
        (lambda X, y: (X, y + 0.5), "whole number"),
        (lambda X, y: (X, y + 1), "is not one of 0 to 9"),
        (lambda X, y: (X, y - 1), "is not one of 0 to 9"),
    ],
)
def test_bad_records_and_labels_are_refused(digits, change, sentence):
    X, y = change(digits[0][:200], digits[1][:200])
    with pytest.raises(BadInput, match=sentence):
        fit_private(network(), X, y, epsilon=1.0)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"optimiser": "rmsprop"}, "optimiser"),
        ({"clipping": "none"}, "clipping"),
        ({"noise": "pink"}, "noise"),
        ({"schedule": "rising"}, "schedule"),
        ({"schedule": [1.0, 2.0]}, "schedule"),
        ({"batch": 0}, "batch"),
        ({"steps": 1.5}, "steps"),
        ({"pace": -1.0}, "pace"),
        ({"momentum": 1.0}, "momentum"),
        ({"unbiased": "yes"}, "unbiased"),
        ({"clip": 0.0}, "clip"),
        ({"clipping": "automatic", "gamma": 0.0}, "gamma"),
        ({"clipping": "quantile", "quantile": 2.0}, "quantile"),
        ({"clipping": "quantile", "share": 1.0}, "share"),
        ({"clipping": "layers", "layer_clips": [1.0]}, "each of 2 layers"),
        ({"layer_clips": [1.0, 1.0]}, "clipping='layers'"),
        ({"bands": 3}, "noise='correlated'"),
        ({"noise": "correlated", "bands": 100}, "bands"),
        ({"noise": "correlated", "clipping": "quantile"}, "same clipping norms in all steps"),
        ({"noise": "correlated", "clipping": "layer-quantiles"}, "same clipping norms in all steps"),
        ({"noise": "correlated", "factor": Momentum(0.5), "bands": 3}, "`bands` were given with a factor"),
        ({"noise": "correlated", "factor": Factor(np.eye(3))}, "the factor has 3 rows"),
        ({"noise": "correlated", "factor": "root"}, "`factor` was 'root'"),
        ({"factor": Momentum(0.5)}, "noise='correlated'"),
        ({"noise": "correlated", "schedule": "decreasing"}, "schedule"),
        ({"randomness": KEYED}, "randomness"),
    ],
)
def test_options_that_cannot_be_used_are_refused(digits, options, word):
    with pytest.raises(BadInput, match=word):
        fit_private(network(), digits[0][:200], digits[1][:200], **{"epsilon": 8.0, "steps": 5, **options})


class Unproven(Learner):
    def __init__(self, classes=10, randomness=None):
        self.classes, self.randomness = classes, randomness

    def fit(self, X, y, *, report=None):
        return self

    def predict_proba(self, X):
        return np.full((len(X), self.classes), 1.0 / self.classes)

    def guarantee(self):
        return Guarantee.nothing("it is a test")

    def tensors(self):
        return {}

    def _take(self, tensors):
        pass


class Fixed(Unproven):
    def guarantee(self):
        return Guarantee.pure(3.0)
