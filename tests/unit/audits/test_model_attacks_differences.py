"""Differences between members and non-members: accuracy, confidence, entropy, calibration error."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest, regression, tree
from scipy import stats

from sfumato.audits.model_attacks import calibration_errors, model_differences
from sfumato.audits.predictions import Predictions
from sfumato.errors import BadInput

NAMES = ["accuracy", "confidence", "entropy", "calibration error"]


def test_a_forest_is_more_accurate_more_confident_and_less_uncertain_on_its_members():
    """Better than chance at 1 − 1e-6; an overfit forest is too shy on members, so calibration is reported."""
    found = dict(zip(NAMES, model_differences(*forest(), confidence=CERTAIN), strict=True))
    members, nonmembers = forest()
    for name in NAMES[:3]:
        assert found[name].beats_chance, name
    assert found["accuracy"].value == pytest.approx(members.correct.mean() - nonmembers.correct.mean())
    assert found["confidence"].value == pytest.approx(
        members.confidence.mean() - nonmembers.confidence.mean()
    )
    assert found["entropy"].value == pytest.approx(members.entropy.mean() - nonmembers.entropy.mean())
    assert found["entropy"].value < 0 < found["confidence"].value
    assert found["entropy"].numbers["members"] == pytest.approx(members.entropy.mean())


def calibration_error(group, bins=15):
    return calibration_errors(group, np.arange(len(group))[np.newaxis], bins)[0]


def test_an_unpruned_tree_is_calibrated_on_members_only():
    """It is always certain: the calibration error is 0 on members and the error rate on others."""
    members, nonmembers = tree()
    calibration = model_differences(members, nonmembers, confidence=CERTAIN)[3]
    assert calibration_error(members) == pytest.approx(0.0, abs=1e-12)
    assert calibration.value == pytest.approx(nonmembers.correct.mean() - 1.0)
    assert calibration.beats_chance


@pytest.mark.parametrize("target", [exchangeable, regression])
def test_nothing_is_found_where_there_is_nothing(target):
    """False-alarm rate 1e-6 a difference."""
    for item in model_differences(*target(), confidence=CERTAIN):
        assert item.interval[0] <= 0.0 <= item.interval[1], item


def test_unequal_groups_of_one_kind_have_no_calibration_gap():
    """The estimate's bias grows as records get fewer: 3,000 against 150 perfectly calibrated records.

    Of 60 repetitions the mean difference stays within 4.9 standard errors of 0 (false-alarm rate 1e-6);
    without equal numbers it would be off by 0.05.
    """
    rng = np.random.default_rng(0)
    values, plain = [], []
    for _ in range(60):
        groups = []
        for count in (3000, 150):
            sure = rng.uniform(0.5, 1.0, count)
            labels = (rng.random(count) > sure).astype(int)
            groups.append(Predictions(np.column_stack([sure, 1 - sure]), labels))
        values.append(model_differences(*groups, resamples=50)[3].value)
        plain.append(np.subtract(*(calibration_error(group) for group in groups)))
    assert abs(np.mean(values)) < 4.9 * np.std(values, ddof=1) / np.sqrt(60)
    assert np.mean(plain) < -0.04


def test_intervals_hold_the_difference_as_often_as_they_say():
    """False-alarm rate 1e-6 for a coverage of 97.5% where 99% is stated, over 300 repetitions."""
    rng = np.random.default_rng(0)
    misses = np.zeros(4)
    for _ in range(300):
        sure = rng.beta(8, 2, 350) / 2 + 0.5
        answers = Predictions(np.column_stack([sure, 1 - sure]), (rng.random(350) > sure).astype(int))
        found = model_differences(
            answers.rows(np.arange(200)), answers.rows(np.arange(200, 350)), resamples=50
        )
        misses += [not item.interval[0] <= 0.0 <= item.interval[1] for item in found]
    assert (misses <= stats.binom.isf(1e-6, 300, 0.025)).all()


def test_the_calibration_error_of_an_example_done_by_hand():
    probabilities = np.array([[0.95, 0.05], [0.95, 0.05], [0.65, 0.35], [0.65, 0.35]])
    answers = Predictions(probabilities, np.array([0, 1, 0, 0]))
    assert calibration_error(answers, bins=10) == pytest.approx(0.5 * 0.45 + 0.5 * 0.35)
    assert calibration_error(answers, bins=1) == pytest.approx(0.8 - 0.75)
    certain = Predictions(np.array([[1.0, 0.0]]), np.array([0]))
    assert calibration_error(certain) == 0.0


def test_the_same_seed_gives_the_same_findings():
    assert model_differences(*forest(), seed=2) == model_differences(*forest(), seed=2)
    assert model_differences(*forest(), seed=2) != model_differences(*forest(), seed=3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"resamples": 3}, "`resamples` must be"),
        ({"confidence": 1.0}, "strictly between"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        model_differences(*forest(), **options)


def test_groups_that_show_no_spread_are_refused():
    members, nonmembers = forest()
    with pytest.raises(BadInput, match="at least two non-members to show their spread: got 1"):
        model_differences(members, nonmembers.rows(np.array([0])))
