"""Attribute inference: labels from released rows, scored on rows that taught the attacker nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.lower_bounds import interval
from sfumato.audits.record_attacks import attribute_inference
from sfumato.errors import BadInput

DIGITS = load_digits()
X, Y = DIGITS.data / 16.0, DIGITS.target
MAJORITY = np.bincount(Y).max() / len(Y)
HELD_OUT = sum(round(0.2 * count) for count in np.bincount(Y))


def test_bare_digits_give_their_class_away() -> None:
    found = attribute_inference(X, Y)
    assert found.value > 0.9
    assert found.beats_chance
    assert found.chance == MAJORITY
    assert found.numbers["privacy_score"] == pytest.approx(1.0 - (found.value - 0.1) / 0.9)
    assert found.numbers["rows"] == HELD_OUT


@pytest.mark.parametrize("mechanism", [sf.Gaussian(0.05, 1e-6, clip=1.0), sf.Laplace(0.05, clip=1.0)])
def test_under_much_noise_it_is_a_guess(mechanism) -> None:
    """An exact interval at 1 − 1e-6 around the accuracy does not lie above chance."""
    released = mechanism.release(X).value
    found = attribute_inference(released, Y, confidence=1.0 - 1e-6)
    assert not found.beats_chance


def test_more_trust_more_inference() -> None:
    """Expected accuracies of about 0.82 and 0.11 on 359 rows: alarms far below 1e-6."""
    open_reader, closed_reader = (
        attribute_inference(sf.TrustAdaptive(distrust, (1.0, 400.0), 1e-6, clip=1.0).release(X).value, Y)
        for distrust in (0.0, 1.0)
    )
    assert open_reader.value > closed_reader.value + 0.4


def test_random_labels_cannot_be_learned_by_heart() -> None:
    """150 features tell 320 rows apart completely, but not the rows that are held out; alarm 1e-6."""
    rng = np.random.default_rng(1)
    features, labels = rng.normal(0.0, 1.0, (400, 150)), np.repeat([0, 1], 200)
    found = attribute_inference(features, labels, confidence=1.0 - 1e-6)
    assert found.interval[0] <= 0.5 <= found.interval[1]


def test_the_interval_is_exact_for_the_counted_rows() -> None:
    found = attribute_inference(X, Y, seed=3)
    assert found.interval == interval(round(found.value * HELD_OUT), HELD_OUT, 0.99)
    assert found == attribute_inference(X, Y, seed=3)


def test_every_class_is_learned_from_and_none_is_held_out_whole() -> None:
    rng = np.random.default_rng(2)
    labels = np.array([0] * 60 + [1] * 37 + [2] * 3)
    features = np.eye(3)[labels] + 0.01 * rng.normal(size=(100, 3))
    found = attribute_inference(features, labels)
    assert found.numbers["rows"] == 12 + 7 + 1
    assert found.chance == 0.6
    assert found.value == 1.0


def test_labels_may_be_words() -> None:
    words = np.array(["even", "odd"])[Y % 2]
    found = attribute_inference(X, list(words))
    assert found.value == attribute_inference(X, Y % 2).value
    assert found.numbers["classes"] == 2


def test_constant_columns_among_others_are_harmless() -> None:
    features = np.column_stack([np.ones(1797), X])
    assert attribute_inference(features, Y).value > 0.9


@pytest.mark.parametrize(
    ("released", "labels", "message"),
    [
        (X, Y[:-1], r"labels have shape \(1796,\): one for each of 1797"),
        (X, np.zeros(1797), "all labels are of one class"),
        (X, np.arange(1797), "1797 different labels"),
        (X, np.where(np.arange(1797) == 4, np.nan, Y), "the label of row 5 is not a finite number"),
        (X, np.stack([Y, Y]), r"labels have shape \(2, 1797\)"),
        (X[:4], [0, 0, 1, 1], "no class has enough rows"),
        (np.ones((40, 3)), np.arange(40) % 2, "every feature is constant"),
        (np.full((40, 3), np.nan), np.arange(40) % 2, "row 1, column 1 of the release is not a finite"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(released, labels, message) -> None:
    with pytest.raises(BadInput, match=message):
        attribute_inference(released, labels)
