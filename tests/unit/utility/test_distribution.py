"""Fréchet distance against SciPy's matrix root and closed forms; the score; cosines of records."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import entropy
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.utility.distribution import cosine_similarity, frechet_distance, inception_style_score

DIGITS = load_digits().data


def oracle(X, Y):
    first, second = np.cov(X, rowvar=False), np.cov(Y, rowvar=False)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    return gap @ gap + np.trace(first + second - 2.0 * np.real(sqrtm(first @ second)))


def test_it_is_that_of_the_matrix_root():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 12)) @ rng.standard_normal((12, 12))
    Y = rng.standard_normal((300, 12)) @ rng.standard_normal((12, 12)) + 0.5
    value, note = frechet_distance(X, Y)
    assert value == pytest.approx(oracle(X, Y), rel=1e-9)
    assert note == ""


def test_it_is_what_one_column_gives_by_hand():
    X, Y = np.array([-1.0, 1.0, -1.0, 1.0]), np.array([1.0, 7.0, 1.0, 7.0])
    spreads = [math.sqrt(4.0 / 3.0), 3.0 * math.sqrt(4.0 / 3.0)]
    expected = 4.0**2 + (spreads[1] - spreads[0]) ** 2
    assert frechet_distance(X, Y)[0] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:Matrix is singular")  # the oracle's trouble, not ours
def test_constant_columns_and_few_records_need_no_inverse():
    X = np.column_stack([DIGITS[:40], np.zeros(40)])
    Y = X[:30] + np.append(np.zeros(64), 2.0)
    value, note = frechet_distance(X, Y)
    assert value == pytest.approx(oracle(X, Y), rel=1e-5)
    assert note == "30 records for 65 features: biased upwards"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 8), st.floats(-5, 5))
def test_zero_for_the_same_symmetric_and_moved(seed, rows, width, step):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((rows, width)), rng.standard_normal((rows + 1, width))
    there, back = (frechet_distance(*pair)[0] for pair in ((X, Y), (Y, X)))
    assert there == pytest.approx(back, rel=1e-9, abs=1e-9)
    assert there >= 0.0
    assert frechet_distance(X, X[::-1])[0] == pytest.approx(0.0, abs=1e-12 * width)
    assert frechet_distance(X, X + step)[0] == pytest.approx(width * step**2, abs=1e-9)


def test_scores_by_hand():
    assert inception_style_score(np.eye(4)) == pytest.approx(4.0)
    assert inception_style_score(np.full((9, 5), 0.2)) == pytest.approx(1.0)
    assert inception_style_score(np.eye(4)[[0, 0, 1, 1]]) == pytest.approx(2.0)


def test_a_score_is_the_mean_divergence_from_the_mean():
    P = np.random.default_rng(1).dirichlet(np.full(6, 0.3), 101)
    expected = math.exp(np.mean([entropy(row, P.mean(axis=0)) for row in P]))
    assert inception_style_score(P) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: frechet_distance(DIGITS[:1], DIGITS), "original array has one record"),
        (lambda: frechet_distance(DIGITS, DIGITS[:1]), "released array has one record"),
        (
            lambda: frechet_distance(DIGITS, DIGITS[:, :3]),
            "64 columns .* 3 for the release",
        ),
        (lambda: inception_style_score(DIGITS), "must each sum to 1"),
        (lambda: inception_style_score([[1.5, -0.5]]), "must not be negative"),
    ],
)
def test_what_has_no_distribution_is_refused(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()


def test_cosine_by_hand():
    one = np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [1e-200, 0.0], [1e200, 1e200]])
    other = np.array([[0.0, 3.0], [5.0, 5.0], [-1.0, 0.0], [1e-200, 1e-200], [1e200, 0.0]])
    assert np.allclose(cosine_similarity(one, other), [0.0, 1.0, -1.0, 0.5**0.5, 0.5**0.5])


def test_cosine_of_multiples_is_one():
    assert (cosine_similarity(DIGITS, 3.0 * DIGITS) > 1 - 1e-12).all()
    assert (cosine_similarity(DIGITS, 3.0 * DIGITS) <= 1.0).all()


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        (np.eye(3), np.ones((3, 2)), "3 and 2 columns have no cosine"),
        (np.eye(3), np.ones((2, 3)), "3 rows and the release 2"),
        (np.eye(3), np.diag([1.0, 0.0, 1.0]), "row 2 of the released array has length zero"),
        (np.diag([1.0, 1.0, 0.0]), np.eye(3), "row 3 of the original array"),
    ],
)
def test_what_has_no_cosine_is_refused(one, other, sentence):
    with pytest.raises(BadInput, match=sentence):
        cosine_similarity(one, other)
