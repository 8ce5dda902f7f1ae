"""RMIA: against its definition by all pairs, on models, and what it refuses."""

from functools import cache

import numpy as np
import pytest
from model_targets import CERTAIN, records
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sfumato.audits.predictions import Predictions
from sfumato.audits.roc import auc
from sfumato.audits.shadow_models import rmia, rmia_scores, train_shadows
from sfumato.errors import BadInput


def draws(seed=0, n=40, k=30, models=5):
    rng = np.random.default_rng(seed)
    return rng.random(n), rng.random((models, n)), rng.random(k), rng.random((models, k)), rng


def offline(answers):
    return 0.5 * (1.3 * answers.mean(axis=0) + 0.7)


def test_the_offline_score_is_the_share_of_the_population_that_is_dominated():
    target, references, population, others, _ = draws()
    scores = rmia_scores(target, references, population, others)
    p_x, p_z = offline(references), offline(others)
    ratio = (target / p_x)[:, None] / (population / p_z)[None, :]
    assert scores == pytest.approx(np.mean(ratio >= 2.0, axis=1))
    assert 0 < scores.mean() < 1


def halfway(references, inside):
    columns = zip(references.T, inside.T, strict=True)
    return np.array([(values[mask].mean() + values[~mask].mean()) / 2 for values, mask in columns])


@pytest.mark.parametrize("known", [True, False])
def test_the_online_average_is_the_mean_of_models_with_and_without_the_record(known):
    """Of the population too, where it is known which models were trained on it."""
    target, references, population, others, rng = draws()
    mask = np.array([True, True, False, False, False])[:, None]
    inside, z_inside = (rng.permuted(mask * np.ones((1, count), bool), axis=0) for count in (40, 30))
    scores = rmia_scores(
        target,
        references,
        population,
        others,
        inside=inside,
        population_inside=z_inside if known else None,
    )
    p_z = halfway(others, z_inside) if known else offline(others)
    ratio = (target / halfway(references, inside))[:, None] / (population / p_z)[None, :]
    assert scores == pytest.approx(np.mean(ratio >= 2.0, axis=1))


def test_the_score_rises_with_the_target_and_falls_with_the_references():
    _, references, population, others, _ = draws()
    base = np.full(40, 0.5)
    scores = [rmia_scores(base * f, references, population, others).mean() for f in (0.5, 1.0, 2.0)]
    assert scores[0] < scores[1] < scores[2]
    harder = rmia_scores(base, references * 0.2, population, others).mean()
    assert harder > scores[1]


def test_a_ratio_of_exactly_gamma_counts():
    both = {"inside": [[True, True], [False, False]], "population_inside": [[True], [False]]}
    half = [[0.5, 0.5], [0.5, 0.5]]
    assert rmia_scores([0.5, 0.49], half, [0.25], [[0.5], [0.5]], **both).tolist() == [1.0, 0.0]


def test_probabilities_of_zero_are_no_trouble():
    """A label only the target believes in is suspicious, one that nobody believes in is not."""
    mask = np.array([[True, True], [False, False]])
    scores = rmia_scores(
        [0.9, 0.0], np.zeros((2, 2)), [0.5, 0.6], [[0.5, 0.6]] * 2, inside=mask, population_inside=mask
    )
    assert scores.tolist() == [1.0, 0.0]


def forest(seed):
    return RandomForestClassifier(15, min_samples_leaf=3, random_state=seed)


def regression(seed):
    return LogisticRegression(C=10.0, max_iter=300)


def trained(factory, X, y, count):
    """Shadow models that can be asked about other records, and which records each was trained on."""
    made = []

    def kept(seed):
        made.append(factory(seed))
        return made[-1]

    return made, train_shadows(kept, X, y, count).inside


@cache
def game(factory):
    """A target on half of 400 records; reference models on these (online) and on others (offline); 400 z."""
    X, y = records(1600)
    members = np.random.default_rng(1).permutation(400) < 200
    model = factory(0).fit(X[:400][members], y[:400][members])
    online = trained(factory, X[:400], y[:400], 8)
    offline = trained(factory, X[1200:], y[1200:], 4)
    asked = Predictions(model.predict_proba(X), y).true_probability
    return asked, members, online, offline, X, y


def stacked(models, X, y):
    return np.stack([Predictions(model.predict_proba(X), y).true_probability for model in models])


@pytest.mark.parametrize("online", [True, False])
def test_a_forest_that_remembers_is_found_out(online):
    """Better than chance at 1 − 1e-6, and better than the plain probability."""
    asked, members, with_and_without, without, X, y = game(forest)
    shadows, inside = with_and_without if online else without
    found = rmia(
        asked[:400],
        members,
        stacked(shadows, X[:400], y[:400]),
        asked[400:800],
        stacked(shadows, X[400:800], y[400:800]),
        inside=inside if online else None,
        confidence=CERTAIN,
    )
    assert found.value > (0.82 if online else 0.77)
    assert found.beats_chance
    assert found.value > auc(asked[:400][members], asked[:400][~members])
    assert found.attack == ("RMIA online" if online else "RMIA offline")
    assert "400 other records" in found.threat


@pytest.mark.parametrize("factory", [forest, regression])
def test_nothing_is_found_where_the_target_saw_no_record(factory):
    """False-alarm rate 1e-6."""
    asked, _, _, (shadows, _), X, y = game(factory)
    coins = np.random.default_rng(0).random(400) < 0.5
    low, high = rmia(
        asked[800:1200],
        coins,
        stacked(shadows, X[800:1200], y[800:1200]),
        asked[400:800],
        stacked(shadows, X[400:800], y[400:800]),
        confidence=CERTAIN,
    ).interval
    assert low <= 0.5 <= high


X2, R2, Z2, RZ2 = [0.5, 0.9], [[0.5, 0.5]], [0.5], [[0.5]]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (
            ([0.5, np.nan], R2, Z2, RZ2),
            {},
            "row 2 of the target's probabilities of records is not a finite number",
        ),
        (([0.5, 1.5], R2, Z2, RZ2), {}, "lie outside 0 to 1"),
        ((X2, [[0.5, -0.1]], Z2, RZ2), {}, "lie outside 0 to 1"),
        ((X2, R2, [np.nan], RZ2), {}, "of the population is not a finite number"),
        ((X2, [[0.5]], Z2, RZ2), {}, "got (2,) and (1, 1)"),
        (([], np.empty((1, 0)), Z2, RZ2), {}, "the shape is (0,)"),
        ((X2, np.empty((0, 2)), Z2, RZ2), {}, "the shape is (0, 2)"),
        ((X2, R2, Z2, [[0.5], [0.5]]), {}, "1 reference models answered about the records and 2 about"),
        ((X2, R2, Z2, RZ2), {"inside": [[1, 0]]}, "the mask must be True or False"),
        (
            (X2, R2, Z2, RZ2),
            {"inside": [[True, False]]},
            "2 of 2 records lack a reference model inside or outside",
        ),
        ((["p", "q"], R2, Z2, RZ2), {}, "of records must be real numbers"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_a_sentence(arguments, options, sentence):
    with pytest.raises(BadInput) as refused:
        rmia_scores(*arguments, **options)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("members", [[True, True], [1, 0], [True]])
def test_members_must_be_some_of_both(members):
    with pytest.raises(BadInput, match="True or False for each of the 2 records, some of each"):
        rmia(X2, members, R2, Z2, RZ2)
