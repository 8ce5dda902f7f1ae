"""Predictions: what is read off them, at probabilities of 0 and 1 too, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.audits.predictions import Predictions, check_comparable, numbers
from sfumato.errors import BadInput

EXAMPLE = Predictions(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]), np.array([0, 1]))


def test_features_of_an_example_done_by_hand():
    assert len(EXAMPLE) == 2
    assert EXAMPLE.classes == 3
    assert EXAMPLE.true_probability == pytest.approx([0.7, 0.3])
    assert EXAMPLE.loss == pytest.approx(-np.log([0.7, 0.3]))
    assert EXAMPLE.confidence == pytest.approx([0.7, 0.6])
    assert EXAMPLE.correct.tolist() == [True, False]
    assert EXAMPLE.gap == pytest.approx([0.5, 0.3])
    assert EXAMPLE.margin == pytest.approx([0.5, -0.3])
    assert EXAMPLE.scaled_logit == pytest.approx([np.log(0.7 / 0.3), np.log(0.3 / 0.7)])
    assert EXAMPLE.entropy[0] == pytest.approx(-(0.7 * np.log(0.7) + 0.2 * np.log(0.2) + 0.1 * np.log(0.1)))


def test_certainty_is_cut_at_the_floor_and_nothing_is_infinite():
    for floor in (1e-12, 0.01):
        certain = Predictions(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), floor)
        assert certain.loss == pytest.approx([0.0, -np.log(floor)])
        assert certain.scaled_logit == pytest.approx([-np.log(floor), np.log(floor)])
        assert certain.entropy.tolist() == [0.0, 0.0]
        assert certain.margin.tolist() == [1.0, -1.0]


def test_the_scaled_logit_stays_exact_where_the_probability_rounds_to_one():
    sure = Predictions.from_logits(np.array([[21.0, 0.0, 0.0]]), np.array([0]))
    assert sure.scaled_logit[0] == pytest.approx(21.0 - np.log(2.0), rel=1e-12)
    half = Predictions(np.array([[1.0, 1e-11]], dtype=np.float32), np.array([0]))
    assert half.scaled_logit[0] == pytest.approx(-np.log(1e-11), rel=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-600, 600), min_size=3, max_size=3), st.integers(0, 2))
def test_logits_of_any_size_give_finite_features(logits, label):
    answered = Predictions.from_logits([logits], [label])
    for name in ("loss", "confidence", "entropy", "gap", "margin", "scaled_logit"):
        assert np.isfinite(getattr(answered, name)).all()
    assert answered.probabilities.sum() == pytest.approx(1.0)
    shifted = Predictions.from_logits([[value + 50.0 for value in logits]], [label])
    assert shifted.probabilities == pytest.approx(answered.probabilities, abs=1e-9)


def test_arrays_are_copied_read_only_and_can_be_chosen_from():
    given_array = np.array([[0.5, 0.5], [0.9, 0.1]])
    mine = Predictions(given_array, np.array([1, 0]))
    given_array[0] = 7.0
    assert mine.probabilities[0].tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        mine.probabilities[0, 0] = 1.0
    assert mine.rows(np.array([False, True])).labels.tolist() == [0]
    assert mine.rows(np.array([1])).probabilities.tolist() == [[0.9, 0.1]]


@pytest.mark.parametrize(
    ("probabilities", "labels", "sentence"),
    [
        ([[0.5, 0.6]], [0], "do not sum to 1 in 1 rows, first in row 0: if they are logits"),
        ([[0.5, 0.5], [0.5, 0.4]], [0, 1], "do not sum to 1 in 1 rows, first in row 1"),
        ([[0.5, 0.5], [2.0, -1.0]], [0, 1], "negative in 1 rows, first in row 1: if they are logits"),
        ([[0.5, float("nan")]], [0], "row 1, column 2 of probabilities is not a finite number"),
        ([0.5, 0.5], [0, 1], "one column a class, two classes or more: got shape (2,)"),
        ([[1.0], [1.0]], [0, 0], "got shape (2, 1)"),
        (np.empty((0, 3)), [], "the shape is (0, 3)"),
        ([["a", "b"]], [0], "must be real numbers"),
        ([[0.5, 0.5]], [0, 1], "labels must be one a record, shape (1,): got shape (2,)"),
        ([[0.5, 0.5]], [[0]], "got shape (1, 1)"),
        ([[0.5, 0.5]], [2], "labels lie outside 0 to 1 in 1 rows, first in row 0"),
        ([[0.5, 0.5]], [-1], "outside 0 to 1"),
        ([[0.5, 0.5]], [0.5], "whole numbers from 0 to 1"),
        ([[0.5, 0.5]], [float("nan")], "whole numbers from 0 to 1"),
        ([[0.5, 0.5]], ["cat"], "whole numbers from 0 to 1"),
    ],
)
def test_what_is_no_prediction_is_refused_in_a_sentence(probabilities, labels, sentence):
    with pytest.raises(BadInput) as refused:
        Predictions(probabilities, labels)
    assert sentence in str(refused.value)
    assert "cat" not in str(refused.value)


def test_rounded_rows_and_whole_floats_are_accepted():
    rounded = Predictions(np.array([[0.3333, 0.3333, 0.3333]]), np.array([2.0]))
    assert rounded.labels.dtype == np.int64


@pytest.mark.parametrize("floor", [0.0, -1.0, 0.5, float("nan")])
def test_a_floor_that_is_none_is_refused(floor):
    with pytest.raises(BadInput, match="`floor` was"):
        Predictions(np.array([[0.5, 0.5]]), np.array([0]), floor)


def test_predictions_of_different_models_are_not_compared():
    with pytest.raises(BadInput, match="3 classes in one group and 2 in another"):
        check_comparable(EXAMPLE, Predictions(np.array([[0.5, 0.5]]), np.array([0])))


def test_ragged_rows_are_no_numbers():
    with pytest.raises(BadInput, match="logits must be numbers, with rows of equal length"):
        numbers([[1.0], [1.0, 2.0]], "logits")
