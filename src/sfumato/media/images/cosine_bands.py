"""How much a unit of a picture can change its low frequencies, wherever in the picture it stands.

A plane c·x of the colours is turned into its cosine coefficients (orthonormal DCT-II), of which the ``kept``
lowest rows and columns get noise: Y_f = Σ_p a_f(p)·c·x_p with a_f(p) = B_u(row of p)·B_v(column of p) for
f = (u, v). The scale of the noise is separable too, s_f = rows[u]·columns[v], so everything below is a
product of something of the rows and something of the columns. With S the pixels of one unit, d_p ∈
[−h, h]^channels their differences, v a corner of that cube and G(p, q) = Σ_f a_f(p)a_f(q)/s_f²:

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import LARGEST, SMALLEST, positive, shown
from sfumato.media.images.corners import at_corners, dearest
from sfumato.media.images.image_mechanism import picture_shape, picture_unit
from sfumato.media.images.kernels import Plane, Side, basis, merged, over_placements, square, windows
from sfumato.privacy import Unit

__all__ = ["Band", "bands_epsilon", "bands_mu", "basis", "coefficient_bounds", "shaped_scales"]

Array = NDArray[np.float64]

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
        if not self.colour or not all(math.isfinite(c) and abs(c) <= LARGEST for c in self.colour):
            raise BadInput(
                f"`colour` must hold one finite number a channel, not {shown(self.colour)}.",
                parameter="colour",
            )
        for name, wanted in zip(("rows", "columns"), self.kept, strict=True):
            scales = np.array(getattr(self, name), dtype=np.float64)
            if scales.shape != (wanted,) or not ((scales >= SMALLEST) & (scales <= LARGEST)).all():
                raise BadInput(
                    f"{name} of a band must hold {wanted} positive numbers, one for each it keeps."
                )
            object.__setattr__(self, name, scales)
        if not 0.0 <= self.step <= LARGEST:
            raise BadInput(
                f"`step` must be a positive number, or 0 for none, not {shown(self.step)}.", parameter="step"
            )


def coefficient_bounds(unit: Unit | str, shape: Sequence[int], kept: tuple[int, int]) -> tuple[Array, Array]:
    """(rows, columns) such that a unit of values in [0, 1] changes coefficient (u, v) by rows[u]·columns[v].

    That is the exact maximum over placements for region(m) and item, and an upper bound for pixels(m).
    """
    (height, width, _), (side, count) = picture_shape(shape), _wanted(unit, shape)
    sizes = [np.abs(basis(size, keep)) for size, keep in zip((height, width), kept, strict=True)]
    if count:
        return count * sizes[0].max(axis=1), sizes[1].max(axis=1)
    rows, columns = ((size @ windows(size.shape[1], side)).max(axis=1) for size in sizes)
    return rows, columns


def shaped_scales(
    unit: Unit | str, shape: Sequence[int], kept: tuple[int, int], law: Literal["gaussian", "laplace"]
) -> tuple[Array, Array]:
    """(rows, columns) of scales, the largest 1 each: bound_f^½ for Gaussian, bound_f^⅓ for Laplace noise."""
    if law not in ("gaussian", "laplace"):
        raise BadInput(f"`law` must be 'gaussian' or 'laplace', not {shown(law)}.", parameter="law")
    power = 1.0 / 2.0 if law == "gaussian" else 1.0 / 3.0
    rows, columns = (bound**power for bound in coefficient_bounds(unit, shape, kept))
    return rows / rows.max(), columns / columns.max()


def bands_epsilon(bands: Sequence[Band], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """A certified bound on the pure ε of ``bands`` with Laplace noise, over every placement of ``unit``.

    ``unit`` is region(m), pixels(m) or item under replacement: its pixels take any colour in
    [0, ``high``]^channels. The bound is proportional to 1/scale.
    """
    height, width = _checked(bands, shape)
    wanted, high = _wanted(unit, shape), positive("high", high)
    planes = _planes(bands, height, width)
    each = dearest(
        [np.abs(at_corners(band.colour)) for band in bands],
        [np.outer(plane.down.weight, plane.across.weight) for plane in planes],
    )
    flat = [Band(band.kept, band.colour, np.ones(band.kept[0]), np.ones(band.kept[1])) for band in bands]
    coefficients = sum(band.kept[0] * band.kept[1] for band in bands)
    worst = min(
        over_placements(each, wanted),
        math.sqrt(sum(plane.down.power * plane.across.power for plane in planes))
        * math.sqrt(square(merged(_planes(flat, height, width)), wanted)),
        math.sqrt(coefficients) * math.sqrt(square(merged(planes), wanted)),
    )
    moved = (_rounding(band, height, width, high) * _inverse(band, 1) for band in bands)
    return (high * worst + math.fsum(moved)) * _ROUNDING


def bands_mu(bands: Sequence[Band], unit: Unit | str, shape: Sequence[int], high: float) -> float:
    """A certified bound on the μ of ``bands`` with Gaussian noise, whose noise multiplier is 1/μ.

    Arguments are those of :func:`bands_epsilon`; the bound is proportional to 1/scale.
    """
    height, width = _checked(bands, shape)
    wanted, high = _wanted(unit, shape), positive("high", high)
    worst = square(merged(_planes(bands, height, width)), wanted)
    moved = (_rounding(band, height, width, high) ** 2 * _inverse(band, 2) for band in bands)
    return (high * math.sqrt(worst) + math.sqrt(math.fsum(moved))) * _ROUNDING


def _planes(bands: Sequence[Band], height: int, width: int) -> list[Plane]:
    return [
        Plane(Side(height, band.rows), Side(width, band.columns), np.square(at_corners(band.colour)))
        for band in bands
    ]


def _inverse(band: Band, power: int) -> float:
    """Σ_f 1/s_f^power."""
    return float((1.0 / band.rows**power).sum() * (1.0 / band.columns**power).sum())


def _rounding(band: Band, height: int, width: int, high: float) -> float:
    """How much more a coefficient may move because it is computed in double precision and rounded."""
    if band.step == 0.0:
        return 0.0
    size = math.fsum(abs(c) for c in band.colour) * high * math.sqrt(height * width)
    return band.step + 2.0 * (height + width + 16) * 2.0**-52 * size


def _wanted(unit: Unit | str, shape: Sequence[int]) -> tuple[int, int]:
    """The side of a square and 0, or anything and the number of pixels that may stand anywhere."""
    (height, width, _), parsed = picture_shape(shape), picture_unit(unit)
    side = max(height, width)
    if parsed.name == "pixels" and int(parsed.size or 0) < height * width:
        return side, int(parsed.size or 0)
    return min(side, int(parsed.size)) if parsed.name == "region" and parsed.size else side, 0


def _checked(bands: Sequence[Band], shape: Sequence[int]) -> tuple[int, int]:
    height, width, channels = picture_shape(shape)
    if not bands:
        raise BadInput("no bands were given: a picture is released in at least one.")
    for number, band in enumerate(bands):
        if len(band.colour) != channels:
            raise BadInput(
                f"band {number} has {len(band.colour)} colour weights, but a picture {channels} channels."
            )
        if band.kept[0] > height or band.kept[1] > width:
            raise BadInput(f"band {number} keeps {band.kept} coefficients of a picture of {height}×{width}.")
    return height, width
