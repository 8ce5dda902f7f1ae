"""Noise on cosine coefficients of colour planes, and how much a unit can change the coefficients.

**Guarantee.** Coefficients are computed in double precision and rounded to the nearest multiple of a public
step, a power of two; noise is drawn in real numbers and rounded to the same grid, which is post-processing
because the rounded coefficients lie on it. The bounds below hold over every placement of a unit, with what
rounding and double precision add to it. What is made of noisy coefficients is post-processing.

**Sensitivity.** A plane c·x of the colours is turned into its cosine coefficients (orthonormal DCT-II), of
which the ``kept`` lowest rows and columns get noise: Y_f = Σ_p a_f(p)·c·x_p with a_f(p) = B_u(row of
p)·B_v(column of p) for f = (u, v). The scale of the noise is separable too, s_f = rows[u]·columns[v], so
everything below is a product of something of the rows and something of the columns; a :class:`Side` holds
that of one axis. With S the pixels of one unit, d_p ∈ [−h, h]^channels their differences, v a corner of that
cube and G(p, q) = Σ_f a_f(p)a_f(q)/s_f²:

**Gaussian.** μ² = Σ_planes Σ_{p,q∈S} (c·d_p)(c·d_q)·G(p, q). The worst case over a box is a hard problem;
these three certify it from above, and the least is taken at each placement.

1. The largest eigenvalue: μ² ≤ Σ_planes λ_max(G_S)·Σ_p (c·d_p)² ≤ h²·|S|·max_v Σ_planes (c·v)² λ_max(G_S).
   Rows of B are orthonormal, so λ_max ≤ max 1/s_f² wherever S is.
2. The sum of all products: μ² ≤ h²·Σ_planes ‖c‖₁²·Σ_{p,q} |G(p, q)|. Exact for one plane whose G is
   nowhere negative on S, as between near pixels in a low band. Of any m pixels, each has at most the m
   largest of |G(p, ·)|, and the k-th largest in a row of a product is bounded by that of the product of the
   k-th largest.
3. The triangle inequality, pixel by pixel: μ ≤ h·Σ_p √(max_v Σ_planes (c·v)² G(p, p)).

Planes that keep the same coefficients with scales in a fixed ratio are merged: with weights (c·v)²/ratio²
they are one plane in all three. For one pixel, 1 and 3 are exact.

**Laplace.** ε = Σ_planes Σ_f |Σ_p a_f(p)·c·d_p|/s_f, at most h·Σ_{p∈S} max_v Σ_planes |c·v|·Σ_f |a_f(p)|/s_f,
exact for one pixel. By Cauchy's inequality also ε ≤ √(Σ_planes Σ_f 1/s_f²)·‖(c·Σ_p a_f(p)d_p)_f‖₂, the
Gaussian bound of scale 1, and ε ≤ √(number of coefficients)·μ: far less where many are kept for a large
unit. The least of the three is taken.

**The grid.** Coefficients are rounded to the nearest multiple of ``step``. Each then moves by up to one step
more, twice half a step; and by twice the error of computing it in double precision, at most
(height + width + 16)·2⁻⁵²·‖c‖₁·h·√(height·width) for a product of matrices or a fast transform. By the
triangle inequality both norms grow by that of this change.

**Shaping.** Let bound_f be the most that the unit changes Y_f. Σ σ_f² is least at a fixed Σ bound_f²/σ_f² for
σ_f² ∝ bound_f; Σ s_f² at a fixed Σ bound_f/s_f for s_f ∝ bound_f^⅓ (Lagrange).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.media.images.block_noise import PlacedNoise
from sfumato.media.images.image_mechanism import Footprint, Shape, footprint, picture_shape
from sfumato.media.images.placements import check_scales, corner_values, sum_of_largest, worst_corner
from sfumato.noise import LAPLACE, MAX_SCALE, NORMAL, Rounded
from sfumato.privacy import Unit

Array = NDArray[np.float64]

# Eigenvalues of larger matrices are not worth their time: they come close to the bound for all placements.
_EIGENVALUES = 64


@lru_cache(maxsize=64)
def basis(size: int, kept: int) -> Array:
    """Return ``kept`` lowest vectors of the orthonormal DCT-II of ``size`` values, as rows; not writeable."""
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
        """Return λ_max of G, or more, for each stretch of ``side`` pixels."""
        stretches = np.lib.stride_tricks.sliding_window_view(self.map, min(side, self.size), axis=1)
        parts = stretches.transpose(1, 0, 2)
        if min(parts.shape[1:]) > _EIGENVALUES:
            return np.full(len(parts), self.steepest)
        turned = parts.transpose(0, 2, 1)
        gram = parts @ turned if parts.shape[1] <= parts.shape[2] else turned @ parts
        return np.asarray(np.linalg.eigvalsh(gram)[:, -1])

    def all_products(self, side: int) -> Array:
        """Return Σ |G(p, q)| over each stretch of ``side`` pixels."""
        held = windows(self.size, side)
        return np.asarray((held * (self.products @ held)).sum(axis=0))

    def top_products(self, count: int) -> Array:
        """Return upper bounds on the k-th largest of |G(p, ·)| over all p, k = 1 … ``count`` or fewer."""
        return np.asarray(np.sort(self.products, axis=1)[:, ::-1][:, :count].max(axis=0))


@dataclass(frozen=True)
class Plane:
    """Bands with equal coefficients and scales in a fixed ratio, as one: its axes, and (c·v)² at corners."""

    down: Side
    across: Side
    strength: Array

    def ratio(self, other: Plane) -> float | None:
        """Return the fixed ratio of the scales of ``other`` to those of this plane, if there is one."""
        ratio = 1.0
        for mine, its in ((self.down.scales, other.down.scales), (self.across.scales, other.across.scales)):
            if mine.shape != its.shape or (its / mine).max() > (its / mine).min() * (1.0 + 1e-9):
                return None
            # Scales that differ in their last digits are taken for the smaller ones, which only adds loss.
            ratio *= float((its / mine).min())
        return ratio


def merged(planes: Sequence[Plane]) -> list[Plane]:
    """Return planes of which no two have scales in a fixed ratio."""
    apart: list[Plane] = []
    for plane in planes:
        for i, earlier in enumerate(apart):
            if (ratio := earlier.ratio(plane)) is not None:
                apart[i] = replace(earlier, strength=earlier.strength + plane.strength / ratio**2)
                break
        else:
            apart.append(plane)
    return apart


def square(planes: Sequence[Plane], covered: Footprint) -> float:
    """Return the bound on μ²/h²: the least of the three in the proof, at the worst placement."""
    strengths, (rows, columns, count) = [plane.strength for plane in planes], covered
    alone = np.sqrt(
        worst_corner(
            strengths, [np.outer(np.diag(p.down.products), np.diag(p.across.products)) for p in planes]
        )
    )
    if count:
        steep = worst_corner(strengths, [np.array(p.down.steepest * p.across.steepest) for p in planes])
        pairs = 0.0
        for plane in planes:
            tops = np.outer(plane.down.top_products(count), plane.across.top_products(count))
            pairs += (
                float(plane.strength.max())
                * count
                * sum_of_largest(tops, np.ones_like(tops, dtype=int), count)
            )
        return min(count * float(steep), pairs, over_placements(alone, covered) ** 2)
    values = [np.outer(p.down.eigenvalues(rows), p.across.eigenvalues(columns)) for p in planes]
    products = [np.outer(p.down.all_products(rows), p.across.all_products(columns)) for p in planes]
    pairs_at = sum(p.strength.max() * product for p, product in zip(planes, products, strict=True))
    apart = np.square(_sums(alone, covered))
    return float(
        np.minimum(np.minimum(covered.pixels * worst_corner(strengths, values), pairs_at), apart).max()
    )


def windows(size: int, side: int) -> Array:
    """Return (size, starts): column by column, which pixels of an axis a stretch of ``side`` pixels holds."""
    side = min(side, size)
    after = np.arange(size)[:, None] - np.arange(size - side + 1)
    return ((after >= 0) & (after < side)).astype(np.float64)


def _sums(values: Array, covered: Footprint) -> Array:
    """Return the sum of ``values`` over every rectangle that a unit covers."""
    down, across = map(windows, values.shape, covered[:2])
    return np.asarray(down.T @ values @ across)


def over_placements(values: Array, covered: Footprint) -> float:
    """Return the largest sum of ``values``, one a pixel, over the placements of the unit."""
    if covered.anywhere:
        return sum_of_largest(values, np.ones(values.shape, dtype=np.int64), covered.anywhere)
    return float(_sums(values, covered).max())


_ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class Band:
    """The lowest ``kept`` = (rows, columns) cosine coefficients of a plane, with noise on each.

    ``colour`` holds one number a channel: the plane's value of a pixel is Σ colour[c]·value[c]. The scale of
    the noise on coefficient (u, v) is ``rows``[u]·``columns``[v]. Coefficients are rounded to the nearest
    multiple of ``step`` before noise is added; 0 means that they are not rounded.
    """

    kept: tuple[int, int]
    colour: tuple[float, ...]
    rows: Array
    columns: Array
    step: float = 0.0

    def __post_init__(self) -> None:
        check_scales(self.rows)
        check_scales(self.columns)


def coefficient_bounds(unit: Unit | str, shape: Sequence[int], kept: tuple[int, int]) -> tuple[Array, Array]:
    """Return (rows, columns): a unit of values in [0, 1] changes coefficient (u, v) by rows[u]·columns[v].

    That is the exact maximum over placements of a rectangle, and an upper bound for pixels anywhere.
    """
    covered = footprint(unit, shape)
    tall, wide = (np.abs(each) for each in map(basis, picture_shape(shape)[:2], kept))
    if covered.anywhere:
        return covered.anywhere * tall.max(axis=1), wide.max(axis=1)
    rows, columns = windows(tall.shape[1], covered.rows), windows(wide.shape[1], covered.columns)
    return (tall @ rows).max(axis=1), (wide @ columns).max(axis=1)


def shaped_scales(
    unit: Unit | str, shape: Sequence[int], kept: tuple[int, int], gaussian: bool
) -> tuple[Array, Array]:
    """Return scales of rows and columns: bound_f^½ for Gaussian, bound_f^⅓ for Laplace noise; at most 1."""
    power = 1.0 / 2.0 if gaussian else 1.0 / 3.0
    rows, columns = (bound**power for bound in coefficient_bounds(unit, shape, kept))
    return rows / rows.max(), columns / columns.max()


def bands_epsilon(bands: Sequence[Band], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """Return certified bound on the pure ε of ``bands`` with Laplace noise, over every placement of ``unit``.

    ``unit`` is one of pictures under replacement: its pixels take any colour in [0, ``high``]^channels. The
    bound is proportional to 1/scale.
    """
    (height, width, _), covered = picture_shape(shape), footprint(unit, shape)
    planes = _planes(bands, height, width)
    each = worst_corner(
        [np.abs(corner_values(band.colour)) for band in bands],
        [np.outer(plane.down.weight, plane.across.weight) for plane in planes],
    )
    flat = [Band(band.kept, band.colour, np.ones(band.kept[0]), np.ones(band.kept[1])) for band in bands]
    coefficients = sum(band.kept[0] * band.kept[1] for band in bands)
    worst = min(
        over_placements(each, covered),
        math.sqrt(sum(plane.down.power * plane.across.power for plane in planes))
        * math.sqrt(square(merged(_planes(flat, height, width)), covered)),
        math.sqrt(coefficients) * math.sqrt(square(merged(planes), covered)),
    )
    moved = (_rounding(band, height, width, high) * _inverse(band, 1) for band in bands)
    return (high * worst + math.fsum(moved)) * _ROUNDING


def bands_mu(bands: Sequence[Band], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """Return a certified bound on the μ of ``bands`` with Gaussian noise, whose noise multiplier is 1/μ.

    Arguments are those of :func:`bands_epsilon`; the bound is proportional to 1/scale.
    """
    (height, width, _), covered = picture_shape(shape), footprint(unit, shape)
    worst = square(merged(_planes(bands, height, width)), covered)
    moved = (_rounding(band, height, width, high) ** 2 * _inverse(band, 2) for band in bands)
    return (high * math.sqrt(worst) + math.sqrt(math.fsum(moved))) * _ROUNDING


def _planes(bands: Sequence[Band], height: int, width: int) -> list[Plane]:
    return [
        Plane(Side(height, band.rows), Side(width, band.columns), np.square(corner_values(band.colour)))
        for band in bands
    ]


def _inverse(band: Band, power: int) -> float:
    """Return Σ_f 1/s_f^power."""
    return float((1.0 / band.rows**power).sum() * (1.0 / band.columns**power).sum())


def _rounding(band: Band, height: int, width: int, high: float) -> float:
    """Return how much more a coefficient may move because it is computed in double precision and rounded."""
    if band.step == 0.0:
        return 0.0
    size = math.fsum(abs(c) for c in band.colour) * high * math.sqrt(height * width)
    return band.step + 2.0 * (height + width + 16) * 2.0**-52 * size


# Steps of the grid across the smallest scale: rounding then adds a few thousandths of a percent to the loss.
_STEPS = 2.0**14


@dataclass(frozen=True, eq=False)
class CosineDesign:
    """Bands of planes of pixels in [0, 1], with noise on each; ``step`` is that of all of them."""

    shape: Shape
    bands: tuple[Band, ...]
    gaussian: bool

    @property
    def step(self) -> float:
        """The step of the grid."""
        return self.bands[0].step

    @cached_property
    def scales(self) -> list[Array]:
        """The scale of the noise on each coefficient of each plane, (rows, columns)."""
        return [np.outer(band.rows, band.columns) for band in self.bands]

    @cached_property
    def deviations(self) -> list[Array]:
        """The deviation of the noise on each coefficient, where 255 is white."""
        return [(255.0 if self.gaussian else 255.0 * math.sqrt(2.0)) * scale for scale in self.scales]

    @cached_property
    def rounded(self) -> Rounded:
        """The noise with the largest scale, in steps of the grid."""
        largest = max(float(scale.max()) for scale in self.scales)
        return Rounded(NORMAL if self.gaussian else LAPLACE, [largest / self.step * (1.0 + 1e-12)])

    @cached_property
    def relative(self) -> Array:
        """Every scale over the largest, one plane after the other."""
        each = np.concatenate([scale.ravel() for scale in self.scales])
        return np.asarray(each / each.max())

    def loss(self, unit: Unit) -> float:
        """Return certified ε or μ over every placement of ``unit``."""
        return (bands_mu if self.gaussian else bands_epsilon)(self.bands, unit, self.shape, 1.0)

    def coefficients(self, planes: Array) -> list[Array]:
        """Return bands of ``planes`` (planes, n, height, width) of pixels in [0, 1], in steps of the grid."""
        found = []
        for plane, band in zip(planes, self.bands, strict=True):
            tall, wide = basis(self.shape[0], band.kept[0]), basis(self.shape[1], band.kept[1])
            found.append(np.rint(np.matmul(tall, plane @ wide.T) / self.step))
        return found

    def stepped(self) -> CosineDesign:
        """Return the same with a grid as fine as the noise needs it."""
        finest = min(float(scale.min()) for scale in self.scales) / _STEPS
        largest = max(float(scale.max()) for scale in self.scales)
        step = 2.0 ** math.ceil(math.log2(max(finest, largest / MAX_SCALE)))
        return CosineDesign(self.shape, tuple(replace(band, step=step) for band in self.bands), self.gaussian)

    def scaled(self, factor: float) -> CosineDesign:
        """Return the same with ``factor`` times the noise, on the same grid."""
        bands = tuple(replace(band, rows=factor * band.rows) for band in self.bands)
        return CosineDesign(self.shape, bands, self.gaussian)


def calibrated(design: CosineDesign, unit: Unit, target: float) -> CosineDesign:
    """Return ``design`` with as much noise of the same shape as loses ``target`` (ε or μ) for ``unit``."""
    rough = design.scaled(design.loss(unit) / target).stepped()
    # On a fixed grid the loss is proportional to 1/scale.
    return rough.scaled(rough.loss(unit) / target)


class CosineNoise(PlacedNoise):
    """Base of mechanisms that release noisy cosine coefficients; subclasses hold ``epsilon``."""

    what = "cosine coefficients"

    @abstractmethod
    def design(self, shape: Shape) -> CosineDesign:
        """Return bands and noise for pictures of ``shape``: a pure function of the parameters."""

    def _prepared(self, shape: Shape, high: float) -> None:
        _ = self.design(shape).rounded

    def _noisy(
        self, design: CosineDesign, pictures: NDArray[Any], high: float, weights: Array, first: int
    ) -> list[Array]:
        """Return noisy coefficients of the planes of ``weights`` (planes, channels), where 255 is white."""
        values = pictures.astype(np.float64) / high
        planes = np.moveaxis(values @ weights.T, -1, 0)
        exact = design.coefficients(planes)
        count = len(pictures)
        flat = np.concatenate([part.reshape(count, -1) for part in exact], axis=1)
        self._add_noise(flat, design.relative, design.rounded, high, first)
        flat *= 255.0 * design.step
        ends = np.cumsum([part[0].size for part in exact])
        parts = np.split(flat, ends[:-1], axis=1)
        return [part.reshape(known.shape) for part, known in zip(parts, exact, strict=True)]


def inverse(coefficients: Array, shape: Sequence[int]) -> Array:
    """Return planes (n, height, width) from their lowest coefficients (n, rows, columns)."""
    tall, wide = basis(shape[0], coefficients.shape[1]), basis(shape[1], coefficients.shape[2])
    return np.asarray(np.matmul(tall.T, coefficients @ wide))
