"""What stands out: the spectral residual of a picture, or of each tile.

Attention says where a viewer looks, not what is secret. It speaks of the factor behaviour, for want of a
detector of what people do.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.tensor_saliency import saliency_weights
from sfumato.media.detect.detector import Box, Detector, grey

__all__ = ["Saliency"]

# The side in tiles of the grid on which a whole picture's map is given as boxes.
_GRID = 16


class Saliency(Detector):
    """Tiles by how much of the spectrum of each is out of the ordinary; pictures on a grid of 16×16 boxes."""

    factor = "behaviour"

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """A grid of boxes that covers the picture, each with the mean of the map inside it."""
        plane = grey(picture[..., None] if picture.ndim == 2 else picture) / 255.0
        height, width = plane.shape
        values = saliency_weights(plane.reshape(1, -1), (height, width)).reshape(height, width)
        rows, cols = (np.linspace(0, side, min(_GRID, side) + 1).astype(int) for side in (height, width))
        return [
            (float(x0), float(y0), float(x1 - x0), float(y1 - y0), float(values[y0:y1, x0:x1].mean()))
            for y0, y1 in pairwise(rows)
            for x0, x1 in pairwise(cols)
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """The contrast of each tile's own map with its contrast in grey: 0 for a plain tile.

        Within a tile the map is scaled to [0, 1], so its mean says how widely interest is spread; times the
        tile's deviation in grey, of which half the range counts as full.
        """
        planes = grey(tiles) / 255.0
        rows = planes.reshape(len(planes), -1)
        spread = saliency_weights(rows, planes.shape[1:]).mean(axis=1)
        return np.asarray(np.minimum(1.0, 4.0 * rows.std(axis=1)) * np.minimum(1.0, 2.0 * spread))
