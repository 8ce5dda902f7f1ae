"""The lowest cosine coefficients of colour planes with shaped noise, restored with public statistics.

**Guarantee.** That of ``cosine_noise``. Scales are shaped by how much the unit can change each coefficient:
σ_f² ∝ bound_f for Gaussian noise (δ > 0), s_f ∝ bound_f^⅓ for Laplace noise (δ = 0), which makes the sum of
squared errors of the coefficients least where bounds are reached at once; then as much of it as the bound
over every placement needs. Restoring is post-processing.

**Edge cases.** Of a picture smaller than what is to be kept, all coefficients are. Transparency is a plane of
its own. Values in floating point are taken as they are: coefficients are rounded, not pixels.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import (
    Epsilon,
    ExpectedError,
    OptionalDelta,
    Parameter,
    one_of,
    proper_share,
    share,
    shown,
)
from sfumato.media.images.block_noise import relative_scales
from sfumato.media.images.cosine_noise import (
    Band,
    CosineDesign,
    CosineNoise,
    calibrated,
    inverse,
    shaped_scales,
)
from sfumato.media.images.image_mechanism import ImageUnit, Shape, picture_shape, picture_unit
from sfumato.media.images.planes import UNITY, plane_names, plane_weights
from sfumato.media.images.restoration import STATISTICS
from sfumato.privacy import IMAGES, REQUIRED, Unit

__all__ = ["PlaneBands"]

Array = NDArray[np.float64]

_RESTORES = ("none", "wiener")
# Shares of the frequencies of luma, down and across, that are tried; chroma keeps half as many.
_TRIED = (1 / 64, 1 / 48, 1 / 32, 1 / 24, 1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4)
_CHROMA = 0.3


def _kept(shape: Shape, part: float, name: str) -> tuple[int, int]:
    part = part / 2.0 if name in ("blue", "red") else part
    return max(1, round(shape[0] * part)), max(1, round(shape[1] * part))


def _shaped(shape: Shape, unit: Unit, gaussian: bool, part: float, chroma: float) -> CosineDesign:
    weights, bands = plane_weights(shape[2]) / UNITY, []
    for plane, scale in enumerate(relative_scales(shape[2], chroma, gaussian)):
        kept = _kept(shape, part, plane_names(shape[2])[plane])
        rows, columns = shaped_scales(unit, shape, kept, gaussian)
        bands.append(Band(kept, tuple(float(w) for w in weights[plane]), scale * rows, columns))
    return CosineDesign(shape, tuple(bands), gaussian)


def _squares(design: CosineDesign, restore: str) -> list[float]:
    """Return the expected squared error of a pixel of each plane, in 255ths of white."""
    found, pixels = [], design.shape[0] * design.shape[1]
    for name, deviation in zip(plane_names(design.shape[2]), design.deviations, strict=True):
        power, known = _power(name, design.shape), _power(name, design.shape)[: deviation.shape[0]]
        known = known[:, : deviation.shape[1]]
        noise = deviation**2
        left = known * noise / (known + noise) if restore == "wiener" else noise
        found.append(float(power.sum() - known.sum() + left.sum()) / pixels)
    return found


@lru_cache(maxsize=16)
def _power(name: str, shape: Shape) -> Array:
    spectrum, (height, width) = STATISTICS[name], shape[:2]
    power = spectrum.power(np.arange(height) / (2.0 * height), np.arange(width) / (2.0 * width))
    power[0, 0] = spectrum.still(height * width)
    return power


@lru_cache(maxsize=64)
def _design(
    shape: Shape, unit: Unit, target: float, gaussian: bool, kept: float | None, chroma: float, restore: str
) -> CosineDesign:
    if kept is not None:
        return calibrated(_shaped(shape, unit, gaussian, kept, chroma), unit, target)
    made = {}
    for part in _TRIED:
        sizes = _kept(shape, part, "luma"), _kept(shape, part, "blue")
        if sizes not in made:
            made[sizes] = calibrated(_shaped(shape, unit, gaussian, part, chroma), unit, target)
    return min(made.values(), key=lambda design: sum(_squares(design, restore)))


@dataclass(eq=False, repr=False)
class PlaneBands(CosineNoise):
    """Adds shaped noise to the lowest frequencies of luma and chroma and restores the picture from them.

    ``epsilon`` (and ``delta``: 0 for Laplace noise, more for Gaussian) is the promise for ``unit``. ``kept``
    in (0, 1] is the share of luma's frequencies that is kept, down and across; chroma keeps half as many.
    Left out, it is what promises the smallest error under public statistics. ``chroma`` is the share of the
    budget that both differences of colour get together. ``restore`` is ``"none"`` or ``"wiener"``: each
    coefficient is kept as far as its expected power stands above the noise.

    **Guarantee.** ε, or (ε, δ), for the asked unit under replace: shaped noise on a low band of cosines,
    worst placement.
    """

    kinds = ("picture", "video")

    epsilon: Epsilon = REQUIRED
    delta: OptionalDelta = 0.0
    unit: ImageUnit = IMAGES.unit
    kept: Annotated[
        float | None, Parameter("Share of the frequencies that is kept; chosen by the size unless given.")
    ] = None
    _: KW_ONLY
    restore: Annotated[
        str, Parameter("What is made of noisy coefficients; costs no privacy.", choices=_RESTORES)
    ] = "wiener"
    chroma: Annotated[float, Parameter("Share of the budget that both colour differences get.")] = _CHROMA

    def design(self, shape: Shape) -> CosineDesign:
        """Return bands and noise for pictures of ``shape``."""
        one_of("restore", self.restore, _RESTORES)
        kept = None if self.kept is None else share("kept", self.kept)
        chroma = proper_share("chroma", self.chroma)
        if kept == 0.0:
            raise BadInput(f"`kept` must be None or lie in (0, 1], not {shown(self.kept)}.", parameter="kept")
        unit, gaussian = picture_unit(self.unit), self._delta() > 0.0
        return _design(shape, unit, self._target(), gaussian, kept, chroma, self.restore)

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return restored pictures; see :meth:`PictureMechanism.soften`."""
        shape = picture_shape(pictures.shape[1:])
        design, weights = self.design(shape), plane_weights(shape[2]) / UNITY
        planes = []
        noisy = self._noisy(design, pictures, high, weights, first)
        for name, values, deviation in zip(plane_names(shape[2]), noisy, design.deviations, strict=True):
            mean = 0.0
            if self.restore == "wiener":
                # The DC coefficient of a constant picture is its value times the root of its pixels.
                mean = STATISTICS[name].mean
                values[:, 0, 0] -= mean * math.sqrt(shape[0] * shape[1])
                power = _power(name, shape)[: deviation.shape[0], : deviation.shape[1]]
                values *= power / (power + deviation**2)
            planes.append(inverse(values, shape) + mean)
        soft = np.moveaxis(np.tensordot(np.linalg.inv(weights), np.stack(planes), axes=(1, 0)), 0, -1)
        return np.ascontiguousarray(soft) * (high / 255.0)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the error of a pixel of each plane under public statistics."""
        shape = self._picture(columns)
        return tuple(
            ExpectedError(
                f"{name}, pixel of a photograph, in 255ths of white",
                "root mean square error",
                math.sqrt(square),
            )
            for name, square in zip(
                plane_names(shape[2]), _squares(self.design(shape), self.restore), strict=True
            )
        )

    def parameters(self) -> dict[str, Any]:
        """Return every parameter but the randomness, and what is kept of each plane of a known shape."""
        values = super().parameters()
        if self.shape is not None:
            values["bands"] = [list(band.kept) for band in self.design(self._picture(None)).bands]
        return values
