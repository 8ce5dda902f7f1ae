"""Symmetric tensors stay symmetric bit for bit; projections are the nearest points and cost nothing."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.stats import chi2
from sklearn.datasets import load_breast_cancer, load_wine

import sfumato as sf
from real_data import real
from sfumato.errors import BadInput
from sfumato.mechanisms.directional import IndependentDirectional
from sfumato.mechanisms.grid_tensor import GridTensorLDP
from sfumato.mechanisms.tensors import (
    Projection,
    SymmetricTensors,
    onto_fixed_sum,
    onto_nonnegative,
    onto_positive_semidefinite,
    onto_simplex,
    onto_symmetric,
)


def covariances(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One covariance matrix a class, of columns scaled to deviation one."""
    scaled = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    return np.stack([np.cov(scaled[y == label].T) for label in np.unique(y)])


def mnist() -> np.ndarray:
    with np.load(real("mnist.npz")) as file:
        # Means over blocks of 4 × 4 pixels: 49 columns.
        X = file["x_test"].reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
        return covariances(X, file["y_test"])


REAL = {
    "breast cancer": lambda: covariances(*load_breast_cancer(return_X_y=True)),
    "wine": lambda: covariances(*load_wine(return_X_y=True)),
    "MNIST": mnist,
}


def symmetric_tensors(count: int, side: int, order: int, seed: int = 0) -> np.ndarray:
    return onto_symmetric(np.random.default_rng(seed).normal(size=(count, *(side,) * order)))


def is_symmetric(tensors: np.ndarray) -> bool:
    axes = range(1, tensors.ndim)
    return all(np.array_equal(tensors, tensors.transpose(0, *order)) for order in permutations(axes))


@pytest.mark.parametrize("real", REAL.values(), ids=REAL)
@pytest.mark.parametrize(
    "mechanism",
    [
        sf.Gaussian(1.0, 1e-5, 30.0),
        sf.Laplace(1.0, 30.0),
        sf.TrustAdaptive(0.4, clip=30.0, epsilon=(1.0, 8.0)),
        sf.Gaussian(1.0, 1e-5, bounds=(-60.0, 60.0)),
        GridTensorLDP(4.0, (-60.0, 60.0), 16, outside="clip", unit="component"),
    ],
    ids=["Gaussian", "Laplace", "TrustAdaptive", "box", "GridTensorLDP"],
)
def test_covariance_matrices_stay_symmetric_bit_for_bit(real, mechanism):
    C = real()
    released = SymmetricTensors(mechanism).release(C)
    assert released.value.shape == C.shape
    assert is_symmetric(released.value)
    d = C.shape[1]
    inner = mechanism.guarantee(d * (d + 1) // 2)
    assert released.statement.proven == inner
    assert released.statement.claimed == mechanism.claim()


@pytest.mark.parametrize("real", REAL.values(), ids=REAL)
def test_positive_semidefinite_projections_of_covariances_come_closer(real):
    C = real()
    released = SymmetricTensors(sf.Gaussian(4.0, 1e-5, 30.0)).release(C)
    projected = Projection("positive-semidefinite").apply(released)
    assert is_symmetric(projected.value)
    assert np.linalg.eigvalsh(projected.value).min() >= -1e-9
    assert projected.statement.proven == released.statement.proven
    assert "post-processing" in projected.statement.notes[-1]
    inside = C * np.minimum(1.0, 30.0 / np.linalg.norm(C, axis=(1, 2)))[:, None, None]
    apart = [np.linalg.norm(r.value - inside, axis=(1, 2)) for r in (released, projected)]
    assert (apart[1] < apart[0]).all()


@pytest.mark.parametrize(("side", "order"), [(1, 1), (5, 1), (4, 2), (3, 3), (2, 5)])
def test_the_reduced_vector_has_the_norm_of_the_tensor(side, order):
    tensors = symmetric_tensors(20, side, order)
    wrapper = SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0), order=order)
    rows = tensors.reshape(20, -1)
    reduced = wrapper._reduced(rows, 0)
    assert reduced.shape[1] == math.comb(side + order - 1, order)
    np.testing.assert_allclose(np.linalg.norm(reduced, axis=1), np.linalg.norm(rows, axis=1))
    length = SymmetricTensors(sf.Laplace(clip=1.0, epsilon=1.0), order=order)._reduced(rows, 0)
    np.testing.assert_allclose(np.abs(length).sum(axis=1), np.abs(rows).sum(axis=1))


@pytest.mark.parametrize(("side", "order"), [(4, 2), (3, 3)])
def test_the_noise_is_that_of_the_independent_components(side, order):
    """False-alarm rate 1e-6, by χ²: the squared Frobenius norm of the noise over σ² counts components."""
    n, wrapper = 5000, SymmetricTensors(sf.Gaussian(2.0, 1e-5, 1.0, randomness=sf.Seeded(3)), order=order)
    noise = wrapper.release(np.zeros((n, *(side,) * order))).value
    components = math.comb(side + order - 1, order)
    length = np.square(noise).sum() / sf.Gaussian(2.0, 1e-5, 1.0).sigma(components) ** 2
    assert chi2.ppf(5e-7, n * components) < length < chi2.isf(5e-7, n * components)
    (expected,) = wrapper.expected_error(side**order)
    sigma = sf.Gaussian(2.0, 1e-5, 1.0).sigma(components)
    assert expected.value == pytest.approx(sigma * math.sqrt(components / side**order))
    assert is_symmetric(noise)


def test_with_hardly_any_noise_the_tensors_come_back():
    tensors = symmetric_tensors(30, 3, 3) / 10.0
    ball = SymmetricTensors(sf.Gaussian(1e6, 0.1, 10.0), order=3).release(tensors).value
    np.testing.assert_allclose(ball, tensors, atol=0.2)
    box = SymmetricTensors(sf.Gaussian(1e6, 0.1, bounds=(-1.0, 1.0)), order=3).release(tensors).value
    np.testing.assert_allclose(box, np.clip(tensors, -1.0, 1.0), atol=0.05)


def test_rows_are_tensors_too_and_types_stay():
    tensors = symmetric_tensors(10, 4, 2).astype(np.float32)
    wrapper = SymmetricTensors(sf.Gaussian(1.0, 1e-5, 1.0, randomness=sf.Seeded(1)))
    rows = wrapper.release(tensors.reshape(10, 16)).value
    whole = wrapper.release(tensors).value
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(rows.reshape(10, 4, 4), whole)
    np.testing.assert_array_equal(
        wrapper.fit(tensors.reshape(10, 16)).transform(tensors.reshape(10, 16)), rows
    )


def test_blocks_and_keys_repeat_the_bytes():
    wrapper = SymmetricTensors(sf.Gaussian(1.0, 1e-5, 1.0, randomness=sf.Seeded(1)))
    height = wrapper.block_rows(16)
    rows = np.tile(symmetric_tensors(1, 4, 2).reshape(1, 16), (height + 3, 1))
    parts = [wrapper.perturb(rows[:height]), wrapper.perturb(rows[height:], first=height)]
    np.testing.assert_array_equal(np.concatenate(parts), wrapper.perturb(rows))
    source = sf.Keyed(bytes(range(32)), dataset="brains", version="1", release="a")
    keyed = SymmetricTensors(sf.Gaussian(1.0, 1e-5, 1.0, randomness=source))
    np.testing.assert_array_equal(keyed.perturb(rows[:4]), keyed.perturb(rows[:4]))
    assert "computational" in keyed.statement(16).notes[0]
    assert wrapper.reproducible


def test_two_units_are_stated_where_the_mechanism_states_them():
    statement = SymmetricTensors(IndependentDirectional(1.0, 1e-5, bounds=(0.0, 1.0))).statement(16)
    assert [str(part.unit) for part in (statement.proven, *statement.also_proven)] == ["tensor", "component"]
    assert statement.parameters["mechanism"]["mechanism"] == "IndependentDirectional"


@pytest.mark.parametrize(
    ("wrapper", "X", "words"),
    [
        (
            SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)),
            np.arange(8.0).reshape(2, 2, 2),
            "row 1 is not symmetric",
        ),
        (SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)), np.zeros((2, 2, 3)), "equal sides"),
        (SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)), np.zeros((2, 2, 2, 2)), "order 2"),
        (
            SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)),
            np.zeros((2, 5)),
            "5 columns are no tensor of order 2",
        ),
        (SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0), order=0), np.zeros((2, 4)), "`order` must be"),
        (SymmetricTensors(), np.zeros((2, 4)), "`mechanism` must be a mechanism"),
        (
            SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0), weights="l3"),
            np.zeros((2, 4)),
            "`weights` must be one of",
        ),
        (
            SymmetricTensors(sf.Gaussian(bounds=(0, 1), epsilon=1.0), weights="l2"),
            np.zeros((2, 4)),
            "out of the declared",
        ),
        (
            SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)),
            np.full((2, 2, 2), np.nan),
            "row 1, column 1 holds NaN",
        ),
        (SymmetricTensors(sf.RandomProjection(2)), np.zeros((2, 4)), "as many values as it was given"),
    ],
)
def test_refusals_are_one_sentence(wrapper, X, words):
    with pytest.raises(BadInput, match=words) as refusal:
        wrapper.release(X)
    assert str(refusal.value).count(". ") == 0


def test_differences_of_the_size_of_rounding_are_no_asymmetry():
    C = symmetric_tensors(1, 4, 2)
    C[0, 2, 1] *= 1.0 + 1e-12
    assert is_symmetric(SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)).release(C).value)
    C[0, 2, 1] += 1e-3
    with pytest.raises(BadInput, match="not symmetric"):
        SymmetricTensors(sf.Gaussian(clip=1.0, epsilon=1.0)).check(C.reshape(1, 16))


FINITE = st.floats(-1e6, 1e6, allow_subnormal=False)
VECTORS = st.integers(1, 12).flatmap(lambda d: arrays(np.float64, (3, d), elements=FINITE))
PROJECTIONS = {
    "fixed-sum": lambda X: onto_fixed_sum(X, 2.0),
    "nonnegative": onto_nonnegative,
    "simplex": lambda X: onto_simplex(X, 2.0),
}


@pytest.mark.parametrize("name", PROJECTIONS)
@given(X=VECTORS)
@settings(max_examples=60, deadline=None)
def test_projections_are_feasible_idempotent_and_nearest(name, X):
    """Against 200 random feasible points: none is nearer (up to rounding)."""
    project = PROJECTIONS[name]
    P = project(X)
    scale = 1.0 + np.abs(X).max()
    if name != "fixed-sum":
        assert P.min() >= 0.0
    if name != "nonnegative":
        np.testing.assert_allclose(P.sum(axis=1), 2.0, atol=1e-9 * scale)
    np.testing.assert_allclose(project(P), P, atol=1e-9 * scale)
    others = project(X[:, None, :].repeat(200, axis=1).reshape(-1, X.shape[1]) + wobble(X, scale))
    apart = np.linalg.norm(others.reshape(3, 200, -1) - X[:, None, :], axis=2)
    assert (apart >= np.linalg.norm(P - X, axis=1)[:, None] - 1e-9 * scale).all()


def wobble(X: np.ndarray, scale: float) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(600, X.shape[1])) * scale


@given(X=VECTORS, total=st.floats(0.1, 100.0))
@settings(max_examples=60, deadline=None)
def test_the_simplex_projection_solves_for_its_threshold(X, total):
    """An oracle that shares nothing with ours: max(x − τ, 0) with τ found by bisection."""
    for row, projected in zip(X, onto_simplex(X, total), strict=True):
        low, high = row.max() - 2.0 * total - 1.0, row.max()
        tau = brentq(lambda t, x=row: np.maximum(x - t, 0.0).sum() - total, low, high, xtol=1e-12)
        np.testing.assert_allclose(
            projected, np.maximum(row - tau, 0.0), atol=1e-7 * (1.0 + np.abs(row).max())
        )


@given(X=arrays(np.float64, (2, 4, 4), elements=st.floats(-100.0, 100.0, allow_subnormal=False)))
@settings(max_examples=40, deadline=None)
def test_the_positive_semidefinite_projection_is_feasible_idempotent_and_nearest(X):
    P = onto_positive_semidefinite(X)
    assert is_symmetric(P)
    assert np.linalg.eigvalsh(P).min() >= -1e-9
    np.testing.assert_allclose(onto_positive_semidefinite(P), P, atol=1e-9)
    roots = np.random.default_rng(8).normal(size=(100, 1, 4, 4)) * 5.0
    others = P + 0.1 * (roots @ roots.swapaxes(2, 3)) * np.random.default_rng(9).random((100, 1, 1, 1))
    apart = np.linalg.norm(others - X, axis=(2, 3))
    assert (apart >= np.linalg.norm(P - X, axis=(1, 2)) - 1e-9).all()


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_nearest_symmetric_tensor_is_the_mean_over_all_orders(order):
    X = np.random.default_rng(order).normal(size=(5, *(3,) * order))
    mean = np.mean([X.transpose(0, *axes) for axes in permutations(range(1, order + 1))], axis=0)
    made = onto_symmetric(X)
    np.testing.assert_allclose(made, mean, atol=1e-12)
    assert is_symmetric(made)
    np.testing.assert_allclose(onto_symmetric(made), made, atol=1e-15)


def test_projections_of_tensors_work_on_all_components_together():
    X = np.random.default_rng(0).normal(size=(4, 2, 3))
    assert onto_simplex(X).shape == (4, 2, 3)
    np.testing.assert_allclose(onto_simplex(X).sum(axis=(1, 2)), 1.0)
    np.testing.assert_allclose(onto_fixed_sum(X, -3.0).sum(axis=(1, 2)), -3.0)
    before = X.copy()
    onto_nonnegative(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("onto", ["fixed-sum", "simplex"])
def test_a_projected_release_keeps_its_guarantee(onto):
    shares = load_wine().data / load_wine().data.sum(axis=1, keepdims=True)
    released = sf.Gaussian(4.0, 1e-5, 1.0).release(shares)
    projected = Projection(onto, total=1.0).apply(released)
    np.testing.assert_allclose(projected.value.sum(axis=1), 1.0)
    assert projected.statement.proven == released.statement.proven
    assert projected.statement.notes[-1].startswith(f"then projected onto {onto} 1:")
    assert projected.provenance == released.provenance
    apart = [np.linalg.norm(r.value - shares, axis=1).mean() for r in (released, projected)]
    assert apart[1] < apart[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: onto_simplex(np.zeros((2, 3)), 0.0), "`total` must be a positive number"),
        (lambda: onto_fixed_sum(np.zeros((2, 3)), math.inf), "`total` must be a finite number"),
        (lambda: onto_fixed_sum(np.zeros((2, 3)), "one"), "`total` must be a finite number"),
        (lambda: onto_symmetric(np.zeros((2, 3, 4))), "equal sides"),
        (lambda: onto_positive_semidefinite(np.zeros((2, 3))), "only square matrices"),
        (lambda: onto_nonnegative([[1.0, math.nan]]), "NaN"),
        (lambda: onto_nonnegative([["a"]]), "must be numbers"),
        (lambda: onto_nonnegative(3.0), r"expected tensors as an array \(n, …\)"),
        (lambda: Projection("sphere"), "`onto` must be one of"),
        (lambda: Projection("simplex"), "takes a total"),
        (lambda: Projection("nonnegative", 1.0), "takes no total"),
    ],
)
def test_projections_refuse_in_one_sentence(call, words):
    with pytest.raises(BadInput, match=words) as refusal:
        call()
    assert str(refusal.value).count(". ") == 0
