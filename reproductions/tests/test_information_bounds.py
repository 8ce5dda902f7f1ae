"""Numbers of the papers, recomputed: what their claims are worth under the theorems that do hold."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from sfumato.privacy import (
    Guarantee,
    ar1_factor,
    classical_sigma,
    gaussian_epsilon,
    gaussian_mu,
    shuffled_epsilon,
)
from sfumato_reproductions.information_bounds import gaussian_information, pure_information

DELTA = 1e-5


@pytest.mark.parametrize(
    ("claimed", "sigma", "zero_out", "replaced", "needed"),
    [
        (1.0, 4.845, 0.75, 1.61, 3.731),
        (15.0, 0.323, 17.4, 44.8, 0.362),
        (47.5, 0.102, 89.0, 275.0, 0.155),
        (80.0, 0.0606, 206.0, 685.0, 0.109),
    ],
)
def test_tadp_rme_runs_the_classical_formula_outside_its_proof(claimed, sigma, zero_out, replaced, needed):
    """Every printed digit of the table: paper's σ at Δ=1, true ε for Δ=C and Δ=2C, σ that gives the claim."""

    def same(value, printed):
        return (
            float(f"{value:.{len(repr(printed).rstrip('0').rstrip('.').replace('.', '').lstrip('0'))}g}")
            == printed
        )

    paper = classical_sigma(claimed, DELTA, 1.0)
    assert same(paper, sigma)
    assert same(gaussian_epsilon(1.0 / paper, DELTA), zero_out)
    assert same(gaussian_epsilon(2.0 / paper, DELTA), replaced)
    assert same(1.0 / gaussian_mu(claimed, DELTA), needed)
    promised = Guarantee.gaussian(paper / 2.0, neighbours="replace", at_delta=DELTA)
    assert promised.epsilon() > claimed


@pytest.mark.parametrize(("claimed", "true"), [(0.1, 1.76), (1.0, 6.57), (10.0, 28.4)])
def test_tldp_gaussian_noise_of_one_component(claimed, true):
    """The paper sets σ² = Δ²/(2ε), hence μ = Δ/σ = √(2ε); no pure ε exists."""
    noise = Guarantee.gaussian(1.0 / math.sqrt(2.0 * claimed), unit="component", at_delta=DELTA)
    assert float(f"{noise.epsilon():.3g}") == true
    assert noise.epsilon(0.0) == math.inf


def test_tldp_on_mnist():
    """I=784 components of range Δ=256, claimed ε=1: b = Δ/ε, Algorithm 1 keeps a value with p = 1/(2b+1)."""
    size, spread, claimed = 784, 256.0, 1.0
    scale = spread / claimed
    keep = 1.0 / (2.0 * scale + 1.0)
    assert keep == pytest.approx(0.00195, abs=5e-6)
    assert pytest.approx(1 / 3) == 1.0 / (2.0 * 1.0 + 1.0)  # the same data measured in units of Δ

    one = Guarantee.laplace(scale / spread, unit="component").with_slack(keep)
    assert one.epsilon(keep) == 1.0
    assert one.delta(1e6) == keep  # no ε brings δ below the probability of exact release
    assert one.epsilon(keep * 0.999) == math.inf

    leak = 1.0 - (1.0 - keep) ** size
    assert leak == pytest.approx(0.78, abs=0.005)
    whole = Guarantee.laplace(scale / (size * spread), unit="tensor").with_slack(leak)
    assert whole.epsilon(leak) == 784.0


def test_tldp_gaussian_tensor_is_within_the_mixture_formula():
    """(ε, 1−(1−p)^I + (1−p)^I·δ_G(ε; √I·Δ/σ)) is at most what slack and composition give."""
    keep, size, noise = 0.01, 16, 2.0
    whole = Guarantee.gaussian(noise, unit="component").with_slack(keep).times(size)
    stay = (1.0 - keep) ** size
    for epsilon in (0.0, 1.0, 5.0):
        exact = 1.0 - stay + stay * Guarantee.gaussian(noise / math.sqrt(size)).delta(epsilon)
        assert exact <= whole.delta(epsilon) <= exact + 0.25


@pytest.mark.parametrize(("n", "expected"), [(10**4, 0.214), (10**6, 0.0235)])
def test_shuffling_does_not_amplify_by_one_over_n(n, expected):
    value = shuffled_epsilon(1.0, n, 1e-6)
    assert float(f"{value:.3g}") == expected
    assert value > 20.0 / n


@pytest.mark.parametrize(("factor", "cost"), [(0.3, 3.33), (0.4, 2.5), (0.6, 1.67)])
def test_scale_factors_below_one_multiply_epsilon(factor, cost):
    assert Guarantee.laplace(factor).epsilon(0.0) == pytest.approx(1.0 / factor, rel=1e-15)
    assert round(1.0 / factor, 2) == cost


def test_correlated_noise_is_not_free():
    assert ar1_factor(0.9, "frame") == pytest.approx(3.09, abs=0.005)
    assert ar1_factor(0.9, "clip") == pytest.approx(4.36, abs=0.005)


def test_correlated_noise_hardly_removes_flicker_at_equal_epsilon():
    """RMS of n_t − n_{t−1} is √(2(1−β)); times the factor, over √2, it is √((1+β²)/(1+β)) and √(1+β)."""
    betas = np.linspace(0.0, 0.99, 1000)
    frame = np.array([ar1_factor(b, "frame") for b in betas]) * np.sqrt(1 - betas)
    clip = np.array([ar1_factor(b, "clip") for b in betas]) * np.sqrt(1 - betas)
    np.testing.assert_allclose(frame, np.sqrt((1 + betas**2) / (1 + betas)), rtol=1e-12)
    np.testing.assert_allclose(clip, np.sqrt(1 + betas), rtol=1e-12)
    assert frame.min() == pytest.approx(0.91, abs=0.005)
    assert betas[frame.argmin()] == pytest.approx(0.41, abs=0.005)
    assert clip.min() == 1.0


def test_a_53_bit_uniform_ends_where_large_mu_still_needs_noise():
    """Inverse-CDF sampling from cell centres ends at −Φ⁻¹(2⁻⁵⁴) = 8.29σ.

    Shifted by μσ, the last stretch is impossible under the other input and has mass Φ(−(8.29 − μ)); that is
    at most 1e-9 only up to μ = 2.29, which at δ = 1e-5 is ε ≈ 12.
    """
    end = -ndtri(2.0**-54)
    assert end == pytest.approx(8.29, abs=0.005)
    largest = end + ndtri(1e-9)
    assert largest == pytest.approx(2.29, abs=0.005)
    assert ndtr(-(end - largest)) == pytest.approx(1e-9, rel=1e-9)
    assert gaussian_epsilon(largest, DELTA) == pytest.approx(12.0, abs=0.2)


def test_total_variation_slack_is_useless_at_large_epsilon():
    """A sampler within τ of the true law costs δ₀ = (1 + e^ε)τ: at ε = 30 even τ = 1e-13 is everything."""
    tau = 1e-13
    assert Guarantee.pure(1.0).with_slack((1 + math.e) * tau).delta(1.0) < 1e-12
    assert (1 + math.exp(30.0)) * tau > 1.0


def test_pure_privacy_carries_two_thirds_of_a_bit_at_epsilon_one():
    assert pure_information(1.0) / math.log(2.0) == pytest.approx(0.67, abs=0.005)
    assert pure_information(0.0) == 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_pure_information_is_the_divergence_of_randomised_response(epsilon):
    p = 1.0 / (1.0 + math.exp(-epsilon))
    divergence = p * math.log(p / (1 - p)) + (1 - p) * math.log((1 - p) / p)
    assert pure_information(epsilon) == pytest.approx(divergence, rel=1e-12)


def test_gaussian_information_is_attained_by_gaussian_data():
    """For X ~ N(0, s²I) the mutual information with X + noise is exactly (d/2)·log(1 + s²/σ²)."""
    s, sigma, d = 0.7, 0.3, 5
    exact = 0.5 * d * math.log(1 + s**2 / sigma**2)
    assert gaussian_information(d * s**2, d, sigma) == pytest.approx(exact, rel=1e-14)


def test_contraction_of_noise_alone_multiplies_mu():
    """Noise multiplied by η at unchanged sensitivity multiplies μ, and a pure ε, by 1/η."""
    eta = 0.05
    assert Guarantee.laplace(2.0 * eta).epsilon(0.0) == pytest.approx(0.5 / eta)
    assert Guarantee.gaussian(2.0 * eta).epsilon(DELTA) == gaussian_epsilon(1.0 / (2.0 * eta), DELTA)
