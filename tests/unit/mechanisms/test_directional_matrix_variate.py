"""Matrix-variate Gaussian noise: its covariances, its exact ε beside the authors' theorem, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.directional import MatrixVariateGaussian
from sfumato.privacy import gaussian_epsilon, gaussian_mu

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

M, N = 3, 4
ROWS, COLUMNS = np.array([0.7, 0.2, 0.1]), np.array([0.4, 0.3, 0.2, 0.1])


def basis(side: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(side, side)))[0]


def matrix_variate(**parameters) -> MatrixVariateGaussian:
    given = {
        "clip": 1.0,
        "row_directions": basis(M),
        "row_precision": ROWS,
        "column_directions": basis(N, 1),
        "column_precision": COLUMNS,
        "shape": (M, N),
    }
    return MatrixVariateGaussian(2.0, 1e-5, **(given | parameters))


def paper_budget(epsilon, delta, m, n, clip, apart):
    """B of the authors' theorem, written as they print it."""
    r = min(m, n)
    harmonic, half = sum(1 / k for k in range(1, r + 1)), sum(k**-0.5 for k in range(1, r + 1))
    zeta = 2 * math.sqrt(-m * n * math.log(delta)) - 2 * math.log(delta) + m * n
    alpha = (harmonic + half) * clip**2 + 2 * harmonic * clip * apart
    beta = 2 * (m * n) ** 0.25 * zeta * harmonic * apart
    return (-beta + math.sqrt(beta**2 + 8 * alpha * epsilon)) ** 2 / (4 * alpha**2)


def norm_of_inverse(covariance):
    return np.linalg.norm(1.0 / np.linalg.eigvalsh(covariance))


def covariances(mechanism, columns):
    """Σ (m, m) and Ψ (n, n) of the noise on matrices of ``columns`` entries."""
    made = []
    for basis, spread in zip(mechanism._frame(columns).bases, mechanism._spreads(columns), strict=True):
        turned = np.eye(len(spread)) if basis is None else basis
        made.append((turned * spread) @ turned.T)
    return made[0] * mechanism.sigma(columns) ** 2, made[1]


def test_the_proven_epsilon_is_the_one_asked_for():
    proven = matrix_variate().guarantee(M * N)
    assert proven.epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    assert proven.epsilon(1e-5) <= 2.0
    assert str(proven.unit) == "tensor"


@pytest.mark.parametrize("calibration", ["analytic", "paper"])
@pytest.mark.parametrize(("neighbours", "apart"), [("replace", 2.0), ("zero-out", 1.0)])
def test_the_proven_loss_is_that_of_the_covariance(calibration, neighbours, apart):
    """μ = Δ·σ_min(C)^{−1/2} for the covariance C = Σ ⊗ Ψ of all entries."""
    mechanism = matrix_variate(calibration=calibration, neighbours=neighbours)
    sigma, psi = covariances(mechanism, M * N)
    smallest = np.linalg.eigvalsh(np.kron(sigma, psi)).min()
    proven = mechanism.guarantee(M * N)
    assert 1.0 / proven.event.noise_multiplier == pytest.approx(apart / math.sqrt(smallest), rel=1e-9)


def test_precision_is_split_as_declared():
    """1/σᵢ(Σ)² is the share of the budget that direction i was given."""
    sigma, psi = covariances(matrix_variate(), M * N)
    for covariance, directions, shares in ((sigma, basis(M), ROWS), (psi, basis(N, 1), COLUMNS)):
        precision = 1.0 / np.einsum("ij,ik,kj->j", directions, covariance, directions) ** 2
        np.testing.assert_allclose(precision / precision.sum(), shares, rtol=1e-9)


def test_the_noise_has_the_covariance_of_rows_and_columns():
    """False-alarm rate 1e-6: whitened noise, its length by χ² and each pair of entries by its normal law."""
    n, mechanism = 20_000, matrix_variate(randomness=sf.Seeded(4))
    noise = mechanism.release(np.zeros((n, M, N))).value.reshape(n, -1)
    white = np.linalg.solve(np.linalg.cholesky(np.kron(*covariances(mechanism, M * N))), noise.T)
    assert chi2.ppf(2e-7, n * M * N) < np.square(white).sum() < chi2.isf(2e-7, n * M * N)
    products = white @ white.T / math.sqrt(n)
    # 66 pairs of sums of products, normal to within far less than the bound: 6.5 deviations, 5e-9 in all.
    assert np.abs(products[np.triu_indices(M * N, 1)]).max() < 6.5


def test_expected_error_is_the_trace_of_the_covariances():
    mechanism = matrix_variate()
    sigma, psi = covariances(mechanism, M * N)
    (expected,) = mechanism.expected_error(M * N)
    assert expected.value == pytest.approx(math.sqrt(np.trace(sigma) * np.trace(psi) / (M * N)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("shape", [(3, 4), (28, 28), (1, 5)])
def test_the_papers_noise_is_that_of_its_theorem_and_keeps_more_than_it_claims(epsilon, shape):
    mechanism = MatrixVariateGaussian(epsilon, 1e-5, clip=1.0, calibration="paper", shape=shape)
    columns = shape[0] * shape[1]
    sigma, psi = covariances(mechanism, columns)
    asked = paper_budget(epsilon, 1e-5, *shape, 1.0, 2.0)
    assert norm_of_inverse(sigma) * norm_of_inverse(psi) == pytest.approx(asked, rel=1e-4)
    assert mechanism.claim().epsilon == epsilon
    assert "Chanyaswad" in mechanism.claim().source
    proven = mechanism.guarantee().epsilon(1e-5)
    assert proven <= epsilon
    assert proven == pytest.approx(gaussian_epsilon(2.0 / mechanism.sigma(columns), 1e-5), rel=1e-6)


def test_the_papers_noise_with_directions_spends_the_same_budget():
    mechanism = matrix_variate(calibration="paper")
    sigma, psi = covariances(mechanism, M * N)
    asked = paper_budget(2.0, 1e-5, M, N, 1.0, 2.0)
    assert norm_of_inverse(sigma) * norm_of_inverse(psi) == pytest.approx(asked, rel=1e-6)
    assert mechanism.guarantee(M * N).epsilon(1e-5) < 2.0


def test_no_directions_and_equal_shares_are_the_gaussian_mechanism_bit_for_bit():
    images = load_digits().images[:200]
    kind = type("Gaussian", (MatrixVariateGaussian,), {})
    plain = sf.Gaussian(2.0, 1e-5, 20.0, randomness=sf.Seeded(5)).release(images.reshape(200, -1)).value
    for given in ({}, {"row_precision": np.ones(8), "column_directions": np.eye(8)}):
        made = kind(2.0, 1e-5, 20.0, randomness=sf.Seeded(5), **given)
        np.testing.assert_array_equal(made.release(images).value.reshape(200, -1), plain)


def test_no_direction_has_less_noise_than_the_gaussian_mechanism():
    gaussian = sf.Gaussian(2.0, 1e-5, 1.0).sigma(M * N)
    assert gaussian == pytest.approx(2.0 / gaussian_mu(2.0, 1e-5), rel=1e-9)
    assert matrix_variate().deviations_along(M * N).min() == gaussian


def test_matrices_come_back_in_their_shape_and_rows_are_matrices_of_one_row():
    images = load_digits().images[:20].astype(np.float32)
    released = MatrixVariateGaussian(2.0, 1e-5, clip=20.0, row_directions=basis(8)).release(images)
    assert released.value.shape == (20, 8, 8)
    assert released.value.dtype == np.float32
    assert released.statement.parameters["shape"] == [8, 8]
    rows = MatrixVariateGaussian(2.0, 1e-5, clip=20.0, column_directions=basis(64))
    assert rows.release(images.reshape(20, -1)).value.shape == (20, 64)


def test_scikit_learn_accepts_it():
    mechanism = MatrixVariateGaussian(clip=1.0, randomness=sf.Seeded(3), epsilon=1.0)
    results = check_estimator(mechanism, on_fail=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"row_directions": np.ones((M, M))}, "rows must be orthonormal"),
        ({"column_directions": 2.0 * np.eye(N)}, "columns must be orthonormal"),
        ({"column_directions": basis(M)}, r"columns must be a matrix of shape \(4, 4\)"),
        ({"row_precision": [0.5, 0.5]}, "`row_precision` must hold 3 numbers"),
        ({"row_precision": [0.5, 0.5, 0.0]}, "`row_precision` must be positive"),
        ({"column_precision": [1.0, -1.0, 1.0, 1.0]}, "`column_precision` must be positive"),
        ({"column_precision": [1.0, 1.0, np.nan, 1.0]}, "`column_precision` must be positive"),
        ({"shape": (2, 3, 2)}, "is for matrices"),
        ({"shape": (2, 3)}, "6 components, but the data has 12"),
        ({"calibration": "guess"}, "`calibration` must be one of"),
        ({"clip": None, "bounds": (1.0, 0.0)}, "lower bound"),
    ],
)
def test_refusals_are_one_sentence(parameters, words):
    with pytest.raises(BadInput, match=words) as refusal:
        matrix_variate(**parameters).guarantee(M * N)
    assert str(refusal.value).count(". ") == 0
    with pytest.raises(BadInput):
        matrix_variate(**parameters).release(np.zeros((2, M * N)))


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("delta", 0.0), ("delta", 1.0)])
def test_budgets_must_be_positive(name, value):
    with pytest.raises(BadInput, match=name):
        matrix_variate().set_params(**{name: value}).guarantee(M * N)
