"""The linear probe against scikit-learn used by hand, and what it refuses."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from sfumato.errors import BadInput
from sfumato.utility.probe import fitted, linear_probe, split

DIGITS, LABELS = load_digits(return_X_y=True)
NAMES = np.array(["two", "one"])


def noisy(scale):
    return DIGITS + scale * np.random.default_rng(0).standard_normal(DIGITS.shape)


def test_it_learns_from_one_part_and_is_tested_on_the_other():
    X = noisy(8.0)
    found = linear_probe(X, LABELS, seed=3)
    learned, held = split(LABELS, seed=3)
    assert sorted([*learned, *held]) == list(range(len(X)))
    mean, scale = X[learned].mean(axis=0), X[learned].std(axis=0)
    model = LogisticRegression(max_iter=1000).fit((X[learned] - mean) / scale, LABELS[learned])
    answers = model.predict((X[held] - mean) / scale)
    assert found.accuracy == pytest.approx(np.mean(answers == LABELS[held]))
    assert found.weighted_f1 == pytest.approx(f1_score(LABELS[held], answers, average="weighted"))
    assert 0.5 < found.accuracy < 0.9
    assert found.chance == np.mean(LABELS[held] == np.bincount(LABELS[learned]).argmax())
    assert (found.classes, found.learned_rows, found.tested_rows) == (10, len(learned), len(held))
    assert found.converged


def test_every_class_keeps_its_share():
    labels = np.repeat([0, 1, 2], [800, 150, 50])
    _, held = split(labels, seed=0)
    assert list(np.bincount(labels[held])) == [160, 30, 10]


def test_learned_from_the_release_and_tested_on_originals():
    X = noisy(6.0)
    found = linear_probe(X, LABELS, tested_on=DIGITS)
    own = linear_probe(X, LABELS)
    assert found.accuracy > own.accuracy + 0.05
    learned, held = split(LABELS, seed=0)
    learner = fitted(X, LABELS, (learned, held))
    assert found.accuracy == np.mean(learner.model.predict(DIGITS[held]) == LABELS[held])


def test_text_labels_seeds_and_wider_arrays():
    pictures = DIGITS[LABELS < 2].reshape(-1, 8, 8)
    labels = NAMES[LABELS[LABELS < 2]]
    found = linear_probe(pictures, labels)
    assert found.accuracy > 0.98
    assert found == linear_probe(pictures, labels, seed=0)
    assert linear_probe(noisy(8.0), LABELS, seed=1) != linear_probe(noisy(8.0), LABELS, seed=2)


def test_raw_columns_and_too_few_iterations():
    raw = linear_probe(noisy(2.0), LABELS, standardise=False, iterations=3)
    assert not raw.converged
    learned, held = split(LABELS, seed=0)
    learner = fitted(DIGITS, LABELS, (learned, held), standardise=False, iterations=3)
    assert learner.model[0] == "passthrough"


@pytest.mark.parametrize(
    ("rows", "labels", "options", "sentence"),
    [
        (DIGITS, np.zeros(1797), {}, "all labels are of one class"),
        (DIGITS, LABELS[:-1], {}, r"labels have shape \(1796,\); 1797 rows need labels of shape \(1797,\)"),
        (DIGITS, LABELS[:, None], {}, "labels have shape"),
        (DIGITS, np.append(LABELS[:-1], 99), {}, "the rarest class has 1 rows; 2 are needed"),
        (DIGITS, np.append(LABELS[:-1], np.nan), {}, "the label of row 1797 is NaN"),
        (DIGITS, np.array([1, "a", *LABELS[2:]], dtype=object), {}, "labels mix values that have no order"),
        (DIGITS[:40], LABELS[:40], {}, "a fifth of 40 rows leaves no room for each of 10 classes"),
        (DIGITS, LABELS, {"tested_on": DIGITS[:, :9]}, "release has 64 columns and the original 9"),
        (DIGITS, LABELS, {"tested_on": DIGITS[:9]}, "original has 9 rows and the release 1797"),
        (np.ones((1797, 3)), LABELS, {}, "all columns are constant"),
        (
            np.where(np.arange(64) == 7, np.nan, DIGITS),
            LABELS,
            {},
            "row 1, column 8 of the released array is not",
        ),
        (NAMES[LABELS % 2], LABELS, {}, "must be real numbers"),
        ([[1, 2], [3]], [0, 1], {}, "rows of equal length"),
        (np.array([[None, 1.0]]), [0], {}, "row 1, column 1 of the released array is not"),
        (np.array([["a", 1.0]], dtype=object), [0], {}, "must be numbers"),
        (np.ones((0, 4)), [], {}, "one row of numbers or more"),
        (np.full((9, 2), 1e4).astype(np.longdouble) ** 1000, LABELS[:9], {}, "column 1 of the released"),
        (np.float64(3.0), [0], {}, "one row of numbers or more"),
        (DIGITS + 1j, LABELS, {}, "real numbers, not values of type complex128"),
    ],
)
def test_bad_input_gets_a_sentence(rows, labels, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        linear_probe(rows, labels, **options)
