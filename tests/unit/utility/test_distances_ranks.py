"""Rank correlations against SciPy, with ties, across parts, and the bound on what bins change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from sfumato.utility.distances import binned, exact_ranks, first_pair, small


def packed(first, second):
    return (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)


lists = st.integers(3, 40).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 12), min_size=size, max_size=size)] * 2)
).filter(lambda pair: all(len(set(one)) > 1 for one in pair))  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(lists)
def test_small_and_exact_ranks_are_spearmans(pair):
    first, second = (np.array(one) for one in pair)
    expected = spearmanr(first, second).statistic
    assert small(first.astype(float), second.astype(float)) == pytest.approx(expected, abs=1e-12)
    assert exact_ranks(packed(first, second)) == pytest.approx(expected, abs=1e-12)
    assert binned(first.astype(np.uint16), second.astype(np.uint16))[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("values", [2, 3, 700, 2**31 - 1])
def test_ties_that_reach_over_parts(values):
    """600,000 pairs are read in three parts; with few values a tie spans them all."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, values, 600_000)
    second = np.where(rng.random(first.size) < 0.5, first, rng.integers(0, values, first.size))
    expected = spearmanr(first, second).statistic
    assert exact_ranks(packed(first, second)) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 3000), st.integers(2, 200), st.floats(-1, 1))
def test_bins_change_the_correlation_by_no_more_than_they_say(seed, size, bins, share):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal(size)
    second = share * first + (1 - abs(share)) * rng.standard_normal(size)
    edges = [np.quantile(one, np.sort(rng.random(bins - 1))) for one in (first, second)]
    codes = [
        np.searchsorted(edge, one).astype(np.uint16) for edge, one in zip(edges, (first, second), strict=True)
    ]
    value, error = binned(*codes)
    if not np.isnan(value):
        assert abs(value - spearmanr(first, second).statistic) <= error + 1e-12
        assert error < np.pi


def test_the_bound_of_bins_by_hand():
    """Four pairs in two bins of two: ranks ±½, ±½ within bins of means ±1, so the angle is atan(½)."""
    codes = np.array([0, 0, 1, 1], dtype=np.uint16)
    assert binned(codes, codes)[0] == pytest.approx(1.0)
    assert binned(codes, codes)[1] == pytest.approx(2 * np.arctan(0.5))


def test_one_value_alone_has_no_ranks():
    same, other = np.zeros(9), np.arange(9.0)
    assert np.isnan(small(same, other))
    assert np.isnan(exact_ranks(packed(same, other)))
    assert np.isnan(exact_ranks(packed(other, same)))
    value, error = binned(same.astype(np.uint16), other.astype(np.uint16))
    assert np.isnan(value)
    assert error == np.pi


def test_pairs_are_numbered_as_scipy_does():
    places = [(row, other) for row in range(7) for other in range(row + 1, 7)]
    for row in range(7):
        assert first_pair(row, 7) == sum(1 for one, _ in places if one < row)
