"""Kernel mean embeddings: their features, the sensitivity of their sums, and what is made of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

from sfumato.errors import BadInput
from sfumato.mechanisms import CellSums
from sfumato.noise import Seeded
from sfumato.privacy import Neighbours
from sfumato.publishers.certified_publisher import CertifiedPublisher
from sfumato.publishers.mixture import CosineBasis, FourierFeatures, shrunk_target, tilt

DIGITS = {"shape": (8, 8), "classes": 10, "top": 16.0, "kept": 6}
VALUES = st.floats(-1e6, 1e6)


def blocks(plan, features, records):
    vectors = np.array([vector for vector, _ in records]).reshape(len(records), 3)
    return plan.exact(features.of(vectors), np.array([label for _, label in records], dtype=np.intp))


@given(arrays(float, (5, 3), elements=VALUES))
def test_features_have_length_one_whatever_the_record(vectors):
    rows = FourierFeatures.public(3, 10, (0.5, 2.0)).of(vectors)
    assert rows.shape == (5, 10)
    assert np.allclose(np.square(rows).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@given(
    others=st.lists(st.tuples(arrays(float, 3, elements=VALUES), st.integers(0, 1)), max_size=3),
    pair=st.tuples(*[st.tuples(arrays(float, 3, elements=VALUES), st.integers(0, 1))] * 2),
)
@settings(max_examples=60, deadline=None)
def test_the_sums_of_neighbours_are_never_further_apart_than_the_bound(neighbours, others, pair):
    features = FourierFeatures.public(3, 6, (0.5, 2.0))
    plan = CellSums(2, features.LENGTH, False, neighbours)
    second = [pair[1]] if neighbours is Neighbours.REPLACE else []
    apart = blocks(plan, features, [*others, pair[0]]) - blocks(plan, features, [*others, *second])
    assert np.linalg.norm(apart) <= plan.bound()


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_bound_is_attained(neighbours):
    """With one frequency a record half a period further on has the opposite features."""
    features = FourierFeatures.public(3, 2, (0.5, 2.0))
    plan = CellSums(2, features.LENGTH, False, neighbours)
    way = features.frequencies[0] * np.pi / np.square(features.frequencies[0]).sum()
    records = [(turn * way, label) for turn in np.linspace(0.0, 2.0, 17) for label in (0, 1)]
    alone = [blocks(plan, features, [record]) for record in records]
    pairs = (
        itertools.combinations(alone, 2)
        if neighbours is Neighbours.REPLACE
        else ((one, np.zeros_like(one)) for one in alone)
    )
    assert max(np.linalg.norm(one - two) for one, two in pairs) > 0.999 * plan.bound()


def test_products_of_features_are_the_mean_of_two_gaussian_kernels():
    """Public frequencies, so nothing here is random: 20 000 of them are within 0.02 of the kernels."""
    features = FourierFeatures.public(4, 40_000, (0.5, 2.0))
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    far = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    kernels = 0.5 * (np.exp(-far / (2 * 0.5**2)) + np.exp(-far / (2 * 2.0**2)))
    rows = features.of(vectors)
    assert np.abs(rows @ rows.T - kernels).max() < 0.02


def test_a_tilt_is_found_again_and_weights_reach_the_target():
    rng = np.random.default_rng(1)
    pool = FourierFeatures.public(2, 12, (1.0, 2.0)).of(rng.normal(size=(3000, 2)))
    true = 0.5 * rng.normal(size=12)
    weights = np.exp(pool @ true)
    target, strength = shrunk_target(pool, weights / weights.sum() @ pool, 1e-4)
    weights = np.exp(pool @ tilt(pool, target, strength))
    mean = weights / weights.sum() @ pool
    assert strength > 0.0
    assert np.linalg.norm(mean - target) < 0.02 * np.linalg.norm(target - pool.mean(axis=0))


def test_noise_alone_hardly_tilts_and_no_strength_does_not_tilt_at_all():
    rng = np.random.default_rng(2)
    pool = FourierFeatures.public(2, 12, (1.0, 2.0)).of(rng.normal(size=(3000, 2)))
    noise = 0.05
    released = pool.mean(axis=0) + noise * rng.normal(size=12)
    target, _ = shrunk_target(pool, released, noise)
    assert np.linalg.norm(target - pool.mean(axis=0)) < 0.5 * np.linalg.norm(released - pool.mean(axis=0))
    assert not tilt(pool, released, 0.0).any()


def test_tilted_pictures_have_an_embedding_nearer_to_the_records():
    """A seeded case with almost no noise, where a Gaussian alone describes half of a class badly."""
    data = load_digits()
    kept = data.target < 2
    pictures = np.concatenate([data.images[kept], 16.0 - data.images[kept]])
    labels = np.zeros(len(pictures), dtype=int)
    parameters = DIGITS | {"classes": 2, "parts": 1, "kept": 3}
    basis = CertifiedPublisher(1.0, **parameters).basis
    features = FourierFeatures.public(basis.dimension, 200, (0.5, 1.0))

    def away(embeddings):
        publisher = CertifiedPublisher(1e4, embeddings=embeddings, randomness=Seeded(3), **parameters)
        drawn, kinds = publisher.fit(pictures, labels).publish(3000).value
        made = features.of(basis.coordinates(drawn[kinds == 0] / 16.0)).mean(axis=0)
        return np.linalg.norm(made - features.of(basis.coordinates(pictures / 16.0)).mean(axis=0))

    assert away(100) < 0.85 * away(0)


def test_embeddings_take_their_share_and_stand_in_the_parameters():
    without, with_them = CertifiedPublisher(1.0), CertifiedPublisher(1.0, embeddings=20)
    assert len(with_them.shares()) == len(without.shares()) + 1
    assert sum(with_them.shares()) == pytest.approx(1.0)
    assert with_them.parameters()["embeddings"] == 20
    assert with_them.guarantee() == without.guarantee()


@pytest.mark.parametrize("embeddings", [-2, 7, 2.0])
def test_features_come_in_pairs(embeddings):
    with pytest.raises(BadInput, match="`embeddings` was"):
        CertifiedPublisher(1.0, embeddings=embeddings)


@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (16, 12, 3)])
def test_no_bit_of_a_record_depends_on_how_many_others_there_are(shape) -> None:
    """Matrix products round rows differently with their number, unless they are exact."""
    pictures = np.random.default_rng(3).random((70, *shape)).astype(np.float32).astype(np.float64)
    basis = CosineBasis(shape, 8)
    vectors = basis.coordinates(pictures)
    features = FourierFeatures.public(vectors.shape[1], 64, (0.7, 1.4)).of(vectors)
    for count in range(1, 40):
        some = basis.coordinates(pictures[:count])
        np.testing.assert_array_equal(some, vectors[:count])
        found = FourierFeatures.public(vectors.shape[1], 64, (0.7, 1.4)).of(some)
        np.testing.assert_array_equal(found, features[:count])
