"""No bound accuses a mechanism that keeps its promise more often than it says.

Each bound is taken 200 times at 99% confidence and may exceed the true ε at most 12 times. If it is sound it
does so with probability at most 1% each time, so each test raises a false alarm with probability at most
P(Bin(200, 0.01) > 12) = 1.6e-7. The mechanisms are chosen where the bounds have nothing to give away: atoms
whose likelihood ratio is e^ε exactly, δ spent to the last, canaries that depend on each other.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.audits import (
    distinguish,
    gaussian_bound,
    one_run_bound,
    one_run_gaussian_bound,
    threshold_bound,
)
from sfumato.audits.distinguishing_game import likelihood_scores
from sfumato.audits.one_run import best_guesses, one_run_chance
from sfumato.privacy import gaussian_epsilon

REPETITIONS, ALLOWED, GAMES = 200, 12, 2000


def _exceeding(bound, epsilon):
    """How many of the repetitions report more than ``epsilon``."""
    return sum(bound() > epsilon * (1.0 + 1e-9) for _ in range(REPETITIONS))


def test_the_false_alarm_rate_is_as_stated():
    assert binom.sf(ALLOWED, REPETITIONS, 0.01) < 2e-7


@pytest.mark.parametrize("method", ["likelihood", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_games_with_gaussian_noise(method, epsilon):
    mechanism = sf.Gaussian(epsilon, 1e-2, clip=1.0)
    bound = lambda: distinguish(mechanism, delta=1e-2, games=GAMES, method=method).epsilon  # noqa: E731
    assert _exceeding(bound, epsilon) <= ALLOWED


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("kind", ["laplace", "response"])
def test_games_with_pure_epsilon(kind, epsilon):
    mechanism = sf.Laplace(epsilon, clip=1.0) if kind == "laplace" else sf.RandomisedResponse(epsilon, 3)
    assert _exceeding(lambda: distinguish(mechanism, delta=0.0, games=GAMES).epsilon, epsilon) <= ALLOWED


def _leaky_response(rng, games, epsilon, delta):
    """Scores of a mechanism that shows the truth with probability δ and else answers at random with ε."""
    worlds = []
    for truth in (-1.0, 1.0):
        answers = np.where(rng.random(games) < 1.0 / (1.0 + math.exp(-epsilon)), truth, -truth)
        worlds.append(np.where(rng.random(games) < delta, truth * np.inf, answers))
    return worlds


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.1), (0.2, 0.02), (3.0, 0.3)])
def test_a_delta_that_is_spent_to_the_last(epsilon, delta):
    # P(+1 or certain | neighbour) − δ = e^ε·P(+1 | record) exactly: (ε, δ) and nothing less.
    rng = np.random.default_rng(1)
    bound = lambda: threshold_bound(*_leaky_response(rng, GAMES, epsilon, delta), delta=delta).epsilon  # noqa: E731
    assert _exceeding(bound, epsilon) <= ALLOWED
    ignored = [threshold_bound(*_leaky_response(rng, GAMES, epsilon, delta), delta=0.0) for _ in range(20)]
    # Who forgets δ accuses it: at δ = 0 no ε holds.
    assert min(item.epsilon for item in ignored) > epsilon


def test_gaussian_games_with_scores_of_little_information():
    # Scores that are only signs of normal ones are still a game between two Gaussians, seen badly.
    rng, mu = np.random.default_rng(2), 1.0
    signs = lambda: [np.sign(rng.normal(way * mu / 2.0, 1.0, GAMES)) for way in (-1, 1)]  # noqa: E731
    epsilon = gaussian_epsilon(mu, 1e-5)
    assert _exceeding(lambda: gaussian_bound(*signs(), delta=1e-5).epsilon, epsilon) <= ALLOWED


def _guessed(mechanism, rng, canaries, guesses):
    coins = rng.integers(0, 2, canaries)
    released = mechanism.perturb(np.where(coins == 1, 1.0, -1.0)[:, None])
    return best_guesses(
        likelihood_scores(mechanism, np.array([-1.0]), np.array([1.0]), released), coins, guesses=guesses
    )


@pytest.mark.parametrize("guesses", [150, 1000])
def test_one_run_with_independent_canaries(guesses):
    rng, canaries = np.random.default_rng(3), 1000
    noisy = sf.Gaussian(1.0, 1e-3, clip=1.0)
    games = [_guessed(noisy, rng, canaries, guesses) for _ in range(REPETITIONS)]
    for bounded in (one_run_bound, one_run_gaussian_bound):
        epsilons = [bounded(*game, delta=1e-3).epsilon for game in games]
        assert sum(epsilon > 1.0 for epsilon in epsilons) <= ALLOWED
    pure = sf.Laplace(0.5, clip=1.0)
    bound = lambda: one_run_bound(*_guessed(pure, rng, canaries, guesses), delta=0.0).epsilon  # noqa: E731
    assert _exceeding(bound, 0.5) <= ALLOWED


def test_one_run_of_randomised_response_spends_its_chance():
    # C is binomial with share e^ε/(1 + e^ε): the worst case of pure ε, every canary guessed.
    rng, epsilon, canaries = np.random.default_rng(4), 0.7, 300
    share = 1.0 / (1.0 + math.exp(-epsilon))
    bound = lambda: one_run_bound(int(rng.binomial(canaries, share)), canaries, canaries, delta=0.0).epsilon  # noqa: E731
    assert _exceeding(bound, epsilon) <= ALLOWED


def test_one_run_of_the_mechanism_that_was_made_to_deceive_it():
    # All canaries depend on each other through the number of correct guesses, whose law spends δ where it
    # hurts this v most; the chance of being accused is then 1% exactly, up to the steps of whole numbers.
    rng, guesses, canaries, epsilon, delta = np.random.default_rng(5), 200, 400, 0.7, 2e-4
    counts = np.arange(guesses + 1)
    chances = [one_run_chance(int(v), guesses, canaries, epsilon, delta) for v in counts]
    correct = int(np.argmax(np.array(chances) <= 0.01))
    plain = binom.pmf(counts, guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    jump = canaries * delta / (correct * plain[correct])
    law = plain * (1.0 + jump * ((counts >= correct) - plain[correct:].sum()))
    assert law[correct:].sum() == pytest.approx(chances[correct], rel=1e-9)
    assert law[correct:].sum() > 0.004
    drawn = rng.choice(guesses + 1, size=REPETITIONS, p=law)
    epsilons = [one_run_bound(int(c), guesses, canaries, delta=delta).epsilon for c in drawn]
    assert sum(found > epsilon * (1.0 + 1e-9) for found in epsilons) <= ALLOWED
    # Exactly: the bound exceeds ε from ``correct`` on, and nowhere below.
    exact = [one_run_bound(int(c), guesses, canaries, delta=delta).epsilon > epsilon for c in counts]
    assert exact == (counts >= correct).tolist()


@pytest.mark.parametrize("canaries", [40, 400])
def test_one_run_of_canaries_that_are_seen_only_in_their_sum(canaries):
    # One number is released, the sum of all coins with noise: each coin moves it by μ deviations. Everybody
    # is guessed to be in if it is above its mean, so that all guesses are right or wrong together.
    rng, mu = np.random.default_rng(6), 1.0
    epsilon = gaussian_epsilon(mu, 1e-5)
    found = {one_run_bound: 0, one_run_gaussian_bound: 0}
    for _ in range(REPETITIONS):
        coins = rng.integers(0, 2, canaries)
        score = mu * (coins.sum() - canaries / 2.0) + rng.normal()
        game = best_guesses(np.full(canaries, score), coins, guesses=canaries)
        for bounded in found:
            found[bounded] += bounded(*game, delta=1e-5).epsilon > epsilon
    assert max(found.values()) <= ALLOWED
