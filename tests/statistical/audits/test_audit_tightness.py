"""How much of the true ε an audit finds: at least the shares below, with 10⁵ games at 99% confidence.

Every figure is the median of nine audits with fresh noise. Of 300 single audits at each setting none fell
below its share, so one falls below it with a probability under 2% (0 of 300 would otherwise have a
probability under 0.3%), and five of nine do with one under 4e-7: the false-alarm rate of each test.
"""

import statistics

import numpy as np
import pytest

import sfumato as sf
from sfumato.audits import distinguish, one_run_bound, one_run_gaussian_bound
from sfumato.audits.distinguishing_game import likelihood_scores
from sfumato.audits.one_run import best_guesses

AUDITS = 9
DELTA = 1e-5


def _median(audit, epsilon):
    """The median share of ε that nine audits find."""
    return statistics.median(audit() for _ in range(AUDITS)) / epsilon


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("neighbours", ["replace", "zero-out"])
def test_the_gaussian_game_finds_four_fifths(epsilon, neighbours):
    mechanism = sf.Gaussian(epsilon, DELTA, clip=1.0, neighbours=neighbours)
    assert _median(lambda: distinguish(mechanism, delta=DELTA, method="gaussian").epsilon, epsilon) >= 0.8


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_without_assumptions_a_third_of_a_gaussian_is_found(epsilon):
    mechanism = sf.Gaussian(epsilon, DELTA, clip=1.0)
    assert _median(lambda: distinguish(mechanism, delta=DELTA).epsilon, epsilon) >= 0.35


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        lambda epsilon: sf.Laplace(epsilon, clip=1.0),
        lambda epsilon: sf.Laplace(epsilon, bounds=(0.0, 10.0)),
        sf.RandomisedResponse,
    ],
    ids=["Laplace, ball", "Laplace, box", "RandomisedResponse"],
)
def test_nine_tenths_of_a_pure_epsilon_are_found(epsilon, mechanism):
    sound = mechanism(epsilon)
    assert _median(lambda: distinguish(sound, delta=0.0).epsilon, epsilon) >= 0.9


def _one_run(mechanism, canaries, rng):
    """Fair coins, one release of all canaries, and the guesses that are most certain."""
    coins = rng.integers(0, 2, canaries)
    released = mechanism.perturb(np.where(coins == 1, 1.0, -1.0)[:, None])
    scores = likelihood_scores(mechanism, np.array([-1.0]), np.array([1.0]), released)
    return best_guesses(scores, coins, guesses=round(1.5 * canaries ** (2 / 3)))


@pytest.mark.parametrize("epsilon", [2.0, 4.0, 8.0])
def test_one_run_of_ten_thousand_canaries_finds_two_fifths(epsilon):
    mechanism, rng = sf.Gaussian(epsilon, DELTA, clip=1.0), np.random.default_rng(0)
    games = [_one_run(mechanism, 10_000, rng) for _ in range(AUDITS)]
    curve = [one_run_gaussian_bound(*game, delta=DELTA).epsilon for game in games]
    point = [one_run_bound(*game, delta=DELTA).epsilon for game in games]
    assert statistics.median(curve) >= 0.4 * epsilon
    # One (ε, δ) instead of the whole curve finds less, but assumes nothing.
    assert 0.3 * epsilon <= statistics.median(point) <= statistics.median(curve)
