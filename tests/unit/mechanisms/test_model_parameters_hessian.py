"""Thresholds from curvature: public, paid for, or read off the clients, where nothing is proven."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import BadInput
from sfumato.mechanisms.model_parameters import HessianClipped
from sfumato.privacy import gaussian_epsilon, gaussian_mu

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

SIZES, CURVATURE = (6, 3, 1), np.array([4.0, 1.0, 0.25])


def clipped(**parameters) -> HessianClipped:
    return HessianClipped(2.0, 1e-5, **({"clip": 1.0, "layers": SIZES, "curvature": CURVATURE} | parameters))


def loss(mechanism, curvature):
    """How much the noise raises the quadratic loss on average."""
    return 0.5 * np.sum(curvature * SIZES * mechanism.sigmas() ** 2)


def test_the_proven_epsilon_is_the_one_asked_for_a_client():
    proven = clipped().guarantee(10)
    assert proven.epsilon(1e-5) == pytest.approx(2.0, rel=1e-9)
    assert proven.epsilon(1e-5) <= 2.0
    assert str(proven.unit) == "client"


def test_sharp_layers_move_little_and_all_together_stay_within_the_clip():
    thresholds = clipped().thresholds()
    np.testing.assert_allclose(CURVATURE * thresholds**2, np.full(3, CURVATURE[0] * thresholds[0] ** 2))
    assert np.linalg.norm(thresholds) == pytest.approx(1.0)
    np.testing.assert_allclose(clipped(curvature=None).thresholds(), 1.0 / math.sqrt(3.0))


def test_layers_compose_to_the_budget():
    mechanism = clipped()
    parts = np.square(2.0 * mechanism.thresholds() / mechanism.sigmas())
    assert parts.sum() == pytest.approx(gaussian_mu(2.0, 1e-5) ** 2, rel=1e-9)
    np.testing.assert_allclose(parts / parts.sum(), np.sqrt(SIZES) / np.sqrt(SIZES).sum(), rtol=1e-9)


def test_no_other_shares_raise_the_loss_less():
    best = loss(clipped(), CURVATURE)
    rng = np.random.default_rng(0)
    others = [loss(clipped(shares=rng.dirichlet(np.ones(3)) + 1e-3), CURVATURE) for _ in range(200)]
    assert best <= min(others)


def test_a_diagonal_is_averaged_over_each_layer():
    diagonal = np.concatenate([np.full(6, 4.0), [0.5, 1.0, 1.5], [0.25]])
    np.testing.assert_allclose(clipped(curvature=diagonal).thresholds(), clipped().thresholds())
    assert clipped(layers=None, curvature=diagonal).thresholds() == pytest.approx([1.0])


def test_one_layer_is_the_gaussian_mechanism_bit_for_bit():
    X = np.random.default_rng(0).normal(size=(300, 7))
    made = type("Gaussian", (HessianClipped,), {})(2.0, 1e-5, 1.0, randomness=sf.Seeded(5))
    plain = sf.Gaussian(2.0, 1e-5, 1.0, randomness=sf.Seeded(5))
    np.testing.assert_array_equal(made.release(X).value, plain.release(X).value)


def test_thresholds_from_the_clients_themselves_prove_nothing():
    mechanism = clipped(curvature="own")
    proven = mechanism.guarantee(10)
    assert proven.proves_nothing
    assert "own parameters" in proven.theorem
    assert mechanism.guarantee_of(0).proves_nothing
    assert mechanism.claim().epsilon == 2.0
    X = np.random.default_rng(1).normal(size=(50, 10))
    released = mechanism.release(X)
    assert released.statement.proven.proves_nothing
    assert released.value.shape == X.shape


def test_own_thresholds_follow_each_client():
    """With hardly any noise: layers of equal size in the mean are clipped alike, the louder one more."""
    quiet, loud = np.ones((1, 10)), np.ones((1, 10))
    loud[0, :6] = 10.0
    mechanism = HessianClipped(1e7, 0.1, clip=1.0, layers=SIZES, curvature="own")
    released = mechanism.perturb(np.concatenate([quiet, loud, np.zeros((1, 10))]))
    norms = [np.linalg.norm(part, axis=1) for part in np.split(released, [6, 9], axis=1)]
    np.testing.assert_allclose([norm[0] for norm in norms], 1.0 / math.sqrt(3.0), atol=0.02)
    wanted = np.array([0.1, 1.0, 1.0]) / math.sqrt(2.01)
    np.testing.assert_allclose([norm[1] for norm in norms], wanted, atol=0.02)
    assert np.abs(released[2]).max() < 0.02


def test_expected_error_in_the_papers_mode_is_never_exceeded_by_a_client():
    """False-alarm rate below 1e-6: mean squares over 20 000 rows of ten values, against 5% more."""
    mechanism = clipped(curvature="own", randomness=sf.Seeded(2))
    (most,) = mechanism.expected_error(10)
    for loud in range(3):
        X = np.full((20_000, 10), 1e-3)
        X[:, [0, 6, 9][loud]] = 1e3
        assert np.square(mechanism.perturb(X)).mean() < 1.05 * most.value**2


def test_a_released_curvature_is_paid_for():
    X = np.random.default_rng(3).normal(size=(2000, 10))
    cost = sf.Guarantee.gaussian(1.0 / gaussian_mu(0.5, 1e-6), unit="client", at_delta=1e-6)
    notes = ("reproducible run: not for release",)
    curvature = sf.Release(np.ones(3), sf.Statement("a curvature", {}, None, cost, notes=notes))
    mechanism = clipped(curvature=curvature)
    proven = mechanism.guarantee(10)
    mu = math.hypot(gaussian_mu(2.0, 1e-5), gaussian_mu(0.5, 1e-6))
    assert proven.at_delta == pytest.approx(1.1e-5)
    assert proven.epsilon() == pytest.approx(gaussian_epsilon(mu, 1.1e-5), rel=1e-6)
    released = mechanism.release(X)
    assert released.statement.proven == proven
    assert "ε=0.5" in released.statement.parameters["curvature_cost"]
    assert notes[0] in released.statement.notes
    np.testing.assert_allclose(released.statement.parameters["curvature"], curvature.value)


def test_a_curvature_that_was_released_for_another_unit_is_refused():
    other = sf.Gaussian(0.5, 1e-6, 1.0).release(np.ones((1, 3)))
    wrong = sf.Release(np.ones(3), other.statement)
    with pytest.raises(BadInput, match="different things"):
        clipped(curvature=wrong).guarantee(10)


def test_scikit_learn_accepts_it():
    results = check_estimator(HessianClipped(clip=1.0, randomness=sf.Seeded(3), epsilon=1.0), on_fail=None)
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"curvature": [1.0, 1.0]}, "each of 3 layers or 10 parameters"),
        ({"curvature": [1.0, 0.0, 1.0]}, "`curvature` must be positive"),
        ({"curvature": [1.0, -2.0, 1.0]}, "`curvature` must be positive"),
        ({"curvature": "hessian"}, "or 'own'"),
        ({"clip": (1.0, 1.0, 1.0)}, "`clip` must be a positive number"),
        ({"clip": None}, "`clip` must be a positive number"),
        ({"shares": (1.0, 1.0)}, "one number for each of 3 layers"),
        ({"layers": (6, 3)}, "each of 2 layers"),
        ({"layers": (6, 3, 2)}, "11 parameters were declared"),
    ],
)
def test_refusals_are_one_sentence(parameters, words):
    with pytest.raises(BadInput, match=words) as refusal:
        clipped(**parameters).guarantee(10)
    assert str(refusal.value).count(". ") == 0
    with pytest.raises(BadInput):
        clipped(**parameters).release(np.zeros((2, 10)))


def test_nan_is_refused_in_every_mode():
    X = np.zeros((3, 10))
    X[2, 4] = np.nan
    for curvature in (CURVATURE, "own"):
        with pytest.raises(BadInput, match="row 3, column 5"):
            clipped(curvature=curvature).release(X)
