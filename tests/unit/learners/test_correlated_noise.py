"""Correlated noise: the factorisation, its sensitivity, and the noise that is drawn."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.special import binom
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import (
    UNIT,
    CorrelatedSteps,
    pattern_sensitivity,
)
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee, Neighbours


def factor(plan):
    """C as a matrix (steps, steps)."""
    column = np.zeros(plan.steps)
    column[: plan.bands] = plan.numerators / UNIT
    return toeplitz(column, np.zeros(plan.steps))


def test_the_factor_is_the_root_of_prefix_sums_to_its_grid_and_never_below_it():
    found = factor(CorrelatedSteps(1.0, 30, 30, 30))[:, 0]
    root = np.array([binom(2 * k, k) / 4.0**k for k in range(30)])
    assert np.allclose(np.convolve(root, root)[:30], 1.0)
    assert np.all(found >= root * (1.0 - 1e-12))
    assert np.allclose(found, root, atol=2.0**-10)


@pytest.mark.parametrize(
    ("steps", "period", "bands"), [(12, 12, 12), (12, 4, 4), (13, 5, 3), (9, 1, 9), (10, 3, 7)]
)
def test_sensitivity_is_that_of_the_worst_batch(steps, period, bands):
    plan = CorrelatedSteps(1.0, steps, period, bands)
    patterns = [list(range(start, steps, period)) for start in range(min(period, steps))]
    whole = np.rint(factor(plan) * UNIT).astype(np.int64)
    assert plan.sensitivity == pytest.approx(pattern_sensitivity(whole, patterns) / UNIT, rel=1e-7)
    times = math.ceil(steps / period)
    if bands <= period:
        column = np.linalg.norm(factor(plan), axis=0).max()
        assert plan.sensitivity <= math.sqrt(times) * column * (1.0 + 1e-12)


def test_one_participation_agrees_with_the_factor_of_correlated_frames():
    """Noise C⁻¹z multiplies the sensitivity of one frame by the longest column of C."""
    plan = CorrelatedSteps(1.0, 16, 16, 6)
    assert plan.sensitivity == pytest.approx(np.linalg.norm(factor(plan), axis=0).max(), rel=1e-9)


def test_the_guarantee_is_one_gaussian():
    guarantee = CorrelatedSteps(2.0, 40, 10, 10).guarantee(1e-5)
    assert guarantee.epsilon() == Guarantee.gaussian(2.0, at_delta=1e-5).epsilon()
    assert (str(guarantee.unit), guarantee.neighbours) == ("record", Neighbours.ZERO_OUT)


@pytest.mark.parametrize("bands", [1, 3, 8])
def test_releases_are_the_sums_with_correlated_noise(bands):
    """C times the noise is independent of the stated deviation: χ² by step and of neighbours' products.

    False-alarm rate 1e-6.
    """
    steps, size = 8, 3000
    plan = CorrelatedSteps(0.8, steps, 4, bands)
    noise, rng = plan.noise(ClippedSum()), np.random.default_rng(0)
    sums = np.round(1e7 * rng.normal(size=(steps, size)))
    released = [noise(step, total, Seeded(4 + step)) - total for step, total in enumerate(sums)]
    assert np.allclose(plan.variances(), plan.deviation**2 * np.cumsum(plan.inverse**2))
    white = factor(plan) @ np.array(released) / (plan.deviation * RADIUS)
    chance = 1e-6 / (4 * steps)
    squares = (white**2).sum(axis=1)
    assert np.all((chi2.ppf(chance, size) < squares) & (squares < chi2.isf(chance, size)))
    for first, second in pairwise(white):
        # The sum and the difference of two independent rows are independent normals too.
        both = ((first + second) ** 2).sum() / 2.0
        assert chi2.ppf(chance, size) < both < chi2.isf(chance, size)


def test_what_is_released_is_on_the_grid_of_exact_sums():
    """With hardly any noise C times the release is C times the sums, to the rounding of noise."""
    noise = CorrelatedSteps(1e-9, 6, 2, 4).noise(ClippedSum())
    sums = [np.array([3.0**k, -7.0 * k, 2.0**40]) for k in range(6)]
    found = [noise(step, total, Seeded(step)) for step, total in enumerate(sums)]
    assert np.allclose(found, sums, rtol=1e-9, atol=0.1)


def test_less_noise_is_left_in_the_sum_of_all_steps():
    """At one guarantee, over one pass: the point of it all."""
    independent, root = CorrelatedSteps(1.0, 64, 64, 1), CorrelatedSteps(1.0, 64, 64, 64)
    assert independent.total_deviation() == pytest.approx(8.0, rel=1e-9)
    assert root.total_deviation() < 0.4 * independent.total_deviation()


def test_the_deviation_of_all_steps_is_that_of_the_matrix():
    plan = CorrelatedSteps(1.3, 20, 5, 5)
    whole = np.tri(20) @ np.linalg.inv(factor(plan))
    assert plan.total_deviation() == pytest.approx(1.3 * plan.sensitivity * np.linalg.norm(whole[-1]))


@pytest.mark.parametrize(("steps", "period"), [(1, 1), (30, 1), (40, 8), (64, 64)])
def test_the_quietest_number_of_bands(steps, period):
    best = CorrelatedSteps.quietest(1.0, steps, period)
    for bands in {1, min(2, steps), min(period, steps)}:
        assert best.mean_deviation() <= CorrelatedSteps(1.0, steps, period, bands).mean_deviation() * (
            1 + 1e-9
        )
    whole = np.tri(steps) @ np.linalg.inv(factor(best))
    assert best.mean_deviation() == pytest.approx(best.sensitivity * np.linalg.norm(whole) / math.sqrt(steps))


def test_batches_come_in_turn_and_hold_every_record_once():
    plan = CorrelatedSteps(1.0, 11, 4, 2)
    batch = plan.batches(30, Seeded(2).stream(b"s"))
    batches = [batch(step, Seeded(step)) for step in range(11)]
    assert sorted(np.concatenate(batches[:4]).tolist()) == list(range(30))
    assert all(np.array_equal(batches[step], batches[step - 4]) for step in range(4, 11))
    assert {len(batch) for batch in batches} == {7, 8}
    assert plan.expected(30) == 7.5


def test_sums_beyond_64_bits_are_refused():
    with pytest.raises(BadInput, match="64 bits"):
        CorrelatedSteps(1.0, 3, 1, 3).batches(2**42, Seeded(0).stream(b"samples"))


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"steps": 0}, "steps"),
        ({"period": 1.5}, "period"),
        ({"bands": 9}, "bands"),
        ({"multiplier": 2e3}, "at most 1000"),
        ({"multiplier": 0.0}, "multi"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameters, word):
    with pytest.raises(BadInput, match=word):
        CorrelatedSteps(**{"multiplier": 1.0, "steps": 8, "period": 4, "bands": 2, **parameters})
