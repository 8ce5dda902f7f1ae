"""Tiles: a grid stretched evenly over a picture, and how much of it a unit can touch.

A side of ``length`` pixels in ``parts`` tiles is cut at ⌊i·length/parts⌋, so that tiles differ by at most one
pixel. Whatever is computed from each tile alone changes only where a changed pixel lies in the tile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.images.image_mechanism import footprint, whole_side
from sfumato.privacy import Unit

__all__ = ["tiles_of"]


def tile_grid(height: int, width: int, tile: int) -> tuple[int, int]:
    """Return rows and columns of the coarsest even grid of tiles of at most ``tile`` × ``tile`` pixels."""
    side = whole_side("tile", tile)
    return -(-height // side), -(-width // side)


@lru_cache(maxsize=256)
def edges(length: int, parts: int) -> tuple[int, ...]:
    """Return where a side is cut: ``parts`` + 1 numbers from 0 to ``length``; no part is empty."""
    if not 1 <= parts <= length:
        raise BadInput(f"a side of {length} pixels cannot be cut into {parts} tiles.")
    return tuple(index * length // parts for index in range(parts + 1))


def tiles_of(pictures: NDArray[Any], tile: int) -> NDArray[Any]:
    """Return all tiles of ``pictures`` (n, h, w, c): (n, rows, cols, side, side, c), a copy.

    A tile that is a pixel smaller than the largest repeats its own last row or column.
    """
    height, width = pictures.shape[1:3]
    rows, cols = tile_grid(height, width, tile)
    down, across = _inside(height, rows), _inside(width, cols)
    return np.asarray(pictures[:, down[:, None, :, None], across[None, :, None, :]])


def _inside(length: int, parts: int) -> NDArray[np.intp]:
    """Return (parts, side) indices of the pixels of each part."""
    cuts = np.asarray(edges(length, parts), dtype=np.intp)
    side = int(np.diff(cuts).max())
    return np.asarray(np.minimum(cuts[:-1, None] + np.arange(side), cuts[1:, None] - 1))


@lru_cache(maxsize=1024)
def touched_tiles(unit: Unit, height: int, width: int, rows: int, cols: int) -> int:
    """Return the largest number of tiles of a grid of ``rows`` × ``cols`` that one unit can lie in; exact."""
    covered = footprint(unit, (height, width))
    if covered.anywhere:
        return min(covered.anywhere, rows * cols)
    return _touched_along(height, rows, covered.rows) * _touched_along(width, cols, covered.columns)


def _touched_along(length: int, parts: int, size: int) -> int:
    owner = np.searchsorted(np.asarray(edges(length, parts)), np.arange(length), side="right")
    return int((owner[size - 1 :] - owner[: length - size + 1]).max()) + 1
