"""Theorem 3: the numbers as printed and corrected, by hand, and what noise of classes truly proves."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from sfumato.errors import BadInput
from sfumato.learners.compact import ClassProfile, corrected_allocation, paper_allocation
from sfumato.learners.compact.class_densities import class_release_guarantee

# ν = 2/16^(1/4) = 1 and 6/81^(1/4) = 2 at p = 0; η = 1/4 and 1, η^(3/2) = 1/8 and 1.
PROFILE = ClassProfile(
    np.array([16.0, 81.0]), np.array([2.0, 6.0]), np.array([0.5, 6.0]), np.zeros(2), np.zeros(2), 0
)
# log(1.25/δ) = 2 and √(2·2) = 2.
DELTA = 1.25 * math.exp(-2.0)


def test_the_printed_formula_by_hand() -> None:
    found = paper_allocation(PROFILE, epsilon=0.5, delta=DELTA, sensitivity=3.0)
    np.testing.assert_allclose(found.sigma, [3 * 0.125 / (0.5 * 2), 3 * 2 / (0.5 * 2)])
    assert found.spent == pytest.approx(8**2 + 0.5**2)
    assert found.allowed == pytest.approx(2 * 0.25 / 2)
    assert not found.within_paper


def test_the_corrected_formula_by_hand() -> None:
    found = corrected_allocation(PROFILE, epsilon=0.5, delta=DELTA, sensitivity=[3.0, 5.0])
    np.testing.assert_allclose(found.sigma, [3 * 0.125 * 2 / 0.5, 5 * 2 * 2 / 0.5])
    assert found.spent == pytest.approx(2**2 + 0.125**2)
    assert found.sound == pytest.approx(0.25 / 4)
    assert (found.within_paper, found.within_sound) == (False, False)


def test_a_smaller_delta_needs_more_noise_and_the_printed_formula_gives_less() -> None:
    printed, corrected = (
        [rule(PROFILE, epsilon=1.0, delta=delta).sigma[0] for delta in (1e-3, 1e-9)]
        for rule in (paper_allocation, corrected_allocation)
    )
    assert printed[1] < printed[0]
    assert corrected[1] > corrected[0]


def test_the_same_classes_under_another_ruler_get_other_noise() -> None:
    """ν is a length, so the formula is none of a mechanism: nothing is proven of either."""
    small = ClassProfile(
        PROFILE.count,
        0.01 * PROFILE.diameter,
        0.01 * PROFILE.contracted_diameter,
        np.zeros(2),
        np.zeros(2),
        0,
    )
    plain, shrunk = (corrected_allocation(each, epsilon=1.0, delta=1e-5) for each in (PROFILE, small))
    np.testing.assert_allclose(shrunk.sigma, 0.01 * plain.sigma)
    assert plain.guarantee().proves_nothing
    assert "trained on them without noise" in plain.guarantee().theorem


@pytest.mark.parametrize(("neighbours", "times"), [("zero-out", 1.0), ("replace", 2.0)])
def test_public_noise_proves_the_gaussian_of_the_worst_class(neighbours, times) -> None:
    found = class_release_guarantee([2.0, 8.0], [1.0, 2.0], delta=1e-5, neighbours=neighbours)
    mu = times * 0.5

    def delta_of(epsilon):  # the analytic Gaussian of Balle & Wang 2018
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)

    exact = brentq(lambda epsilon: delta_of(epsilon) - 1e-5, 0.01, 20.0)
    assert found.epsilon() == pytest.approx(exact, rel=1e-6)
    assert str(found.neighbours) == neighbours


def test_a_record_that_changes_its_class_is_within_the_replace_guarantee() -> None:
    """It moves two classes, by one sensitivity each: √(μ_a² + μ_b²) is at most 2 max μ."""
    found = class_release_guarantee([2.0, 2.0], 1.0, delta=1e-5)
    assert 1.0 / found.event.noise_multiplier >= math.hypot(0.5, 0.5)


def test_bad_input_is_refused() -> None:
    with pytest.raises(BadInput, match="one positive number for each of 2 classes"):
        paper_allocation(PROFILE, epsilon=1.0, delta=1e-5, sensitivity=[1.0, 2.0, 3.0])
    with pytest.raises(BadInput, match="`epsilon` must be a positive number"):
        paper_allocation(PROFILE, epsilon=0.0, delta=1e-5)
    with pytest.raises(BadInput, match="`delta` must lie strictly between 0 and 1"):
        corrected_allocation(PROFILE, epsilon=1.0, delta=0.0)
    with pytest.raises(BadInput, match="`sigma` was"):
        class_release_guarantee([1.0, -1.0], 1.0, delta=1e-5)
    flat = ClassProfile(PROFILE.count, PROFILE.diameter, np.array([0.5, 0.0]), np.zeros(2), np.zeros(2), 0)
    with pytest.raises(BadInput, match="class 1 has a diameter of 0"):
        corrected_allocation(flat, epsilon=1.0, delta=1e-5)
