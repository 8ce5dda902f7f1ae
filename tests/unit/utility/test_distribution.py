"""Fréchet distance against SciPy's matrix root and closed forms; the score; and who may be called FID."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import entropy
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.utility.distribution import (
    Extractor,
    columns,
    frechet_distance,
    inception_style_score,
    principal_components,
)

DIGITS = load_digits().data
GIVEN = Extractor("given", lambda records: records)


def oracle(X, Y):
    first, second = np.cov(X, rowvar=False), np.cov(Y, rowvar=False)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    return gap @ gap + np.trace(first + second - 2.0 * np.real(sqrtm(first @ second)))


def test_it_is_that_of_the_matrix_root():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 12)) @ rng.standard_normal((12, 12))
    Y = rng.standard_normal((300, 12)) @ rng.standard_normal((12, 12)) + 0.5
    found = frechet_distance(X, Y, extractor=columns())
    assert found.value == pytest.approx(oracle(X, Y), rel=1e-9)
    assert found.note == ""
    over = principal_components(DIGITS[:300], 8)
    noisy = DIGITS + rng.normal(0, 3, DIGITS.shape)
    assert frechet_distance(DIGITS, noisy, extractor=over).value == pytest.approx(
        oracle(over(DIGITS), over(noisy)), rel=1e-9
    )


def test_it_is_what_one_column_gives_by_hand():
    X, Y = np.array([-1.0, 1.0, -1.0, 1.0]), np.array([1.0, 7.0, 1.0, 7.0])
    spreads = [math.sqrt(4.0 / 3.0), 3.0 * math.sqrt(4.0 / 3.0)]
    expected = 4.0**2 + (spreads[1] - spreads[0]) ** 2
    assert frechet_distance(X, Y, extractor=columns()).value == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:Matrix is singular")  # the oracle's trouble, not ours
def test_constant_columns_and_few_records_need_no_inverse():
    X = np.column_stack([DIGITS[:40], np.zeros(40)])
    Y = X[:30] + np.append(np.zeros(64), 2.0)
    found = frechet_distance(X, Y, extractor=columns())
    assert found.value == pytest.approx(oracle(X, Y), rel=1e-5)
    assert found.note == "30 records for 65 features: biased upwards"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 8), st.floats(-5, 5))
def test_zero_for_the_same_symmetric_and_moved(seed, rows, width, step):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((rows, width)), rng.standard_normal((rows + 1, width))
    there, back = (frechet_distance(*pair, extractor=columns()).value for pair in ((X, Y), (Y, X)))
    assert there == pytest.approx(back, rel=1e-9, abs=1e-9)
    assert there >= 0.0
    assert frechet_distance(X, X[::-1], extractor=columns()).value == pytest.approx(0.0, abs=1e-12 * width)
    assert frechet_distance(X, X + step, extractor=columns()).value == pytest.approx(
        width * step**2, abs=1e-9
    )


@pytest.mark.parametrize(
    ("extractor", "distance", "score"),
    [
        (GIVEN, "Fréchet distance over given", "inception-style score over given"),
        (Extractor("Inception-like", lambda X: X), "Fréchet distance over Inception-like", None),
        (Extractor("Inception-v3", lambda X: X, inception_v3=True), "FID", "Inception score"),
    ],
)
def test_only_inception_v3_gives_a_fid(extractor, distance, score):
    P = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    assert frechet_distance(P, P, extractor=extractor).name == distance
    expected = score or f"inception-style score over {extractor.name}"
    assert inception_style_score(P, extractor=extractor).name == expected


def test_scores_by_hand():
    assert inception_style_score(np.eye(4), extractor=GIVEN).value == pytest.approx(4.0)
    assert inception_style_score(np.full((9, 5), 0.2), extractor=GIVEN).value == pytest.approx(1.0)
    assert inception_style_score(np.eye(4)[[0, 0, 1, 1]], extractor=GIVEN).value == pytest.approx(2.0)


def test_a_score_is_the_mean_divergence_from_the_mean():
    P = np.random.default_rng(1).dirichlet(np.full(6, 0.3), 101)
    expected = math.exp(np.mean([entropy(row, P.mean(axis=0)) for row in P]))
    assert inception_style_score(P, extractor=GIVEN).value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: frechet_distance(DIGITS[:1], DIGITS, extractor=columns()), "original array has one record"),
        (lambda: frechet_distance(DIGITS, DIGITS[:1], extractor=columns()), "released array has one record"),
        (
            lambda: frechet_distance(DIGITS, DIGITS[:, :3], extractor=columns()),
            "64 columns .* 3 for the release",
        ),
        (lambda: inception_style_score(DIGITS, extractor=columns()), "no probabilities: each must sum to 1"),
        (lambda: inception_style_score([[1.5, -0.5]], extractor=GIVEN), "no probabilities"),
    ],
)
def test_what_has_no_distribution_is_refused(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()
