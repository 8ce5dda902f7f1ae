"""Pitfalls of grids: norms that grow by rounding, tiers that are rounded rung by rung."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from sfumato.mechanisms import Gaussian, TrustAdaptive
from sfumato.noise import NORMAL, Rounded, Stream, grid_step, onto_grid
from sfumato.privacy import Guarantee

COLUMNS = 784
STEP = 2.0**-10


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adversarial_records_stay_in_the_ball_in_integer_arithmetic(norm, dtype):
    """No chance of a false alarm: Σ|k| ≤ C/h or Σk² ≤ (C/h)², computed in whole numbers of any size."""
    radius = 1.0
    for step in (STEP, 2.0**-20, 2.0**-26):
        cells = onto_grid(adversarial(dtype, norm), radius, norm, step)
        assert np.all(cells == np.rint(cells))
        for row in cells:
            assert integer_norm(row, norm) <= (Fraction(radius) / Fraction(step)) ** (
                2 if norm == "l2" else 1
            )


def test_rounding_to_the_nearest_would_leave_the_ball():
    """No chance involved: at d = 784, h = 2⁻¹⁰ and C = 1 the norm grows by as much as h√d/2, 1.4% of C."""
    # Every coordinate a little more than half a step above a grid point, and the norm one.
    value = (math.floor(1.0 / math.sqrt(COLUMNS) / STEP - 0.5) + 0.5001) * STEP
    record = np.full((1, COLUMNS), value)
    assert np.linalg.norm(record) <= 1.0
    limit = int(1.0 / STEP) ** 2
    to_nearest = np.rint(record / STEP)
    assert integer_norm(to_nearest[0], "l2") > limit
    assert math.sqrt(integer_norm(to_nearest[0], "l2") / limit) > 1.005
    assert integer_norm(onto_grid(record, 1.0, "l2", STEP)[0], "l2") <= limit


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_float_norm_that_is_too_small_by_rounding_is_caught(place):
    """No chance involved: √(2⁵² + 1) is 2²⁶ in doubles, so only integers see that the record is too long."""
    row = np.zeros((1, 3))
    row[0, place], row[0, place - 1] = 1.0, 2.0**-26
    assert np.linalg.norm(row) == 1.0
    assert integer_norm(row[0] * 2.0**26, "l2") == 2**52 + 1
    cells = onto_grid(row, 1.0, "l2", 2.0**-26)[0]
    assert integer_norm(cells, "l2") <= 2**52
    assert cells[place] >= 2**26 - 1


def test_a_release_keeps_the_promised_distance_between_opposite_records():
    """No chance of a false alarm: the means of two releases, computed from the grid, are at most 2C apart."""
    mechanism = Gaussian(1.0, 1e-6, 1.0)
    step = grid_step(mechanism.sigma(COLUMNS), 1.0 / math.sqrt(COLUMNS))
    rows = adversarial(np.float64, "l2")
    cells = onto_grid(rows, 1.0, "l2", step)
    for left in cells[:20]:
        for right in cells[-20:]:
            distance = sum((int(a) - int(b)) ** 2 for a, b in zip(left, right, strict=True))
            assert distance * Fraction(step) ** 2 <= 4


def test_rounding_rungs_one_by_one_gives_another_law_with_less_privacy():
    """No chance involved: exact probabilities of both ways to make tier 1 out of two rungs of 0.3 steps each.

    The rounded rungs are zero nine times in ten each, so their sum hides less than N(0, 0.18) rounded once:
    whoever answers "x = 1" when a one is released errs less often than the curve of that noise allows.
    """
    rungs = [0.3, 0.3]
    total = math.hypot(*rungs)
    reach = np.arange(-8, 9)
    pieces = [ndtr((reach + 0.5) / rung) - ndtr((reach - 0.5) / rung) for rung in rungs]
    one_by_one = np.convolve(*pieces)[8:-8]
    at_once = ndtr((reach + 0.5) / total) - ndtr((reach - 0.5) / total)
    assert abs(one_by_one - at_once).sum() > 0.05

    def errors(law):  # of "x = 1 if the release is at least 1", for x = 0 against x = 1
        return law[reach >= 1].sum(), law[reach <= -1].sum()

    alpha, beta = errors(at_once)
    assert beta >= Guarantee.gaussian(total).tradeoff(alpha) - 1e-12
    alpha, beta = errors(one_by_one)
    assert beta < Guarantee.gaussian(total).tradeoff(alpha) - 0.01


def test_the_noise_of_the_most_trusted_tier_does_not_depend_on_the_tiers_after_it():
    """No chance involved: from the same words, tier 0 of a longer ladder is tier 0 of a shorter one."""
    key = bytes(range(32))
    # One word a rung and a draw: the first 1000 words are rung 0 of both ladders.
    short = Rounded(NORMAL, [5.0]).draw(Stream(key), 1000)
    long = Rounded(NORMAL, [5.0, 12.0]).draw(Stream(key), 1000)
    np.testing.assert_array_equal(short[0], long[0])


@pytest.mark.parametrize("columns", [1, 3, 784])
def test_every_tier_has_at_least_the_noise_of_its_own_guarantee(columns):
    """No chance involved: the squares of the rungs add up, in fractions, to at least the tier's σ²."""
    mechanism = TrustAdaptive(epsilon=(0.5, 8.0), delta=1e-6, clip=1.0)
    levels = [0.0, 0.1, 0.5, 0.500001, 1.0]
    rungs = mechanism.tiers(levels).rungs(columns)
    variance = Fraction(0)
    for level, rung in zip(levels, rungs, strict=True):
        variance += Fraction(rung) ** 2
        own = TrustAdaptive(level, (0.5, 8.0), 1e-6, 1.0).sigma(columns)
        assert variance >= Fraction(own) ** 2
        assert float(variance) == pytest.approx(own**2, rel=1e-12)


def adversarial(dtype, norm):
    """Rows whose floating-point norm misleads: on the sphere, just outside, tiny and huge."""
    generator = np.random.default_rng(7)
    rows = generator.standard_normal((60, COLUMNS))
    rows[20:40] = np.sign(rows[20:40])  # all coordinates equal
    rows[40:60] *= np.where(generator.random((20, COLUMNS)) < 0.99, 1e-4, 1.0)
    size = np.abs(rows).sum(axis=1) if norm == "l1" else np.linalg.norm(rows, axis=1)
    rows /= size[:, None]
    factors = np.nextafter(1.0, np.array([0.0, 1.0, 2.0]))[np.arange(60) % 3]
    rows *= factors[:, None]
    extra = np.zeros((3, COLUMNS))
    extra[0] = 1e30
    extra[1] = 1e-30
    extra[2, 0] = np.nextafter(1.0, 2.0)
    return np.concatenate([rows, extra]).astype(dtype).astype(np.float64)


def integer_norm(row, norm):
    """Σ|k| or Σk², in exact arithmetic; also for rows that are no integers."""
    values = [Fraction(float(value)) for value in row]
    return sum(map(abs, values)) if norm == "l1" else sum(value * value for value in values)
