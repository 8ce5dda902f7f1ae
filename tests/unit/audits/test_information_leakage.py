"""Mutual information by nearest neighbours against closed forms and against scikit-learn."""

import math
import time

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

from sfumato.audits.information_leakage import mutual_information
from sfumato.errors import BadInput

ROWS = 2000


def _correlated(rng, correlation, columns=1):
    one = rng.normal(size=(ROWS, columns))
    noise = rng.normal(size=(ROWS, columns))
    return one, correlation * one + math.sqrt(1.0 - correlation**2) * noise


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.9, 0.99])
def test_two_correlated_normals(correlation):
    one, other = _correlated(np.random.default_rng(0), correlation)
    found = mutual_information(one, other)
    # The deviation of the estimate is below 0.03 at 2000 rows.
    assert found.raw == pytest.approx(-0.5 * math.log(1.0 - correlation**2), abs=0.1)
    assert (found.k, found.samples) == (5, ROWS)
    assert found.bits == pytest.approx(found.nats / math.log(2.0))


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_vectors_of_normals(columns, correlation):
    one, other = _correlated(np.random.default_rng(1), correlation, columns)
    exact = -0.5 * columns * math.log(1.0 - correlation**2)
    assert mutual_information(one, other).raw == pytest.approx(exact, abs=0.12)


def test_a_vector_that_shows_one_of_its_coordinates():
    rng = np.random.default_rng(2)
    one, other = _correlated(rng, 0.8)
    attribute = np.hstack([one, rng.normal(size=(ROWS, 1))])
    assert mutual_information(attribute, other).raw == pytest.approx(-0.5 * math.log(0.36), abs=0.12)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_as_scikit_learn_on_one_column(correlation):
    one, other = _correlated(np.random.default_rng(3), correlation)
    theirs = mutual_info_regression(one, other[:, 0], n_neighbors=5, random_state=0)[0]
    assert mutual_information(one, other).nats == pytest.approx(theirs, abs=1e-6)


def test_labels_as_scikit_learn_and_near_the_closed_form():
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, ROWS)
    values = 8.0 * labels + rng.normal(size=ROWS)
    found = mutual_information(labels, values, labels=True)
    theirs = mutual_info_classif(values[:, None], labels, n_neighbors=5, random_state=0)[0]
    assert found.nats == pytest.approx(theirs, abs=1e-6)
    # Eight deviations apart the label is known: I = log 2.
    assert found.nats == pytest.approx(math.log(2.0), abs=0.01)


def test_labels_of_any_kind_against_vectors():
    rng = np.random.default_rng(5)
    names = np.array(["run", "walk", "sit"])[rng.integers(0, 3, ROWS)]
    vectors = rng.normal(size=(ROWS, 12))
    assert mutual_information(names, vectors, labels=True).raw == pytest.approx(0.0, abs=0.05)
    vectors[:, 3] += 10.0 * (names == "run")
    # One of three labels is known: log 3 − (2/3)·log 2.
    known = math.log(3.0) - 2.0 / 3.0 * math.log(2.0)
    assert mutual_information(names, vectors, labels=True).raw == pytest.approx(known, abs=0.1)


def test_a_label_that_occurs_once_is_left_out():
    rng = np.random.default_rng(6)
    labels, values = rng.integers(0, 2, 200), rng.normal(size=200)
    labels[7] = 99
    assert mutual_information(labels, values, labels=True).samples == 199


def test_rare_labels_take_fewer_neighbours():
    rng = np.random.default_rng(7)
    labels = np.repeat([0, 1], [200, 3])
    values = labels * 50.0 + rng.normal(size=203)
    theirs = mutual_info_classif(values[:, None], labels, n_neighbors=5, random_state=0)[0]
    assert mutual_information(labels, values, labels=True).nats == pytest.approx(theirs, abs=1e-6)


def test_ties_are_broken_at_random_and_repeatably():
    rng = np.random.default_rng(8)
    values, other = rng.integers(0, 40, ROWS).astype(float), rng.normal(size=ROWS)
    found = [mutual_information(values, other, seed=seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    assert found[0].raw == pytest.approx(0.0, abs=0.1)
    everything = mutual_information(values, values)
    assert math.isfinite(everything.nats)
    assert everything.nats > 2.0


def test_scale_units_and_constant_columns_do_not_matter():
    one, other = _correlated(np.random.default_rng(9), 0.7)
    plain = mutual_information(one, other)
    padded = np.hstack([np.full_like(one, 3.0), 1e6 * one + 5.0])
    assert mutual_information(padded, other).raw == pytest.approx(plain.raw, abs=1e-3)


def _by_the_book(one, other, k):
    """Equation 8 of Kraskov et al., one point at a time."""
    n, total = len(one), 0.0
    for i in range(n):
        near, far = (np.linalg.norm(values - values[i], axis=1) for values in (one, other))
        near[i] = far[i] = np.inf
        radius = np.sort(np.maximum(near, far))[k - 1]
        total += sum(digamma(np.sum(distances < radius) + 1) for distances in (near, far))
    return digamma(k) + digamma(n) - total / n


@pytest.mark.parametrize("columns", [1, 3, 7, 8, 40])
def test_any_number_of_columns_as_by_the_book(columns):
    rng = np.random.default_rng(10)
    one = rng.normal(size=(400, columns))
    other = one[:, :1] + 0.3 * rng.normal(size=(400, columns + 1))
    scaled = [values / values.std(axis=0) for values in (one, other)]
    assert mutual_information(one, other, k=3).raw == pytest.approx(_by_the_book(*scaled, 3), abs=1e-6)


def test_more_rows_than_are_used_and_a_quick_answer():
    rng = np.random.default_rng(11)
    start = time.process_time()
    found = mutual_information(rng.normal(size=(30_000, 3)), rng.normal(size=30_000), most=3000)
    assert found.samples == 3000
    assert time.process_time() - start < 10.0


def test_independent_values_have_no_negative_information():
    found = [mutual_information(*_correlated(np.random.default_rng(seed), 0.0)) for seed in range(20, 28)]
    assert min(item.raw for item in found) < 0.0
    assert min(item.nats for item in found) == 0.0


@pytest.mark.parametrize(
    ("attribute", "release", "options", "said"),
    [
        (np.zeros(9), np.arange(10.0), {}, "but the release has 10 rows"),
        (np.arange(10.0), np.zeros(10), {}, "every column of the release is constant"),
        (np.zeros(10), np.arange(10.0), {}, "every column of the attribute is constant"),
        ([0.0, math.nan] * 5, np.arange(10.0), {}, "row 2 of the attribute"),
        (np.arange(10.0), [0.0, math.inf] * 5, {}, "row 2 of the release"),
        (["a", "b"] * 5, np.arange(10.0), {}, "give labels with labels=True"),
        (np.arange(5.0), np.arange(5.0), {}, "5 rows are too few for k = 5"),
        (np.arange(10.0), np.arange(10.0), {"k": 0}, "`k` was 0"),
        (np.arange(10.0), np.arange(10.0), {"k": 2.5}, "`k` was 2.5"),
        (np.arange(10.0), np.zeros((2, 5, 1)), {}, "a table"),
        (["a"] * 10, np.arange(10.0), {"labels": True}, "fewer than two labels"),
        (np.arange(10), np.arange(10.0), {"labels": True}, "fewer than two labels"),
        (np.zeros((10, 2)), np.arange(10.0), {"labels": True}, "one label for each row"),
    ],
)
def test_what_cannot_be_estimated_is_refused(attribute, release, options, said):
    with pytest.raises(BadInput, match=said):
        mutual_information(attribute, release, **options)
