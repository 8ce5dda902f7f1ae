"""The same noise on every value of every pixel: the baseline that knows nothing of pictures.

**Guarantee.** That of ``block_noise`` with blocks of one pixel: Laplace noise (δ = 0) or Gaussian noise
(δ > 0) calibrated for the unit over every placement, all channels changing at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.mechanisms.parameters import positive
from sfumato.media.images.dp_pix import ChannelMeans
from sfumato.media.images.image_mechanism import picture_unit
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Neighbours, Unit
from sfumato.privacy.defaults import IMAGES, REQUIRED

__all__ = ["UniformPixels"]


class UniformPixels(ChannelMeans):
    """Adds Laplace (``delta`` = 0) or Gaussian noise to every pixel, (ε, δ)-DP for ``unit``."""

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = 0.0,
        unit: str | Unit = IMAGES.unit,
        *,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """The mechanisms' own theorems: here claim and proof agree."""
        gaussian = self._delta() > 0.0
        return Claim(
            text=f"{'(ε, δ)' if gaussian else 'ε'}-DP for noise calibrated to the sensitivity of the unit",
            source="Balle & Wang 2018, theorem 8" if gaussian else "Dwork, McSherry, Nissim & Smith 2006",
            epsilon=positive("epsilon", self.epsilon),
            delta=self._delta(),
            unit=picture_unit(self.unit),
            neighbours=Neighbours.REPLACE,
        )

    def _side(self) -> int:
        return 1
