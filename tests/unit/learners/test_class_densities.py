"""Class-wise kernel densities: against scipy and sums written out, in many dimensions, and bandwidths."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.special import logsumexp
from scipy.stats import gaussian_kde

from sfumato.errors import BadInput
from sfumato.learners.compact.class_densities import ClassDensities

RNG = np.random.default_rng(5)


def written_out(points, h, X):
    """The definition, term by term."""
    exponents = -cdist(X, points, "sqeuclidean") / (2 * h * h)
    dimension = points.shape[1]
    return logsumexp(exponents, axis=1) - np.log(len(points)) - dimension / 2 * np.log(2 * np.pi * h * h)


def test_one_dimension_agrees_with_scipy() -> None:
    points, labels = RNG.normal(size=(60, 1)), np.repeat([0, 1], 30)
    densities = ClassDensities(points, labels, 2, bandwidth=0.37)
    at = np.linspace(-3, 3, 50)[:, None]
    for kind in range(2):
        own = points[labels == kind, 0]
        peer = gaussian_kde(own, bw_method=0.37 / own.std(ddof=1))
        np.testing.assert_allclose(densities.log_density(at, kind), np.log(peer(at[:, 0])), rtol=1e-9)


@pytest.mark.parametrize("dimension", [2, 30])
def test_densities_are_those_of_the_definition_far_from_the_origin_too(dimension) -> None:
    points, labels = RNG.normal(size=(90, dimension)) + 1e4, np.arange(90) % 3
    densities = ClassDensities(points, labels, 3)
    X = RNG.normal(size=(40, dimension)) + 1e4
    expected = [written_out(points[labels == kind], densities.bandwidth, X) for kind in range(3)]
    np.testing.assert_allclose(densities.log_densities(X), np.transpose(expected), rtol=1e-7, atol=1e-6)


def test_rows_in_several_blocks_have_the_same_densities() -> None:
    points, labels = RNG.normal(size=(6000, 2)), np.arange(6000) % 2
    densities = ClassDensities(points, labels, 2, bandwidth=0.5)
    X = RNG.normal(size=(3000, 2))  # 3,000 × 3,000 distances are more than one block holds
    some = np.array([0, 1397, 1398, 2999])
    np.testing.assert_allclose(
        densities.log_density(X, 1)[some], densities.log_density(X[some], 1), rtol=1e-12
    )


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dimension", [768, 4000])
def test_many_dimensions_neither_overflow_nor_vanish(dimension, scale) -> None:
    means = RNG.normal(size=(2, dimension))
    labels = np.arange(40) % 2
    points = scale * (means[labels] + RNG.normal(size=(40, dimension)))
    densities = ClassDensities(points, labels, 2)
    assert np.isfinite(densities.log_densities(points)).all()
    probabilities = densities.probabilities(points)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), labels)


def test_probabilities_are_shares_of_densities() -> None:
    points, labels = RNG.normal(size=(20, 3)), np.arange(20) % 2
    densities = ClassDensities(points, labels, 2, bandwidth=2.0)
    plain = np.exp(densities.log_densities(points))
    np.testing.assert_allclose(densities.probabilities(points), plain / plain.sum(axis=1, keepdims=True))


def test_the_adaptive_bandwidth_is_scotts_rule_with_median_distances() -> None:
    points, labels = RNG.normal(size=(70, 5)), np.repeat([0, 1, 2], [20, 20, 30])
    alone = [
        np.median(pdist(points[labels == kind])) / np.sqrt(2) * (labels == kind).sum() ** (-1 / 9)
        for kind in range(3)
    ]
    found = ClassDensities(points, labels, 3).bandwidth
    assert found == pytest.approx(np.median(alone), rel=1e-12)
    assert ClassDensities(0.05 * points, labels, 3).bandwidth == pytest.approx(0.05 * found, rel=1e-12)


def test_records_that_coincide_leave_a_width() -> None:
    points, labels = np.repeat([[0.0], [1.0]], 5, axis=0), np.repeat([0, 1], 5)
    assert ClassDensities(points, labels, 2).bandwidth == pytest.approx(0.5e-6)
    with pytest.raises(BadInput, match="all points coincide"):
        ClassDensities(np.ones((4, 2)), np.array([0, 0, 1, 1]), 2)


def test_bad_input_is_refused_in_words() -> None:
    points, labels = RNG.normal(size=(6, 2)), np.array([0, 0, 0, 0, 0, 1])
    with pytest.raises(BadInput, match="class 1 has one record: an adaptive bandwidth needs 2"):
        ClassDensities(points, labels, 2)
    with pytest.raises(BadInput, match="class 2 has no record"):
        ClassDensities(points, labels, 3, bandwidth=1.0)
    with pytest.raises(BadInput, match="`bandwidth` was 'scott'"):
        ClassDensities(points, labels, 2, bandwidth="scott")
    with pytest.raises(BadInput, match="`bandwidth` must be a positive number"):
        ClassDensities(points, labels, 2, bandwidth=-1.0)
    with pytest.raises(BadInput, match="3 features were given, and 2 were fitted"):
        ClassDensities(points, labels, 2, bandwidth=1.0).log_densities(np.ones((1, 3)))
