"""Sensitivity of repeated participation: never below what a record can do, and equal where promised."""

import math
from itertools import product

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import LARGEST_NUMERATOR, MOST_STEPS, pattern_sensitivity

PATTERNS = [[0, 2, 4], [1, 3, 5]]


def lower(steps, seed, signed=False):
    rng = np.random.default_rng(seed)
    return np.tril(rng.integers(-900 if signed else 0, 900, (steps, steps))) + 5 * np.eye(
        steps, dtype=np.int64
    )


@pytest.mark.parametrize("seed", range(4))
def test_without_signs_it_is_the_longest_sum_of_columns(seed):
    """Rounded upward: compared in whole numbers."""
    matrix = lower(6, seed)
    found = pattern_sensitivity(matrix, PATTERNS)
    square = max(int((matrix[:, steps].sum(axis=1) ** 2).sum()) for steps in PATTERNS)
    assert found**2 >= square
    assert found == pytest.approx(math.sqrt(square), rel=1e-7)


def test_any_directions_stay_below():
    matrix, rng = lower(6, 3, signed=True), np.random.default_rng(0)
    bound = pattern_sensitivity(matrix, PATTERNS)
    for _ in range(300):
        moved = np.zeros((6, 4))
        moved[PATTERNS[0]] = rng.normal(size=(3, 4))
        moved[PATTERNS[0]] /= np.linalg.norm(moved[PATTERNS[0]], axis=1, keepdims=True)
        assert np.linalg.norm(matrix @ moved) <= bound


@pytest.mark.parametrize("seed", range(4))
def test_two_bands_attain_it_by_signs(seed):
    matrix = np.triu(lower(6, seed, signed=True), -1)
    every = [range(6)]
    most = max(np.linalg.norm(matrix @ np.array(signs)) for signs in product((-1, 1), repeat=6))
    assert pattern_sensitivity(matrix, every) == pytest.approx(most, rel=1e-7)


def test_what_would_not_be_exact_is_refused():
    largest = np.full((1, 1), LARGEST_NUMERATOR)
    assert pattern_sensitivity(largest, [[0]]) >= LARGEST_NUMERATOR
    with pytest.raises(BadInput, match="units"):
        pattern_sensitivity(largest + 1, [[0]])
    with pytest.raises(BadInput, match=f"at most {MOST_STEPS} steps"):
        pattern_sensitivity(np.eye(MOST_STEPS + 1, dtype=np.int64), [[0]])
