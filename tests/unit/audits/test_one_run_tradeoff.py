"""One-run bounds by trade-off curves: the recursion against the best that linear programming finds."""

import math
import time

import numpy as np
import pytest
from guessing import divergence, likeliest_law, most_likely
from scipy.special import ndtr
from scipy.stats import binom

from sfumato.audits.one_run import GAUSSIAN_CURVE, one_run_bound, one_run_gaussian_bound, rejected
from sfumato.errors import BadInput
from sfumato.privacy import Guarantee, gaussian_epsilon


def largest_chance(correct, guesses, canaries, mu):
    """The smallest τ at which μ is rejected: the recursion's upper bound on P(C ≥ correct)."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if rejected(correct, guesses, canaries, np.array([mu]), middle)[0]:
            high = middle
        else:
            low = middle
    return high


def promises(mu, count):
    """Points of the curve of μ; a mechanism below all of them is almost μ-Gaussian-DP."""
    return [
        (epsilon, Guarantee.gaussian(1.0 / mu).delta(epsilon))
        for epsilon in np.linspace(0.0, 4.0 * mu + mu * mu / 2.0, count)
    ]


@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 2), (2, 1), (3, 3), (3, 2), (3, 1), (6, 4)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_no_mechanism_beats_the_recursion_and_some_reach_it(canaries, guesses, mu):
    for correct in range(1, guesses + 1):
        best = likeliest_law(canaries, guesses, correct, promises(mu, 40))[correct:].sum()
        ours = largest_chance(correct, guesses, canaries, mu)
        # Forty points of the curve let a little more through than all of it does.
        assert best <= ours * 1.002
        if correct == guesses:
            assert ours == pytest.approx(best, rel=2e-3)


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "mu"),
    [(1000, 60, 50, 0.3), (60, 60, 48, 0.3), (60, 60, 56, 0.8), (400, 30, 29, 0.8), (60, 60, 42, 0.1)],
)
def test_the_recursion_is_close_to_the_best_law_of_many_canaries(canaries, guesses, correct, mu):
    law = likeliest_law(canaries, guesses, correct, promises(mu, 20))
    best, ours = law[correct:].sum(), largest_chance(correct, guesses, canaries, mu)
    assert best < 0.2
    assert 0.98 * best <= ours <= 1.5 * best


@pytest.mark.parametrize(("canaries", "guesses"), [(2, 2), (3, 3), (3, 2)])
def test_a_symmetric_mechanism_is_as_good_as_any(canaries, guesses):
    points = promises(1.0, 4)
    for correct in range(1, guesses + 1):
        law = likeliest_law(canaries, guesses, correct, points)
        any_other = most_likely(canaries, guesses, correct, points)
        assert law[correct:].sum() == pytest.approx(any_other, abs=1e-6)
        assert all(divergence(law, canaries, epsilon) <= delta + 1e-9 for epsilon, delta in points)


def test_one_canary_is_the_trade_off_curve_itself():
    # One guess of one coin: P(correct) = (1 − α + 1 − β)/2 at most, which for a Gaussian is Φ(μ/2).
    assert largest_chance(1, 1, 1, 1.3) == pytest.approx(ndtr(0.65), rel=1e-6)


def test_one_guess_among_many_may_be_the_most_certain():
    # Of 100 independent canaries with scores N(±μ/2, 1) the one of the largest |score| is guessed; given s it
    # is right with probability 1/(1 + e^{−μ|s|}). Counting one canary instead of 100 would miss this.
    mu, canaries = 1.0, 100
    size = np.linspace(0.0, 12.0, 20_001)
    below = ndtr(size - mu / 2.0) - ndtr(-size - mu / 2.0)
    right = float(np.sum(np.diff(below**canaries) / (1.0 + np.exp(-mu * size[1:]))))
    assert right <= largest_chance(1, 1, canaries, mu)
    assert right > 1.3 * largest_chance(1, 1, 1, mu)


def test_independent_gaussian_canaries_are_within_the_bound():
    # Each of 50 coins is guessed by the sign of a normal score: C is binomial with share Φ(μ/2).
    for mu in (0.1, 0.5, 1.0):
        for correct in range(20, 51, 3):
            exact = binom.sf(correct - 1, 50, ndtr(mu / 2.0))
            assert exact <= largest_chance(correct, 50, 50, mu) * (1.0 + 1e-9)


def test_larger_mu_and_fewer_correct_guesses_are_rejected_less():
    mus = np.linspace(0.0, 3.0, 31)
    counts = [int(rejected(correct, 100, 200, mus, 0.01).sum()) for correct in range(101)]
    assert counts[0] == counts[50] == 0
    assert counts[100] > counts[90] > counts[80] > 0
    assert (np.diff(counts) >= 0).all()
    for correct in (80, 95, 100):
        out = rejected(correct, 100, 200, mus, 0.01)
        assert not out[np.argmin(out) :].any()


@pytest.mark.parametrize(("correct", "guesses", "canaries"), [(480, 500, 10_000), (6500, 10_000, 10_000)])
def test_the_bound_is_the_largest_rejected_mu(correct, guesses, canaries):
    bound = one_run_gaussian_bound(correct, guesses, canaries, delta=1e-5)
    mu = bound.numbers["mu"]
    out = rejected(correct, guesses, canaries, np.array([mu, mu + 2e-5]), 0.01)
    assert out.tolist() == [True, False]
    assert bound.epsilon == gaussian_epsilon(mu, 1e-5)
    assert bound.assumption == GAUSSIAN_CURVE
    assert bound.epsilon > one_run_bound(correct, guesses, canaries, delta=1e-5).epsilon


def test_what_is_no_better_than_a_guess_bounds_nothing():
    for correct in (0, 50, 55):
        bound = one_run_gaussian_bound(correct, 100, 100, delta=1e-5)
        assert (bound.epsilon, bound.numbers["mu"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("correct", "guesses"), [(6000, 10_000), (10_000, 10_000), (9000, 10_000), (690, 696)]
)
def test_ten_thousand_canaries_take_well_under_a_second(correct, guesses):
    start = time.process_time()
    bound = one_run_gaussian_bound(correct, guesses, 10_000, delta=1e-5)
    assert time.process_time() - start < 0.5
    assert bound.epsilon > 0.0


@pytest.mark.parametrize(
    ("numbers", "options", "said"),
    [
        ((5, 4, 10), {"delta": 1e-5}, "cannot be"),
        ((4, 4, 10), {"delta": 0.0}, "`delta` was 0: a Gaussian curve"),
        ((4, 4, 10), {"delta": 1e-5, "confidence": 1.5}, "`confidence` was 1.5"),
        ((math.nan, 4, 10), {"delta": 1e-5}, "`correct` must be"),
    ],
)
def test_what_is_no_game_is_refused(numbers, options, said):
    with pytest.raises(BadInput, match=said):
        one_run_gaussian_bound(*numbers, **options)
