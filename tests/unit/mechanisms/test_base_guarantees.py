"""The guarantee of each mechanism against an oracle that shares no code with it.

The oracles: mpmath for the analytic Gaussian, dp-accounting's privacy loss distributions, transition
matrices in exact fractions, and brute force over the corners of a box.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.additive import declared_domain
from sfumato.mechanisms.randomised_response import keep_threshold
from sfumato.privacy import RECORD, Guarantee, Neighbours

PROMISES = [(0.001, 1e-12), (0.1, 1e-6), (1.0, 1e-6), (5.2, 1e-6), (30.0, 0.05), (1000.0, 1e-9)]
SENSITIVITY = {"replace": 2, "zero-out": 1}


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("neighbours", SENSITIVITY)
def test_gaussian_noise_is_what_the_analytic_gaussian_asks_for(
    epsilon, delta, neighbours, exact_delta
) -> None:
    mechanism = sf.Gaussian(epsilon, delta, 3.0, neighbours=neighbours)
    mu = SENSITIVITY[neighbours] * mpmath.mpf(3) / mpmath.mpf(mechanism.sigma(7))
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon * (1.0 - 1e-9), mu) > delta
    guarantee = mechanism.guarantee()
    assert guarantee.neighbours is Neighbours(neighbours)
    assert guarantee.unit == RECORD
    assert epsilon * (1.0 - 1e-9) < guarantee.epsilon(delta) <= epsilon
    # The event may not stand for more noise than there is.
    assert guarantee.event.noise_multiplier * SENSITIVITY[neighbours] * Fraction(3) <= Fraction(
        mechanism.sigma(7)
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (5.2, 1e-6), (30.0, 1e-9)])
def test_gaussian_agrees_with_dp_accounting(epsilon, delta) -> None:
    for mechanism in (
        sf.Gaussian(epsilon, delta, 1.5),
        sf.TrustAdaptive(0.5, (0.5 * epsilon, 1.5 * epsilon), delta, 1.5),
    ):
        loss = privacy_loss_distribution.from_gaussian_mechanism(
            mechanism.sigma(4), sensitivity=3.0, value_discretization_interval=1e-4 * epsilon
        )
        for other in (delta, 1e-3, 1e-10):
            ours = mechanism.guarantee().epsilon(other)
            assert ours == pytest.approx(loss.get_epsilon_for_delta(other), rel=1e-3)


@given(epsilon=st.floats(1e-3, 1e3), delta=st.floats(1e-12, 0.1), clip=st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=100)
def test_no_promise_is_exceeded_by_rounding(epsilon, delta, clip) -> None:
    gaussian = sf.Gaussian(epsilon, delta, clip)
    assert gaussian.guarantee().epsilon(delta) <= epsilon
    laplace = sf.Laplace(epsilon, clip)
    guarantee = laplace.guarantee()
    assert epsilon * (1.0 - 1e-15) <= guarantee.epsilon(0.0) <= epsilon
    assert Fraction(laplace.scale(3)) >= 2 * Fraction(clip) * Fraction(guarantee.event.noise_multiplier)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3, 40.0])
@pytest.mark.parametrize("neighbours", SENSITIVITY)
def test_laplace_is_its_closed_form(epsilon, neighbours) -> None:
    mechanism = sf.Laplace(epsilon, 0.7, neighbours=neighbours)
    assert mechanism.scale(5) == pytest.approx(SENSITIVITY[neighbours] * 0.7 / epsilon, rel=1e-14)
    guarantee = mechanism.guarantee()
    assert guarantee.neighbours is Neighbours(neighbours)
    assert guarantee.epsilon(0.0) == pytest.approx(epsilon, rel=1e-14)
    for at in (0.0, 0.3 * epsilon, 0.9 * epsilon):
        # Lap(0, 1) against Lap(ε, 1): the ratio e^t is reached halfway between them.
        assert guarantee.delta(at) == pytest.approx(1.0 - math.exp((at - epsilon) / 2.0), rel=1e-9)


@pytest.mark.parametrize("categories", [2, 3, 10, 500])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 2.0, 25.0, 100.0])
def test_randomised_response_keeps_its_epsilon_by_the_transition_matrix(epsilon, categories) -> None:
    keep = Fraction(keep_threshold(epsilon, categories), 2**64)
    other = (1 - keep) / (categories - 1)
    ratio = max(keep / other, other / keep)
    with mpmath.workdps(60):
        log_ratio = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert log_ratio <= epsilon
    exact = float(log_ratio)
    # 2⁻⁶⁴ of probability is lost by rounding down; at ε = 100 that is the least chance of another value.
    reachable = min(epsilon, math.log((2**64 - 1) * (categories - 1)))
    assert exact == pytest.approx(reachable, rel=1e-3)
    if epsilon <= 2.0:
        assert exact == pytest.approx(epsilon, rel=1e-12)


def test_randomised_response_draws_from_its_transition_matrix() -> None:
    """Seeded, so it cannot fail by chance; the bound is five standard errors."""
    count = 40_000
    codes = np.repeat(np.arange(4.0), count)[:, None]
    answers = sf.RandomisedResponse(1.0, 4, randomness=sf.Seeded(1)).release(codes).value
    drawn = np.array(
        [[(answers[codes == true] == answer).mean() for answer in range(4)] for true in range(4)]
    )
    keep = keep_threshold(1.0, 4) / 2.0**64
    matrix = np.where(np.eye(4, dtype=bool), keep, (1.0 - keep) / 3.0)
    assert (np.abs(drawn - matrix) <= 5.0 * np.sqrt(matrix * (1.0 - matrix) / count)).all()


def test_randomised_response_has_the_curve_of_its_transition_matrix() -> None:
    guarantee = sf.RandomisedResponse(1.5, [4]).guarantee()
    keep = keep_threshold(1.5, 4) / 2.0**64
    other = (1.0 - keep) / 3.0
    for at in (0.0, 0.4, 1.0, 1.4):
        delta = max(keep - math.exp(at) * other, 0.0) + 2.0 * max(other - math.exp(at) * other, 0.0)
        assert guarantee.delta(at) == pytest.approx(delta, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("categories", [2, 69, 500, 10**6, 10**12, 2**53])
@pytest.mark.parametrize("epsilon", [1e-4, 0.33, 2.0, 30.0])
def test_very_many_categories_do_not_hide_epsilon(epsilon, categories) -> None:
    guarantee = sf.RandomisedResponse(epsilon, [categories]).guarantee()
    assert guarantee.epsilon(0.0) == pytest.approx(epsilon, rel=1e-9)
    assert guarantee.theorem == "k-ary randomised response"
    # At half of ε: on the k-ary curve, or on the pure one above it; never below.
    exact = max(0.0, -math.expm1(0.5 * epsilon - epsilon) / (1.0 + (categories - 1) * math.exp(-epsilon)))
    assert guarantee.delta(0.5 * epsilon) >= exact * (1.0 - 1e-6)


@pytest.mark.parametrize("weights", [None, [1, 2, 3], [1e-9, 1.0, 1e9], [1e100, 1e100, 1e100]])
def test_the_columns_of_randomised_response_share_epsilon(weights) -> None:
    mechanism = sf.RandomisedResponse(3.0, [2, 5, 9], weights=weights)
    shares = mechanism._budgets(3)
    assert sum(map(Fraction, shares)) <= 3
    assert sum(shares) == pytest.approx(3.0, rel=1e-12)
    relative = np.ones(3) if weights is None else np.array(weights) / max(weights)
    np.testing.assert_allclose(shares, 3.0 * relative / relative.sum(), rtol=1e-12)
    guarantee = mechanism.guarantee()
    assert guarantee.epsilon(0.0) <= 3.0
    assert guarantee.epsilon(0.0) == pytest.approx(3.0, rel=1e-9)
    # The record's exact curve lies below that of its pure ε, which one number for all columns gives.
    assert guarantee.epsilon(1e-2) < 3.0
    assert sf.RandomisedResponse(3.0, 5).guarantee().epsilon(0.0) == 3.0


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("widths", [[1.0], [1.0, 2.0], [0.3, 5.0, 1e-3, 1e3]])
def test_the_sensitivity_of_a_box_is_the_farthest_pair_of_corners(norm, widths) -> None:
    low = np.arange(len(widths)) - 0.5
    box = declared_domain(norm, None, (low, low + widths))
    corners = np.array(list(itertools.product(*zip(low, low + widths, strict=True))))
    order = 1 if norm == "l1" else 2
    farthest = max(np.linalg.norm(a - b, order) for a in corners for b in corners)
    from_centre = max(np.linalg.norm(a - (low + np.array(widths) / 2.0), order) for a in corners)
    assert farthest == pytest.approx(np.linalg.norm(widths, order), rel=1e-12)
    for neighbours, exact in (("replace", farthest), ("zero-out", from_centre)):
        ours = box.sensitivity(norm, len(widths), Neighbours(neighbours))
        assert exact * (1.0 - 1e-15) <= ours <= exact * (1.0 + 1e-11)


def test_the_noise_of_a_box_follows_its_diagonal_and_zero_out_halves_it() -> None:
    widths = np.array([2.0, 0.5, 4.0])
    bounds = (np.zeros(3), widths)
    gaussian, half = (sf.Gaussian(1.0, 1e-6, bounds=bounds, neighbours=n) for n in SENSITIVITY)
    ball = sf.Gaussian(1.0, 1e-6, clip=0.5)
    assert gaussian.sigma(3) == pytest.approx(np.linalg.norm(widths) * ball.sigma(3), rel=1e-11)
    assert half.sigma(3) == pytest.approx(gaussian.sigma(3) / 2.0, rel=1e-11)
    assert gaussian.guarantee().event == ball.guarantee().event
    laplace = sf.Laplace(2.0, bounds=bounds)
    assert laplace.scale(3) == pytest.approx(widths.sum() / 2.0, rel=1e-11)
    assert sf.Gaussian(bounds=(0.0, 1.0), epsilon=1.0).sigma(16) == pytest.approx(
        4.0 * ball.sigma(1), rel=1e-11
    )


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_gridded_records_stay_within_the_sensitivity(data) -> None:
    """In whole numbers: clipping and rounding leave no more distance than the noise is made for."""
    columns = data.draw(st.integers(1, 6))
    number = st.floats(-1e300, 1e300) | st.floats(-2.0, 2.0) | st.sampled_from([0.0, 1.0, -1.0, 1e-310])
    values = np.array(
        data.draw(st.lists(st.lists(number, min_size=columns, max_size=columns), min_size=2, max_size=2))
    )
    step = 2.0 ** data.draw(st.integers(-12, 0))
    size = data.draw(st.floats(0.1, 50.0))
    norm = data.draw(st.sampled_from(["l1", "l2"]))
    widths = size * np.arange(1, columns + 1)
    for domain in (
        declared_domain(norm, size, None),
        declared_domain(norm, None, (-3.0 * widths, -2.0 * widths)),
    ):
        cells = domain.cells(values.copy(), step)
        assert (cells == np.rint(cells)).all()
        gap = [abs(int(a) - int(b)) for a, b in zip(*cells, strict=True)]
        reach = Fraction(domain.sensitivity(norm, columns, Neighbours.REPLACE)) / Fraction(step)
        assert sum(gap) <= reach if norm == "l1" else sum(g * g for g in gap) <= reach**2
        from_centre = [abs(int(a)) for a in cells[0]]
        reach /= 2
        assert sum(from_centre) <= reach if norm == "l1" else sum(g * g for g in from_centre) <= reach**2


def test_records_inside_the_domain_move_by_less_than_a_step() -> None:
    values = np.array([[0.3, -0.4], [0.0, 0.0], [-0.1, 0.55]])
    ball = declared_domain("l2", 1.0, None)
    np.testing.assert_allclose(ball.cells(values.copy(), 2.0**-10) * 2.0**-10, values, atol=2.0**-10)
    box = declared_domain("l2", None, ([-1.0, -2.0], [1.0, 0.75]))
    centred = box.cells(values.copy(), 2.0**-10) * 2.0**-10 + box.centre
    np.testing.assert_allclose(centred, values, atol=2.0**-10)


def test_personalised_records_each_have_their_own_guarantee(exact_delta) -> None:
    budgets = [0.1, 8.0, 1.0]
    mechanism = sf.Personalised(budgets, 1e-6, 1.0)
    for record, epsilon in enumerate(budgets):
        assert mechanism.guarantee_of(record) == sf.Gaussian(epsilon, 1e-6, 1.0).guarantee()
    assert mechanism.guarantee() == mechanism.guarantee_of(1)
    # The scale of record i is the common σ times its factor, and is never below what its ε asks for.
    sigmas = mechanism.sigma(4) * mechanism._relative(0, 3)
    for sigma, epsilon in zip(sigmas, budgets, strict=True):
        assert exact_delta(epsilon, 2 / mpmath.mpf(float(sigma))) <= 1e-6
        assert sigma == pytest.approx(sf.Gaussian(epsilon, 1e-6, 1.0).sigma(4), rel=1e-12)
    np.testing.assert_array_equal(mechanism._relative(1, 2), mechanism._relative(0, 3)[1:])


def test_personalised_noise_has_the_size_its_guarantee_says() -> None:
    """Seeded, so it cannot fail by chance; the bound is five standard errors."""
    budgets, columns = np.array([0.5, 5.0, 50.0]), 100_000
    mechanism = sf.Personalised(budgets, 1e-6, 1.0, randomness=sf.Seeded(1))
    spread = mechanism.release(np.zeros((3, columns))).value.std(axis=1)
    expected = [sf.Gaussian(e, 1e-6, 1.0).sigma(columns) for e in budgets]
    np.testing.assert_allclose(spread, expected, rtol=5.0 / math.sqrt(2 * columns))


def test_one_epsilon_for_all_records_is_the_gaussian() -> None:
    X = np.ones((5, 2))
    personalised = sf.Personalised(2.0, 1e-6, 1.0)
    assert personalised.guarantee() == sf.Gaussian(2.0, 1e-6, 1.0).guarantee()
    assert personalised.guarantee_of(99) == personalised.guarantee()
    assert personalised.release(X).value.shape == (5, 2)
    with pytest.raises(BadInput, match="no record 3"):
        sf.Personalised([1.0, 2.0, 3.0], 1e-6, 1.0).guarantee_of(3)


def test_additive_noise_proves_nothing() -> None:
    guarantee = sf.AdditiveNoise(5.0).guarantee()
    assert guarantee.proves_nothing
    assert guarantee.epsilon(0.5) == math.inf
    assert guarantee.tradeoff(0.5) == 0.0


def test_guarantees_are_read_before_any_data_and_do_not_depend_on_it(make, codes) -> None:
    mechanism = make(None)
    before = mechanism.guarantee(5)
    assert isinstance(before, Guarantee)
    assert mechanism.release(codes).statement.proven == before
    assert mechanism.release(codes[:1]).statement.proven == before
