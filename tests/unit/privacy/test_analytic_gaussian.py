"""The analytic Gaussian against mpmath at 60 digits; a root is checked by the exact residual it leaves."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from sfumato.errors import BadInput
from sfumato.privacy import analytic_gaussian, classical_sigma, gaussian_epsilon, gaussian_mu
from sfumato.privacy.analytic_gaussian import gaussian_delta, gaussian_tradeoff

EPSILONS = np.geomspace(1e-3, 1000.0, 31)
DELTAS = np.geomspace(1e-12, 0.1, 23)


def true_delta(epsilon, mu):
    e, m = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def true_epsilon(mu, delta, near):
    """The root next to ``near``, by Newton's method at 60 digits, from the derivative −e^ε Φ(−b)."""
    e, m = mp.mpf(near), mp.mpf(mu)
    for _ in range(6):
        e += (true_delta(e, m) - mp.mpf(delta)) / (mp.exp(e) * mp.ncdf(-m / 2 - e / m))
    assert abs(true_delta(e, m) - mp.mpf(delta)) < mp.mpf(10) ** -40 * mp.mpf(delta)
    return e


def true_mu(epsilon, delta, near):
    """The root next to ``near``, by Newton's method at 60 digits, from the derivative φ(a)."""
    e, m = mp.mpf(epsilon), mp.mpf(near)
    for _ in range(6):
        m -= (true_delta(e, m) - mp.mpf(delta)) / mp.npdf(e / m - m / 2)
    assert abs(true_delta(e, m) - mp.mpf(delta)) < mp.mpf(10) ** -40 * mp.mpf(delta)
    return m


def relative(value, truth):
    return float(abs(mp.mpf(value) / truth - 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_all_three_directions_agree_with_mpmath_on_a_grid(epsilon):
    with mp.workdps(60):
        for delta in DELTAS:
            mu = gaussian_mu(epsilon, delta)
            assert relative(mu, true_mu(epsilon, delta, mu)) <= 1e-9
            assert relative(gaussian_delta(epsilon, mu), true_delta(epsilon, mu)) <= 1e-9
            back = gaussian_epsilon(mu, delta)
            assert relative(back, true_epsilon(mu, delta, back)) <= 1e-9


@settings(deadline=None, max_examples=200)
@given(log_epsilon=st.floats(-3, 3), log_delta=st.floats(-12, -1))
def test_calibration_is_accurate_and_lands_on_the_safe_side(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    with mp.workdps(60):
        assert relative(mu, true_mu(epsilon, delta, mu)) <= 1e-9


@settings(deadline=None, max_examples=200)
@given(log_mu=st.floats(-4, 2), log_delta=st.floats(-12, -1))
def test_epsilon_is_accurate_and_lands_on_the_safe_side(log_mu, log_delta):
    mu, delta = 10.0**log_mu, 10.0**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assume(1e-3 <= epsilon <= 1000.0)
    with mp.workdps(60):
        assert relative(epsilon, true_epsilon(mu, delta, epsilon)) <= 1e-9


@settings(deadline=None, max_examples=200)
@given(log_epsilon=st.floats(-8, 4), log_mu=st.floats(-8, 2))
def test_delta_keeps_its_digits_far_beyond_the_promised_range(log_epsilon, log_mu):
    epsilon, mu = 10.0**log_epsilon, 10.0**log_mu
    with mp.workdps(400):
        truth = true_delta(epsilon, mu)
        value = gaussian_delta(epsilon, mu)
        assert value == 0.0 if truth < mp.mpf("1e-330") else value >= 0.0
        assume(truth > mp.mpf("1e-290"))
        assert relative(value, truth) <= 1e-9


def test_edges():
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1e-6) == 0.0
    assert gaussian_epsilon(0.1, 0.05) == 0.0  # δ(0) = 0.0399 already
    assert gaussian_delta(0.0, 1.0) == pytest.approx(0.3829249225480262, rel=1e-14)  # erf(1/√8)
    assert gaussian_mu(0.0, 0.3829249225480262) == pytest.approx(1.0, rel=1e-14)
    assert gaussian_delta(1e6, 1.0) == 0.0
    assert gaussian_delta(1.0, 1e6) == 1.0


def test_extremes_stay_finite_and_safe():
    for mu in (1e4, 1e7, 1e50):
        assert 0.5 * mu * mu < gaussian_epsilon(mu, 1e-5) < 0.5 * mu * mu * (1 + 1e-9) + 5 * mu
    for epsilon in (1e5, 1e9, 1e12, 1e50):
        mu = gaussian_mu(epsilon, 1e-5)
        assert gaussian_delta(epsilon, mu) <= 1e-5
        assert mu == pytest.approx(np.sqrt(2 * epsilon), rel=5 / np.sqrt(epsilon) + 1e-12)
    assert gaussian_mu(1.0, 0.999999) > gaussian_mu(1.0, 0.9)


@pytest.mark.parametrize("epsilon", [-1e-9, float("nan"), float("inf")])
def test_bad_epsilon_is_refused(epsilon):
    for call in (gaussian_delta, gaussian_mu):
        with pytest.raises(BadInput, match="`epsilon` was"):
            call(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_bad_delta_is_refused(delta):
    for call in (gaussian_epsilon, gaussian_mu):
        with pytest.raises(BadInput, match="`delta` was"):
            call(1.0, delta)


@pytest.mark.parametrize("mu", [-1.0, float("nan"), float("inf")])
def test_bad_mu_is_refused(mu):
    for call in (gaussian_epsilon, lambda m, d: gaussian_delta(d, m), lambda m, d: gaussian_tradeoff(d, m)):
        with pytest.raises(BadInput, match="`mu` "):
            call(mu, 0.1)


def test_tradeoff_is_the_envelope_of_the_delta_curve():
    for mu in (0.3, 1.0, 4.0):
        grid = np.linspace(0, 12 * mu, 4000)
        deltas = np.array([gaussian_delta(e, mu) for e in grid])
        for alpha in (1e-6, 0.01, 0.2, 0.5, 0.9):
            lines = np.maximum(1 - deltas - np.exp(grid) * alpha, np.exp(-grid) * (1 - deltas - alpha))
            assert gaussian_tradeoff(alpha, mu) == pytest.approx(max(0, lines.max()), abs=2e-5)
    assert gaussian_tradeoff(0.0, 1.0) == 1.0
    assert gaussian_tradeoff(1.0, 1.0) == 0.0
    with pytest.raises(BadInput, match="alpha"):
        gaussian_tradeoff(1.5, 1.0)


def test_classical_formula():
    assert classical_sigma(1.0, 1e-5, 2.0) == pytest.approx(2 * np.sqrt(2 * np.log(1.25e5)), rel=1e-15)
    with pytest.raises(BadInput, match="positive epsilon"):
        classical_sigma(0.0, 1e-5, 1.0)
    with pytest.raises(BadInput, match="sensitivity"):
        classical_sigma(1.0, 1e-5, 0.0)


@given(epsilon=st.floats(0.01, 0.999), log_delta=st.floats(-10, -2))
def test_classical_formula_is_safe_below_one(epsilon, log_delta):
    delta = 10.0**log_delta
    assert gaussian_delta(epsilon, 1.0 / classical_sigma(epsilon, delta, 1.0)) <= delta


@given(epsilon=st.floats(1e-3, 1e3), delta=st.floats(1e-12, 0.1))
def test_the_root_has_the_digits_of_scipy(epsilon, delta):
    """Brent's method is written out to start quickly; other last digits would change what was released."""

    def left(mu):
        return analytic_gaussian._log_delta(epsilon, mu) - math.log(delta)

    low = high = max(math.sqrt(2.0 * epsilon), delta)
    while left(low) > 0.0:
        low *= 0.5
    while left(high) < 0.0:
        high *= 2.0
    assert analytic_gaussian._root(left, low, high) == brentq(left, low, high, xtol=5e-324, rtol=1e-14)
