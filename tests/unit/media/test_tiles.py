import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import BadInput
from sfumato.media.images.tiles import edges, tile_grid, tiles_of, touched_tiles
from sfumato.privacy import Unit


def owners(length, parts):
    return np.repeat(np.arange(parts), np.diff(edges(length, parts)))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 12), st.integers(1, 45))
def test_the_tiles_that_a_region_touches_are_those_of_the_worst_placement(height, width, tile, size):
    rows, cols = tile_grid(height, width, tile)
    down, across = owners(height, rows), owners(width, cols)
    tall, wide = min(size, height), min(size, width)
    worst = max(
        len(set(down[y : y + tall])) * len(set(across[x : x + wide]))
        for y in range(height - tall + 1)
        for x in range(width - wide + 1)
    )
    assert touched_tiles(Unit("region", size), height, width, rows, cols) == worst


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("pixels(1)", 1),
        ("pixels(7)", 7),
        ("pixels(900)", 49),
        ("item", 49),
        ("region(1)", 1),
        ("region(16)", 4),
    ],
)
def test_units_of_an_ordinary_picture(unit, expected):
    assert touched_tiles(Unit.parse(unit), 224, 224, 7, 7) == expected


@given(st.integers(1, 50), st.integers(1, 20))
def test_tiles_are_even_and_no_larger_than_asked(length, tile):
    parts = tile_grid(length, length, tile)[0]
    sides = np.diff(edges(length, parts))
    assert sides.sum() == length
    assert 1 <= sides.min() <= sides.max() <= tile
    assert sides.max() - sides.min() <= 1


@pytest.mark.parametrize("shape", [(2, 20, 30, 3), (1, 7, 5, 1), (1, 33, 64, 4)])
def test_every_tile_holds_its_own_pixels_and_no_others(shape):
    pictures = np.arange(np.prod(shape)).reshape(shape)
    rows, cols = tile_grid(shape[1], shape[2], 8)
    cut = tiles_of(pictures, 8)
    assert cut.shape[:3] == (shape[0], rows, cols)
    down, across = edges(shape[1], rows), edges(shape[2], cols)
    for row in range(rows):
        for col in range(cols):
            own = pictures[:, down[row] : down[row + 1], across[col] : across[col + 1]]
            inside = cut[:, row, col]
            assert np.array_equal(inside[:, : own.shape[1], : own.shape[2]], own)
            assert set(inside.ravel()) == set(own.ravel())


@pytest.mark.parametrize("tile", [0, -3, 2.5, True, "8"])
def test_a_tile_is_a_whole_number_of_pixels(tile):
    with pytest.raises(BadInput, match="whole number of pixels"):
        tile_grid(10, 10, tile)


def test_more_tiles_than_pixels_are_refused():
    with pytest.raises(BadInput, match="cannot be cut"):
        edges(3, 4)
