"""Attribute inference: labels from released rows, scored on rows that taught the attacker nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.attribute_attack import LogisticRegression, attribute_inference
from sfumato.audits.proportions import interval
from sfumato.errors import BadInput

DIGITS = load_digits()
X, Y = DIGITS.data / 16.0, DIGITS.target
MAJORITY = np.bincount(Y).max() / len(Y)
HELD_OUT = sum(round(0.2 * count) for count in np.bincount(Y))


@pytest.mark.parametrize("folds", [None, 5])
def test_bare_digits_give_their_class_away(folds) -> None:
    found = attribute_inference(X, Y, folds=folds)
    assert found.value > 0.9
    assert found.beats_chance
    assert found.chance == MAJORITY
    assert found.numbers["privacy_score"] == pytest.approx(1.0 - (found.value - 0.1) / 0.9)
    assert found.numbers["rows"] == (HELD_OUT if folds is None else 1797)


@pytest.mark.parametrize("folds", [None, 4])
@pytest.mark.parametrize("mechanism", [sf.Gaussian(0.05, 1e-6, clip=1.0), sf.Laplace(0.05, clip=1.0)])
def test_under_much_noise_it_is_a_guess(mechanism, folds) -> None:
    """An exact interval at 1 − 1e-6 around the accuracy does not lie above chance."""
    released = mechanism.release(X).value
    found = attribute_inference(released, Y, folds=folds, confidence=1.0 - 1e-6)
    assert not found.beats_chance


def test_more_trust_more_inference() -> None:
    """Expected accuracies of about 0.82 and 0.11 on 359 rows: alarms far below 1e-6."""
    open_reader, closed_reader = (
        attribute_inference(sf.TrustAdaptive(distrust, (1.0, 400.0), 1e-6, clip=1.0).release(X).value, Y)
        for distrust in (0.0, 1.0)
    )
    assert open_reader.value > closed_reader.value + 0.4


def test_random_labels_cannot_be_learned_by_heart() -> None:
    """150 features tell 200 rows apart completely, but not the rows that are held out; alarm 1e-6."""
    rng = np.random.default_rng(1)
    features, labels = rng.normal(0.0, 1.0, (400, 150)), np.repeat([0, 1], 200)
    for folds in (None, 2):
        found = attribute_inference(features, labels, folds=folds, held_out=0.5, confidence=1.0 - 1e-6)
        assert found.interval[0] <= 0.5 <= found.interval[1]


def test_the_interval_is_exact_for_the_counted_rows() -> None:
    found = attribute_inference(X, Y, seed=3)
    assert found.interval == interval(round(found.value * HELD_OUT), HELD_OUT, 0.99)
    assert found == attribute_inference(X, Y, seed=3)


def test_every_class_is_learned_from_and_none_is_held_out_whole() -> None:
    rng = np.random.default_rng(2)
    labels = np.array([0] * 60 + [1] * 37 + [2] * 3)
    features = np.eye(3)[labels] + 0.01 * rng.normal(size=(100, 3))
    found = attribute_inference(features, labels, held_out=0.9)
    assert found.numbers["rows"] == 54 + 33 + 2
    assert found.chance == 0.6
    assert found.value == 1.0


def test_labels_may_be_words_and_a_view_undoes_the_embedding() -> None:
    embedding = sf.ReverseManifold(1.0, b"0123456789abcdef")
    released = embedding.fit_transform(X)
    words = np.array(["even", "odd"])[Y % 2]
    seen = []
    through = attribute_inference(
        released, words, view=embedding.inverse, report=lambda stage, share: seen.append(share)
    )
    assert through.value == attribute_inference(X, list(words)).value
    assert through.numbers["classes"] == 2
    assert seen == [1.0]


def test_constant_columns_among_others_are_harmless() -> None:
    features = np.column_stack([np.ones(1797), X])
    assert attribute_inference(features, Y).value > 0.9


def test_the_regression_agrees_with_its_own_scores() -> None:
    model = LogisticRegression.fit(X, (Y == 3).astype(int))
    assert ((model.scores(X) > 0.0) == (model.classes(X) == 1)).all()


@pytest.mark.parametrize(
    ("released", "labels", "options", "message"),
    [
        (X, Y[:-1], {}, "1796 labels for 1797 released rows"),
        (X, np.zeros(1797), {}, "all labels are of one class"),
        (X, np.arange(1797), {}, "1797 different labels"),
        (X, np.where(np.arange(1797) == 4, np.nan, Y), {}, "the label of row 5 is not a finite number"),
        (X, np.stack([Y, Y]), {}, r"labels have shape \(2, 1797\)"),
        (X, np.arange(1797) < 3, {"folds": 5}, "one class has 3 rows, fewer than the 5 folds"),
        (X, Y, {"folds": 1}, "`folds` was 1"),
        (X, Y, {"held_out": 1.0}, "`held_out` was 1"),
        (X[:4], [0, 0, 1, 1], {"held_out": 0.1}, "no class has enough rows"),
        (np.ones((40, 3)), np.arange(40) % 2, {}, "every feature is constant"),
        (np.full((40, 3), np.nan), np.arange(40) % 2, {}, "row 1, column 1 of the release is not a finite"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(released, labels, options, message) -> None:
    with pytest.raises(BadInput, match=message):
        attribute_inference(released, labels, **options)
