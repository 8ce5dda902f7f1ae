"""Label-only attacks: the correctness gap and perturbed queries."""

import numpy as np
import pytest
from model_targets import CERTAIN, exchangeable, forest, records, regression, tree
from sklearn.tree import DecisionTreeClassifier

from sfumato.audits.model_attacks import label_only, share_correct
from sfumato.errors import BadInput


def answers(group):
    return group.probabilities.argmax(axis=1), group.labels


@pytest.mark.parametrize(("target", "floor"), [(forest, 0.58), (tree, 0.64)])
def test_the_correctness_gap_finds_a_model_that_remembers(target, floor):
    """600 records a side; better than chance at 1 − 1e-6."""
    members, nonmembers = target()
    found = label_only(*answers(members), *answers(nonmembers), confidence=CERTAIN)
    assert found.value > floor
    assert found.beats_chance
    gap = members.correct.mean() - nonmembers.correct.mean()
    assert found.value == pytest.approx(0.5 + gap / 2)


@pytest.mark.parametrize("target", [exchangeable, regression])
def test_nothing_is_found_where_there_is_nothing(target):
    """False-alarm rate 1e-6."""
    members, nonmembers = target()
    low, high = label_only(*answers(members), *answers(nonmembers), confidence=CERTAIN).interval
    assert low <= 0.5 <= high < 0.65


def noisy_answers(model, X, copies, rng):
    return np.column_stack([model.predict(X + rng.normal(0, 0.3, X.shape)) for _ in range(copies)])


def test_perturbed_queries_tell_more_than_one():
    """An unpruned tree; and where neither group was trained on, 0.5 stays inside (false-alarm rate 1e-6)."""
    X, y = records(1200)
    rng = np.random.default_rng(0)
    model = DecisionTreeClassifier(random_state=0).fit(X[:600], y[:600])
    first, second = (noisy_answers(model, half, 12, rng) for half in (X[:600], X[600:]))
    many = label_only(first, y[:600], second, y[600:])
    one = label_only(first[:, 0], y[:600], second[:, 0], y[600:])
    assert many.value > one.value
    assert many.attack == "label only, perturbed queries"
    assert "12 perturbed copies" in many.threat
    third, fourth = second[:300], second[300:]
    low, high = label_only(third, y[600:900], fourth, y[900:], confidence=CERTAIN).interval
    assert low <= 0.5 <= high


def test_the_share_of_right_answers():
    assert share_correct([1, 2, 0], [1, 1, 0]).tolist() == [1.0, 0.0, 1.0]
    assert share_correct([[1, 2], [1, 1]], [1, 1]).tolist() == [0.5, 1.0]
    assert share_correct(["cat", "dog"], ["cat", "cat"]).tolist() == [1.0, 0.0]


def test_a_model_that_is_always_right_is_no_silent_half():
    found = label_only([1, 0, 1], [1, 0, 1], [1, 1], [1, 1])
    assert found.value == 0.5
    assert "can only guess" in found.note
    assert found.interval[1] - found.interval[0] > 0.5


@pytest.mark.parametrize(
    ("predicted", "labels", "sentence"),
    [
        ([0, 1], [0, 1, 1], "must have shape (3,) or (3, queries): got (2,)"),
        (np.zeros((2, 0)), [0, 1], "got (2, 0)"),
        ([0, 1], [], "at least one: got shape (0,)"),
        ([0, 1], [[0, 1]], "got shape (1, 2)"),
        ([0.0, float("nan")], [0, 1], "predicted labels of records hold NaN, first in row 1"),
        ([0, 1], [float("nan"), 1], "labels of records hold NaN, first in row 0"),
        ([0, 1], ["cat", "dog"], "both or neither must be"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(predicted, labels, sentence):
    with pytest.raises(BadInput) as refused:
        share_correct(predicted, labels)
    assert sentence in str(refused.value)


def test_groups_must_be_queried_equally_often():
    with pytest.raises(BadInput, match="`members` were queried 2 times and non-members 1 times"):
        label_only([[0, 1], [1, 1]], [0, 1], [0, 1], [0, 1])
