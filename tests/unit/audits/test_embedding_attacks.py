"""Seeing through an embedding: in the public column order, under a secret one, and where there is none."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sfumato as sf
from sfumato.audits.embedding_attacks import see_through

X = load_digits().data[:600] / 64.0
NOISED = X + np.random.default_rng(0).normal(0.0, 0.05, X.shape)


@pytest.mark.parametrize("alpha", [0.7, 3.0])
def test_the_public_order_is_inverted_exactly(alpha):
    embedded = sf.ReverseManifold(alpha).fit_transform(NOISED)
    seen = see_through(X, embedded, 0.99)
    assert seen.certain
    assert np.abs(seen.view(embedded) - NOISED).max() < 1e-9
    assert seen.finding.numbers["alpha"] == pytest.approx(alpha)


def test_a_secret_order_is_undone_with_known_records():
    embedded = sf.ReverseManifold(1.0, key=bytes(range(32))).fit_transform(NOISED)
    seen = see_through(X, embedded, 0.99)
    assert not seen.certain
    assert seen.finding.value == 1.0
    assert seen.finding.beats_chance
    assert seen.finding.chance == pytest.approx(1.0 / (2 * 127))
    # Columns that are constant in the records cannot be told apart; all others are where they belong.
    telling = X.std(axis=0) > 0.03
    error = np.abs(seen.view(embedded) - NOISED).max(axis=0)
    assert (error[telling] < 1e-9).mean() > 0.9


@pytest.mark.parametrize("key", [None, bytes(range(32))])
def test_what_is_learned_and_what_is_tested_are_disjoint_rows(key):
    """A view does not change with the rows it is tested on, however those were noised."""
    embedding = sf.ReverseManifold(1.0, key=key).fit(NOISED)
    embedded = embedding.transform(NOISED)
    seen = see_through(X, embedded, 0.99, seed=3)
    assert len(X) / 2 <= seen.tested.size < len(X)
    other = embedded.copy()
    other[seen.tested] = embedding.transform(np.random.default_rng(5).normal(size=X.shape))[seen.tested]
    again = see_through(X, other, 0.99, seed=3)
    assert np.array_equal(again.tested, seen.tested)
    assert np.array_equal(again.view(embedded), seen.view(embedded))


def test_what_is_no_embedding_is_left_alone():
    rng = np.random.default_rng(1)
    assert see_through(X, rng.normal(size=(len(X), 2 * X.shape[1])), 0.99) is None
    assert see_through(X, NOISED, 0.99) is None
