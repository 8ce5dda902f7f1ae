"""Image baselines: DP-Pix, the noise of the adaptive multimedia paper, and uniform pixel noise.

**DP-Pix** (Fan 2018): averages over blocks of pixels with Laplace noise, shown as flat blocks. *Guarantee.* m
pixels change the sum of a grey picture's blocks by at most 255·m in L1, so noise of scale 255·m/(b²ε) on
averages over b × b pixels is ε-DP for ``pixels(m)``. Of several channels all may change at once, and each
gets noise of as many times that scale. What holds of other units is computed over every placement (see
``block_noise``).

**Adaptive multimedia paper**: noise as the paper calibrates it. *Claim.* Section 3.2.1 and Table 2: Laplace
noise of scale 0.3·Δ/ε, Δ = 255, on RGB pixels; Gaussian noise of 0.5·Δ/ε, Δ = √N, on DCT coefficients; and,
in the spectrum, Laplace noise of scale λ·(1 + f/f_max)^α with α = 0.6. The paper gives no δ for its Gaussian
noise.

*Guarantee.* Factors below 1 break the first claim even for one value of one pixel: Laplace noise of scale
0.3·Δ/ε is ε/0.3-DP for it, and a pixel has three values and a region many pixels. The proven column holds the
certified ε of every unit for the noise that was really added (see ``block_noise`` and ``cosine_noise``).

*Choices.* The paper does not say what λ is, nor how the frequencies of two axes make one f. Here λ is
0.5·√N/ε, Table 2's row of DCT coefficients, with N the number of pixels, and (1 + f/f_max)^α is the geometric
mean of the factors of both axes.

**Uniform pixels**: the same noise on every value of every pixel. *Guarantee.* That of ``block_noise`` with
blocks of one pixel: Laplace noise (δ = 0) or Gaussian noise (δ > 0) calibrated for the unit over every
placement, all channels changing at once.
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
    Delta,
    Epsilon,
    ExpectedError,
    OptionalDelta,
    Parameter,
    delta_between,
    one_of,
    positive,
    shown,
)
from sfumato.media.images.block_noise import BlockNoise, Design, expected_square, loss
from sfumato.media.images.cosine_noise import Band, CosineDesign, CosineNoise, inverse
from sfumato.media.images.image_mechanism import (
    Block,
    ImageUnit,
    Shape,
    picture_shape,
    picture_unit,
    whole_side,
)
from sfumato.media.images.planes import Blocks
from sfumato.media.images.restoration import restored
from sfumato.privacy import DELTA, IMAGES, REQUIRED, Claim, Neighbours, Unit

__all__ = ["DPPix", "ScaledPixels", "SpectralLaplace", "UniformPixels"]

Array = NDArray[np.float64]


@lru_cache(maxsize=256)
def _design(shape: Shape, unit: Unit, target: float, gaussian: bool, block: int) -> Design:
    blocks = Blocks(shape, block, block, mixed=False)
    ones = (1.0,) * shape[2]
    scale = loss(blocks, ones, unit, gaussian) / target
    return Design(blocks, 0.0, (scale,) * shape[2], gaussian)


class _ChannelMeans(BlockNoise):
    """Base of mechanisms that show noisy averages of the channels over flat blocks of ``block`` pixels."""

    block = 1

    def design(self, shape: Shape) -> Design:
        """Return blocks and noise scales for pictures of ``shape``."""
        side = whole_side("block", self.block)
        return _design(shape, picture_unit(self.unit), self._target(), self._delta() > 0.0, side)

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return flat blocks of noisy averages; see :meth:`PictureMechanism.soften`."""
        design = self.design(picture_shape(pictures.shape[1:]))
        means = self._noisy(design, pictures, high, first)
        return restored(means, design.noise, design.blocks, "none") * np.float32(high / 255.0)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the noise on block averages and, under public statistics, the error of a grey pixel."""
        shape = self._picture(columns)
        design = self.design(shape)
        noise = float(design.noise.deviations[0].max())
        scale = float(np.max(design.scales[0]))
        square = expected_square("luma", shape, design.blocks.luma, scale, design.gaussian, "none")
        of = ("average of a block, in 255ths of white", "pixel of a photograph, in 255ths of white")
        return (
            ExpectedError(of[0], "root mean square error", noise),
            ExpectedError(of[1], "root mean square error", math.sqrt(square)),
        )


@dataclass(eq=False, repr=False)
class DPPix(_ChannelMeans):
    """Pixelation with Laplace noise: ε-DP for any m pixels, ``unit="pixels(m)"``, in blocks of ``block``.

    **Guarantee.** ε for the asked unit under replace: Laplace mechanism.
    """

    kinds = ("picture", "video")

    delta = 0.0

    epsilon: Epsilon = REQUIRED
    unit: ImageUnit = "pixels(16)"
    block: Block = 16

    def claim(self) -> Claim | None:
        """Return what the paper says, of grey pictures."""
        return Claim(
            text="ε-DP for pictures that differ in at most m pixels; noise of scale 255m/(b²ε) on averages",
            source="Fan 2018, Image Pixelization with Differential Privacy",
            epsilon=positive("epsilon", self.epsilon),
            delta=0.0,
            unit=picture_unit(self.unit),
            neighbours=Neighbours.REPLACE,
        )

    def design(self, shape: Shape) -> Design:
        """Return blocks and noise scales for a unit of pixels anywhere, and refuse other units."""
        if picture_unit(self.unit).name != "pixels":
            raise BadInput(
                f"DP-Pix is calibrated for any m pixels, `unit='pixels(m)'`, not {self.unit}.",
                parameter="unit",
            )
        return super().design(shape)


_NOISES = ("laplace", "gaussian")
_PIXELS, _COEFFICIENTS = 0.3, 0.5  # scale factors of Table 2
_SOURCE = "Adaptive multimedia DP, section 3.2.1 and Table 2"


@lru_cache(maxsize=64)
def _spectral_design(shape: Shape, epsilon: float, alpha: float, gaussian: bool) -> CosineDesign:
    height, width, channels = shape
    # In values of [0, 1]; the paper's are in [0, 255].
    scale = _COEFFICIENTS * math.sqrt(height * width) / epsilon / 255.0
    power = 0.0 if gaussian else alpha / 2.0
    rows, columns = ((1.0 + np.arange(size) / max(size - 1, 1)) ** power for size in (height, width))
    bands = tuple(
        Band((height, width), tuple(map(float, np.eye(channels)[channel])), scale * rows, columns)
        for channel in range(channels)
    )
    return CosineDesign(shape, bands, gaussian).stepped()


@dataclass(eq=False, repr=False)
class SpectralLaplace(CosineNoise):
    """The paper's noise on DCT coefficients of every channel, at its ``epsilon``.

    ``noise`` is ``"laplace"``, growing with frequency as (1 + f/f_max)^``alpha``, or ``"gaussian"``, the row
    of DCT coefficients in Table 2, whose proven ε is stated at ``delta``.

    **Guarantee.** The true ε of the paper's noise under replace, worst placement.
    """

    kinds = ("picture", "video")

    epsilon: Epsilon = REQUIRED
    noise: Annotated[str, Parameter("Law of the noise.", choices=_NOISES)] = "laplace"
    _: KW_ONLY
    alpha: Annotated[
        float, Parameter("How fast the noise grows with frequency.", doors=("python", "service"))
    ] = 0.6
    delta: Delta = DELTA
    unit: ImageUnit = IMAGES.unit

    def claim(self) -> Claim | None:
        """Return the paper's words."""
        text = (
            "Gaussian noise of scale 0.5Δ/ε, sensitivity √N, on DCT coefficients"
            if self._gaussian()
            else "Laplace noise of scale λ(1 + f/f_max)^α, α = 0.6, on DCT coefficients"
        )
        return Claim(text=text, source=_SOURCE, epsilon=positive("epsilon", self.epsilon))

    def design(self, shape: Shape) -> CosineDesign:
        """Return all coefficients of all channels, and the noise that the paper names."""
        alpha = self.alpha
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0.0 <= alpha <= 16.0:
            raise BadInput(f"`alpha` must be a number from 0 to 16, not {shown(alpha)}.", parameter="alpha")
        return _spectral_design(shape, positive("epsilon", self.epsilon), float(alpha), self._gaussian())

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Return pictures from all their noisy coefficients; see :meth:`PictureMechanism.soften`."""
        shape = picture_shape(pictures.shape[1:])
        noisy = self._noisy(self.design(shape), pictures, high, np.eye(shape[2]), first)
        return np.stack([inverse(values, shape) for values in noisy], axis=-1) * (high / 255.0)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """Return the deviation of the noise on a pixel before clipping: the transform keeps squares."""
        deviation = self.design(self._picture(columns)).deviations[0]
        root = math.sqrt(float(np.mean(deviation**2)))
        return (ExpectedError("each value, in 255ths of white", "root mean square error", root),)

    def _gaussian(self) -> bool:
        return one_of("noise", self.noise, _NOISES) == "gaussian"

    def _delta(self) -> float:
        return delta_between(self.delta) if self._gaussian() else 0.0


@dataclass(eq=False, repr=False)
class ScaledPixels(_ChannelMeans):
    """The paper's noise on pixels at its ``epsilon``: Laplace of scale 0.3·255/ε on every value.

    **Guarantee.** The true ε of the paper's noise under replace.
    """

    kinds = ("picture", "video")

    delta = 0.0

    epsilon: Epsilon = REQUIRED
    _: KW_ONLY
    unit: ImageUnit = IMAGES.unit

    def claim(self) -> Claim | None:
        """Return the paper's words."""
        text = "Laplace noise of scale 0.3Δ/ε, sensitivity 255, on RGB pixels"
        return Claim(text=text, source=_SOURCE, epsilon=positive("epsilon", self.epsilon), delta=0.0)

    def design(self, shape: Shape) -> Design:
        """Return every pixel its own block, and the noise that the paper names."""
        scale = _PIXELS / positive("epsilon", self.epsilon)
        return Design(Blocks(shape, 1, 1, mixed=False), 0.0, (scale,) * shape[2], False)


@dataclass(eq=False, repr=False)
class UniformPixels(_ChannelMeans):
    """Adds Laplace (``delta`` = 0) or Gaussian noise to every pixel, (ε, δ)-DP for ``unit``.

    **Guarantee.** ε, or (ε, δ), for the asked unit under replace: Laplace or Gaussian mechanism.
    """

    kinds = ("picture", "video")

    epsilon: Epsilon = REQUIRED
    delta: OptionalDelta = 0.0
    unit: ImageUnit = IMAGES.unit

    def claim(self) -> Claim | None:
        """Return the mechanisms' own theorems: here claim and proof agree."""
        gaussian = self._delta() > 0.0
        return Claim(
            text=f"{'(ε, δ)' if gaussian else 'ε'}-DP for noise calibrated to the sensitivity of the unit",
            source="Balle & Wang 2018, theorem 8" if gaussian else "Dwork, McSherry, Nissim & Smith 2006",
            epsilon=positive("epsilon", self.epsilon),
            delta=self._delta(),
            unit=picture_unit(self.unit),
            neighbours=Neighbours.REPLACE,
        )
