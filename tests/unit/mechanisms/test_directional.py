"""Noise along public directions: what it proves, when it is the Gaussian mechanism, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.directional import IndependentDirectional
from sfumato.privacy import gaussian_epsilon, gaussian_mu

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

SHAPE = (3, 4, 2)


def basis(side: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(side, side)))[0]


def directional(**parameters) -> IndependentDirectional:
    given = {
        "clip": 1.0,
        "directions": [basis(3), None, basis(2, 1)],
        "deviations": np.arange(1.0, 25.0).reshape(SHAPE),
        "shape": SHAPE,
    }
    return IndependentDirectional(2.0, 1e-5, **(given | parameters))


def like_gaussian(**parameters):
    """IDN under the name of the Gaussian mechanism, which is part of the label of seeded noise."""
    return type("Gaussian", (IndependentDirectional,), {})(2.0, 1e-5, **parameters)


def test_the_proven_epsilon_is_the_one_asked_for():
    proven = directional().guarantee(24)
    assert proven.epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    assert proven.epsilon(1e-5) <= 2.0
    assert str(proven.unit) == "tensor"
    assert str(proven.neighbours) == "replace"


@pytest.mark.parametrize(("neighbours", "apart"), [("replace", 2.0), ("zero-out", 1.0)])
def test_the_smallest_deviation_is_that_of_the_gaussian_mechanism(neighbours, apart):
    deviations = directional(neighbours=neighbours).deviations_along(24)
    assert deviations.min() == pytest.approx(apart / gaussian_mu(2.0, 1e-5), rel=1e-9)
    np.testing.assert_allclose(deviations / deviations.min(), np.arange(1.0, 25.0))
    assert deviations.min() == sf.Gaussian(2.0, 1e-5, 1.0, neighbours=neighbours).sigma(24)


def test_the_loss_is_the_maximum_over_all_differences():
    """μ² = max xᵀC⁻¹x over the ball of differences: never exceeded by random ones, and attained."""
    mechanism = directional()
    full = np.kron(np.kron(basis(3), np.eye(4)), basis(2, 1))
    deviations = mechanism.deviations_along(24)
    precision = (full / deviations**2) @ full.T
    mu = 1.0 / mechanism.guarantee(24).event.noise_multiplier
    differences = np.random.default_rng(3).normal(size=(2000, 24))
    differences *= 2.0 / np.linalg.norm(differences, axis=1, keepdims=True)
    assert np.einsum("ij,jk,ik->i", differences, precision, differences).max() <= mu**2
    least = 2.0 * full[:, deviations.argmin()]
    assert least @ precision @ least == pytest.approx(mu**2, rel=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"directions": np.eye(64)},
        {"directions": [np.eye(8), None], "shape": (8, 8)},
        {"deviations": 3.0},
        {"deviations": np.full((8, 8), 0.1), "directions": [None, np.eye(8)], "shape": (8, 8)},
    ],
)
@pytest.mark.parametrize("domain", [{"clip": 20.0}, {"bounds": (0.0, 16.0)}])
def test_the_axes_and_equal_deviations_are_the_gaussian_mechanism_bit_for_bit(parameters, domain):
    X = load_digits().data[:300]
    made = like_gaussian(randomness=sf.Seeded(5), **domain, **parameters)
    plain = sf.Gaussian(2.0, 1e-5, randomness=sf.Seeded(5), **domain)
    np.testing.assert_array_equal(made.release(X).value, plain.release(X).value)
    assert made.guarantee(64).event == plain.guarantee(64).event
    assert made.expected_error(64) == plain.expected_error(64)


def test_the_noise_has_the_declared_covariance():
    """False-alarm rate 1e-6: whitened noise, its length by χ², each pair of directions by its normal law."""
    n = 20_000
    mechanism = directional(randomness=sf.Seeded(11))
    noise = mechanism.release(np.zeros((n, *SHAPE))).value
    turned = np.einsum("nabc,ai,cj->nibj", noise, basis(3), basis(2, 1)).reshape(n, 24)
    white = turned / mechanism.deviations_along(24)
    length = np.square(white).sum()
    assert chi2.ppf(2e-7, n * 24) < length < chi2.isf(2e-7, n * 24)
    products = white.T @ white / math.sqrt(n)
    # 276 pairs, each sum of products normal to within far less than the bound: 6.5 deviations, 2e-8 in all.
    assert np.abs(products[np.triu_indices(24, 1)]).max() < 6.5


def test_expected_error_is_the_error():
    """False-alarm rate 1e-6, by the sum of squares of independent normals of known deviations."""
    n, mechanism = 20_000, directional(randomness=sf.Seeded(12))
    squares = np.square(mechanism.release(np.zeros((n, *SHAPE))).value).mean()
    (expected,) = mechanism.expected_error(24)
    deviations = mechanism.deviations_along(24)
    spread = math.sqrt(2.0 * np.sum(deviations**4) / n) / 24
    assert abs(squares - expected.value**2) < 5.0 * spread
    assert expected.value == pytest.approx(math.sqrt(np.square(deviations).mean()))


def test_a_box_is_turned_about_its_centre():
    """With hardly any noise the release is the clipped tensor again, up to the grid."""
    X = load_digits().images[:50] / 16.0 * 1.5 - 0.25
    made = IndependentDirectional(
        1e6, 0.1, bounds=(0.0, 1.0), directions=[basis(8), basis(8, 1)], deviations=np.arange(1.0, 9.0)
    )
    assert np.abs(made.release(X).value - np.clip(X, 0.0, 1.0)).max() < 0.5
    ball = IndependentDirectional(1e6, 0.1, clip=2.0, directions=[basis(8), basis(8, 1)])
    size = np.maximum(np.linalg.norm(X.reshape(50, -1), axis=1) / 2.0, 1.0)
    np.testing.assert_allclose(ball.release(X).value, X / size[:, None, None], atol=0.05)


def test_a_component_of_a_box_is_as_wide_as_its_side():
    mechanism = IndependentDirectional(2.0, 1e-5, bounds=(0.0, 1.0), shape=(4, 4))
    (component,) = mechanism.statement(16).also_proven
    assert str(component.unit) == "component"
    assert component.epsilon(1e-5) == pytest.approx(
        gaussian_epsilon(gaussian_mu(2.0, 1e-5) / 4.0, 1e-5), rel=1e-8
    )
    (same,) = directional().statement(24).also_proven
    assert same.epsilon(1e-5) == directional().guarantee(24).epsilon(1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("size", [1, 784])
def test_the_papers_noise_keeps_more_than_it_claims(epsilon, size):
    """σ as TLDP prints it for IDN; its proof holds, so the exact ε is below the claimed one."""
    mechanism = IndependentDirectional(epsilon, 1e-5, clip=1.0, calibration="paper", shape=(size,))
    zeta = math.sqrt(-2 * math.log(1e-5) + 2 * math.sqrt(-size * math.log(1e-5)) + size)
    assert mechanism.sigma(size) == pytest.approx(2.0 / (math.sqrt(zeta**2 + 2 * epsilon) - zeta), rel=1e-6)
    assert mechanism.claim().epsilon == epsilon
    assert mechanism.guarantee().epsilon(1e-5) < epsilon
    assert mechanism.guarantee().epsilon(1e-5) == pytest.approx(
        gaussian_epsilon(2.0 / mechanism.sigma(size), 1e-5), rel=1e-6
    )


def test_tensors_of_any_order_come_back_in_their_shape_and_type():
    X = np.random.default_rng(0).normal(size=(20, *SHAPE)).astype(np.float32)
    value = directional().release(X).value
    assert value.shape == X.shape
    assert value.dtype == np.float32
    rows = directional().perturb(X.reshape(20, -1).astype(np.float64))
    assert rows.shape == (20, 24)


def test_blocks_give_the_bytes_of_one_call():
    mechanism = directional(randomness=sf.Seeded(8))
    height = mechanism.block_rows(24)
    X = np.random.default_rng(0).normal(size=(2 * height + 5, 24))
    parts = [mechanism.perturb(X[:height]), mechanism.perturb(X[height:], first=height)]
    np.testing.assert_array_equal(np.concatenate(parts), mechanism.perturb(X))


def test_keyed_noise_returns_the_same_release():
    source = sf.Keyed(bytes(range(32)), dataset="clinic", version="1", release="a")
    X = np.ones((5, *SHAPE))
    first, again = (directional(randomness=source).release(X).value for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first.reshape(5, -1), axis=0)) == 5


def test_the_statement_names_directions_by_their_digest():
    parameters = directional().statement(24).parameters
    assert parameters["directions"][0]["shape"] == [3, 3]
    assert parameters["directions"][1] is None
    assert len(parameters["deviations"]["sha256"]) == 64
    other = directional(directions=[basis(3, 9), None, None]).statement(24).parameters
    assert other["directions"][0]["sha256"] != parameters["directions"][0]["sha256"]


def test_scikit_learn_accepts_it():
    mechanism = IndependentDirectional(clip=1.0, randomness=sf.Seeded(3), epsilon=1.0)
    results = check_estimator(mechanism, on_fail=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"directions": [np.ones((3, 3)), None, None]}, "mode 1 must be orthonormal"),
        ({"directions": [basis(4), None, None]}, r"mode 1 must be a matrix of shape \(3, 3\)"),
        ({"directions": [None, None]}, "each of the 3 modes"),
        ({"directions": "identity"}, "each of the 3 modes"),
        ({"directions": [None, "east", None]}, "mode 2 must be a matrix"),
        ({"directions": [basis(3) * np.nan, None, None]}, "orthonormal"),
        ({"deviations": np.zeros(2)}, "`deviations` must be positive"),
        ({"deviations": [1.0, -1.0]}, "`deviations` must be positive"),
        ({"deviations": [1.0, 1e9]}, "at most 1e"),
        ({"deviations": np.ones(5)}, "do not broadcast"),
        ({"deviations": "wide"}, "`deviations` must be positive"),
        ({"calibration": "guess"}, "`calibration` must be one of"),
        ({"clip": -1.0}, "`clip` must be a positive number"),
        ({"clip": None}, "exactly one bound"),
        ({"neighbours": "add/remove"}, "`neighbours` must be"),
        ({"shape": (5, 5)}, "25 components, but the data has 24"),
    ],
)
def test_refusals_are_one_sentence(parameters, words):
    with pytest.raises(BadInput, match=words) as refusal:
        directional(**parameters).guarantee(24)
    assert str(refusal.value).count(". ") == 0
    with pytest.raises(BadInput):
        directional(**parameters).release(np.zeros((2, 24)))


def test_the_papers_guarantee_needs_the_size_of_the_tensor():
    with pytest.raises(BadInput, match="depends on its size"):
        IndependentDirectional(1.0, 1e-5, clip=1.0, calibration="paper").guarantee()
    assert IndependentDirectional(1.0, 1e-5, clip=1.0).guarantee().epsilon() <= 1.0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_with_its_place(value):
    X = np.zeros((3, *SHAPE))
    X[1, 0, 1, 0] = value
    with pytest.raises(BadInput, match="row 2, column 3"):
        directional().release(X)


def test_noise_that_float32_does_not_hold_is_refused():
    wide = directional(clip=1e36, deviations=np.geomspace(1.0, 1e7, 24).reshape(SHAPE))
    with pytest.raises(BadInput, match="float32"):
        wide.release(np.zeros((2, *SHAPE), dtype=np.float32))
    assert np.isfinite(wide.release(np.zeros((2, *SHAPE))).value).all()


def test_tensors_far_outside_the_ball_and_of_zeros_are_released():
    X = np.stack([np.zeros(24), np.full(24, 1e300), np.full(24, 1e-300)])
    assert np.isfinite(directional().perturb(X)).all()
