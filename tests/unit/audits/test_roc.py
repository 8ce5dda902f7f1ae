"""Scores to rates: against the definition by all pairs, by simulation, and at the edges."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from sfumato.audits.lower_bounds import check_scores
from sfumato.audits.roc import Placements, auc, finding_from_scores, tpr_at_fpr
from sfumato.errors import BadInput


def auc_interval(members, nonmembers, confidence):
    return Placements.of(members, nonmembers).interval(confidence)


def curve(members, nonmembers):
    """False and true positive rates at every threshold, and where nobody is flagged."""
    rates = [[np.mean(np.array(side) >= t) for side in (nonmembers, members)] for t in members + nonmembers]
    return [*rates, [0.0, 0.0]]


SCORES = st.lists(st.integers(-3, 3).map(float) | st.just(np.inf), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(SCORES, SCORES)
def test_auc_is_the_share_of_pairs_in_order_with_ties_counted_half(members, nonmembers):
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in nonmembers]
    assert auc(members, nonmembers) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert auc(nonmembers, members) == pytest.approx(1 - np.mean(pairs), abs=1e-12)
    low, high = auc_interval(members, nonmembers, 0.99)
    assert 0 <= low <= auc(members, nonmembers) + 1e-12
    assert auc(members, nonmembers) - 1e-12 <= high <= 1


@settings(max_examples=100, deadline=None)
@given(SCORES, SCORES)
def test_the_advantage_is_the_best_over_all_thresholds(members, nonmembers):
    found = finding_from_scores("attack", "threat", members, nonmembers)
    gains = [tpr - fpr for fpr, tpr in curve(members, nonmembers)]
    assert found.numbers["advantage"] == pytest.approx(max(gains), abs=1e-12)


def test_auc_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    members, nonmembers = np.round(rng.normal(1, 1, 300), 1), np.round(rng.normal(0, 1, 200), 1)
    truth, scores = np.repeat([1, 0], [300, 200]), np.concatenate([members, nonmembers])
    assert auc(members, nonmembers) == pytest.approx(roc_auc_score(truth, scores))


def test_the_variance_without_ties_is_that_of_delong():
    """Against the definition: covariances of the two kinds of placements, by all pairs."""
    rng = np.random.default_rng(0)
    members, nonmembers = rng.normal(0.7, 1, 30), rng.normal(0, 1, 20)
    order = (members[:, None] > nonmembers[None, :]).astype(float)
    expected = order.mean(axis=1).var(ddof=1) / 30 + order.mean(axis=0).var(ddof=1) / 20
    assert Placements.of(members, nonmembers).variance() == pytest.approx(expected)


def normal_world(rng, shift):
    return rng.normal(shift, 1, 60), rng.normal(0, 1, 60), stats.norm.cdf(shift / np.sqrt(2))


def correct_world(rng, rates):
    return rng.random(150) < rates[0], rng.random(100) < rates[1], 0.5 + (rates[0] - rates[1]) / 2


@pytest.mark.parametrize(
    ("world", "parameter"),
    [
        (normal_world, 0.0),
        (normal_world, 1.5),
        (correct_world, (0.9, 0.9)),
        (correct_world, (0.999, 0.99)),
        (correct_world, (1.0, 0.97)),
        (correct_world, (0.99, 0.6)),
    ],
)
def test_the_interval_holds_the_auc_as_often_as_it_says(world, parameter):
    """False-alarm rate 1e-6 for a coverage of 98.3% where 99% is stated (the interval is asymptotic)."""
    rng = np.random.default_rng(0)
    misses = 0
    for _ in range(1500):
        members, nonmembers, truth = world(rng, parameter)
        low, high = auc_interval(members, nonmembers, 0.99)
        misses += not low <= truth <= high
    assert misses <= stats.binom.isf(1e-6, 1500, 0.017)


def test_the_interval_of_a_separation_is_exact():
    """At AUC = (α/2)^(1/n) a separation of n pairs has probability α/2, and the interval just holds it."""
    low, high = auc_interval([2.0] * 10, [1.0] * 30, 0.99)
    assert (low, high) == (pytest.approx(0.005 ** (1 / 10)), 1.0)
    assert auc_interval([1.0] * 10, [2.0] * 30, 0.99) == (0.0, pytest.approx(1 - 0.005 ** (1 / 10)))
    assert auc_interval([2.0], [1.0, 0.0], 0.99) == (0.0, 1.0)


def test_equal_scores_have_an_interval_that_shrinks_with_the_number_of_records():
    widths = [np.ptp(auc_interval([1.0] * n, [1.0] * n, 0.99)) for n in (10, 100, 1000)]
    assert 1 > widths[0] > 5 * widths[1] > 25 * widths[2] > 0


def test_joined_folds_average_what_cannot_be_compared():
    rng = np.random.default_rng(0)
    folds = [
        Placements.of(rng.normal(1, 1, 50) + shift, rng.normal(0, 1, 50) + shift) for shift in (0, 9, -9)
    ]
    joined = Placements.join(folds)
    assert joined.auc == pytest.approx(np.mean([fold.auc for fold in folds]))
    independent = [fold.variance() for fold in folds]
    assert joined.variance() == pytest.approx(2.5 * np.mean(independent) / 3, rel=0.05)
    perfect = Placements.join([Placements.of([2.0] * 9, [1.0] * 9)] * 2)
    assert perfect.interval(0.99) == (pytest.approx(0.005 ** (3 / 18)), 1.0)


def test_the_true_positive_rate_is_that_of_the_lowest_allowed_threshold():
    nonmembers = np.arange(1000.0)
    members = np.array([998.5, 999.5, 997.0, 5.0])
    found = tpr_at_fpr(members, nonmembers, 0.001)
    assert (found.rate, found.note) == (0.5, "")
    assert found.interval == pytest.approx(stats.binomtest(2, 4).proportion_ci(0.99, "exact"))
    tied = tpr_at_fpr([999.0, 1000.0], np.concatenate([np.arange(998.0), [999.0, 999.0]]), 0.001)
    assert tied.rate == 0.5
    assert tpr_at_fpr([70.5, 71.0], np.arange(100.0), 0.29).rate == 1.0
    assert tpr_at_fpr([69.5, 70.0], np.arange(100.0), 0.29).rate == 0.0
    assert tpr_at_fpr([1.0], [1.0] * 1000, 0.001).rate == 0.0


@settings(max_examples=50, deadline=None)
@given(SCORES, SCORES, st.floats(0.01, 0.9))
def test_the_true_positive_rate_is_the_best_point_of_the_curve_left_of_the_fpr(members, nonmembers, fpr):
    found = tpr_at_fpr(members, nonmembers, fpr)
    allowed = [tpr for false, tpr in curve(members, nonmembers) if false <= fpr + 1e-12]
    assert found.rate == pytest.approx(max(allowed))


def test_too_few_non_members_are_named():
    found = tpr_at_fpr([2.0, 0.5], np.linspace(0, 1, 999), 0.001)
    assert found.rate == 0.5
    assert "999 non-members cannot resolve a false positive rate of 0.001" in found.note
    assert "at least 1000 are needed" in found.note


def test_a_finding_carries_the_numbers_of_table_1():
    rng = np.random.default_rng(0)
    members, nonmembers = rng.normal(1, 1, 400), rng.normal(0, 1, 2000)
    found = finding_from_scores("attack", "threat", members, nonmembers, note="why")
    assert found.value == auc(members, nonmembers)
    assert found.interval == auc_interval(members, nonmembers, 0.99)
    assert found.numbers["privacy_risk"] == pytest.approx(2 * found.value - 1)
    assert found.numbers["advantage"] == pytest.approx(stats.ks_2samp(members, nonmembers).statistic)
    assert found.numbers["tpr_at_0.1%_fpr"] == tpr_at_fpr(members, nonmembers, 0.001).rate
    assert (found.numbers["members"], found.numbers["nonmembers"]) == (400, 2000)
    assert (found.note, found.beats_chance, found.epsilon_lower) == ("why", True, None)


def test_a_finding_says_when_its_scores_say_nothing_or_point_the_wrong_way():
    assert "can only guess" in finding_from_scores("a", "t", [1.0] * 30, [1.0] * 30).note
    wrong = finding_from_scores("a", "t", np.arange(50.0), np.arange(100.0, 150.0))
    assert "inverts the score" in wrong.note
    assert wrong.beats_chance is False
    assert "cannot resolve" in finding_from_scores("a", "t", [1.0, 2.0], [0.0, 3.0]).note


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ([1.0, float("nan"), 2.0], "mine are NaN in 1 of 3 rows, first in row 1."),
        ([], "mine have shape (0,)"),
        ([[1.0]], "mine have shape (1, 1): 1 or more numbers on one axis"),
        (["high"], "mine are no numbers"),
    ],
)
def test_scores_that_are_none_are_refused(scores, sentence):
    with pytest.raises(BadInput) as refused:
        check_scores(scores, "mine")
    assert sentence in str(refused.value)
    assert "high" not in str(refused.value)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 99.0, float("nan")])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(BadInput, match="strictly between 0 and 1"):
        auc_interval([1.0, 2.0], [0.0, 1.5], confidence)


@pytest.mark.parametrize("fpr", [0.0, 1.0, -0.1])
def test_a_false_positive_rate_that_is_none_is_refused(fpr):
    with pytest.raises(BadInput, match="`fpr` must lie strictly between 0 and 1"):
        tpr_at_fpr([1.0], [0.0], fpr)


def test_a_million_scores_take_seconds():
    rng = np.random.default_rng(0)
    members, nonmembers = rng.normal(size=500_000), rng.normal(size=500_000)
    start = time.process_time()
    finding_from_scores("attack", "threat", members, nonmembers)
    assert time.process_time() - start < 10
