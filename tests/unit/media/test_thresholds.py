"""Thresholds: what is proven by enumeration, how close they come on real scores, and what is refused."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.media.detect.thresholds import (
    Decisions,
    _exponents,
    exponential_threshold,
    functional_threshold,
    projected_gradient_threshold,
    threshold_cost,
)
from sfumato.noise import Keyed, Seeded
from sfumato.privacy import RECORD, Neighbours


def plain_cost(scores, labels, threshold, false_alarm, miss):
    pairs = zip(scores, labels, strict=True)
    return sum(
        (false_alarm if label == 0 and score >= threshold else 0.0)
        + (miss if label == 1 and score < threshold else 0.0)
        for score, label in pairs
    ) / len(scores)


def breast_cancer_scores():
    """Held-out scores of a logistic regression on three columns of scikit-learn's breast-cancer data."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, labels = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return cross_val_predict(model, features[:, :3], labels, method="predict_proba")[:, 1], labels


@pytest.fixture(scope="module")
def real():
    return breast_cancer_scores()


def test_the_cost_counts_every_wrong_decision():
    rng = np.random.default_rng(0)
    scores, labels = np.round(rng.uniform(-0.2, 1.2, 60), 1), rng.integers(0, 2, 60)
    for threshold in np.linspace(0.0, 1.0, 21):
        assert threshold_cost(scores, labels, threshold, costs=(2.0, 0.5)) == pytest.approx(
            plain_cost(np.clip(scores, 0.0, 1.0), labels, threshold, 2.0, 0.5)
        )


def test_a_declared_share_of_positives_gives_the_rates_of_the_paper():
    scores, labels = np.array([0.1, 0.4, 0.8, 0.3, 0.9]), np.array([0, 0, 0, 1, 1])
    false_positive_rate, false_negative_rate = 1 / 3, 1 / 2
    assert threshold_cost(scores, labels, 0.5, costs=(3.0, 4.0), positives=0.4) == pytest.approx(
        3.0 * false_positive_rate + 4.0 * false_negative_rate
    )


@pytest.mark.parametrize("costs", [(1.0, 1.0), (5.0, 1.0), (0.3, 2.0)])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(costs):
    """All pairs of two-record data sets on a small domain, with their laws: at most ε, and near it."""
    epsilon, values = 1.5, [0.0, 0.2, 0.5, 1.0]
    grid = np.array([0.0, 0.1, 0.3, 0.6, 0.61, 0.62, 0.63, 0.64, 0.65, 0.66, 0.67, 0.68, 0.69, 0.7, 1.0])
    records = list(itertools.product(values, (0, 1)))

    def log_law(data):
        problem = Decisions.read([s for s, _ in data], [y for _, y in data], costs, None, (0.0, 1.0))
        exponents = np.array([float(x) for x in _exponents(problem, grid, epsilon)])
        return -exponents - np.logaddexp.reduce(-exponents)

    laws, worst = {data: log_law(data) for data in itertools.product(records, repeat=2)}, 0.0
    for (one, other), replaced in itertools.product(laws, records):
        loss = np.abs(laws[one, other] - laws[one, replaced]).max()
        assert loss <= epsilon * (1.0 + 1e-12)
        worst = max(worst, float(loss))
    assert worst > 0.8 * epsilon


def test_the_exponents_are_exact_numbers():
    """0.1 + 0.2 costs what it costs, not what it rounds to."""
    problem = Decisions.read([0.2, 0.9, 0.4], [0, 0, 1], (0.1, 0.2), None, (0.0, 1.0))
    rate = Fraction(1) / (Fraction(0.1) + Fraction(0.2))
    assert _exponents(problem, np.array([0.0, 0.5]), 1.0) == [
        rate * 2 * Fraction(0.1),
        rate * (Fraction(0.1) + Fraction(0.2)),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_the_surrogate_costs_at_most_twice_the_least(seed):
    """The minimiser of the hinge surrogate, found by looking everywhere, or the threshold just above it."""
    rng = np.random.default_rng(seed)
    scores, labels = np.round(rng.uniform(size=25), 2), rng.integers(0, 2, 25)
    false_alarm, miss = rng.uniform(0.2, 3.0, 2)
    bends = np.unique(np.concatenate([scores, [0.0, 1.0]]))
    hinge = [
        sum(
            false_alarm * max(s - t, 0) if y == 0 else miss * max(t - s, 0)
            for s, y in zip(scores, labels, strict=True)
        )
        for t in bends
    ]
    found = bends[int(np.argmin(hinge))]
    tried = [plain_cost(scores, labels, t, false_alarm, miss) for t in (found, np.nextafter(found, 2.0))]
    every = np.concatenate([bends, np.nextafter(bends, 2.0)])
    least = min(plain_cost(scores, labels, t, false_alarm, miss) for t in every)
    assert min(tried) <= 2.0 * least + 1e-12


@pytest.mark.parametrize("costs", [(1.0, 1.0), (5.0, 1.0), (1.0, 5.0)])
def test_real_scores_get_a_good_threshold(real, costs):
    """Seeded, so no chance is involved: means of 20 runs at ε = 1 against the best threshold there is.

    The exponential mechanism comes within 15% of the least cost; the walk within twice of it, which is what
    its surrogate promises.
    """
    scores, labels = real
    best = min(threshold_cost(scores, labels, t, costs=costs) for t in np.linspace(0.0, 1.0, 501))
    drawn, walked = [], []
    for seed in range(20):
        settings = {"epsilon": 1.0, "costs": costs, "randomness": Seeded(seed)}
        for found, choose, more in (
            (drawn, exponential_threshold, {}),
            (walked, projected_gradient_threshold, {"delta": 1e-6}),
        ):
            value = choose(scores, labels, **settings, **more).value
            found.append(threshold_cost(scores, labels, value, costs=costs))
    assert best <= np.mean(drawn) <= 1.15 * best
    assert best <= np.mean(walked) <= 2.0 * best


def test_more_budget_costs_less(real):
    """Seeded: means of 20 runs fall towards the least cost as ε grows."""
    scores, labels = real
    best = min(threshold_cost(scores, labels, t, costs=(5.0, 1.0)) for t in np.linspace(0.0, 1.0, 101))
    for choose, more in ((exponential_threshold, {}), (projected_gradient_threshold, {"delta": 1e-6})):
        means = []
        for epsilon in (0.05, 0.5, 5.0):
            values = [
                choose(scores, labels, epsilon=epsilon, costs=(5.0, 1.0), randomness=Seeded(i), **more).value
                for i in range(20)
            ]
            means.append(np.mean([threshold_cost(scores, labels, t, costs=(5.0, 1.0)) for t in values]))
        assert means[0] > means[1] > means[2] >= best


def test_the_walk_converges_to_the_minimiser_of_its_surrogate():
    """With next to no noise: negatives at 0.3, positives at 0.7, the balance anywhere between them."""
    scores = np.concatenate([np.full(500, 0.3), np.full(500, 0.7)])
    labels = np.repeat([0, 1], 500)
    value = projected_gradient_threshold(scores, labels, epsilon=50.0, delta=1e-3, steps=400).value
    assert 0.3 < value <= 0.7
    wide = projected_gradient_threshold(
        scores * 100.0 - 50.0, labels, epsilon=50.0, delta=1e-3, steps=400, bounds=(-50.0, 50.0)
    ).value
    assert -20.0 < wide <= 20.0


def test_statements_say_what_is_proven():
    scores, labels = np.linspace(0.0, 1.0, 20), np.arange(20) >= 8
    drawn = exponential_threshold(scores, labels, epsilon=0.7, thresholds=[0.2, 0.5, 0.9])
    assert drawn.value in (0.2, 0.5, 0.9)
    proven = drawn.statement.proven
    assert (proven.unit, proven.neighbours) == (RECORD, Neighbours.REPLACE)
    assert proven.epsilon(0.0) == pytest.approx(0.7, rel=1e-8)
    assert proven.epsilon(0.0) >= 0.7
    assert drawn.statement.parameters["thresholds"] == [0.2, 0.5, 0.9]
    walked = projected_gradient_threshold(scores, labels, epsilon=0.7, delta=1e-6, steps=9)
    proven = walked.statement.proven
    assert (proven.unit, proven.neighbours, proven.at_delta) == (RECORD, Neighbours.REPLACE, 1e-6)
    assert 0.7 * (1.0 - 1e-9) <= proven.epsilon() <= 0.7
    assert 0.0 <= walked.value <= 1.0
    assert not drawn.statement.notes
    seeded = exponential_threshold(scores, labels, epsilon=0.7, randomness=Seeded(1))
    assert seeded.statement.notes == ("reproducible run: not for release",)
    assert seeded.value == exponential_threshold(scores, labels, epsilon=0.7, randomness=Seeded(1)).value


def test_the_functional_mechanism_shows_a_private_score():
    """Whatever the noise, the released threshold is the score of a record, to the last digit."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.beta(2, 5, 40), rng.beta(5, 2, 40)])
    labels, shown = np.repeat([0, 1], 40), 0
    for _ in range(50):
        release = functional_threshold(scores, labels, epsilon=1.0)
        below = np.nextafter(release.value, -np.inf)
        shown += bool(np.isin(release.value, scores) or np.isin(below, scores))
    assert shown == 50
    assert release.statement.proven.proves_nothing
    assert "score of a record" in release.statement.proven.theorem
    assert release.statement.claimed.epsilon == 1.0
    assert "section 3.3.1" in release.statement.claimed.source


def test_data_of_one_record_or_of_one_class_is_no_trouble():
    for labels in ([1], [0]):
        for value in (
            exponential_threshold([0.5], labels, epsilon=1.0).value,
            projected_gradient_threshold([0.5], labels, epsilon=1.0, delta=1e-6).value,
            functional_threshold([0.5], labels, epsilon=1.0).value,
        ):
            assert 0.0 <= value <= 1.0


def test_progress_is_reported():
    seen = []
    projected_gradient_threshold(
        [0.2, 0.8],
        [0, 1],
        epsilon=1.0,
        delta=1e-6,
        steps=4,
        report=lambda stage, done: seen.append((stage, done)),
    )
    assert seen == [("walking", 0.25), ("walking", 0.5), ("walking", 0.75), ("walking", 1.0)]


GOOD = {"scores": [0.2, 0.8], "labels": [0, 1], "epsilon": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [0.2, math.nan]}, "`scores` must be one column of finite numbers"),
        ({"scores": []}, "`scores` must be one column"),
        ({"scores": [[0.1], [0.2]]}, "`scores` must be one column"),
        ({"scores": ["a", "b"]}, "`scores` must be one column"),
        ({"labels": [0, 2]}, "`labels` must be 2 numbers, each 0 or 1"),
        ({"labels": [0, 1, 1]}, "`labels` must be 2 numbers"),
        ({"labels": ["no", "yes"]}, "`labels` must be 2 numbers"),
        ({"epsilon": 0.0}, "`epsilon` must be a positive number"),
        ({"costs": (1.0, -1.0)}, "`c_fn` must be a positive number"),
        ({"costs": 3.0}, "`costs` must be two finite numbers"),
        ({"bounds": (1.0, 0.0)}, "`bounds` must be a range"),
        ({"positives": 1.0}, "`positives` must be a share"),
        ({"positives": 1.5}, "`positives` must lie between 0 and 1"),
        (
            {"randomness": Keyed(b"k" * 32, dataset="d", version="1", release="r")},
            "keyed noise belongs to the content of one unit",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, message):
    arguments = GOOD | change
    scores, labels = arguments.pop("scores"), arguments.pop("labels")
    for choose, more in (
        (exponential_threshold, {}),
        (projected_gradient_threshold, {"delta": 1e-6}),
        (functional_threshold, {}),
    ):
        with pytest.raises(BadInput, match=message):
            choose(scores, labels, **arguments, **more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"thresholds": 1}, "2 to 100000 thresholds"),
        ({"thresholds": [0.5, 0.2]}, "`thresholds` must rise"),
        ({"thresholds": [0.5, 1.2]}, "inside the bounds"),
        ({"thresholds": []}, "a number of them or a list"),
        ({"thresholds": "many"}, "a number of them or a list"),
    ],
)
def test_grids_that_make_no_sense_are_refused(more, message):
    with pytest.raises(BadInput, match=message):
        exponential_threshold([0.2, 0.8], [0, 1], epsilon=1.0, **more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"delta": 0.0}, "`delta` must lie strictly between 0 and 1"),
        ({"steps": 0}, "`steps` must be a whole number"),
        ({"steps": 2.5}, "`steps` must be a whole number"),
        ({"rate": -1.0}, "`rate` must be a positive number"),
    ],
)
def test_walks_that_make_no_sense_are_refused(more, message):
    with pytest.raises(BadInput, match=message):
        projected_gradient_threshold([0.2, 0.8], [0, 1], **({"epsilon": 1.0, "delta": 1e-6} | more))


def test_the_noise_of_the_walk_is_what_the_accounting_says():
    """μ of all steps, read back from the multiplier with many digits, gives δ at ε and no more."""
    from sfumato.media.detect.thresholds import _multiplier

    epsilon, delta, steps = 1.3, 1e-5, 17
    with mpmath.workdps(40):
        mu = mpmath.sqrt(steps) / mpmath.mpf(_multiplier(epsilon, delta, steps))
        found = mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(
            -epsilon / mu - mu / 2
        )
        assert delta * (1 - 1e-6) <= found <= delta
