"""Theorem 3: the numbers as printed and corrected, by hand."""

import math

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learners.compact import ClassProfile, allocations

# ν = 2/16^(1/4) = 1 and 6/81^(1/4) = 2 at p = 0; η = 1/4 and 1, η^(3/2) = 1/8 and 1.
PROFILE = ClassProfile(
    np.array([16.0, 81.0]), np.array([2.0, 6.0]), np.array([0.5, 6.0]), np.zeros(2), np.zeros(2), 0
)
# log(1.25/δ) = 2 and √(2·2) = 2.
DELTA = 1.25 * math.exp(-2.0)


def test_the_printed_formula_by_hand() -> None:
    found = allocations(PROFILE, epsilon=0.5, delta=DELTA)[0]
    np.testing.assert_allclose(found.sigma, [0.125 / (0.5 * 2), 2 / (0.5 * 2)])
    assert found.spent == pytest.approx(8**2 + 0.5**2)
    assert found.allowed == pytest.approx(2 * 0.25 / 2)
    assert not found.within_paper


def test_the_corrected_formula_by_hand() -> None:
    found = allocations(PROFILE, epsilon=0.5, delta=DELTA)[1]
    np.testing.assert_allclose(found.sigma, [0.125 * 2 / 0.5, 2 * 2 / 0.5])
    assert found.spent == pytest.approx(2**2 + 0.125**2)
    assert found.sound == pytest.approx(0.25 / 4)
    assert (found.within_paper, found.within_sound) == (False, False)


def test_a_smaller_delta_needs_more_noise_and_the_printed_formula_gives_less() -> None:
    printed, corrected = (
        [allocations(PROFILE, epsilon=1.0, delta=delta)[which].sigma[0] for delta in (1e-3, 1e-9)]
        for which in (0, 1)
    )
    assert printed[1] < printed[0]
    assert corrected[1] > corrected[0]


def test_the_same_classes_under_another_ruler_get_other_noise() -> None:
    """ν is a length, so the formula is none of a mechanism."""
    small = ClassProfile(
        PROFILE.count,
        0.01 * PROFILE.diameter,
        0.01 * PROFILE.contracted_diameter,
        np.zeros(2),
        np.zeros(2),
        0,
    )
    plain, shrunk = (allocations(each, epsilon=1.0, delta=1e-5)[1] for each in (PROFILE, small))
    np.testing.assert_allclose(shrunk.sigma, 0.01 * plain.sigma)


def test_bad_input_is_refused() -> None:
    with pytest.raises(BadInput, match="`epsilon` must be a positive number"):
        allocations(PROFILE, epsilon=0.0, delta=1e-5)
    with pytest.raises(BadInput, match="`delta` must lie strictly between 0 and 1"):
        allocations(PROFILE, epsilon=1.0, delta=0.0)
    flat = ClassProfile(PROFILE.count, PROFILE.diameter, np.array([0.5, 0.0]), np.zeros(2), np.zeros(2), 0)
    with pytest.raises(BadInput, match="class 1 has a diameter of 0"):
        allocations(flat, epsilon=1.0, delta=1e-5)
