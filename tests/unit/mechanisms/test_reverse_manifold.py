"""Reverse manifold embedding: its formula, its exact inverse, and a secret that stays one."""

from __future__ import annotations

import json
import math
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import sfumato as sf
from sfumato.errors import BadInput

KEY = b"a key of sixteen bytes or more"


def test_each_value_becomes_a_point_on_a_spiral() -> None:
    X = np.array([[1.0, -2.0], [0.0, 0.5]])
    Z = sf.ReverseManifold(1.5).fit_transform(X)
    np.testing.assert_allclose(Z[:, :2], X * np.cos(1.5 * X), rtol=1e-15)
    np.testing.assert_allclose(Z[:, 2:], X * np.sin(1.5 * X), rtol=1e-15)


@pytest.mark.parametrize("alpha", [0.1, 1.0, -1.0, 2.7, 25.0])
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("data", ["digits", "random"])
def test_the_inverse_is_exact(alpha, key, data) -> None:
    X = load_digits().data if data == "digits" else np.random.default_rng(1).normal(0.0, 3.0, (500, 40))
    embedding = sf.ReverseManifold(alpha, key)
    restored = embedding.inverse(embedding.fit_transform(X))
    assert (np.abs(restored - X) <= 4.0 * np.spacing(np.abs(X))).all()
    np.testing.assert_array_equal(embedding.inverse_transform(embedding.transform(X)), restored)


def test_the_inverse_is_exact_in_float32_away_from_the_zeros_of_the_cosine() -> None:
    X = np.random.default_rng(2).normal(0.0, 3.0, (500, 40)).astype(np.float32)
    embedding = sf.ReverseManifold(1.0)
    restored = embedding.inverse(embedding.fit_transform(X))
    assert restored.dtype == np.float32
    sure = np.abs(np.cos(X.astype(float))) > 1e-5
    assert sure.mean() > 0.999
    assert (np.abs(restored - X) <= 4.0 * np.spacing(np.abs(X)))[sure].all()


@given(
    X=arrays(float, (2, 3), elements=st.floats(-1e6, 1e6)),
    alpha=st.floats(0.01, 100.0),
    key=st.none() | st.binary(min_size=16, max_size=40),
)
@settings(deadline=None)
def test_the_inverse_is_exact_for_any_values(X, alpha, key) -> None:
    embedding = sf.ReverseManifold(alpha, key)
    restored = embedding.inverse(embedding.fit_transform(X))
    assert (np.abs(np.abs(restored) - np.abs(X)) <= 4.0 * np.spacing(np.abs(X))).all()
    # The sign is that of a·cos(αr), certain unless αr lies within its own rounding of a zero of the cosine.
    sure = np.abs(np.cos(alpha * X)) > 1e-15 * (4.0 + np.abs(alpha * X))
    assert (np.signbit(restored) == np.signbit(X))[sure & (X != 0)].all()


def test_where_the_cosine_vanishes_the_positive_value_is_returned() -> None:
    embedding = sf.ReverseManifold(1.0).fit(np.zeros((1, 1)))
    np.testing.assert_array_equal(embedding.inverse([[0.0, math.pi / 2.0]]), [[math.pi / 2.0]])


def test_a_noised_release_is_restored_from_its_embedding() -> None:
    release = sf.Gaussian(5.0, clip=1.0, randomness=sf.Seeded(1)).release(np.ones((20, 6)))
    embedding = sf.ReverseManifold(1.0, KEY)
    np.testing.assert_allclose(embedding.inverse(embedding.apply(release).value), release.value, rtol=1e-15)


def test_the_key_orders_the_columns() -> None:
    X = np.random.default_rng(3).normal(size=(5, 30))
    plain = sf.ReverseManifold(1.0).fit_transform(X)
    ordered = sf.ReverseManifold(1.0, KEY).fit_transform(X)
    assert not np.array_equal(ordered, plain)
    np.testing.assert_array_equal(np.sort(ordered, axis=1), np.sort(plain, axis=1))
    np.testing.assert_array_equal(sf.ReverseManifold(1.0, KEY).fit_transform(X), ordered)
    other = sf.ReverseManifold(1.0, KEY[::-1])
    assert not np.array_equal(other.fit_transform(X), ordered)
    assert not np.allclose(other.inverse(ordered), X)


def test_the_key_is_printed_nowhere() -> None:
    X = np.ones((2, 3))
    embedding = sf.ReverseManifold(1.0, KEY)
    pipeline = make_pipeline(sf.Gaussian(clip=1.0, epsilon=1.0), embedding)
    released, applied = embedding.release(X), embedding.apply(sf.Gaussian(clip=1.0, epsilon=1.0).release(X))
    texts = [repr(embedding), str(embedding), repr(embedding.get_params()), repr(vars(embedding))]
    texts += [repr(pipeline), pipeline._repr_html_(), embedding._repr_html_()]
    for release in (released, applied):
        texts += [repr(release), str(release.statement), json.dumps(release.to_dict())]
    for text in texts:
        assert "key of sixteen" not in text
        assert KEY.hex() not in text
    assert released.statement.parameters["key"] == "secret"
    assert sf.ReverseManifold().release(X).statement.parameters["key"] is None
    assert repr(embedding) == "ReverseManifold(alpha=1.0, secret column order)"


def test_the_key_is_kept_by_clones_copies_and_set_params() -> None:
    embedding = sf.ReverseManifold(1.0, KEY)
    copies = [clone(embedding), deepcopy(embedding), clone(clone(embedding))]
    copies.append(sf.ReverseManifold().set_params(key=KEY))
    X = np.arange(6.0).reshape(1, 6)
    for copy in copies:
        assert copy.key == KEY
        assert "sixteen" not in repr(copy.key)
        np.testing.assert_array_equal(copy.fit_transform(X), embedding.fit_transform(X))
    assert sf.ReverseManifold().key is None


@pytest.mark.parametrize("alpha", [0, 0.0, math.nan, math.inf, "1", None, True, 1j, [1.0], 10**400, 1e-200])
def test_alpha_must_be_a_number_other_than_zero(alpha) -> None:
    embedding = sf.ReverseManifold(alpha)
    repr(embedding)
    with pytest.raises(BadInput, match="`alpha` must be a number and not zero"):
        embedding.fit_transform(np.ones((1, 1)))


@pytest.mark.parametrize("key", [b"", b"fifteen bytes..", "a key of sixteen bytes", 17, bytearray(20)])
def test_a_key_must_be_sixteen_bytes(key) -> None:
    with pytest.raises(BadInput, match="at least 16 random bytes") as caught:
        sf.ReverseManifold(1.0, key).fit_transform(np.ones((1, 1)))
    assert "sixteen" not in str(caught.value)


@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.zeros((2, 3)), "expected 6 columns to invert, got 3"),
        (np.zeros(6), r"shape \(6,\)"),
        (np.full((1, 6), np.nan), "row 1, column 1 holds NaN"),
        (np.ones((1, 6)) * 1j, "Complex data not supported"),
    ],
)
def test_what_cannot_be_inverted_is_refused(Z, message) -> None:
    embedding = sf.ReverseManifold().fit(np.zeros((1, 3)))
    with pytest.raises(BadInput, match=message):
        embedding.inverse(Z)
