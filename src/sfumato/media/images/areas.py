"""Places of a picture: what is proven of units that lie wholly inside an area.

A bound over every placement of a unit holds for those inside an area too, and is far too large for them where
the area's noise is strong. Noisy sums over blocks that the area does not touch say nothing of such a unit, so
they may be left out, as if their noise were infinite: the same certified bound then holds for placements
inside the area.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.block_choice import loss
from sfumato.media.images.block_noise import BlockNoise
from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.planes import Blocks
from sfumato.media.images.tiles import edges
from sfumato.privacy import Guarantee, Unit

__all__ = ["proven_inside"]

Array = NDArray[np.float64]

# As good as infinite; the little that it leaves is on the safe side.
_DROWNED = 1e9


def proven_inside(means: BlockNoise, area: NDArray[np.bool_], unit: Unit, shape: Shape) -> Guarantee:
    """What ``means`` proves of a ``unit`` wholly inside ``area``, tiles (rows, cols) of a public map."""
    design = means.design(shape)
    scales = _scales_inside(design.scales, area, design.blocks)
    lost = loss(design.blocks, scales, unit, design.gaussian)
    theorem = "block sums over every placement inside an area of a public map"
    if design.gaussian:
        return Guarantee.gaussian(1.0 / lost, unit=unit, theorem=theorem, at_delta=float(means.delta))
    return Guarantee.laplace(1.0 / lost, unit=unit, theorem=theorem)


def _scales_inside(
    scales: Sequence[float | Array], area: NDArray[np.bool_], blocks: Blocks
) -> tuple[Array, ...]:
    """Noise scales of each plane, (block rows, block columns); blocks that touch the area keep theirs."""
    height, width = blocks.shape[:2]
    down, across = edges(height, area.shape[0]), edges(width, area.shape[1])
    pixels = np.repeat(np.repeat(area, np.diff(down), axis=0), np.diff(across), axis=1)
    found = []
    for plane, scale in enumerate(scales):
        side = blocks.side(plane)
        rows = np.logical_or.reduceat(pixels, np.arange(0, height, side), axis=0)
        touched = np.logical_or.reduceat(rows, np.arange(0, width, side), axis=1)
        found.append(np.where(touched, scale, _DROWNED * np.max(scale)))
    return tuple(found)
