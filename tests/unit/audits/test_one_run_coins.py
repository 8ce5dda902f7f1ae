"""Bounds from guessed coins: they hold as often as they say, for one change and for two zero-outs."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.audits.one_run import gaussian_mu, guess_bound, impossible, refutable_epsilon
from sfumato.mechanisms import noise_multiplier
from sfumato.privacy import Guarantee, gaussian_epsilon

# Of 100 bounds that each fail in 1% of runs, more than this many fail with a chance of 1e-6.
FAILURES = binom.isf(1e-6, 100, 0.01)


def gaussian_coins(mu, seed, count=1000):
    """Coins behind Gaussian noise, exactly ``mu`` apart."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, count)
    return mu * (coins - 0.5) + rng.standard_normal(count), coins


def responses(epsilon, seed, count=1000):
    """Coins told by randomised response of exactly ``epsilon``."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, count)
    honest = rng.random(count) < 1.0 / (1.0 + math.exp(-epsilon))
    return np.where(honest, coins, 1 - coins) - 0.5, coins


@pytest.mark.parametrize("zero_outs", [1, 2])
def test_a_pure_mechanism_is_never_said_to_be_worse(zero_outs):
    """ε = 1 for one change: the bound exceeds it in at most 1% of 100 runs (false-alarm rate 1e-6)."""
    found = [
        guess_bound(*responses(1.0 * zero_outs, seed), delta=0.0, zero_outs=zero_outs).epsilon
        for seed in range(100)
    ]
    assert np.sum(np.array(found) > 1.0) <= FAILURES
    assert np.median(found) > 0.6


@pytest.mark.parametrize("zero_outs", [1, 2])
@pytest.mark.parametrize("gaussian", [False, True])
def test_a_gaussian_mechanism_is_never_said_to_be_worse(gaussian, zero_outs):
    """μ = 0.8 for one change: as above, for bounds on ε at δ and on the curve (false-alarm rate 1e-6)."""
    found = [
        guess_bound(
            *gaussian_coins(0.8 * zero_outs, seed), delta=1e-5, gaussian=gaussian, zero_outs=zero_outs
        ).epsilon
        for seed in range(20)
    ]
    assert np.sum(np.array(found) > gaussian_epsilon(0.8, 1e-5)) <= binom.isf(1e-6, 20, 0.01)
    assert np.median(found) > 0.3


def test_two_zero_outs_are_half_a_bound():
    scores, coins = gaussian_coins(3.0, 0)
    one, two = (guess_bound(scores, coins, delta=0.0, zero_outs=count) for count in (1, 2))
    # At δ = 0 it is half, but for the search.
    assert two.epsilon == pytest.approx(one.epsilon / 2.0, rel=1e-9)
    curve_one, curve_two = (
        guess_bound(scores, coins, delta=1e-5, gaussian=True, zero_outs=count) for count in (1, 2)
    )
    assert curve_two.numbers["mu"] == curve_one.numbers["mu"] / 2.0
    assert curve_two.epsilon == gaussian_epsilon(curve_two.numbers["mu"], 1e-5)
    # At δ > 0 two zero-outs have a larger δ as well, so a bound for one of them is below a half.
    small, large = (guess_bound(scores, coins, delta=1e-5, zero_outs=count).epsilon for count in (2, 1))
    assert small < large / 2.0


def test_what_cannot_be_is_told_from_what_can():
    """False-alarm rate 1e-6: 100 times the chance 1e-8 that is asked for."""
    honest = Guarantee.gaussian(1.0 / 0.8, at_delta=1e-5)
    for seed in range(50):
        scores, coins = gaussian_coins(0.8, seed, 400)
        assert not impossible(scores, coins, honest, chance=1e-8)
        scores, coins = gaussian_coins(1.6, seed, 400)
        assert not impossible(scores, coins, honest, chance=1e-8, zero_outs=2)
    scores, coins = gaussian_coins(6.0, 0)
    assert impossible(scores, coins, honest)
    # Twice 0.8 would still allow for so many correct guesses; twice 0.3 does not.
    assert not impossible(scores, coins, honest, zero_outs=2)
    assert impossible(scores, coins, Guarantee.gaussian(1.0 / 0.3, at_delta=1e-5), zero_outs=2)
    pure = Guarantee.pure(1.0)
    assert impossible(scores, coins, pure)
    assert impossible(scores, coins, pure, zero_outs=2)
    assert not impossible(*responses(1.0, 1), pure, chance=1e-6)
    assert not impossible(scores, coins, Guarantee.nothing("no proof"))
    # A proof with a slack above δ bounds no ε there, so nothing contradicts it.
    assert not impossible(scores, coins, Guarantee.approximate(1.0, 0.01))


def test_the_mu_of_gaussian_guarantees_alone():
    one = Guarantee.gaussian(2.0, at_delta=1e-5)
    assert gaussian_mu(one) == 0.5
    assert gaussian_mu(one.times(4)) == pytest.approx(1.0)
    assert gaussian_mu(Guarantee.pure(1.0)) is None
    assert gaussian_mu(Guarantee.laplace(1.0)) is None
    assert gaussian_mu(one.with_slack(1e-9)) is None
    assert gaussian_mu(Guarantee.nothing("no proof")) is None


@pytest.mark.parametrize(("canaries", "chance"), [(100, 1e-6), (500, 5e-9), (2000, 1e-3)])
def test_no_guesses_refute_more_than_is_said_and_right_ones_refute_that(canaries, chance):
    most = refutable_epsilon(canaries, delta=1e-5, chance=chance)
    coins = np.random.default_rng(0).integers(0, 2, canaries)
    for factor, refuted in ((0.999, True), (1.001, False)):
        proven = Guarantee.gaussian(noise_multiplier(factor * most, 1e-5), at_delta=1e-5)
        assert impossible(coins - 0.5, coins, proven, chance=chance) is refuted
