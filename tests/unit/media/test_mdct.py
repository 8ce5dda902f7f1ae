"""The MDCT: the textbook's, orthonormal, exactly invertible, and the same whether by blocks or at once."""

import numpy as np
import pytest

from sfumato.media.audio.mdct import Analysis, Lapped, Synthesis

CASES = [
    Lapped(160, 80),
    Lapped(85, 5),
    Lapped(7, 3),
    Lapped(5, 0),
    Lapped(1, 0),
    Lapped(1024, 512),
]
NAMES = [f"{case.hop}-{case.lap}" for case in CASES]


def signal(samples, channels=2, seed=0):
    return np.random.default_rng(seed).normal(size=(channels, samples))


@pytest.mark.parametrize("transform", CASES, ids=NAMES)
@pytest.mark.parametrize("samples", [1, 2, 6, 85, 1000, 5003])
def test_reconstruction_is_exact_and_energy_is_kept(transform, samples):
    sound = signal(samples)
    coefficients = transform.forward(sound)
    assert coefficients.shape == (2, transform.blocks(samples), transform.hop)
    synthesis = Synthesis(transform, 2)
    back = np.concatenate([synthesis.feed(coefficients), synthesis.finish()], axis=1)
    assert np.abs(back[:, :samples] - sound).max() < 1e-12
    assert np.square(coefficients).sum() == pytest.approx(np.square(sound).sum(), rel=1e-12)


@pytest.mark.parametrize("transform", CASES[:5], ids=NAMES[:5])
def test_the_matrix_is_orthogonal(transform):
    size = 4 * transform.hop
    matrix = transform.forward(np.eye(size)).reshape(size, size)
    assert np.abs(matrix @ matrix.T - np.eye(size)).max() < 1e-12


def test_inner_blocks_are_those_of_the_textbook_formula():
    """X_k = √(2/N)·Σ w_n x_n cos(π/N·(n + 1/2 + N/2)(k + 1/2)) over 2N samples, with the sine window.

    Ours is that of time running backwards, with the sign turned: the other of two ways to fold the ends.
    """
    hop = 16
    sound = signal(hop * 6, 1)[0]
    coefficients = Lapped(hop, hop // 2).forward(sound)
    place = np.arange(2 * hop)
    window = np.sin(np.pi * (place + 0.5) / (2 * hop))
    waves = np.cos(np.pi / hop * np.outer(np.arange(hop) + 0.5, place + 0.5 + hop / 2))
    for block in range(1, 5):
        start = block * hop - hop // 2
        backwards = sound[start : start + 2 * hop][::-1]
        expected = np.sqrt(2.0 / hop) * waves @ (window * backwards)
        assert np.abs(coefficients[block] + expected).max() < 1e-12


@pytest.mark.parametrize("transform", CASES, ids=NAMES)
def test_pieces_of_any_size_give_the_same_coefficients_and_samples(transform):
    samples = 3001
    sound = signal(samples)
    whole = transform.forward(sound)
    rng = np.random.default_rng(1)
    analysis, synthesis = Analysis(transform, 2), Synthesis(transform, 2)
    cuts = np.sort(rng.integers(0, samples, 40))
    parts = [analysis.feed(piece) for piece in np.split(sound, cuts, axis=1)]
    parts.append(analysis.finish())
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    cuts = np.sort(rng.integers(0, whole.shape[1], 9))
    heard = [synthesis.feed(piece) for piece in np.split(whole, cuts, axis=1)]
    heard.append(synthesis.finish())
    assert np.abs(np.concatenate(heard, axis=1)[:, :samples] - sound).max() < 1e-12


@pytest.mark.parametrize("transform", CASES[:5], ids=NAMES[:5])
def test_a_block_depends_on_its_own_samples_and_a_lap_on_either_side(transform):
    size = 5 * transform.hop
    touched = np.abs(transform.forward(np.eye(size))).max(axis=2) > 0
    for block in range(5):
        own = np.flatnonzero(touched[:, block])
        assert own.min() >= block * transform.hop - transform.lap
        assert own.max() < (block + 1) * transform.hop + transform.lap


@pytest.mark.parametrize("transform", [Lapped(8, 4), Lapped(8, 1), Lapped(8, 0), Lapped(3, 1)])
@pytest.mark.parametrize("window", [1, 2, 3, 7, 8, 9, 16, 17, 40])
def test_the_number_of_touched_blocks_is_that_of_the_worst_place(transform, window):
    size = 12 * transform.hop + window
    touched = np.abs(transform.forward(np.eye(size))).max(axis=2) > 0
    counts = [touched[at : at + window].any(axis=0).sum() for at in range(size - window + 1)]
    assert max(counts) == transform.touched(window)


def test_no_samples_touch_no_block():
    assert Lapped(8, 4).touched(0) == 0
