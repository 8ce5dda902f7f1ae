"""A band of cosine coefficients as a map from pixels: its products G(p, q), and a placement's share of them.

The quantities are those of ``cosine_bands``, where their use is proven. Each is a product of one of the rows
and one of the columns of a picture, so a :class:`Side` holds that of one axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.images.corners import dearest, largest

__all__ = ["Plane", "Side", "basis", "merged", "over_placements", "square", "windows"]

Array = NDArray[np.float64]

# Eigenvalues of larger matrices are not worth their time: they come close to the bound for all placements.
_EIGENVALUES = 64


@lru_cache(maxsize=64)
def basis(size: int, kept: int) -> Array:
    """The ``kept`` lowest vectors of the orthonormal DCT-II of ``size`` values, as rows; not writeable."""
    if not 1 <= kept <= size:
        raise BadInput(f"{kept} coefficients of {size} values cannot be kept: give 1 to {size}.")
    # Whole turns are taken off in integers, so that large frequencies lose no digits.
    turn = np.outer(np.arange(kept), 2 * np.arange(size) + 1) % (4 * size)
    rows: Array = np.cos(turn * (math.pi / (2 * size))) * math.sqrt(2.0 / size)
    rows[0] = math.sqrt(1.0 / size)
    rows.flags.writeable = False
    return rows


class Side:
    """One axis of a band: its part a(p) of the map from pixels to coefficients, in units of the noise."""

    def __init__(self, size: int, scales: Array) -> None:
        self.size, self.scales = size, scales
        self.map = basis(size, len(scales)) / scales[:, None]
        self.weight = np.abs(self.map).sum(axis=0)
        self.power = float(np.square(1.0 / scales).sum())
        self.steepest = float(np.square(1.0 / scales).max())

    @cached_property
    def products(self) -> Array:
        """|G(p, q)| of this axis."""
        return np.abs(self.map.T @ self.map)

    def eigenvalues(self, side: int) -> Array:
        """λ_max of G, or more, for each stretch of ``side`` pixels."""
        stretches = np.lib.stride_tricks.sliding_window_view(self.map, min(side, self.size), axis=1)
        parts = stretches.transpose(1, 0, 2)
        if min(parts.shape[1:]) > _EIGENVALUES:
            return np.full(len(parts), self.steepest)
        turned = parts.transpose(0, 2, 1)
        gram = parts @ turned if parts.shape[1] <= parts.shape[2] else turned @ parts
        return np.asarray(np.linalg.eigvalsh(gram)[:, -1])

    def all_products(self, side: int) -> Array:
        """Σ |G(p, q)| over each stretch of ``side`` pixels."""
        held = windows(self.size, side)
        return np.asarray((held * (self.products @ held)).sum(axis=0))

    def top_products(self, count: int) -> Array:
        """At least the k-th largest of |G(p, ·)| for every p, k = 1 … ``count`` or fewer."""
        return np.asarray(np.sort(self.products, axis=1)[:, ::-1][:, :count].max(axis=0))


@dataclass(frozen=True)
class Plane:
    """Bands with equal coefficients and scales in a fixed ratio, as one: its axes, and (c·v)² at corners."""

    down: Side
    across: Side
    strength: Array

    def ratio(self, other: Plane) -> float | None:
        """The fixed ratio of the scales of ``other`` to those of this plane, if there is one."""
        ratio = 1.0
        for mine, its in ((self.down.scales, other.down.scales), (self.across.scales, other.across.scales)):
            if mine.shape != its.shape or (its / mine).max() > (its / mine).min() * (1.0 + 1e-9):
                return None
            # Scales that differ in their last digits are taken for the smaller ones, which only adds loss.
            ratio *= float((its / mine).min())
        return ratio


def merged(planes: Sequence[Plane]) -> list[Plane]:
    """Planes of which no two have scales in a fixed ratio."""
    apart: list[Plane] = []
    for plane in planes:
        for i, earlier in enumerate(apart):
            if (ratio := earlier.ratio(plane)) is not None:
                apart[i] = replace(earlier, strength=earlier.strength + plane.strength / ratio**2)
                break
        else:
            apart.append(plane)
    return apart


def square(planes: Sequence[Plane], wanted: tuple[int, int]) -> float:
    """The bound on μ²/h²: the least of the three in the proof, at the worst placement."""
    strengths, (side, count) = [plane.strength for plane in planes], wanted
    alone = np.sqrt(
        dearest(strengths, [np.outer(np.diag(p.down.products), np.diag(p.across.products)) for p in planes])
    )
    if count:
        steep = dearest(strengths, [np.array(p.down.steepest * p.across.steepest) for p in planes])
        pairs = 0.0
        for plane in planes:
            tops = np.outer(plane.down.top_products(count), plane.across.top_products(count))
            pairs += float(plane.strength.max()) * count * largest(tops, np.ones_like(tops, dtype=int), count)
        return min(count * float(steep), pairs, over_placements(alone, wanted) ** 2)
    area = min(side, alone.shape[0]) * min(side, alone.shape[1])
    values = [np.outer(p.down.eigenvalues(side), p.across.eigenvalues(side)) for p in planes]
    products = [np.outer(p.down.all_products(side), p.across.all_products(side)) for p in planes]
    pairs_at = sum(p.strength.max() * product for p, product in zip(planes, products, strict=True))
    apart = np.square(_sums(alone, side))
    return float(np.minimum(np.minimum(area * dearest(strengths, values), pairs_at), apart).max())


def windows(size: int, side: int) -> Array:
    """(size, starts): column by column, which pixels of an axis a stretch of ``side`` pixels holds."""
    side = min(side, size)
    after = np.arange(size)[:, None] - np.arange(size - side + 1)
    return ((after >= 0) & (after < side)).astype(np.float64)


def _sums(values: Array, side: int) -> Array:
    """The sum of ``values`` over every square of ``side`` pixels."""
    down, across = (windows(size, side) for size in values.shape)
    return np.asarray(down.T @ values @ across)


def over_placements(values: Array, wanted: tuple[int, int]) -> float:
    """The largest sum of ``values``, one a pixel, over the placements of the unit."""
    side, count = wanted
    if count:
        return largest(values, np.ones(values.shape, dtype=np.int64), count)
    return float(_sums(values, side).max())
