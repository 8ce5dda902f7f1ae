"""Loss thresholds, for all records and for each class."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest, network, regression, tree

from sfumato.audits.model_attacks import class_scorer, class_threshold, loss_threshold
from sfumato.audits.predictions import Predictions
from sfumato.audits.roc import auc
from sfumato.errors import BadInput

BOTH = [loss_threshold, class_threshold]


@pytest.mark.parametrize("attack", BOTH)
@pytest.mark.parametrize(("target", "floor"), [(forest, 0.75), (tree, 0.64), (network, 0.59)])
def test_a_model_that_remembers_is_found_out(attack, target, floor):
    """600 records a side; better than chance at 99.9%."""
    found = attack(*target(), confidence=0.999)
    assert found.value > floor
    assert found.beats_chance
    assert found.epsilon_lower is None


@pytest.mark.parametrize("attack", BOTH)
@pytest.mark.parametrize("target", [exchangeable, regression])
def test_nothing_is_found_where_there_is_nothing(attack, target):
    """False-alarm rate 1e-6."""
    low, high = attack(*target(), confidence=CERTAIN).interval
    assert low <= 0.5 <= high < 0.65


def test_the_score_is_minus_the_loss():
    members, nonmembers = forest()
    assert loss_threshold(members, nonmembers).value == auc(-members.loss, -nonmembers.loss)


def by_class(shift, seed, count=400):
    """Logits of two classes, the second much harder; members lie higher by the same amount in both."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    logits = rng.normal(np.where(labels == 0, 6.0, -6.0) + shift, 1.0)
    signs = np.where(labels == 0, 1.0, -1.0)
    return Predictions.from_logits(np.column_stack([signs * logits, np.zeros(count)]), labels)


def test_a_threshold_a_class_sees_what_one_for_all_cannot():
    """Classes of different difficulty: Φ(1.5/√2) = 0.856 within a class, half of that above 0.5 without."""
    members, nonmembers = by_class(1.5, 0), by_class(0.0, 1)
    assert class_threshold(members, nonmembers).value == pytest.approx(0.856, abs=0.06)
    assert loss_threshold(members, nonmembers).value < 0.75


def test_zero_is_the_threshold_of_every_class():
    members, nonmembers = by_class(1.5, 0), by_class(0.0, 1)
    score = class_scorer(members, nonmembers)
    for label in (0, 1):
        middle = [group.scaled_logit[group.labels == label].mean() for group in (members, nonmembers)]
        ours = [score(group)[group.labels == label].mean() for group in (members, nonmembers)]
        assert ours[0] - ours[1] == pytest.approx(middle[0] - middle[1])
        assert sum(ours) == pytest.approx(0.0, abs=0.8)


def test_a_class_never_seen_takes_the_threshold_of_all():
    known = by_class(0.0, 0)
    only = known.rows(known.labels == 0)
    score = class_scorer(only, only)
    other = known.rows(known.labels == 1)
    assert score(other) == pytest.approx(other.scaled_logit - only.scaled_logit.mean())


def test_bad_input_is_refused_in_a_sentence():
    members, nonmembers = forest()
    two = Predictions(np.array([[0.5, 0.5]]), np.array([0]))
    for attack in (*BOTH, class_scorer):
        with pytest.raises(BadInput, match="4 classes in one group and 2 in another"):
            attack(members, two)
    with pytest.raises(BadInput, match="at least 10 members"):
        class_threshold(members.rows(np.arange(4)), nonmembers)
