"""Sensitivity of repeated participation against all sets of steps, one by one."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.errors import BadInput
from sfumato.learn.participation import participation_sensitivity, pattern_sensitivity


def lower(steps, seed, bands=None, signed=False):
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.normal(size=(steps, steps)) if signed else rng.random((steps, steps)))
    if bands is not None:
        matrix = np.triu(matrix, -(bands - 1))
    return matrix + np.eye(steps)


def sets_of(steps, times, apart):
    for count in range(1, times + 1):
        for chosen in combinations(range(steps), count):
            if all(b - a >= apart for a, b in pairwise(chosen)):
                yield chosen


def exactly(matrix, times, apart):
    """For a matrix without negative entries: the longest sum of columns."""
    return max(np.linalg.norm(matrix[:, list(s)].sum(axis=1)) for s in sets_of(len(matrix), times, apart))


@pytest.mark.parametrize(("times", "apart"), [(1, 1), (2, 3), (3, 2), (8, 1), (3, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_never_below_the_exact_value_and_equal_to_it_where_promised(times, apart, seed):
    full, banded = lower(8, seed), lower(8, seed, bands=apart)
    assert participation_sensitivity(full, times=times, apart=apart) >= exactly(full, times, apart) - 1e-12
    assert participation_sensitivity(banded, times=times, apart=apart) == pytest.approx(
        exactly(banded, times, apart)
    )
    if times == 1 or (times, apart) == (8, 1):
        assert participation_sensitivity(full, times=times, apart=apart) == pytest.approx(
            exactly(full, times, apart)
        )


def test_signs_are_covered():
    """Any directions of the record's gradients stay below both bounds."""
    matrix = lower(6, 3, signed=True)
    bound = participation_sensitivity(matrix, times=3, apart=2)
    assert pattern_sensitivity(matrix, [[0, 2, 4]]) <= bound
    rng = np.random.default_rng(0)
    for _ in range(200):
        moved = np.zeros((6, 4))
        for step in (0, 2, 4):
            moved[step] = rng.normal(size=4)
            moved[step] /= np.linalg.norm(moved[step])
        assert np.linalg.norm(matrix @ moved) <= pattern_sensitivity(matrix, [[0, 2, 4]]) + 1e-12


def test_banded_is_at_most_the_root_of_times_columns():
    banded = lower(12, 5, bands=3)
    column = np.linalg.norm(banded, axis=0).max()
    assert participation_sensitivity(banded, times=4, apart=3) <= math.sqrt(4.0) * column + 1e-12


@pytest.mark.parametrize(
    ("factor", "options", "word"),
    [
        (np.ones((2, 2)), {}, "lower triangular"),
        (np.zeros((2, 2)), {}, "lower triangular"),
        ([[math.nan]], {}, "finite"),
        (np.ones(3), {}, "square"),
        (np.eye(2), {"times": 0}, "times"),
        (np.eye(2), {"apart": True}, "apart"),
    ],
)
def test_what_cannot_be_used_is_refused(factor, options, word):
    with pytest.raises(BadInput, match=word):
        participation_sensitivity(factor, **{"times": 1, "apart": 1, **options})
