"""Feature extractors, and the cosine of embeddings over them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPClassifier

from sfumato.errors import BadInput
from sfumato.utility.distribution import (
    Extractor,
    columns,
    cosine_similarity,
    pixels,
    principal_components,
    probabilities,
)

DIGITS, LABELS = load_digits(return_X_y=True)
NETWORK = MLPClassifier((20, 7), max_iter=200, tol=0.1, n_iter_no_change=2, random_state=0).fit(
    DIGITS, LABELS
)


def test_columns_and_pixels_are_the_records():
    pictures = DIGITS[:9].reshape(9, 8, 8)
    assert np.array_equal(pixels()(pictures), DIGITS[:9])
    assert np.array_equal(columns()(DIGITS[:9]), DIGITS[:9])
    assert (pixels().name, columns().name) == ("pixels", "columns")


def test_principal_components_of_public_records():
    extractor = principal_components(DIGITS[:500], 10)
    expected = PCA(10, random_state=0).fit(DIGITS[:500]).transform(DIGITS[500:600])
    assert extractor.name == "PCA-10"
    assert np.allclose(extractor(DIGITS[500:600]), expected)
    assert np.allclose(extractor(DIGITS[500:600].reshape(100, 8, 8)), expected)


def test_the_probabilities_of_a_network_are_its_answers():
    given = DIGITS[:30].copy()
    assert np.array_equal(given, DIGITS[:30])
    assert np.allclose(probabilities(NETWORK)(given), NETWORK.predict_proba(given))
    assert probabilities(NETWORK).name == "MLPClassifier probabilities"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: principal_components(DIGITS, 65), "`components` was 65; 1797 public records of 64 columns"),
        (lambda: principal_components(DIGITS, 0), "between 1 and 64"),
        (lambda: principal_components(DIGITS, 3)(DIGITS[:, :5]), "'PCA-3' reads 64 columns, .* have 5"),
        (lambda: probabilities(NETWORK)(DIGITS[:, :5]), "reads 64 columns"),
        (lambda: probabilities(RidgeClassifier()), "RidgeClassifier gives no class probabilities"),
        (lambda: Extractor("half", lambda X: X[::2])(DIGITS[:10]), "made 5 rows of features from 10 records"),
        (lambda: Extractor("bad", lambda X: X / 0.0)(np.ones((3, 2))), "row 1 of the bad feature array"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_extractors_that_cannot_work_say_so(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()


def test_cosine_by_hand():
    one = np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [1e-200, 0.0], [1e200, 1e200]])
    other = np.array([[0.0, 3.0], [5.0, 5.0], [-1.0, 0.0], [1e-200, 1e-200], [1e200, 0.0]])
    assert np.allclose(cosine_similarity(one, other), [0.0, 1.0, -1.0, 0.5**0.5, 0.5**0.5])


def test_cosine_over_an_extractor():
    noisy = DIGITS + np.random.default_rng(0).standard_normal(DIGITS.shape)
    extractor = principal_components(DIGITS[:200], 5)
    a, b = extractor(DIGITS), extractor(noisy)
    expected = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert np.allclose(cosine_similarity(DIGITS, noisy, extractor=extractor), expected)
    assert (cosine_similarity(DIGITS, 3.0 * DIGITS) > 1 - 1e-12).all()
    assert (cosine_similarity(DIGITS, 3.0 * DIGITS) <= 1.0).all()


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        (np.eye(3), np.ones((3, 2)), r"shapes \(3, 3\) and \(3, 2\)"),
        (np.eye(3), np.ones((2, 3)), r"shapes \(3, 3\) and \(2, 3\)"),
        (np.eye(3), np.diag([1.0, 0.0, 1.0]), r"row 2 of the released array .*columns.* length zero"),
        (np.diag([1.0, 1.0, 0.0]), np.eye(3), "row 3 of the original array"),
    ],
)
def test_what_has_no_cosine_is_refused(one, other, sentence):
    with pytest.raises(BadInput, match=sentence):
        cosine_similarity(one, other)
