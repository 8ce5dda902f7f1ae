"""Noise of any lower-triangular factor: momentum as it is published, sensitivities, and what is released."""

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import chi2

from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import UNIT, CorrelatedSteps, Factor, FactoredSteps, Momentum
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum
from sfumato.noise import Seeded
from sfumato.privacy import Guarantee

GIVEN = [[1.0, 0, 0, 0], [-0.7, 2.0, 0, 0], [0.1, 0.4, 0.5, 0], [1.0, 0.0, -0.3, 0.2]]
STEEP = 0.1 * np.eye(400) + 200 * np.eye(400, k=-1)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9, 0.99])
def test_momentum_is_the_published_recursion(beta):
    """C times the noise n_t = βn_{t−1} + √(1 − β²)w_t is w."""
    fresh = np.random.default_rng(0).normal(size=(20, 3))
    noise = [fresh[0]]
    for drawn in fresh[1:]:
        noise.append(beta * noise[-1] + math.sqrt(1.0 - beta**2) * drawn)
    assert np.allclose(Momentum(beta).rows(20) @ np.array(noise), fresh)
    plan = FactoredSteps(1.0, 20, 20, Momentum(beta))
    assert plan.variances() / plan.deviation**2 == pytest.approx(np.ones(20), rel=0.05)  # to the grid of C


@pytest.mark.parametrize("beta", [0.3, 0.9])
def test_momentum_costs_what_is_known_of_it(beta):
    """√((1 + β²)/(1 − β²)) for one participation; √((1 + β)/(1 − β)) a step, at most, for all."""
    once, always = FactoredSteps(1.0, 50, 50, Momentum(beta)), FactoredSteps(1.0, 50, 1, Momentum(beta))
    assert once.sensitivity == pytest.approx(math.sqrt((1 + beta**2) / (1 - beta**2)), rel=2e-3)
    most = math.sqrt(50 * (1 + beta) / (1 - beta))
    assert 0.97 * most < always.sensitivity < 1.001 * most
    longest = np.linalg.norm(once.numerators / UNIT, axis=0).max()
    assert once.sensitivity == pytest.approx(longest, rel=1e-6)


def test_the_square_root_as_a_matrix_is_the_banded_plan():
    banded = CorrelatedSteps(0.8, 12, 4, 5)
    column = np.pad(banded.numerators / UNIT, (0, 7))
    given = FactoredSteps(0.8, 12, 4, Factor(toeplitz(column, np.zeros(12))))
    assert given.sensitivity == pytest.approx(banded.sensitivity, rel=1e-7)
    assert given.sensitivity >= banded.sensitivity * (1.0 - 1e-14)
    assert given.memory == 5
    assert given.variances() == pytest.approx(banded.variances(), rel=1e-6)
    assert given.total_deviation() == pytest.approx(banded.total_deviation(), rel=1e-7)


def test_the_sensitivity_covers_every_batch_and_every_direction():
    plan, rng = FactoredSteps(1.0, 4, 2, Factor(GIVEN)), np.random.default_rng(0)
    for start in (0, 1):
        for _ in range(300):
            moved = np.zeros((4, 3))
            moved[start::2] = rng.normal(size=(2, 3))
            moved[start::2] /= np.linalg.norm(moved[start::2], axis=1, keepdims=True)
            assert np.linalg.norm(plan.numerators @ moved) / UNIT <= plan.sensitivity


def test_the_guarantee_is_one_gaussian():
    guarantee = FactoredSteps(2.0, 4, 2, Factor(GIVEN)).guarantee(1e-5)
    assert guarantee.epsilon() == Guarantee.gaussian(2.0, at_delta=1e-5).epsilon()


@pytest.mark.parametrize("factor", [Factor(GIVEN), Momentum(0.8)])
def test_releases_are_the_sums_with_noise_of_the_factor(factor):
    """C times the noise is independent of the stated deviation: χ² by step and of sums of two.

    False-alarm rate 1e-6.
    """
    steps, size = 4, 3000
    plan = FactoredSteps(0.8, steps, 2, factor)
    noise, rng = plan.noise(ClippedSum()), np.random.default_rng(0)
    sums = np.round(1e7 * rng.normal(size=(steps, size)))
    released = [noise(step, total, Seeded(4 + step)) - total for step, total in enumerate(sums)]
    matrix = plan.numerators / UNIT
    inverse = np.linalg.inv(matrix)
    assert np.allclose(plan.variances(), plan.deviation**2 * (inverse**2).sum(axis=1))
    assert plan.total_deviation() == pytest.approx(plan.deviation * np.linalg.norm(inverse.sum(axis=0)))
    white = matrix @ np.array(released) / (plan.deviation * RADIUS)
    chance = 1e-6 / (4 * steps)
    rows = [*white, *((white[:-1] + white[1:]) / math.sqrt(2.0))]
    for row in rows:
        assert chi2.ppf(chance, size) < (row**2).sum() < chi2.isf(chance, size)


def test_sums_beyond_64_bits_are_refused():
    with pytest.raises(BadInput, match="64 bits"):
        FactoredSteps(1.0, 2, 1, Factor([[1.0, 0.0], [-200.0, 9.0]])).batches(2**25, Seeded(0).stream(b"s"))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Factor(np.ones((2, 2))), "lower triangular"),
        (lambda: Factor(np.zeros((2, 2))), "lower triangular"),
        (lambda: Factor([[math.nan]]), "finite"),
        (lambda: Factor(np.ones(3)), "square"),
        (lambda: Momentum(1.0), "beta"),
        (lambda: Momentum(-0.1), "beta"),
        (lambda: FactoredSteps(1.0, 3, 1, Factor(np.eye(2))), "2 rows: one a step, of 3"),
        (lambda: FactoredSteps(1.0, 2, 1, Factor(1e-6 * np.eye(2))), "rounds to 0"),
        (lambda: FactoredSteps(1.0, 2, 1, Factor(1e3 * np.eye(2))), "units"),
        (lambda: FactoredSteps(1.0, 3000, 1, Momentum(0.5)), "`steps` was 3000"),
        (lambda: FactoredSteps(1.0, 2, 0, Momentum(0.5)), "period"),
        (lambda: FactoredSteps(1.0, 2, 1, np.eye(2)), "a Factor or a Momentum"),
        (
            lambda: FactoredSteps(1e-9, 400, 400, Factor(0.1 * np.eye(400) + 200 * np.eye(400, k=-1))),
            "inverse",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(make, word):
    with pytest.raises(BadInput, match=word):
        make()
