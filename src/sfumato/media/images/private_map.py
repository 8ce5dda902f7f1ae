"""Tile scores released with noise, so that noise on the picture may follow them.

**Guarantee.** Scores are clipped to [0, 1], each computed from its own tile alone. A unit lies in at most k
tiles, over every placement (:func:`~sfumato.media.images.tiles.touched_tiles`, exact), so replacing its
pixels moves the scores by at most k in L1. Scores are put on a public grid toward zero, which keeps them in
[0, 1], and Laplace noise of scale k/ε is drawn in real numbers and rounded to that grid: pure ε, with no
slack. Smoothing and clipping afterwards look at nothing but the noisy scores.

**Edge cases.** With k tiles the noise is k/ε on a score that is at most 1. A map is worth having only where
ε is well above k, so tiles should be as large as what is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.parameters import positive
from sfumato.media.images.image_mechanism import Shape, picture_unit
from sfumato.media.images.tiles import tile_grid, tile_side, touched_tiles
from sfumato.noise import LAPLACE, Rounded, Stream, grid_step
from sfumato.privacy import Guarantee, Unit
from sfumato.privacy.defaults import IMAGES

__all__ = ["PrivateMap", "estimated_scores"]

Array = NDArray[np.float64]

# What a score is taken to be before anything is known of it: mean and deviation. Public and wide.
_MEAN, _DEVIATION = 0.3, 0.35
# Weight of a neighbouring tile in the smoothing, where noise drowns the scores.
_NEIGHBOUR = 0.5


@dataclass(frozen=True)
class PrivateMap:
    """A map of tiles of ``tile`` pixels at pure ``epsilon`` for ``unit``."""

    epsilon: float
    unit: Unit | str = IMAGES.unit
    tile: int = 64

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        picture_unit(self.unit)
        tile_side(self.tile)

    def touched(self, unit: Unit, shape: Shape) -> int:
        """How many tiles of a picture of ``shape`` one ``unit`` can lie in."""
        return touched_tiles(unit, shape[0], shape[1], *tile_grid(shape[0], shape[1], self.tile))

    def scale(self, shape: Shape) -> float:
        """The scale of the noise on every score."""
        # A hair more, so that the ε read back from the scale is at most what was asked for.
        return (
            self.touched(picture_unit(self.unit), shape) / positive("epsilon", self.epsilon) * (1.0 + 1e-12)
        )

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """Pure ε for ``unit``: the tiles it can lie in, over the scale."""
        return Guarantee.laplace(
            self.scale(shape) / self.touched(unit, shape),
            unit=unit,
            theorem="Laplace mechanism on tile scores, over every placement",
        )

    def cells(self, scores: Array, shape: Shape) -> Array:
        """Scores (n, rows, cols), clipped to [0, 1] and put on the grid: whole numbers (n, tiles)."""
        inside = np.clip(scores, 0.0, 1.0).reshape(len(scores), -1)
        return np.trunc(inside / self._step(shape))

    def noisy(self, cells: Array, shape: Shape, streams: Sequence[Stream]) -> Array:
        """Noisy scores (n, rows, cols) of ``cells``; one stream for all pictures, or one for each."""
        step, count, rounded = self._step(shape), len(cells), self.rounded(shape)
        height = count // len(streams)
        noise = [rounded.draw(stream, height * cells.shape[1])[0] for stream in streams]
        noised = (cells + np.concatenate(noise).reshape(cells.shape)) * step
        return np.asarray(noised.reshape(count, *tile_grid(shape[0], shape[1], self.tile)))

    def rounded(self, shape: Shape) -> Rounded:
        """The noise, in steps of the grid."""
        return Rounded(LAPLACE, [self.scale(shape) / self._step(shape)])

    def _step(self, shape: Shape) -> float:
        return grid_step(self.scale(shape), 1.0)


def estimated_scores(noisy: Array, scale: float) -> Array:
    """What noisy scores (n, rows, cols) say of the true ones: smoothed, drawn to the middle, in [0, 1].

    Each score is averaged with its neighbours, the more the larger the noise is against the spread of
    scores, and then drawn towards a public mean as a linear estimate would. Nothing else is looked at.
    """
    from scipy.ndimage import correlate1d

    variance = 2.0 * scale**2
    beside = _NEIGHBOUR * variance / (variance + _DEVIATION**2)
    kernel = np.array([beside, 1.0, beside]) / (1.0 + 2.0 * beside)
    smooth = correlate1d(correlate1d(noisy, kernel, axis=1, mode="nearest"), kernel, axis=2, mode="nearest")
    left = variance * float(np.square(kernel).sum()) ** 2
    trust = _DEVIATION**2 / (_DEVIATION**2 + left)
    return np.asarray(np.clip(_MEAN + trust * (smooth - _MEAN), 0.0, 1.0))
