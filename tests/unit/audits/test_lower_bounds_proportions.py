"""Clopper–Pearson bounds hold exactly: their coverage is summed over all counts, not simulated."""

import numpy as np
import pytest
from scipy import special
from scipy.stats import binom

from sfumato.audits.lower_bounds import (
    chernoff_upper,
    failure_chance,
    interval,
    joint_upper,
)
from sfumato.errors import BadInput


@pytest.mark.parametrize("total", [1, 7, 50_000])
@pytest.mark.parametrize("chance", [0.4, 0.005, 1e-9])
def test_a_bound_is_where_the_tail_is_the_chance(total, chance):
    counts = np.unique(np.array([0, 1, total // 3, total - 1]))
    lower, upper = np.transpose([interval(int(count), total, 1.0 - 2.0 * chance) for count in counts])
    below = counts < total
    assert binom.cdf(counts[below], total, upper[below]) == pytest.approx(chance, rel=1e-6)
    above = counts > 0
    assert binom.sf(counts[above] - 1, total, lower[above]) == pytest.approx(chance, rel=1e-6)


@pytest.mark.parametrize("total", [1, 2, 1000])
def test_edges_are_exact(total):
    assert interval(0, total, 0.98) == (0.0, pytest.approx(1.0 - 0.01 ** (1.0 / total), rel=1e-12))
    assert interval(total, total, 0.98) == (pytest.approx(0.01 ** (1.0 / total), rel=1e-12), 1.0)


def test_bounds_rise_with_the_count_and_hold_it() -> None:
    both = np.array([interval(count, 10, 0.98) for count in range(11)])
    assert (np.diff(both, axis=0) > 0.0).all()
    assert (both[:, 0] < both[:, 1]).all()


@pytest.mark.parametrize("total", [5, 30])
def test_an_interval_holds_the_truth_with_its_confidence_at_every_probability(total):
    ends = np.array([interval(count, total, 0.9) for count in range(total + 1)])
    for truth in np.linspace(0.001, 0.999, 200):
        weights = binom.pmf(np.arange(total + 1), total, truth)
        for missed in (truth < ends[:, 0], truth > ends[:, 1]):
            assert weights[missed].sum() <= 0.05


def _missed(totals, truth, chance):
    """The exact probability that no pair of the joint bound lies above both true probabilities."""
    missed = 0.0
    for first in range(totals[0] + 1):
        for second in range(totals[1] + 1):
            alpha, beta = joint_upper((first, totals[0]), (second, totals[1]), chance)
            if not ((alpha >= truth[0]) & (beta >= truth[1])).any():
                missed += binom.pmf(first, totals[0], truth[0]) * binom.pmf(second, totals[1], truth[1])
    return missed


@pytest.mark.parametrize("totals", [(6, 6), (4, 11)])
@pytest.mark.parametrize("chance", [0.3, 0.05])
def test_two_counts_together_are_missed_with_no_more_than_the_chance(totals, chance):
    truths = [(one, other) for one in (0.02, 0.3, 0.6, 0.95) for other in (0.05, 0.5, 0.9)]
    missed = [_missed(totals, truth, chance) for truth in truths]
    assert max(missed) <= chance
    # A bound that never fails would promise nothing; these counts are too few to come closer.
    assert max(missed) > chance / 10.0


def test_two_large_counts_are_missed_about_as_often_as_stated():
    # The true pair is outside when p₁·p₂ ≤ q; with this many games both are nearly uniform.
    alpha, beta = joint_upper((20_000, 45_000), (20_000, 45_000), 0.01)
    tails = binom.cdf(20_000, 45_000, alpha) * binom.cdf(20_000, 45_000, beta)
    q = tails.max()
    assert q * (1.0 - np.log(q)) == pytest.approx(0.01, rel=0.05)
    assert q * (1.0 - np.log(q)) <= 0.01


def test_together_is_sharper_than_one_by_one():
    first, second = (20_000, 45_000), (20_100, 45_000)
    alpha, beta = joint_upper(first, second, 0.01)
    together = (-special.ndtri(alpha) - special.ndtri(beta)).min()
    apart = -sum(special.ndtri(interval(*count, 0.99)[1]) for count in (first, second))
    assert together > apart


def test_counts_without_an_error_still_bound():
    alpha, beta = joint_upper((0, 100), (100, 100), 0.01)
    assert (alpha > 0.0).all()
    assert (beta == 1.0).all()


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, True, float("nan")])
def test_what_is_no_confidence_is_refused(confidence):
    with pytest.raises(BadInput, match="`confidence` was"):
        failure_chance(confidence)
    with pytest.raises(BadInput, match="`confidence` was"):
        interval(1, 2, confidence)


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_a_mean_of_unequal_coins_is_missed_with_no_more_than_the_chance(spread):
    """By the exact law of the sum, so without a chance of a false alarm."""
    chances = np.clip(0.05 + spread * np.linspace(-1.0, 1.0, 60), 0.0, 1.0)
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1.0 - chance, chance])
    missed = [law[s] for s in range(law.size) if chernoff_upper(s, 60, 0.01) < chances.mean()]
    assert sum(missed) <= 0.01
    assert chernoff_upper(0, 60, 0.01) == pytest.approx(1.0 - 0.01 ** (1.0 / 60.0))
    assert chernoff_upper(60, 60, 0.01) == 1.0
