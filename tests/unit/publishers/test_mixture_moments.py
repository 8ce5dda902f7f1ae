"""What is made of noisy moments: bases, cells, covariances, pictures."""

import numpy as np
import pytest

from sfumato.publishers.certified_publisher import Partition
from sfumato.publishers.mixture import CosineBasis, Covariances, Mixture, shrunk


@pytest.mark.parametrize("shape", [(6, 9), (5, 5, 3)])
def test_a_whole_basis_gives_the_picture_back(shape):
    pictures = np.random.default_rng(0).uniform(0.0, 1.0, (4, *shape))
    basis = CosineBasis(shape, 9)
    assert basis.coordinates(pictures).shape == (4, basis.dimension)
    assert np.allclose(basis.pictures(basis.coordinates(pictures)), pictures, atol=2.0**-15)


def test_coordinates_are_a_direction_and_a_brightness_and_black_has_neither():
    basis = CosineBasis((8, 8), 3)
    rows = basis.coordinates(np.stack([np.zeros((8, 8)), np.ones((8, 8))]))
    assert not rows[0].any()
    assert np.linalg.norm(rows[1, :-1]) == pytest.approx(1.0)
    assert rows[1, -1] == pytest.approx(2.0)


def test_grain_is_taken_off_pictures_and_their_brightness_is_kept():
    """A bar on black with noise in its coordinates: less of the black is grey, and pictures come nearer."""
    bar = np.zeros((16, 16))
    bar[:, 6:10] = 0.5
    basis = CosineBasis((16, 16), 16)
    rows = np.tile(basis.coordinates(bar[None]), (50, 1))
    rows[:, :-1] += np.random.default_rng(0).normal(scale=0.02, size=(50, rows.shape[1] - 1))
    pictures = basis.pictures(rows)
    cut = np.maximum((rows[:, :-1] @ basis._matrix()).reshape(-1, 16, 16), 0.0)
    cut *= np.linalg.norm(bar) / np.linalg.norm(cut, axis=(1, 2), keepdims=True)
    assert np.linalg.norm(pictures, axis=(1, 2)) == pytest.approx(np.linalg.norm(bar))
    assert (pictures[:, :, :6] > 0.0).mean() < 0.4 * (cut[:, :, :6] > 0.0).mean()
    assert np.square(pictures - bar).mean() < 0.8 * np.square(cut - bar).mean()


def test_records_go_to_the_nearest_centre_of_their_own_class():
    partition = Partition(np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.9, 0.0], [5.0, 0.0]]]))
    cells = partition.assign(np.array([[0.9, 0.0], [0.9, 0.0], [4.0, 1.0]]), np.array([0, 1, 1]))
    assert cells.tolist() == [1, 2, 3]


def test_covariances_without_noise_are_exact():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, 5, 5))
    counts = np.array([100.0, 200.0, 50.0])
    true = factors @ np.swapaxes(factors, 1, 2) + 3.0 * np.eye(5)
    found = shrunk(true * counts[:, None, None], counts, 0.0)
    back = found.directions @ found.inner @ found.directions.T
    assert np.allclose(back, true)


def test_shrunk_covariances_are_nearer_than_noisy_ones():
    """A seeded case; the noise is as large as the small eigenvalues of a cell."""
    rng = np.random.default_rng(1)
    size, cells, count, noise = 40, 6, 1000.0, 30.0
    true = np.diag(np.r_[np.geomspace(1.0, 0.05, 12), np.zeros(size - 12)])[None] * rng.uniform(
        0.7, 1.3, (cells, 1, 1)
    )
    drawn = rng.normal(size=(cells, size, size)) * noise
    symmetric = np.triu(drawn, 1) + np.swapaxes(np.triu(drawn, 1), 1, 2)
    symmetric += np.sqrt(2.0) * drawn * np.eye(size)
    noisy = count * true + symmetric
    found = shrunk(noisy, np.full(cells, count), noise)
    back = found.directions @ found.inner @ found.directions.T
    assert np.linalg.eigvalsh(found.inner).min() > 0.0
    assert np.linalg.norm(back - true) < 0.5 * np.linalg.norm(noisy / count - true)


def test_smoothing_leaves_large_variances_and_a_tenth_of_the_last():
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    variances = np.array([6.0, 3.1, 0.5, 0.4])
    found = Covariances(np.eye(4), ((turn * variances) @ turn.T)[None]).smoothed()
    left = np.linalg.eigvalsh(found.inner[0])[::-1]
    # The last two are nine hundredths of the whole.
    assert left == pytest.approx([6.0, 3.1, 0.05, 0.04], abs=1e-9)


def test_corrections_bring_the_moments_of_cut_pictures_nearer():
    basis = CosineBasis((8, 8), 4)
    mean = basis.coordinates(np.tri(8)[None])[0]
    covariance = 0.005 * np.eye(basis.dimension)
    plain = Mixture(
        basis, np.ones((1, 1)), mean[None, None], Covariances(np.eye(len(mean)), covariance[None])
    )

    def errors(mixture):
        pictures = mixture.pictures(np.zeros(4000, dtype=np.intp), np.random.default_rng(2))
        rows = basis.coordinates(pictures)
        spread = np.linalg.norm(np.cov(rows, rowvar=False) - covariance)
        return np.linalg.norm(rows.mean(axis=0) - mean), spread

    before, after = errors(plain), errors(plain.corrected(np.random.default_rng(1)))
    assert after[0] < before[0]
    assert after[1] < 0.75 * before[1]


def test_labels_come_as_often_as_the_weights_say():
    basis = CosineBasis((4, 4), 2)
    covariances = Covariances(np.eye(basis.dimension), np.zeros((2, basis.dimension, basis.dimension)))
    weights = np.array([[0.25], [0.75]])
    mixture = Mixture(basis, weights, np.zeros((2, 1, basis.dimension)), covariances)
    assert np.bincount(mixture.labels(101, np.random.default_rng(0))).tolist() == [25, 76]
