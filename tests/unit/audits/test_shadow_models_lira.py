"""LiRA: against the densities it estimates, on models, and what it refuses."""

from functools import cache

import numpy as np
import pytest
from model_targets import CERTAIN, records
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sfumato.audits import shadow_models
from sfumato.audits.predictions import Predictions
from sfumato.audits.roc import auc
from sfumato.audits.shadow_models import lira, lira_scores, train_shadows
from sfumato.errors import BadInput


def world(models, n=1500, seed=0):
    """Logits exactly as LiRA imagines them: each record has two normals, and members shift by its own gap."""
    rng = np.random.default_rng(seed)
    hardness, gap, scale = rng.normal(0, 4, n), rng.exponential(1.0, n), rng.uniform(0.3, 1.5, n)
    members = rng.random(n) < 0.5
    inside = rng.permuted(np.arange(models)[:, None] % 2 == np.zeros((1, n)), axis=0)

    def draw(within):
        return hardness + gap * within + scale * rng.normal(size=within.shape)

    return draw(members), members, draw(inside), inside, hardness, gap, scale


def test_with_many_shadow_models_the_score_is_the_true_likelihood_ratio():
    target, members, shadows, inside, hardness, gap, scale = world(400)
    true = stats.norm.logpdf(target, hardness + gap, scale) - stats.norm.logpdf(target, hardness, scale)
    scores = lira_scores(target, shadows, inside)
    assert np.median(np.abs(scores - true)) < 0.15
    assert auc(scores[members], scores[~members]) == pytest.approx(
        auc(true[members], true[~members]), abs=0.01
    )
    z = lira_scores(target, shadows, inside, online=False)
    assert np.median(np.abs(z - (target - hardness) / scale)) < 0.1


def test_it_sees_what_one_threshold_for_all_records_cannot():
    target, members, shadows, inside, *_ = world(64)
    assert auc(target[members], target[~members]) < 0.62
    assert lira(target, members, shadows, inside).value > 0.75
    assert lira(target, members, shadows, inside, online=False).value > 0.72


def test_few_shadow_models_share_one_variance_and_many_have_their_own(monkeypatch):
    def found(models, enough):
        monkeypatch.setattr(shadow_models, "ENOUGH", enough)
        target, members, shadows, inside, *_ = world(models)
        return lira(target, members, shadows, inside).value

    assert found(8, 32) > found(8, 2)
    assert found(200, 32) > found(200, 1000)


def test_the_shared_variance_is_pooled_around_the_records_own_means():
    """One record asked at its own outside mean plus 1: z is 1 over the pooled deviation."""
    shadows = np.array([[0.0, 10.0], [2.0, 14.0], [5.0, 5.0]])
    inside = np.array([[False, False], [False, False], [True, True]])
    z = lira_scores([2.0, 13.0], shadows, inside, online=False)
    assert z == pytest.approx(np.array([1.0, 1.0]) / np.sqrt((2.0 + 8.0) / 2.0))


def test_the_online_score_is_the_ratio_of_two_normals_of_their_own_widths():
    shadows = np.array([[4.0], [6.0], [0.0], [4.0]])
    inside = np.array([[True], [True], [False], [False]])
    expected = stats.norm.logpdf(3.0, 5.0, np.sqrt(2.0)) - stats.norm.logpdf(3.0, 2.0, np.sqrt(8.0))
    assert lira_scores([3.0], shadows, inside) == pytest.approx([expected])


def forest(seed):
    return RandomForestClassifier(15, min_samples_leaf=3, random_state=seed)


def regression(seed):
    return LogisticRegression(C=10.0, max_iter=300)


def logits(models, X, y):
    return np.stack([Predictions(model.predict_proba(X), y, 0.01).scaled_logit for model in models])


@cache
def game(factory):
    """A target trained on half of 400 records, 12 online shadow models, and the same asked about others."""
    X, y = records(800)
    members = np.random.default_rng(1).permutation(400) < 200
    model = factory(0).fit(X[:400][members], y[:400][members])
    made = []

    def kept(seed):
        made.append(factory(seed))
        return made[-1]

    inside = train_shadows(kept, X[:400], y[:400], 12).inside
    return (
        logits([model], X, y)[0],
        members,
        inside,
        logits(made, X[:400], y[:400]),
        logits(made, X[400:], y[400:]),
    )


@pytest.mark.parametrize("online", [True, False])
def test_a_forest_that_remembers_is_found_out(online):
    """Better than chance at 1 − 1e-6, and better than the plain logit."""
    target, members, inside, shadows, _ = game(forest)
    found = lira(target[:400], members, shadows, inside, online=online, confidence=CERTAIN)
    assert found.value > 0.82
    assert found.beats_chance
    assert found.value > auc(target[:400][members], target[:400][~members])
    assert found.attack == ("LiRA online" if online else "LiRA offline")


@pytest.mark.parametrize("factory", [forest, regression])
def test_nothing_is_found_where_the_target_saw_no_record(factory):
    """False-alarm rate 1e-6: 400 records outside of the target and of all shadow models, split by coins."""
    target, *_, others = game(factory)
    coins = np.random.default_rng(0).random(400) < 0.5
    nowhere = np.zeros(others.shape, dtype=bool)
    low, high = lira(target[400:], coins, others, nowhere, online=False, confidence=CERTAIN).interval
    assert low <= 0.5 <= high


def test_exchangeable_records_are_not_told_apart_online():
    """False-alarm rate 1e-6: the target's logits owe nothing to the mask."""
    target, _, shadows, inside, *_ = world(32)
    coins = np.random.default_rng(5).random(target.size) < 0.5
    low, high = lira(target, coins, shadows, inside, confidence=CERTAIN).interval
    assert low <= 0.5 <= high


GOOD = np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0], [4.0, 2.0]])
MASK = np.array([[True, False], [False, True], [True, False], [False, True]])


@pytest.mark.parametrize(
    ("target", "shadows", "inside", "sentence"),
    [
        (
            [0.0, np.nan],
            GOOD,
            MASK,
            "row 2 of the target's logits is not a finite number",
        ),
        ([0.0, 1.0], GOOD + np.array([0.0, np.inf]), MASK, "of the other models' logits is not a finite"),
        ([0.0], GOOD, MASK, "got (1,) and (4, 2)"),
        ([[0.0], [1.0]], GOOD, MASK, "got (2, 1) and (4, 2)"),
        ([], np.empty((4, 0)), MASK, "the shape is (0,)"),
        (["x", "y"], GOOD, MASK, "logits must be real numbers"),
        ([0.0, 1.0], GOOD, MASK.astype(int), "True or False for each model and record, shape (4, 2)"),
        ([0.0, 1.0], GOOD, MASK.T, "shape (4, 2): got bool of shape (2, 4)"),
        ([0.0, 1.0], GOOD, np.ones_like(MASK), "2 of 2 records have no shadow model outside, first record 0"),
        ([0.0, 1.0], GOOD, np.zeros_like(MASK), "no shadow model inside"),
        ([0.0, 1.0], np.ones((4, 2)), MASK, "show no spread"),
        ([0.0, 1.0], GOOD[:2], MASK[:2], "show no spread: some record needs two of them"),
    ],
)
def test_what_cannot_be_attacked_is_refused_in_a_sentence(target, shadows, inside, sentence):
    with pytest.raises(BadInput) as refused:
        lira_scores(target, shadows, inside)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("members", [[True, True], [False, False], [1, 0], [True]])
def test_members_must_be_some_of_both(members):
    with pytest.raises(BadInput, match="True or False for each of the 2 records, some of each"):
        lira([0.0, 1.0], members, GOOD, MASK)
