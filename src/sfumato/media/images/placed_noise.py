"""What mechanisms for pictures share whose loss is certified over every placement of a unit.

A *design* holds what noise is added to and how much of it, as a pure function of parameters and shape; its
loss for a unit, ε under Laplace noise and μ under Gaussian noise, is what is proven.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, positive
from sfumato.media.images.image_mechanism import PictureMechanism, Shape, picture_unit
from sfumato.noise import Rounded
from sfumato.privacy import Guarantee, Unit

__all__ = ["PlacedDesign", "PlacedNoise"]

Array = NDArray[np.float64]


class PlacedDesign(Protocol):
    """What noise is added to, and how much of it."""

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian rather than Laplace."""

    @property
    def relative(self) -> Array:
        """The scale of the noise on each value over the largest."""

    def loss(self, unit: Unit) -> float:
        """Certified ε, or μ where the noise is Gaussian, over every placement of ``unit``."""


class PlacedNoise(PictureMechanism):
    """Base of mechanisms that add noise to ``what``; subclasses hold ``epsilon`` and may hold ``delta``."""

    #: What noise is added to, as theorems name it.
    what: ClassVar[str]
    epsilon: float

    @abstractmethod
    def design(self, shape: Shape) -> Any:
        """A :class:`PlacedDesign` for pictures of ``shape``: a pure function of the parameters."""

    def proven(self, unit: Unit, shape: Shape) -> Guarantee:
        """ε, or a curve of Gaussian noise, over every placement of ``unit``."""
        design: PlacedDesign = self.design(shape)
        multiplier = 1.0 / design.loss(unit)
        if design.gaussian:
            theorem = f"analytic Gaussian, L2 sensitivity of {self.what} over every placement"
            return Guarantee.gaussian(multiplier, unit=unit, theorem=theorem, at_delta=self._delta())
        theorem = f"Laplace mechanism, L1 sensitivity of {self.what} over every placement"
        return Guarantee.laplace(multiplier, unit=unit, theorem=theorem)

    def parameters(self) -> dict[str, Any]:
        """Every parameter but the randomness, as JSON values."""
        return super().parameters() | {"unit": str(picture_unit(self.unit))}

    def _target(self) -> float:
        """ε, or the μ of (ε, δ); a hair less, so that what is read back is at most what was asked for."""
        epsilon, delta = positive("epsilon", self.epsilon), self._delta()
        return (1.0 - 1e-11) * (epsilon if delta == 0.0 else 1.0 / noise_multiplier(epsilon, delta))

    def _delta(self) -> float:
        delta = getattr(self, "delta", 0.0)
        return 0.0 if delta == 0 else delta_between(delta)

    def _add_noise(
        self, cells: Array, design: PlacedDesign, rounded: Rounded, white: float, first: int
    ) -> None:
        """Add noise to whole numbers ``cells`` (n, size) in place, picture ``first`` of the data first.

        ``white``, the scale they stand on, is part of keyed content: equal numbers on another scale get
        noise of another size, which must not come from the same stream.
        """
        count, size = cells.shape
        content = np.column_stack([cells, np.full(count, white)]) if self.keyed else cells
        streams = self._streams(first, content)
        height = count // len(streams)
        relative = np.tile(design.relative, height)
        for part, stream in enumerate(streams):
            noise = rounded.draw(stream, height * size, relative=relative)[0]
            cells[part * height : (part + 1) * height] += noise.reshape(height, size)
