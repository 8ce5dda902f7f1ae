"""Components counted: more than a threshold game can show, and no more than is true."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.audits.lower_bounds import component_bound, threshold_bound


def games(rng, chances, count):
    """Scores ±1, above 0 with each component's own chance."""
    return np.where(rng.random((count, len(chances))) < chances, 1.0, -1.0)


def true_epsilon(size, under, over, delta):
    """ε at δ of two products of equal coins, whose likelihood ratio grows with the count."""
    tails = [(binom.sf(k - 1, size, over), binom.sf(k - 1, size, under)) for k in range(size + 1)]
    reached = [math.log((above - delta) / below) for above, below in tails if above > delta]
    return max(reached)


@pytest.mark.parametrize(("size", "under", "over"), [(1, 0.1, 0.8), (8, 0.2, 0.8), (64, 0.1, 0.9)])
def test_the_bound_is_below_the_truth_and_above_that_of_whole_releases(size, under, over):
    rng = np.random.default_rng(size)
    first, second = (games(rng, [chance] * size, 20_000) for chance in (under, over))
    found = component_bound(first, second, delta=1e-5, confidence=1.0 - 1e-8)
    exact = true_epsilon(size, under, over, 1e-5)
    assert 0.3 * exact < found.epsilon <= exact
    totals = first.sum(axis=1), second.sum(axis=1)
    whole = threshold_bound(*totals, delta=1e-5, confidence=1.0 - 1e-8).epsilon
    assert found.epsilon > whole or size < 64
    assert math.log(20_000) < found.epsilon or size < 64


def test_few_games_err_no_more_often_than_the_confidence_allows():
    """400 bounds at a confidence of 0.9: more than 90 above the truth have a chance below 1e-9.

    With one component no inequality has any room but that of the counts, and shares as they are counted
    would exceed the truth every other time.
    """
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        first, second = games(rng, [0.2], 60), games(rng, [0.8], 60)
        wrong += component_bound(first, second, delta=0.0, confidence=0.9).epsilon > math.log(4.0)
    assert binom.sf(90, 400, 0.1) < 1e-9
    assert wrong <= 90


def test_components_need_not_be_alike():
    """Coins of many chances, each the other way round under the neighbour: their pure ε add up."""
    rng, chances = np.random.default_rng(3), np.linspace(0.05, 0.45, 40)
    first, second = games(rng, chances, 20_000), games(rng, 1.0 - chances, 20_000)
    found = component_bound(first, second, delta=0.0, confidence=1.0 - 1e-8)
    assert 10.0 < found.epsilon <= float(np.log(1.0 / chances - 1.0).sum())


def test_values_seen_as_they_were_are_counted_on_either_side():
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=(4000, 20)) for _ in range(2)]
    shown = rng.random((4000, 20)) < 0.1
    for side in (1.0, -1.0):
        told = np.where(shown, side * np.inf, noise[1])
        first, second = (noise[0], told) if side > 0.0 else (told, noise[0])
        found = component_bound(first, second, delta=1e-5)
        assert found.epsilon > 10.0
        assert found.numbers["threshold"] >= 1


def test_worlds_that_are_alike_show_nothing():
    rng = np.random.default_rng(2)
    first, second = (rng.normal(size=(2000, 30)) for _ in range(2))
    assert component_bound(first, second, delta=0.0, confidence=1.0 - 1e-8).epsilon == 0.0
    certain = np.full((10, 3), np.inf)
    assert component_bound(certain, certain, delta=0.0).epsilon == 0.0
    assert component_bound(-certain, certain, delta=0.0).epsilon > 0.0
