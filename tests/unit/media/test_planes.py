"""Block sums of colour planes are exact whole numbers, whatever the shape and the type."""

import numpy as np
import pytest

from sfumato.media.images.planes import UNITY, Blocks, block_sums, levels_of, plane_weights

SHAPES = [
    (1, 1, 1),
    (5, 7, 3),
    (16, 16, 3),
    (32, 24, 3),
    (33, 20, 4),
    (9, 40, 2),
    (64, 48, 1),
    (530, 3, 3),
    (2, 600, 3),
]


def by_hand(levels, blocks):
    """The same sums with integers of Python's size, block by block."""
    _, height, width, _ = levels.shape
    parts = []
    for plane, weights in enumerate(blocks.weights):
        values, side = levels.astype(np.int64) @ weights, blocks.side(plane)
        grid = [
            values[:, top : top + side, left : left + side].sum(axis=(1, 2))
            for top in range(0, height, side)
            for left in range(0, width, side)
        ]
        parts.append(np.stack(grid, axis=1))
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("white", [255, 65_535])
@pytest.mark.parametrize(("luma", "chroma"), [(1, 1), (4, 8), (8, 16), (5, 15), (300, 600)])
@pytest.mark.parametrize("mixed", [True, False])
def test_block_sums_equal_integer_sums(shape, white, luma, chroma, mixed):
    dtype = np.uint8 if white == 255 else np.uint16
    levels = np.random.default_rng(1).integers(0, white, (3, *shape), dtype=dtype, endpoint=True)
    blocks = Blocks(shape, luma, chroma, mixed)
    sums = block_sums(levels, blocks, white)
    assert sums.shape == (3, sum(blocks.sizes))
    assert np.array_equal(sums, by_hand(levels, blocks))


def test_white_pictures_have_the_largest_sums_exactly():
    levels = np.full((1, 256, 256, 3), 255, dtype=np.uint8)
    sums = block_sums(levels, Blocks((256, 256, 3), 256, 256), 255)
    assert sums.tolist() == [[256 * 256 * 255 * UNITY, 0, 0]]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_planes_are_invertible_and_chroma_of_grey_is_zero(channels):
    weights = plane_weights(channels)
    assert abs(np.linalg.det(weights / UNITY)) > 0.1
    if channels >= 3:
        assert weights[:, :3].sum(axis=1).tolist()[:3] == [UNITY, 0, 0]


def test_levels_are_made_pixel_by_pixel():
    values = np.array([0.0, 0.5, 1.0])
    assert levels_of(values, 65_535).tolist() == [0.0, 32768.0, 65535.0]
    deep = np.array([0, 1, 255, 65_535], dtype=np.uint16)
    assert levels_of(deep, 65_535) is deep
    assert levels_of(deep, 4_095).tolist() == [0, 0, 15, 4095]


def test_counts_add_up_to_the_pixels():
    blocks = Blocks((33, 20, 3), 8, 16)
    for plane in range(3):
        counts = blocks.counts(plane)
        assert counts.shape == blocks.grid(plane)
        assert counts.sum() == 33 * 20
