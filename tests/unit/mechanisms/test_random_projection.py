"""Random projection, its normalised form, and hashing by hyperplanes: public directions, noise's promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import BadInput

SEEDED = sf.Seeded(1)


def test_the_directions_are_orthonormal_and_public() -> None:
    basis = _basis(components=6, seed=0)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-7)
    np.testing.assert_allclose(_basis(components=6, seed=0, source=sf.Seeded(2)), basis, atol=1e-7)
    assert not np.allclose(_basis(components=6, seed=1), basis, atol=0.01)


def test_the_projection_is_linear_and_never_lengthens_a_record() -> None:
    basis = _basis(components=6, seed=0)
    X = np.random.default_rng(1).normal(size=(50, 10))
    noise = sf.AdditiveNoise(1e-9, randomness=SEEDED)
    projected = sf.RandomProjection(6, noise).release(X).value
    np.testing.assert_allclose(projected, X @ basis, atol=1e-6)
    assert (np.linalg.norm(projected, axis=1) <= np.linalg.norm(X, axis=1) + 1e-6).all()


@pytest.mark.parametrize("kind", [sf.RandomProjection, sf.ReconstructionResistant])
def test_components_beyond_the_columns_are_left_out(kind) -> None:
    X = np.ones((4, 3))
    assert kind(64).release(X).value.shape == (4, 3)
    assert kind(3).release(X).value.shape == (4, 3)
    assert kind(2).release(X).value.shape == (4, 2)


@pytest.mark.parametrize("kind", [sf.RandomProjection, sf.ReconstructionResistant])
def test_the_guarantee_is_that_of_the_noise(kind) -> None:
    X = 1e6 * np.ones((4, 5))
    assert kind(2).release(X).statement.proven.proves_nothing
    for noise in (sf.Gaussian(2.0, clip=1.0), sf.Laplace(2.0, bounds=([0.0, 0.0], [1.0, 2.0]))):
        statement = kind(2, noise).release(X).statement
        assert statement.proven == noise.guarantee()
        assert statement.claimed == noise.claim()
        assert kind(2, noise).guarantee() == noise.guarantee()


def test_noise_clips_what_was_projected() -> None:
    X = 1e6 * np.random.default_rng(2).normal(size=(200, 30))
    noise = sf.Laplace(1e5, clip=1.0, randomness=SEEDED)
    released = sf.RandomProjection(4, noise).release(X).value
    assert np.abs(released).sum(axis=1) == pytest.approx(1.0, abs=0.01)


def test_reconstruction_resistant_rows_have_length_one() -> None:
    X = np.random.default_rng(3).normal(size=(100, 8)) * 10.0 ** np.arange(-20, 180, 2)[:, None]
    noise = sf.AdditiveNoise(0.1, randomness=SEEDED)
    rows = sf.ReconstructionResistant(4, noise).release(X).value
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-12)
    plain = sf.RandomProjection(4, noise).release(X).value
    np.testing.assert_allclose(
        rows[:40], plain[:40] / np.linalg.norm(plain[:40], axis=1)[:, None], rtol=1e-12
    )


@pytest.mark.parametrize("components", [0, -1, 2.0, "2", None, True])
def test_components_are_a_positive_whole_number(components) -> None:
    with pytest.raises(BadInput, match="`components` must be a whole number, 1 or more"):
        sf.RandomProjection(components).release(np.ones((2, 2)))
    with pytest.raises(BadInput, match="`bits` must be a whole number, 1 or more"):
        sf.LocalitySensitiveHash(components).release(np.ones((2, 2)))


@pytest.mark.parametrize("seed", [0.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed) -> None:
    for transform in (sf.RandomProjection(2, seed=seed), sf.LocalitySensitiveHash(8, seed=seed)):
        with pytest.raises(BadInput, match="a seed must be a whole number"):
            transform.release(np.ones((2, 2)))


@pytest.mark.parametrize("noise", [0.1, "gaussian", sf.Gaussian, sf.ReverseManifold()])
def test_noise_is_a_mechanism(noise) -> None:
    with pytest.raises(BadInput, match="`noise` must be a mechanism"):
        sf.RandomProjection(2, noise).guarantee()


def test_hash_bits_are_repeatable_and_depend_on_the_direction_alone() -> None:
    X = np.random.default_rng(4).normal(size=(20, 7))
    bits = sf.LocalitySensitiveHash(64).fit_transform(X)
    assert set(np.unique(bits)) == {0.0, 1.0}
    np.testing.assert_array_equal(sf.LocalitySensitiveHash(64).fit_transform(X), bits)
    np.testing.assert_array_equal(sf.LocalitySensitiveHash(64).fit_transform(3.5 * X), bits)
    np.testing.assert_array_equal(sf.LocalitySensitiveHash(64).fit_transform(-X), 1.0 - bits)
    assert not np.array_equal(sf.LocalitySensitiveHash(64, seed=1).fit_transform(X), bits)


@pytest.mark.parametrize("angle", [0.0, 0.2, 1.0, math.pi / 2.0, 3.0])
def test_hashes_differ_in_proportion_to_the_angle(angle) -> None:
    """The hyperplanes are seeded, so it cannot fail by chance; the bound is five standard errors."""
    count = 8192
    X = np.zeros((2, 5))
    X[0, 0] = 1.0
    X[1, :2] = math.cos(angle), math.sin(angle)
    first, second = sf.LocalitySensitiveHash(count).fit_transform(X)
    share = angle / math.pi
    assert abs((first != second).mean() - share) <= 5.0 * math.sqrt(share * (1.0 - share) / count)


def test_sizes_of_other_types_become_json() -> None:
    released = sf.LocalitySensitiveHash(np.int64(8), np.int32(1)).release(np.ones((1, 2)))
    assert released.statement.parameters == {"bits": 8, "seed": 1}


def _basis(components: int, seed: int, source: sf.Seeded = SEEDED) -> np.ndarray:
    """The directions, read off the projection of the unit vectors with next to no noise."""
    noise = sf.AdditiveNoise(1e-9, randomness=source)
    return sf.RandomProjection(components, noise, seed).release(np.eye(10)).value
