"""From noisy averages to pixels: best linear estimates against dense algebra, and what they keep."""

import numpy as np
import pytest
from scipy.fft import idctn

from sfumato.media.images.block_noise import expected_square, sensible_blocks
from sfumato.media.images.plane_means import PlaneMeans
from sfumato.media.images.planes import Blocks
from sfumato.media.images.restoration import (
    RESTORES,
    STATISTICS,
    Bands,
    Noise,
    across,
    correction,
    down,
    expansion,
    jpeg_planes,
    restored,
    wiener,
)
from sfumato.privacy import Unit


def covariance(name, rows, columns, side):
    """The covariance of block averages under the public spectrum, as a dense matrix."""
    power = STATISTICS[name].averaged(Bands(rows, side), Bands(columns, side))[0] / side**2
    waves = np.stack(
        [idctn(unit.reshape(rows, columns), norm="ortho").ravel() for unit in np.eye(rows * columns)]
    )
    return waves.T @ (power.ravel()[:, None] * waves)


@pytest.mark.parametrize(("rows", "columns"), [(6, 5), (18, 15), (1, 3)])
@pytest.mark.parametrize("uneven", [False, True])
def test_wiener_is_the_best_linear_estimate(uneven, rows, columns):
    side = 8
    generator = np.random.default_rng(2)
    deviation = np.full((rows, columns), 20.0)
    if uneven:
        deviation *= np.exp(generator.uniform(0.0, 2.0, deviation.shape))
    prior = covariance("luma", rows, columns, side)
    values = generator.normal(0.0, 60.0, (3, rows, columns))
    best = values.reshape(3, -1) @ np.linalg.inv(prior + np.diag(deviation.ravel() ** 2)) @ prior
    found = wiener(values.astype(np.float32), deviation, "luma", side).reshape(3, -1)
    assert np.abs(found - best).max() < (0.3 if uneven else 0.01)


@pytest.mark.parametrize(
    ("size", "block"), [(24, 8), (29, 8), (17, 16), (5, 8), (1, 1), (700, 10), (2001, 40)]
)
@pytest.mark.parametrize("kind", ["flat", "smooth", "best"])
def test_expansions_keep_constants_and_averages(size, block, kind):
    count = -(-size // block)
    averages = np.random.default_rng(3).normal(size=(2, 1, count)).astype(np.float32)
    pixels = across(expansion(size, block, kind), averages)
    assert pixels.shape == (2, 1, size)
    ones = across(expansion(size, block, kind), np.ones((1, 1, count), dtype=np.float32))
    assert np.abs(ones - 1.0).max() < 1e-3
    if kind != "smooth":
        ends = np.append(np.arange(0, size, block), size)
        back = np.add.reduceat(pixels, ends[:-1], axis=2) / np.diff(ends)
        assert np.abs(back - averages).max() < 5e-3


@pytest.mark.parametrize("halves", [False, True])
def test_large_expansions_are_those_of_the_neighbourhood(halves):
    """Sparse matrices of long sides leave out what weighs less than a thousandth."""
    size, block = 640, 8
    sparse = expansion(size, block, "best", halves=halves).toarray()
    dense = expansion(384, block, "best", halves=halves)
    each = dense.shape[1]
    assert np.abs(sparse[:160, :each] - dense[:160]).max() < 1e-3
    assert np.abs(sparse[-160:, -each:] - dense[-160:]).max() < 1e-3


def test_applied_to_an_axis_both_kinds_of_matrix_agree():
    values = np.random.default_rng(4).normal(size=(2, 80, 3)).astype(np.float32)
    matrix = expansion(640, 8, "best")
    assert np.allclose(down(matrix, values), matrix.toarray() @ values, atol=1e-5)
    assert np.allclose(
        across(matrix, values.transpose(0, 2, 1)), values.transpose(0, 2, 1) @ matrix.toarray().T, atol=1e-5
    )


@pytest.mark.parametrize("restore", ["none", "smooth", "wiener", "learned"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (40, 33, 4), (64, 64, 3)])
def test_constant_pictures_stay_almost_constant_without_noise(restore, shape):
    blocks = Blocks(shape, 8, 16)
    colours = np.array([200.0, 120.0, 40.0, 255.0])[: shape[2]]
    means = [
        np.full((2, *blocks.grid(plane)), float(weights @ colours) / 256.0, dtype=np.float32)
        for plane, weights in enumerate(blocks.weights)
    ]
    noise = Noise([np.full(blocks.grid(plane), 1e-3) for plane in range(len(means))], laplace=True)
    pictures = restored(means, noise, blocks, restore)
    assert pictures.shape == (2, *shape)
    # The network was trained under noise; without any it may be wrong by a grey level or two.
    assert np.abs(pictures - colours).max() < (3.0 if restore == "learned" else 0.6)


def test_planes_of_a_jpeg_are_those_of_the_picture():
    blocks = Blocks((30, 21, 3), 4, 8)
    generator = np.random.default_rng(5)
    means = [
        generator.normal(scale=30.0, size=(2, *blocks.grid(plane))).astype(np.float32) for plane in range(3)
    ]
    noise = Noise([np.full(blocks.grid(plane), 9.0) for plane in range(3)], laplace=False)
    for restore in ("none", "smooth", "wiener", "learned"):
        red, green, blue = np.moveaxis(restored(means, noise, blocks, restore), -1, 0)
        luma, cb, cr = jpeg_planes(means, noise, blocks, restore)
        assert np.allclose(luma, 0.299 * red + 0.587 * green + 0.114 * blue, atol=0.02)
        full = {"cb": (blue - luma) / 1.772 + 128.0, "cr": (red - luma) / 1.402 + 128.0}
        for name, found in (("cb", cb), ("cr", cr)):
            padded = np.pad(full[name], ((0, 0), (0, 0), (0, 1)), mode="edge")
            halved = padded.reshape(2, 15, 2, 11, 2).mean(axis=(2, 4))
            assert np.allclose(found, halved, atol=0.02)


def test_the_network_takes_any_size_and_is_the_same_for_each_picture():
    generator = np.random.default_rng(6)
    for rows, columns in ((1, 1), (3, 9), (40, 300)):
        noisy = generator.normal(scale=40.0, size=(3, rows, columns)).astype(np.float32)
        deviation = np.full((rows, columns), 30.0)
        together = correction(noisy, 0.5 * noisy, deviation, True)
        alone = correction(noisy[1:2], 0.5 * noisy[1:2], deviation, True)
        assert together.shape == (3, 2 * rows, 2 * columns)
        assert np.allclose(together[1], alone[0], atol=1e-3)


def test_expected_errors_are_those_of_the_model():
    """For one block size, against the trace of the error's covariance; averages of blocks only."""
    rows = columns = 6
    side, scale = 8, 16.0
    prior = covariance("luma", rows, columns, side)
    noise = 2.0 * (255.0 * scale / side**2) ** 2
    left = np.trace(prior - prior @ np.linalg.inv(prior + noise * np.eye(rows * columns)) @ prior)
    # Between block averages and pixels lies what no block resolves, which noise does not change.
    shape = (rows * side, columns * side, 1)
    model = expected_square("luma", shape, side, scale, False) - expected_square(
        "luma", shape, side, 1e-9, False
    )
    assert model == pytest.approx(left / (rows * columns), rel=0.3)


def test_blocks_grow_with_the_noise_and_never_look_at_pictures():
    unit = Unit("pixels", 16)
    sides = [
        sensible_blocks((224, 224, 3), unit, epsilon, False, None, None, "wiener")[0].luma
        for epsilon in (0.25, 1.0, 4.0, 16.0, 64.0)
    ]
    assert sides == sorted(sides, reverse=True)
    assert sides[0] > sides[-1]


@pytest.mark.parametrize("shape", [(40, 56, 3), (33, 47, 3), (24, 20, 1)])
@pytest.mark.parametrize("restore", RESTORES)
@pytest.mark.parametrize("even", [True, False])
def test_a_picture_is_restored_alike_whichever_others_are_restored_with_it(shape, restore, even):
    """Bit by bit: a file of a folder is drawn in any company, and drawn again gives the same bytes."""
    shares = None if even else np.linspace(0.5, 1.0, 12).reshape(3, 4)
    mechanism = PlaneMeans(epsilon=8.0, unit="region(4)", block=4, shares=shares, restore=restore)
    pictures = np.random.default_rng(1).integers(0, 256, (5, *shape), dtype=np.uint8)
    design = mechanism.design(shape)
    means = mechanism._noisy(design, pictures, 255.0, 0)

    def made(which):
        some = [plane[which] for plane in means]
        whole = restored(some, design.noise, design.blocks, restore)
        return (whole, *(jpeg_planes(some, design.noise, design.blocks, restore) if shape[2] == 3 else ()))

    alone = [made(slice(number, number + 1)) for number in range(5)]
    for part, together in enumerate(made(slice(0, 5))):
        assert np.array_equal(together, np.concatenate([one[part] for one in alone]))
