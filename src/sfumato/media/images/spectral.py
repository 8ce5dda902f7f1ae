"""Noise on pictures as the adaptive multimedia paper calibrates it, with what that really proves.

**Claim.** Section 3.2.1 and Table 2: Laplace noise of scale 0.3·Δ/ε, Δ = 255, on RGB pixels; Gaussian noise
of 0.5·Δ/ε, Δ = √N, on DCT coefficients; and, in the spectrum, Laplace noise of scale λ·(1 + f/f_max)^α with
α = 0.6. The paper gives no δ for its Gaussian noise.

**Guarantee.** Factors below 1 break the first claim even for one value of one pixel: Laplace noise of scale
0.3·Δ/ε is ε/0.3-DP for it, and a pixel has three values and a region many pixels. The proven column holds the
certified ε of every unit for the noise that was really added (see ``block_noise`` and ``cosine_noise``).

**Choices.** The paper does not say what λ is, nor how the frequencies of two axes make one f. Here λ is
0.5·√N/ε, Table 2's row of DCT coefficients, with N the number of pixels, and (1 + f/f_max)^α is the geometric
mean of the factors of both axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.parameters import delta_between, one_of, positive, shown
from sfumato.media.images.block_noise import Design
from sfumato.media.images.cosine_bands import Band
from sfumato.media.images.cosine_noise import CosineDesign, CosineNoise, inverse
from sfumato.media.images.dp_pix import ChannelMeans
from sfumato.media.images.image_mechanism import Shape, picture_shape
from sfumato.media.images.planes import Blocks
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Unit
from sfumato.privacy.defaults import DELTA, IMAGES, REQUIRED

__all__ = ["ScaledPixels", "SpectralLaplace"]

Array = NDArray[np.float64]

_NOISES = ("laplace", "gaussian")
_PIXELS, _COEFFICIENTS = 0.3, 0.5  # scale factors of Table 2
_SOURCE = "Adaptive multimedia DP, section 3.2.1 and Table 2"


@lru_cache(maxsize=64)
def _design(shape: Shape, epsilon: float, alpha: float, gaussian: bool) -> CosineDesign:
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


class SpectralLaplace(CosineNoise):
    """The paper's noise on DCT coefficients of every channel, at its ``epsilon``.

    ``noise`` is ``"laplace"``, growing with frequency as (1 + f/f_max)^``alpha``, or ``"gaussian"``, the row
    of DCT coefficients in Table 2, whose proven ε is stated at ``delta``.
    """

    def __init__(
        self,
        epsilon: float = REQUIRED,
        noise: str = "laplace",
        *,
        alpha: float = 0.6,
        delta: float = DELTA,
        unit: str | Unit = IMAGES.unit,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.noise = noise
        self.alpha = alpha
        self.delta = delta
        self.unit = unit
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """The paper's words."""
        text = (
            "Gaussian noise of scale 0.5Δ/ε, sensitivity √N, on DCT coefficients"
            if self._gaussian()
            else "Laplace noise of scale λ(1 + f/f_max)^α, α = 0.6, on DCT coefficients"
        )
        return Claim(text=text, source=_SOURCE, epsilon=positive("epsilon", self.epsilon))

    def design(self, shape: Shape) -> CosineDesign:
        """All coefficients of all channels, and the noise that the paper names."""
        alpha = self.alpha
        if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0.0 <= alpha <= 16.0:
            raise BadInput(f"`alpha` must be a number from 0 to 16, not {shown(alpha)}.", parameter="alpha")
        return _design(shape, positive("epsilon", self.epsilon), float(alpha), self._gaussian())

    def soften(self, pictures: NDArray[Any], high: float, first: int) -> NDArray[Any]:
        """Pictures from all their noisy coefficients; see :meth:`PictureMechanism.soften`."""
        shape = picture_shape(pictures.shape[1:])
        noisy = self._noisy(self.design(shape), pictures, high, np.eye(shape[2]), first)
        return np.stack([inverse(values, shape) for values in noisy], axis=-1) * (high / 255.0)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The deviation of the noise on a pixel before clipping: the transform keeps squares."""
        deviation = self.design(self._picture(columns)).deviations[0]
        root = math.sqrt(float(np.mean(deviation**2)))
        return (ExpectedError("each value, in 255ths of white", "root mean square error", root),)

    def _gaussian(self) -> bool:
        return one_of("noise", self.noise, _NOISES) == "gaussian"

    def _delta(self) -> float:
        return delta_between(self.delta) if self._gaussian() else 0.0


class ScaledPixels(ChannelMeans):
    """The paper's noise on pixels at its ``epsilon``: Laplace of scale 0.3·255/ε on every value."""

    delta = 0.0

    def __init__(
        self,
        epsilon: float = REQUIRED,
        *,
        unit: str | Unit = IMAGES.unit,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.unit = unit
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """The paper's words."""
        text = "Laplace noise of scale 0.3Δ/ε, sensitivity 255, on RGB pixels"
        return Claim(text=text, source=_SOURCE, epsilon=positive("epsilon", self.epsilon), delta=0.0)

    def design(self, shape: Shape) -> Design:
        """Every pixel its own block, and the noise that the paper names."""
        scale = _PIXELS / positive("epsilon", self.epsilon)
        return Design(Blocks(shape, 1, 1, mixed=False), 0.0, (scale,) * shape[2], False)

    def _side(self) -> int:
        return 1
