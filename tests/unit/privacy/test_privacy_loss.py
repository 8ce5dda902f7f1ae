"""Composition against independent oracles: exact sums, mpmath integrals, and dp-accounting's accountants."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.privacy import Guarantee, gaussian_epsilon
from sfumato.privacy.analytic_gaussian import gaussian_delta
from sfumato.privacy.events import curve_of
from sfumato.privacy.privacy_loss import GaussianLoss, LaplaceLoss, ResponseLoss, SampledLoss

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


def by_pld(event, delta, relation=ADD):
    accountant = PLDAccountant(relation)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


def by_rdp(event, delta, relation=ADD):
    accountant = RdpAccountant(neighboring_relation=relation)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


def anywhere(delta_at):
    """Extend δ(ε) of a symmetric pair to negative ε: δ(−ε) = 1 − e^{−ε} + e^{−ε}δ(ε)."""
    return lambda e: delta_at(e) if e >= 0 else 1 - mp.exp(e) + mp.exp(e) * delta_at(-e)


def laplace_delta(epsilon0):
    return anywhere(lambda e: max(mp.mpf(0), 1 - mp.exp((e - epsilon0) / 2)))


def normal_delta(mu):
    return anywhere(lambda e: mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu))


def with_laplace(epsilon0, inner):
    """δ of Laplace noise composed with ``inner``: E over the Laplace loss l of inner(ε − l)."""
    cuts = [mp.mpf(i) * epsilon0 / 8 for i in range(9)]

    def delta(e):
        middle = mp.quad(lambda x: mp.exp(-x) / 2 * inner(e - epsilon0 + 2 * x), cuts)
        return inner(e - epsilon0) / 2 + mp.exp(-epsilon0) / 2 * inner(e + epsilon0) + middle

    return delta


def with_response(epsilon0, inner):
    """δ of binary randomised response composed with ``inner``."""
    stay = 1 / (1 + mp.exp(-mp.mpf(epsilon0)))
    return lambda e: stay * inner(e - epsilon0) + (1 - stay) * inner(e + epsilon0)


def responses(epsilon0, k, epsilon):
    """Exact δ of k binary randomised responses."""
    e0 = mp.mpf(epsilon0)
    stay = 1 / (1 + mp.exp(-e0))
    return mp.fsum(
        mp.binomial(k, j) * stay**j * (1 - stay) ** (k - j) * max(0, 1 - mp.exp(epsilon - (2 * j - k) * e0))
        for j in range(k + 1)
    )


def test_the_one_convention_and_the_two_of_dp_accounting():
    """dp-accounting under REPLACE_ONE doubles a Gaussian's sensitivity by PLD, not by RDP; we never double.

    A guarantee under ``replace`` puts the factor 2 into its own noise multiplier: σ/(2C).
    """
    event = GaussianDpEvent(1.0)
    assert by_pld(event, 1e-5, REPLACE) == pytest.approx(9.997, abs=5e-4)
    assert by_rdp(event, 1e-5, REPLACE) == pytest.approx(4.73, abs=5e-3)
    assert by_pld(event, 1e-5, ADD) == pytest.approx(gaussian_epsilon(1.0, 1e-5), rel=1e-6)
    readings = {
        Guarantee.gaussian(1.0, neighbours=n).epsilon(1e-5) for n in ("replace", "zero-out", "add/remove")
    }
    assert readings == {gaussian_epsilon(1.0, 1e-5)}
    sigma, clip = 1.0, 1.0
    assert Guarantee.gaussian(sigma / (2 * clip)).epsilon(1e-5) == pytest.approx(9.997, abs=5e-4)


def test_repeated_randomised_response_counts_every_repetition():
    """dp-accounting 0.6's PLDAccountant drops the count of a self-composed one; a list is the oracle."""
    event = Guarantee.pure(1.0).event
    right = by_pld(ComposedDpEvent([event] * 10), 1e-6, REPLACE)
    assert Guarantee.pure(1.0).times(10).epsilon(1e-6) == pytest.approx(right, abs=2e-3)


def test_gaussians_compose_analytically():
    parts = [Guarantee.gaussian(s) for s in (1.0, 2.0, 0.5)]
    mu = math.sqrt(1.0 + 0.25 + 4.0)
    assert Guarantee.compose(parts).epsilon(1e-9) == pytest.approx(gaussian_epsilon(mu, 1e-9), rel=1e-14)
    assert Guarantee.gaussian(10.0).times(100).delta(2.0) == pytest.approx(
        gaussian_delta(2.0, 1.0), rel=1e-12
    )
    event = SelfComposedDpEvent(GaussianDpEvent(10.0), 100)
    assert by_pld(event, 1e-6) == pytest.approx(Guarantee.gaussian(10.0).times(100).epsilon(1e-6), rel=1e-5)


@pytest.mark.parametrize("epsilon0", [1e-3, 0.5, 3.0, 40.0, 784.0])
def test_single_laplace_is_exact(epsilon0):
    guarantee = Guarantee.laplace(1.0 / epsilon0)
    assert guarantee.epsilon(0.0) == epsilon0
    for fraction in (0.0, 0.3, 0.99):
        expected = float(laplace_delta(mp.mpf(epsilon0))(mp.mpf(fraction * epsilon0)))
        assert guarantee.delta(fraction * epsilon0) == pytest.approx(expected, rel=1e-12)
    assert guarantee.delta(epsilon0) == 0.0
    assert guarantee.epsilon(0.01) == pytest.approx(max(0.0, epsilon0 + 2 * math.log(0.99)), rel=1e-12)


@pytest.mark.parametrize(("epsilon0", "buckets"), [(1e-3, 2), (1.0, 2), (1.0, 10), (8.0, 256), (650.0, 4)])
def test_single_randomised_response_is_exact(epsilon0, buckets):
    guarantee = Guarantee.randomised_response(epsilon0, buckets)
    assert guarantee.epsilon(0.0) == epsilon0
    with mp.workdps(400):
        e0 = mp.mpf(epsilon0)
        stay = mp.exp(e0) / (mp.exp(e0) + buckets - 1)
        for fraction in (0.0, 0.5, 0.999):
            e = mp.mpf(fraction * epsilon0)
            expected = float(stay - mp.exp(e) / (mp.exp(e0) + buckets - 1))
            assert guarantee.delta(float(e)) == pytest.approx(expected, rel=1e-9)
            if 0 < expected < 0.999:
                assert guarantee.epsilon(expected) == pytest.approx(float(e), rel=1e-6)


@pytest.mark.parametrize(("epsilon0", "k"), [(1.0, 10), (0.1, 100), (0.01, 1000), (0.3333, 37), (0.03, 2000)])
def test_repeated_randomised_response_sits_just_above_the_exact_sum(epsilon0, k):
    guarantee = Guarantee.pure(epsilon0).times(k)
    for delta in (1e-2, 1e-5, 1e-8):
        epsilon = guarantee.epsilon(delta)
        with mp.workdps(40):
            exact = float(responses(epsilon0, k, epsilon))
            assert exact <= delta
            assert float(responses(epsilon0, k, epsilon * (1 - 1e-3) - 1e-6)) > delta


@pytest.mark.parametrize(
    ("guarantee", "oracle"),
    [
        (Guarantee.laplace(1.0).times(2), with_laplace(1, laplace_delta(1))),
        (Guarantee.laplace(1.0) + Guarantee.laplace(0.25), with_laplace(1, laplace_delta(4))),
        (Guarantee.laplace(1.0) + Guarantee.gaussian(1.0), with_laplace(1, normal_delta(mp.mpf(1)))),
        (Guarantee.laplace(0.2) + Guarantee.gaussian(4.0), with_laplace(5, normal_delta(mp.mpf("0.25")))),
        (
            Guarantee.laplace(1.0) + Guarantee.pure(0.7).times(2) + Guarantee.gaussian(0.5),
            with_response(0.7, with_response(0.7, with_laplace(1, normal_delta(mp.mpf(2))))),
        ),
        (
            Guarantee.pure(2.0) + Guarantee.pure(0.5) + Guarantee.laplace(1.0),
            with_response(2.0, with_response(0.5, laplace_delta(1))),
        ),
    ],
)
def test_mixed_compositions_agree_with_numerical_integration(guarantee, oracle):
    with mp.workdps(20):
        for epsilon in (0.0, 1.0, 2.9):
            exact = float(oracle(mp.mpf(epsilon)))
            value = guarantee.delta(epsilon)
            assert exact * (1 - 1e-9) <= value <= exact * (1 + 1e-4) + 1e-12


def test_a_huge_gaussian_composed_with_others_neither_explodes_nor_undercuts():
    """μ = 38 is ε ≈ 870: the grid coarsens; the result stays above the exact lower bound of its parts."""
    for other, extra in ((Guarantee.laplace(1.0), 1.0), (Guarantee.pure(2.0), 2.0)):
        both = Guarantee.gaussian(1 / 38.0) + other
        alone = gaussian_epsilon(38.0, 1e-5)
        assert alone + 0.3 * extra < both.epsilon(1e-5) <= alone + extra
    many = Guarantee.laplace(1 / 7840.0).times(3) + Guarantee.gaussian(1 / 1000.0)
    assert 3 * 7840 + 0.5e6 < many.epsilon(1e-5) < math.inf


def test_huge_and_exact_composition_bracket_each_other():
    """δ of Gaussian ∘ Laplace at μ = 38, by integration, is below ours and within a thousandth of it."""
    both = Guarantee.gaussian(1 / 38.0) + Guarantee.laplace(0.2)
    with mp.workdps(30):
        oracle = with_laplace(5, normal_delta(mp.mpf(38)))
        for epsilon in (600.0, 730.0, 870.0):
            exact = float(oracle(mp.mpf(epsilon)))
            assert exact <= both.delta(epsilon) <= exact * 1.001


@pytest.mark.parametrize("delta", [1e-13, 1e-16, 1e-30])
def test_a_delta_below_double_precision_still_gets_a_sound_finite_answer(delta):
    """Where Fourier rounding exceeds δ, Rényi DP or the sum of parts answers."""
    guarantee = Guarantee.pure(0.03).times(5000)
    epsilon = guarantee.epsilon(delta)
    with mp.workdps(60):
        assert responses(0.03, 5000, epsilon) <= delta
    assert epsilon < 40.0 < 150.0 == pytest.approx(guarantee.epsilon(0.0))
    mixed = Guarantee.gaussian(1.0) + Guarantee.laplace(1.0)
    assert gaussian_epsilon(1.0, delta) < mixed.epsilon(delta) <= gaussian_epsilon(1.0, delta) + 1.0


@pytest.mark.parametrize(
    "event",
    [
        GaussianDpEvent(1.3),
        ComposedDpEvent([LaplaceDpEvent(2.0), GaussianDpEvent(3.0)]),
        SelfComposedDpEvent(LaplaceDpEvent(10.0), 50),
        SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 500),
        SelfComposedDpEvent(PoissonSampledDpEvent(0.05, LaplaceDpEvent(1.0)), 100),
        ComposedDpEvent([PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), LaplaceDpEvent(3.0)]),
    ],
)
def test_three_accountants_agree(event):
    """Ours equals dp-accounting's PLD under its unit-sensitivity reading, and RDP is above both."""
    ours = Guarantee(event=event, neighbours="add/remove", theorem="test")
    for delta in (1e-3, 1e-6):
        peer = by_pld(event, delta)
        assert ours.epsilon(delta) == pytest.approx(peer, rel=2e-3, abs=2e-4)
    if "PoissonSampledDpEvent(sampling_probability=0.05" not in repr(event):  # RDP has no Poisson–Laplace
        assert ours.epsilon(1e-6) <= by_rdp(event, 1e-6) * (1 + 1e-6)


def test_randomised_response_agrees_with_both_accountants():
    event = ComposedDpEvent([RandomizedResponseDpEvent(0.3, 5)] * 4)
    ours = Guarantee(event=event, theorem="test")
    assert ours.epsilon(1e-4) == pytest.approx(by_pld(event, 1e-4, REPLACE), abs=5e-4)
    assert ours.epsilon(1e-4) <= by_rdp(event, 1e-4, REPLACE)


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.7])
def test_a_single_poisson_sample_has_a_closed_form(rate):
    """q·δ₀(log(1 + (e^ε − 1)/q)) equals the mixture's divergence, by direct integration."""
    mu = 2.0
    guarantee = Guarantee(
        event=PoissonSampledDpEvent(rate, GaussianDpEvent(1 / mu)), neighbours="add/remove", theorem="test"
    )
    x = np.linspace(-12, 16, 400_001)
    bell = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    shifted = np.exp(-0.5 * (x - mu) ** 2) / math.sqrt(2 * math.pi)
    mixture = (1 - rate) * bell + rate * shifted
    for epsilon in (0.0, 0.01, 0.5, 1.5):
        remove = np.trapezoid(np.maximum(0, mixture - math.exp(epsilon) * bell), x)
        add = np.trapezoid(np.maximum(0, bell - math.exp(epsilon) * mixture), x)
        assert guarantee.delta(epsilon) == pytest.approx(remove, rel=1e-5)
        assert add <= guarantee.delta(epsilon) * (1 + 1e-5)


def test_losses_are_merged_whatever_their_order():
    a, b = LaplaceDpEvent(2.0), RandomizedResponseDpEvent(0.5, 3)
    g, h = GaussianDpEvent(2.0), GaussianDpEvent(3.0)
    one = curve_of(ComposedDpEvent([a, g, SelfComposedDpEvent(b, 2), h]))
    two = curve_of(ComposedDpEvent([h, b, ComposedDpEvent([g, b]), a]))
    assert one == two
    assert len(one.parts) == 3


@settings(deadline=None, max_examples=100)
@given(
    loss=st.one_of(
        st.builds(GaussianLoss, st.floats(1e-3, 40)),
        st.builds(LaplaceLoss, st.floats(1e-3, 900)),
        st.builds(ResponseLoss, st.floats(1e-3, 900), st.integers(2, 300)),
        st.builds(SampledLoss, st.builds(GaussianLoss, st.floats(1e-3, 40)), st.floats(1e-4, 0.9)),
        st.builds(SampledLoss, st.builds(LaplaceLoss, st.floats(1e-3, 900)), st.floats(1e-4, 0.9)),
    ),
    log_delta=st.floats(-12, -0.5),
    shrink=st.floats(0.5, 0.999),
)
def test_single_curves_fall_and_epsilon_inverts_them(loss, log_delta, shrink):
    delta = 10.0**log_delta
    epsilon = loss.epsilon(delta)
    ulps = 1e-15 * max(1.0, epsilon)  # what a δ can move within the last digits of ε
    assert loss.delta(epsilon) <= delta * (1 + 1e-9) + ulps
    if epsilon > 0:
        assert loss.delta(epsilon * shrink) >= loss.delta(epsilon)
        assert loss.delta(epsilon) == pytest.approx(delta, rel=1e-6, abs=4 * ulps)


@settings(deadline=None, max_examples=15)
@given(
    noises=st.lists(st.floats(0.05, 50), min_size=1, max_size=3),
    scales=st.lists(st.floats(0.05, 50), min_size=1, max_size=3),
    answers=st.lists(st.floats(0.01, 20), min_size=0, max_size=2),
    log_delta=st.floats(-11, -1.5),
)
def test_composed_curves_fall_and_epsilon_inverts_them(noises, scales, answers, log_delta):
    delta = 10.0**log_delta
    parts = (
        [Guarantee.gaussian(s) for s in noises]
        + [Guarantee.laplace(s) for s in scales]
        + [Guarantee.pure(e) for e in answers]
    )
    whole, reverse = Guarantee.compose(parts), Guarantee.compose(parts[::-1])
    epsilon = whole.epsilon(delta)
    assert epsilon == reverse.epsilon(delta)
    assert whole.delta(epsilon) <= delta * (1 + 1e-9)
    assert epsilon >= max(part.epsilon(delta) for part in parts) * (1 - 1e-9)
    grid = np.linspace(0, epsilon, 7)
    deltas = [whole.delta(float(e)) for e in grid]
    assert all(high >= low - 1e-12 for high, low in pairwise(deltas))
    if epsilon > 1e-3:
        assert whole.delta(epsilon * (1 - 1e-4) - 1e-6) > delta * (1 - 1e-9)


@pytest.mark.parametrize("k", [2001, 100_000, 999_999])
def test_many_small_releases_approach_their_gaussian_limit(k):
    """k randomised responses of ε = 1/√k tend to μ = 1; two-stage convolution stays within half a percent."""
    assert Guarantee.pure(1 / math.sqrt(k)).times(k).epsilon(1e-6) == pytest.approx(
        gaussian_epsilon(1.0, 1e-6), rel=5e-3
    )


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee.pure(3.0).times(10**12),
        Guarantee.pure(1e90) + Guarantee.gaussian(1.0),
        Guarantee.gaussian(1e-90) + Guarantee.laplace(1.0),
        Guarantee.gaussian(1e90) + Guarantee.laplace(1e-90),
    ],
)
def test_absurd_events_get_a_sound_answer_without_convolution(guarantee):
    pure = sum(loss.pure * n for loss, n in guarantee.curve.parts if loss.pure < math.inf)
    assert guarantee.epsilon(1e-6) >= 0.9 * pure
    assert guarantee.delta(1.0) == 1.0
    assert guarantee.tradeoff(0.1) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rate", [1e-9, 0.5])
def test_a_sampled_laplace_of_any_size_composes(rate):
    for epsilon0 in (1.0, 299.0, 301.0, 1e4):
        event = ComposedDpEvent(
            [PoissonSampledDpEvent(rate, LaplaceDpEvent(1 / epsilon0)), LaplaceDpEvent(1.0)]
        )
        guarantee = Guarantee(event=event, neighbours="add/remove", theorem="test")
        one = SampledLoss(LaplaceLoss(epsilon0), rate)
        assert one.epsilon(1e-6) * (1 - 1e-9) <= guarantee.epsilon(1e-6) <= one.pure + 1.0


@pytest.mark.parametrize("epsilon", [650.0, 705.0, 740.1437270081653, 1e4])
def test_losses_beyond_what_double_precision_exponentiates_add_up(epsilon):
    """The sum always holds; where e^ε is no double it is what is stated."""
    both = Guarantee.laplace(1.0 / epsilon) + Guarantee.laplace(1.0)
    assert both.epsilon(0.5) <= epsilon + 1.0 + 1e-6
    assert both.epsilon(0.5) >= Guarantee.laplace(1.0 / epsilon).epsilon(0.5) - 1e-6
