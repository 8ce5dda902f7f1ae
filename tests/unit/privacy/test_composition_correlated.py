import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.privacy import ar1_factor, ar1_matrix, correlated_gaussian, gaussian_epsilon


def correlated_factor(lower, unit):
    """The largest column norm of L⁻¹ for a frame, its spectral norm for a clip."""
    inverse = np.linalg.inv(lower)
    return np.linalg.norm(inverse, axis=0).max() if unit == "frame" else np.linalg.norm(inverse, 2)


@given(beta=st.floats(0, 0.97), length=st.integers(1, 40))
def test_the_matrix_is_stationary_with_unit_variance_and_correlation_beta(beta, length):
    lower = ar1_matrix(beta, length)
    covariance = lower @ lower.T
    lag = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    np.testing.assert_allclose(covariance, beta**lag, atol=1e-12)
    assert np.all(np.triu(lower, 1) == 0)


@settings(deadline=None)
@given(beta=st.floats(0, 0.97), length=st.integers(1, 60))
def test_closed_forms_bound_the_explicit_matrix(beta, length):
    lower = ar1_matrix(beta, length)
    frame, clip = correlated_factor(lower, "frame"), correlated_factor(lower, "clip")
    assert frame <= ar1_factor(beta, "frame") * (1 + 1e-9)
    assert frame <= clip * (1 + 1e-9)
    assert clip <= ar1_factor(beta, "clip") * (1 + 1e-9)
    if length >= 3:
        assert frame == pytest.approx(ar1_factor(beta, "frame"), rel=1e-9)


def test_the_clip_factor_is_approached_by_long_clips():
    assert correlated_factor(ar1_matrix(0.9, 400), "clip") == pytest.approx(ar1_factor(0.9, "clip"), rel=1e-3)


def test_uncorrelated_noise_has_factor_one():
    assert ar1_factor(0.0, "frame") == ar1_factor(0.0, "clip") == 1.0
    np.testing.assert_array_equal(ar1_matrix(0.0, 4), np.eye(4))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 6))
def test_the_guarantee_bounds_every_change(seed, length):
    """μ of a change x under noise σL w is ‖L⁻¹x‖/σ; no allowed change exceeds what is stated."""
    rng = np.random.default_rng(seed)
    lower = np.tril(rng.normal(size=(length, length))) + 2 * np.eye(length)
    if np.min(np.abs(np.diag(lower))) < 0.1:
        return
    sigma, sensitivity = 3.0, 0.5
    inverse = np.linalg.inv(lower)
    frame = correlated_gaussian(lower, sigma, sensitivity, unit="frame", at_delta=1e-6)
    clip = correlated_gaussian(lower, sigma, sensitivity, unit="clip", at_delta=1e-6)
    assert str(frame.unit) == "frame"
    assert str(clip.unit) == "clip"
    mu_frame, mu_clip = (1 / g.event.noise_multiplier for g in (frame, clip))
    exact = max(np.linalg.norm(inverse[:, t]) * sensitivity / sigma for t in range(length))
    assert mu_frame == pytest.approx(exact, rel=1e-9)
    for _ in range(50):
        change = rng.normal(size=(length, 3))
        change *= sensitivity / np.linalg.norm(change, axis=1, keepdims=True)
        assert np.linalg.norm(inverse @ change) / sigma <= mu_clip * (1 + 1e-9)
    assert frame.epsilon() == pytest.approx(gaussian_epsilon(exact, 1e-6), rel=1e-6)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], "lower triangular"),
        ([[1.0, 0.0], [1.0, 0.0]], "zero on its diagonal"),
        ([[1.0, 0.0], [1.0, 1e-14]], "singular to working precision"),
        ([[1.0, 0.0]], "square"),
        ([1.0, 2.0], "square"),
        ([], "square"),
        ([[math.nan]], "not finite"),
    ],
)
def test_unusable_matrices_are_refused(matrix, message):
    with pytest.raises(BadInput, match=message):
        correlated_gaussian(matrix, 1.0, 1.0)


def test_bad_parameters_are_refused():
    for beta in (-0.1, 1.0, math.nan):
        with pytest.raises(BadInput, match="`beta` was"):
            ar1_factor(beta)
    with pytest.raises(BadInput, match="`unit` was"):
        ar1_factor(0.5, "record")
    with pytest.raises(BadInput, match="`T` was"):
        ar1_matrix(0.5, 0)
    with pytest.raises(BadInput, match="`sigma` was"):
        correlated_gaussian(np.eye(2), 0.0, 1.0)
    with pytest.raises(BadInput, match="`frame_sensitivity` was"):
        correlated_gaussian(np.eye(2), 1.0, math.inf)
