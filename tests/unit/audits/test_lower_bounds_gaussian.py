"""The Gaussian game: μ from two error rates, its conversion, its assumption."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sfumato.audits.lower_bounds import GAUSSIAN_PAIR, gaussian_bound, joint_upper
from sfumato.errors import BadInput
from sfumato.privacy import gaussian_epsilon


def _quantiles(mu, games):
    """Scores that are exactly as normal as ``games`` numbers can be, around ∓μ/2."""
    levels = ndtri((np.arange(games) + 0.5) / games)
    return levels - mu / 2.0, levels + mu / 2.0


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_mu_is_found_from_below(mu):
    bound = gaussian_bound(*_quantiles(mu, 100_000), delta=1e-5)
    # The errors are Φ(−μ/2) each, and of 90,000 games; three deviations either way is what 99% costs.
    rate = ndtr(-mu / 2.0)
    density = math.exp(-mu * mu / 8.0) / math.sqrt(2.0 * math.pi)
    deviation = math.sqrt(rate * (1.0 - rate) / 90_000) / density
    assert mu - 8.0 * deviation < bound.numbers["mu"] < mu
    assert bound.epsilon == gaussian_epsilon(bound.numbers["mu"], 1e-5)


def test_mu_is_the_formula_at_the_errors_it_reports():
    bound = gaussian_bound(*_quantiles(1.0, 1000), delta=1e-3, confidence=0.9)
    numbers = bound.numbers
    alpha, beta = joint_upper(
        (int(numbers["false_positives"]), int(numbers["record_games"])),
        (int(numbers["false_negatives"]), int(numbers["neighbour_games"])),
        0.1,
    )
    assert numbers["mu"] == pytest.approx((-ndtri(alpha) - ndtri(beta)).min(), rel=1e-12)
    assert numbers["mu"] == pytest.approx(-ndtri(numbers["alpha_upper"]) - ndtri(numbers["beta_upper"]))
    assert (numbers["record_games"], numbers["neighbour_games"]) == (900, 900)


def test_any_rising_map_of_the_scores_gives_the_same_bound():
    first, second = _quantiles(1.0, 5000)
    plain = gaussian_bound(first, second, delta=1e-5)
    mapped = gaussian_bound(np.exp(3.0 * first), np.exp(3.0 * second), delta=1e-5)
    assert mapped.epsilon == plain.epsilon


def test_the_assumption_is_stated():
    bound = gaussian_bound(*_quantiles(1.0, 1000), delta=1e-5)
    assert bound.assumption == GAUSSIAN_PAIR


def test_scores_that_say_nothing_or_the_opposite_bound_nothing():
    first, second = _quantiles(1.0, 1000)
    for one, other in ((first, first), (second, first), (np.zeros(50), np.zeros(50))):
        bound = gaussian_bound(one, other, delta=1e-5)
        assert bound.epsilon == 0.0
        assert bound.numbers["mu"] == 0.0


def test_certainty_is_finite():
    bound = gaussian_bound(np.full(1000, -np.inf), np.full(1000, np.inf), delta=1e-5)
    assert 4.0 < bound.numbers["mu"] < 7.0


@pytest.mark.parametrize(
    ("delta", "said"), [(0.0, "`delta` was 0: a Gaussian curve"), (1.0, "`delta` was 1.0")]
)
def test_a_delta_without_a_finite_epsilon_is_refused(delta, said):
    with pytest.raises(BadInput, match=said):
        gaussian_bound(*_quantiles(1.0, 100), delta=delta)


def test_nan_is_refused():
    with pytest.raises(BadInput, match="the scores of the neighbour are NaN in 1 of 2 rows, first in row 0"):
        gaussian_bound([0.0, 1.0], [float("nan"), 1.0], delta=1e-5)
