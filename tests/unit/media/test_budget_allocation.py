"""Budgets against a convex solver, against bisection with many digits, and against Lagrange's conditions."""

import math
import subprocess
import sys
import time

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from sfumato.errors import BadInput
from sfumato.media.budget_allocation import (
    noise_weights,
    sensitivity_aware,
    water_filling,
)

BOTH = [(water_filling, 1), (sensitivity_aware, 3)]


def problem(seed, n):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.05, 0.5, n)
    high = low + rng.uniform(0.0, 2.0, n)
    weight = rng.uniform(0.1, 5.0, n)
    total = float(low.sum() + rng.uniform(0.05, 0.95) * (high - low).sum())
    return weight, total, low, high


def exact(weight, total, low, high, root):
    """The level by bisection with 60 digits, and the budgets at it."""
    with mpmath.workdps(60):
        rates = [mpmath.root(mpmath.mpf(w), root) for w in weight]
        lows, highs = [mpmath.mpf(x) for x in low], [mpmath.mpf(x) for x in high]

        def budgets(level):
            return [min(h, max(lo, r * level)) for r, lo, h in zip(rates, lows, highs, strict=True)]

        below, above = mpmath.mpf(0), max(h / r for h, r in zip(highs, rates, strict=True))
        for _ in range(150):
            middle = (below + above) / 2
            below, above = (middle, above) if sum(budgets(middle)) <= total else (below, middle)
        return np.array([float(x) for x in budgets(below)])


@pytest.mark.parametrize(("allocate", "root"), BOTH)
@pytest.mark.parametrize("seed", range(6))
def test_equal_to_a_convex_solver(allocate, root, seed):
    """scipy's SLSQP ends within 1e-9 of our objective, and never beyond it."""
    weight, total, low, high = problem(seed, 8)
    ours = allocate(weight, total, low, high)

    def cost(x):
        return -(weight * np.log(x)).sum() if root == 1 else (weight / x**2).sum()

    def slope(x):
        return -weight / x if root == 1 else -2.0 * weight / x**3

    found = low + (high - low) * (total - low.sum()) / (high - low).sum()
    for _ in range(5):  # it stops early now and then, and goes on when asked again
        size = abs(cost(found))
        found = minimize(
            lambda x, size=size: cost(x) / size,
            found,
            jac=lambda x, size=size: slope(x) / size,
            bounds=list(zip(low, high, strict=True)),
            constraints=[LinearConstraint(np.ones((1, 8)), -np.inf, total)],
            method="SLSQP",
            options={"ftol": 1e-16, "maxiter": 1000},
        ).x
    assert cost(ours) <= cost(found) + 1e-9 * abs(cost(found))
    assert cost(ours) == pytest.approx(cost(found), rel=1e-9)
    assert ours == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize(("allocate", "root"), BOTH)
@pytest.mark.parametrize(("seed", "n"), [(0, 1), (1, 2), (2, 50), (3, 400), (4, 400)])
def test_equal_to_bisection_with_sixty_digits(allocate, root, seed, n):
    weight, total, low, high = problem(seed, n)
    assert np.abs(allocate(weight, total, low, high) - exact(weight, total, low, high, root)).max() < 1e-12


@settings(max_examples=200, deadline=None)
@given(data=st.data(), n=st.integers(1, 30))
def test_lagrange_conditions_and_limits_hold(data, n):
    """One level for all elements inside their limits; above it only those at low, below it those at high."""
    numbers = st.floats(1e-3, 1e3)
    weight = np.array(data.draw(st.lists(st.one_of(st.just(0.0), numbers), min_size=n, max_size=n)))
    low = np.array(data.draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 5.0)), min_size=n, max_size=n)))
    high = low + np.array(
        data.draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 10.0)), min_size=n, max_size=n))
    )
    total = float(low.sum() * (1.0 + 1e-12) + data.draw(st.floats(1e-3, 100.0)))
    for allocate, root in BOTH:
        got, rate = allocate(weight, total, low, high), weight ** (1.0 / root)
        assert (got >= low).all()
        assert (got <= high).all()
        assert math.fsum(got) <= total
        assert (got[weight == 0.0] == low[weight == 0.0]).all()
        free = weight > 0.0
        spent = math.fsum(got)
        if spent < total * (1.0 - 1e-12):
            assert (got[free] >= high[free] * (1.0 - 1e-12)).all()
            continue
        levels = got[free] / rate[free]
        rising = levels[got[free] < high[free] * (1.0 - 1e-12)]  # could take more: level at least that of …
        giving = levels[got[free] > low[free] * (1.0 + 1e-12)]  # … those that could give some
        if rising.size and giving.size:
            assert rising.min() >= giving.max() * (1.0 - 1e-9)


def paper_objective(epsilon, utility, sensitivity):
    return float((utility * np.log(epsilon / sensitivity)).sum())


def test_sensitivities_never_move_the_optimum_of_the_paper():
    """The paper's objective under two very different s differs by a constant, at any allocation."""
    weight, total, low, high = problem(5, 12)
    rng = np.random.default_rng(6)
    one, other = rng.uniform(0.01, 1.0, 12), rng.uniform(0.01, 1.0, 12)
    best = water_filling(weight, total, low, high)
    constant = paper_objective(best, weight, one) - paper_objective(best, weight, other)
    for _ in range(20):
        tried = np.clip(best * rng.uniform(0.8, 1.2, 12), low, high)
        tried = (
            tried if tried.sum() <= total else low + (tried - low) * (total - low.sum()) / (tried - low).sum()
        )
        assert paper_objective(tried, weight, one) - paper_objective(tried, weight, other) == pytest.approx(
            constant
        )
        assert paper_objective(tried, weight, one) <= paper_objective(best, weight, one) + 1e-12
    assert constant == pytest.approx((weight * np.log(other / one)).sum())


def test_sensitivities_matter_in_the_second_objective():
    utility, sensitivity = np.ones(4), np.array([0.1, 0.9, 0.1, 0.9])
    budgets = sensitivity_aware(noise_weights(utility, sensitivity), 4.0, 0.01, 10.0)
    assert budgets[0] == budgets[2] > budgets[1] == budgets[3]
    assert budgets[0] / budgets[1] == pytest.approx((0.9 / 0.1) ** (1.0 / 3.0))
    weights = noise_weights(utility, sensitivity)
    assert (weights / np.square(budgets)).sum() < weights.sum()
    far = sensitivity_aware(noise_weights(utility, 0.0, reach=[8.0, 1.0, 1.0, 1.0]), 7.0, 0.01, 10.0)
    assert far == pytest.approx([4.0, 1.0, 1.0, 1.0])


def test_ranges_of_categories_hold_whatever_the_utility():
    """Faces keep to [0.05, 0.2] and abstract patterns to [5, 10], however useful the faces are."""
    low, high = np.array([0.05, 5.0]), np.array([0.2, 10.0])
    assert water_filling([1e6, 1.0], 8.0, low, high) == pytest.approx([0.2, 7.8])
    assert sensitivity_aware([1e6, 1.0], 8.0, low, high) == pytest.approx([0.2, 7.8])


@pytest.mark.parametrize("allocate", [water_filling, sensitivity_aware])
def test_edges(allocate):
    assert allocate([2.0], 1.0, 0.0, 5.0) == pytest.approx([1.0])
    assert (allocate([1.0, 1.0], 100.0, 0.1, 5.0) == [5.0, 5.0]).all()  # more than can be spent
    # 0.1 + 0.2 is more than 0.3 in double precision
    assert allocate([1.0, 3.0], 0.3, [0.1, 0.2], 5.0) == pytest.approx([0.1, 0.2], rel=1e-15)
    assert (allocate([0.0, 0.0], 9.0, 0.1, 5.0) == 0.1).all()
    assert allocate(np.ones((3, 4)), 6.0, 0.1, 5.0) == pytest.approx(np.full((3, 4), 0.5))
    assert (allocate([1.0, 2.0], 2.0, 1.0, 1.0) == 1.0).all()
    weight = np.array([1.0, 2.0])
    allocate(weight, 2.0, 0.1, 5.0)
    assert (weight == [1.0, 2.0]).all()


def test_a_million_elements_take_less_than_a_second():
    """Processor time, the better of two runs; the sum is the total to the last digits and never more."""
    weight, total, low, high = problem(0, 10**6)
    weight[:1000] = weight[0]  # equal elements are no trouble
    for allocate in (water_filling, sensitivity_aware):
        fastest = math.inf
        for _ in range(2):
            start = time.process_time()
            budgets = allocate(weight, total, low, high)
            fastest = min(fastest, time.process_time() - start)
        assert fastest < 1.0
        assert total * (1.0 - 1e-12) <= math.fsum(budgets) <= total


@pytest.mark.parametrize("allocate", [water_filling, sensitivity_aware])
@pytest.mark.parametrize(
    ("weight", "total", "low", "high", "message"),
    [
        ([1.0, 1.0], 1.0, 0.6, 2.0, "lowest budgets alone add up to 1.2"),
        ([1.0, 1.0], 0.0, 0.0, 2.0, "`total` must be a positive number"),
        ([1.0, 1.0], math.inf, 0.0, 2.0, "`total` must be a positive number"),
        ([1.0, 1.0], 1.0, 0.5, 0.4, "`low` exceeds `high` for 2 elements"),
        ([1.0, 1.0], 1.0, [0.1, 0.1, 0.1], 0.4, r"`low` has the shape \(3,\)"),
        ([1.0, -1.0], 1.0, 0.1, 0.4, "finite numbers, 0 or more"),
        ([1.0, math.nan], 1.0, 0.1, 0.4, "finite numbers, 0 or more"),
        ([], 1.0, 0.1, 0.4, "at least one"),
        (["a"], 1.0, 0.1, 0.4, "finite numbers"),
        ([1.0], 1.0, 0.1, math.inf, "`high` must hold finite numbers"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(allocate, weight, total, low, high, message):
    with pytest.raises(BadInput, match=message):
        allocate(weight, total, low, high)


def test_objectives_and_weights_refuse_what_they_cannot_read():
    with pytest.raises(BadInput, match="`sensitivity` must hold numbers between 0 and 1"):
        noise_weights([1.0], [1.5])
    with pytest.raises(BadInput, match="`utility` must hold finite numbers"):
        noise_weights([-1.0], [0.5])


def test_needs_none_of_the_media_libraries():
    """In a fresh interpreter: allocation imports no decoder and no picture library."""
    code = (
        "import sys; import sfumato.media.budget_allocation as a; a.water_filling([1.0, 2.0], 1.0, 0.1, 2); "
        "print([m for m in ('cv2', 'av', 'soundfile', 'skimage', 'simplejpeg', 'torch') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_total_that_is_the_rounded_sum_of_the_lowest_budgets_gives_these():
    """Their exact sum lies a hair above the rounded one, and cannot be lowered."""
    one = np.eye(14) > 0.0
    low, high, weights = np.where(one, 0.01, 1.0), np.where(one, 0.1, 1.0), np.where(one, 0.001, 1.0)
    assert np.array_equal(sensitivity_aware(weights, math.fsum(low.flat), low, high), low)
