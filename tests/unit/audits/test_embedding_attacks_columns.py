"""The pairing attack: α and every pair of an embedding with a secret column order, and polite refusals."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

import sfumato as sf
from real_data import real
from sfumato.audits.embedding_attacks import recover_pairs
from sfumato.errors import BadInput

KEY = b"a key of sixteen bytes or more"
DIGITS = load_digits().data / 16.0


def _noised(X):
    return sf.Gaussian(20.0, 1e-5, clip=1.0).release(X).value


def _farthest(found, truth):
    """How far the columns of two tables are apart, up to sign, in the best assignment to each other."""
    apart = np.abs(np.abs(found.rows)[:, :, None] - np.abs(truth)[:, None, :]).max(axis=0)
    return apart[linear_sum_assignment(apart)].max()


@pytest.mark.parametrize("alpha", [0.01, 1.0, 2.0, -1.3, 7.5, 60.0])
@pytest.mark.parametrize("rows", [3, 8, 1797])
def test_noised_digits_are_paired_completely(alpha, rows) -> None:
    """No accident: a wrong pair would have to fit to 1e-15 in every record."""
    X = _noised(DIGITS)[:rows]
    embedding = sf.ReverseManifold(alpha, KEY)
    released = embedding.fit_transform(X)
    found = recover_pairs(released)
    assert found.alpha == pytest.approx(alpha, rel=1e-12)
    assert found.explained.all()
    assert sorted(found.pairs.ravel()) == list(range(128))
    assert _farthest(found, X) < 1e-12


def test_signs_and_roles_are_recovered() -> None:
    X = np.random.default_rng(1).normal(0.0, 1.0, (40, 30))
    embedding = sf.ReverseManifold(1.7, KEY)
    released = embedding.fit_transform(X)
    found = recover_pairs(released)
    order = np.argsort([np.abs(X - column[:, None]).sum(axis=0).argmin() for column in found.rows.T])
    np.testing.assert_allclose(found.rows[:, order], X, rtol=1e-12)
    a, b = released[:, found.pairs[:, 0]], released[:, found.pairs[:, 1]]
    np.testing.assert_allclose(a, found.rows * np.cos(1.7 * found.rows), atol=1e-12)
    np.testing.assert_allclose(b, found.rows * np.sin(1.7 * found.rows), atol=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, -4.0, 11.0, 35.0])
def test_two_columns_are_enough(alpha) -> None:
    """A single value: its cosine and sine, in either order, on every branch of the arcsine."""
    X = np.random.default_rng(4).uniform(2.0, 3.0, (30, 1))
    released = sf.ReverseManifold(alpha).fit_transform(X)
    for order in ([0, 1], [1, 0]):
        found = recover_pairs(released[:, order])
        assert found.alpha == pytest.approx(alpha, rel=1e-9)
        np.testing.assert_array_equal(found.pairs, [order])
        np.testing.assert_allclose(found.rows, X, rtol=1e-9)


def test_sines_may_come_first() -> None:
    released = sf.ReverseManifold(1.2).fit_transform(_noised(DIGITS))
    found = recover_pairs(np.roll(released, 64, axis=1))
    assert found.alpha == pytest.approx(1.2, rel=1e-12)
    np.testing.assert_array_equal(np.sort(found.pairs[:, 0]), np.arange(64, 128))
    np.testing.assert_array_equal(found.pairs[:, 0] - found.pairs[:, 1], 64)


def test_alpha_is_exact_where_the_arcsine_is_not() -> None:
    """The record that α is read off stands near the end of the arcsine, which loses four digits there."""
    X = np.array([[math.pi / 2.0 * (1.0 + 1e-4)], [7.85], [8.5], [9.2]])
    found = recover_pairs(sf.ReverseManifold(1.0).fit_transform(X))
    assert found.alpha == pytest.approx(1.0, rel=1e-14)
    assert found.explained.all()


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_bare_digits_with_columns_of_zeros_are_paired(scale) -> None:
    """Three columns of the digits are zero in every record, others in nearly all."""
    X = DIGITS * scale
    assert (np.count_nonzero(X, axis=0) == 0).sum() == 3
    embedding = sf.ReverseManifold(1.0, KEY)
    released = embedding.fit_transform(X)
    found = recover_pairs(released)
    assert found.alpha == pytest.approx(1.0, rel=1e-12)
    assert _farthest(found, X) < 1e-12


def test_values_on_a_grid_have_many_alphas_and_the_smallest_is_named() -> None:
    embedding = sf.ReverseManifold(7.3, KEY)
    released = embedding.fit_transform(DIGITS * 16.0)
    found = recover_pairs(released)
    assert found.alpha == pytest.approx(7.3 - 2.0 * math.pi, rel=1e-12)
    rng = np.random.default_rng(5)
    for alpha in rng.uniform(-40.0, 40.0, 100):
        whole = rng.integers(-9, 10, (12, 2)) * 1.0
        found = recover_pairs(sf.ReverseManifold(alpha).fit_transform(whole))
        assert found.alpha == pytest.approx(math.remainder(alpha, 2.0 * math.pi), rel=1e-9)


def test_single_precision_is_enough() -> None:
    X = _noised(DIGITS).astype(np.float32)
    embedding = sf.ReverseManifold(1.5, KEY)
    released = embedding.fit_transform(X)
    assert released.dtype == np.float32
    found = recover_pairs(released)
    assert found.explained.all()
    assert found.alpha == pytest.approx(1.5, rel=1e-5)


def test_a_column_that_was_tampered_with_is_not_explained() -> None:
    embedding = sf.ReverseManifold(1.0, KEY)
    released = embedding.fit_transform(_noised(DIGITS))
    released[5, 17] += 1e-6
    assert recover_pairs(released).explained.sum() == 63


def test_eight_digits_of_mnist_are_enough() -> None:
    """784 columns, 8 noised records, secret order and α: all pairs, none wrong, in three seconds."""
    with np.load(real("mnist.npz")) as file:
        X = file["x_test"][:8].reshape(8, -1) / 255.0
    embedding = sf.ReverseManifold(1.0, KEY)
    released = embedding.fit_transform(_noised(X))
    start = time.process_time()
    found = recover_pairs(released)
    assert time.process_time() - start < 3.0
    assert found.explained.sum() == 784
    assert found.alpha == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    "table",
    [DIGITS, DIGITS * 16.0, np.random.default_rng(3).normal(0.0, 1.0, (100, 64))],
    ids=["digits", "whole numbers", "noise"],
)
def test_what_is_no_embedding_is_refused(table) -> None:
    with pytest.raises(BadInput, match="no reverse manifold embedding: no alpha up to 100"):
        recover_pairs(table)


def test_an_alpha_beyond_the_largest_is_not_found() -> None:
    released = sf.ReverseManifold(160.0, KEY).fit_transform(_noised(DIGITS))
    with pytest.raises(BadInput, match="no alpha up to 100 "):
        recover_pairs(released)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((10, 5)), "5 columns, but an embedding has two for each value"),
        (np.zeros((10, 4)), "every value of the release is zero"),
        (np.ones((2, 4)), "2 rows, but this attack needs at least 3"),
        (np.full((5, 4), np.nan), "row 1, column 1 of the release is not a finite number"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(table, message) -> None:
    with pytest.raises(BadInput, match=message):
        recover_pairs(table)
