"""Which blocks and which shares of the budget promise the smallest error, before any picture is seen.

The expected error is that of the best linear estimate under the public spectrum: what noise leaves of the
frequencies that blocks resolve, and all of the others. It is a pure function of parameters and shape.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.image_mechanism import Shape
from sfumato.media.images.image_statistics import STATISTICS, Bands
from sfumato.media.images.placements import Layer, gaussian_mu, laplace_epsilon
from sfumato.media.images.planes import UNITY, Blocks, plane_names
from sfumato.privacy import Unit

__all__ = ["expected_square", "loss", "plane_scales", "relative_scales", "sensible_blocks"]

Array = NDArray[np.float64]

_SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256)
_TIMES = (1, 2, 3, 4)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
# An error of blue or red difference is seen less than one of luma.
_SEEN = {"luma": 1.0, "blue": 0.5, "red": 0.5, "alpha": 1.0}
# So many frequencies are taken one by one, and as many of the others.
_EACH = 24
# How much of the variance of the noise counts for those who know what photographs look like. A network sees
# shapes and outliers too, and does as well as Wiener's filter under less noise.
_TAKEN = {"wiener": 1.0, "learned": 0.6}
# How much larger errors are taken to be in blocks that the edge cuts off; even noise is also filtered faster.
_EDGE = 1.0
# Errors as close as this count as equal, and fewer blocks are faster.
_EQUAL = 1.005
# What transparency gets of the budget, where there is any.
_ALPHA = 0.2


def relative_scales(channels: int, chroma: float, gaussian: bool) -> tuple[float, ...]:
    """Noise scales of the planes relative to each other: ``chroma`` is the share of blue and red together.

    A share of pure ε divides the scale; a share of μ² divides its square.
    """
    names = plane_names(channels)
    alpha = _ALPHA if "alpha" in names else 0.0
    two = chroma if "blue" in names else 0.0
    shares = {"luma": (1.0 - alpha) * (1.0 - two), "blue": two / 2, "red": two / 2, "alpha": alpha}
    for name in ("blue", "red"):
        shares[name] *= 1.0 - alpha
    return tuple(float(shares[name] ** (-0.5 if gaussian else -1.0)) for name in names)


def loss(
    blocks: Blocks, scales: tuple[float | Array, ...], unit: Unit, gaussian: bool, *, high: float = 1.0
) -> float:
    """Certified ε or μ of noise of ``scales`` on block sums of planes, for pixels in [0, ``high``]."""
    weights = blocks.weights / UNITY
    layers = [
        Layer(blocks.side(plane), tuple(float(w) for w in weights[plane]), scale)
        for plane, scale in enumerate(scales)
    ]
    return (gaussian_mu if gaussian else laplace_epsilon)(layers, unit, blocks.shape, high)


def plane_scales(
    blocks: Blocks, chroma: float, unit: Unit, target: float, gaussian: bool
) -> tuple[float, ...]:
    """Uniform noise scales on block sums of pixels in [0, 1] that lose ``target`` (ε or μ) for ``unit``."""
    relative = relative_scales(blocks.shape[2], chroma, gaussian)
    factor = loss(blocks, relative, unit, gaussian) / target
    return tuple(factor * scale for scale in relative)


def expected_square(
    plane: str, shape: Shape, side: int, scale: float, gaussian: bool, restore: str = "wiener"
) -> float:
    """Expected squared error of a pixel of a plane, in 255ths of white; ``scale`` is that of block sums."""
    rows, columns = (-(-length // side) for length in shape[:2])
    weights, seen, heard = _averaged(plane, rows, columns, side)
    # On the scale of orthonormal coefficients of pixels, a block mean weighs as much as its side.
    noise = (255.0 * scale / side) ** 2 * (1.0 if gaussian else 2.0) * _TAKEN.get(restore, 1.0)
    known = heard**2 / (seen + noise) if restore in _TAKEN else seen - noise
    return _variance(plane, rows * side, columns * side) - float((weights * known).sum())


@lru_cache(maxsize=512)
def _averaged(plane: str, rows: int, columns: int, side: int) -> tuple[Array, Array, Array]:
    """Weights a pixel of some frequencies of averages, the power of these, and their covariance."""
    (down, high), (across, wide) = _some(rows), _some(columns)
    seen, heard = STATISTICS[plane].averaged(Bands(rows, side, down), Bands(columns, side, across))
    return np.outer(high, wide) / (rows * columns * side**2), seen, heard


@lru_cache(maxsize=512)
def _variance(plane: str, height: int, width: int) -> float:
    """The expected squared distance of a pixel from the public mean."""
    weights, power, _ = _averaged(plane, height, width, 1)
    return float((weights * power).sum())


def _some(count: int) -> tuple[NDArray[np.int64], Array]:
    """The lowest of ``count`` frequencies and ever fewer of the others, and how many each stands for."""
    ends = np.unique(np.append(np.geomspace(_EACH, max(count, _EACH), _EACH).astype(np.int64), range(_EACH)))
    ends = np.append(ends[ends < count], count)
    return (ends[:-1] + ends[1:] - 1) // 2, np.diff(ends).astype(np.float64)


def _ragged(shape: Shape, side: int) -> float:
    """The share of pixels in blocks that the edge of the picture cuts off."""
    height, width = shape[0], shape[1]
    whole = (height - height % side) * (width - width % side)
    return 1.0 - whole / (height * width) if side <= min(height, width) else 0.0


def _part(shape: Shape, unit: Unit) -> Shape:
    """A smaller picture in which the unit costs as much, or nearly so, as in a large one."""
    enough = max(512, 4 * int(unit.size or 0) if unit.name == "region" else 0)
    return min(shape[0], enough), min(shape[1], enough), shape[2]


@lru_cache(maxsize=256)
def sensible_blocks(
    shape: Shape,
    unit: Unit,
    target: float,
    gaussian: bool,
    block: int | None,
    chroma: float | None,
    restore: str,
) -> tuple[Blocks, float]:
    """Sides of blocks and chroma's share of the budget with the smallest expected error.

    ``target`` is ε, or μ where noise is Gaussian. A given ``block`` or ``chroma`` is kept.
    """
    names = plane_names(shape[2])
    longest = max(shape[0], shape[1])
    sides = [side for side in _SIDES if side < longest] + [longest] if block is None else [block]
    times = _TIMES if "blue" in names else (1,)
    part = _part(shape, unit)
    # Of the whole item a part is looked at: ε grows with the number of pixels, and μ with its root.
    pixels = shape[0] * shape[1] / (part[0] * part[1]) if unit.name == "item" else 1.0
    reached = target / (math.sqrt(pixels) if gaussian else pixels)
    shares = [0.0] if "blue" not in names else [chroma] if chroma is not None else list(_SHARES)

    def error(side: int, multiple: int, two: float) -> float:
        blocks = Blocks(part, side, side * multiple)
        scales = plane_scales(blocks, two, unit, reached, gaussian)
        return sum(
            _SEEN[name]
            * (1.0 + _EDGE * _ragged(shape, blocks.side(plane)))
            * expected_square(name, shape, blocks.side(plane), scale, gaussian, restore)
            for plane, (name, scale) in enumerate(zip(names, scales, strict=True))
        )

    side, multiple, two = sides[0], times[-1 if len(times) == 1 else 1], shares[len(shares) // 2]
    for _ in range(2):  # one thing after the other, twice: the three hardly depend on each other
        errors = [error(one, multiple, two) for one in sides]
        side = max(one for one, each in zip(sides, errors, strict=True) if each <= _EQUAL * min(errors))
        multiple = min(
            (one for one in times if one == 1 or side * one <= longest), key=lambda one: error(side, one, two)
        )
        two = min(shares, key=lambda one: error(side, multiple, one))
    return Blocks(shape, side, side * multiple), two
