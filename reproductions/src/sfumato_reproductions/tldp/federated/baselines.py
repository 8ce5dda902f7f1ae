"""What leaves a client in figure 3 besides TLDP and mechanisms of the library on updates.

:class:`ClippedParameters` is the paper's way with its whole-tensor baselines: parameters, not updates, are
clipped to ±C in L∞ and noised as one tensor.

**Guarantee.** Unit client, neighbours replace: all parameters of a client are the one record of a mechanism
whose theorem stands with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learners.federated import CLIENT, Protection
from sfumato.mechanisms import (
    Gaussian,
    IndependentDirectional,
    Laplace,
    MatrixVariateGaussian,
    Mechanism,
)
from sfumato.noise import Randomness
from sfumato.privacy import Claim, Guarantee

__all__ = ["WHOLE", "ClippedParameters"]

#: The paper's whole-tensor baselines, for (ε, δ, bounds, size, randomness).
WHOLE: dict[str, Callable[[float, float, tuple[float, float], int, Randomness | None], Mechanism]] = {
    "Laplace": lambda e, d, b, i, r: Laplace(e, bounds=b, randomness=r),
    "Gaussian": lambda e, d, b, i, r: Gaussian(e, d, bounds=b, randomness=r),
    "MVG": lambda e, d, b, i, r: MatrixVariateGaussian(
        e, d, bounds=b, calibration="paper", shape=(1, i), randomness=r
    ),
    "IDN": lambda e, d, b, i, r: IndependentDirectional(
        e, d, bounds=b, calibration="paper", shape=(i,), randomness=r
    ),
}


@dataclass(frozen=True, kw_only=True)
class ClippedParameters(Protection):
    """The baseline ``name`` of ``WHOLE`` on parameters clipped to ±``clip``; ε and δ of one round."""

    of_updates = False

    name: str
    epsilon: float
    delta: float
    clip: float

    def mechanism(self, size: int, randomness: Randomness | None = None) -> Mechanism:
        """For ``size`` parameters."""
        return WHOLE[self.name](self.epsilon, self.delta, (-self.clip, self.clip), size, randomness)

    def guarantee(self, shapes: Sequence[tuple[int, ...]]) -> Guarantee:
        """That of the mechanism for one tensor of all parameters."""
        size = sum(math.prod(shape) for shape in shapes)
        return replace(self.mechanism(size).guarantee(size), unit=CLIENT)

    def released(
        self,
        vector: NDArray[np.float64],
        shapes: Sequence[tuple[int, ...]],
        randomness: Randomness | None,
    ) -> NDArray[np.float64]:
        """Clipped, then noised."""
        values = np.clip(vector, -self.clip, self.clip)
        return np.asarray(self.mechanism(values.size, randomness).perturb(values[None, :])[0])

    def claim(self) -> Claim | None:
        """What the mechanism's authors say of one round."""
        return self.mechanism(2).claim()

    def parameters(self) -> dict[str, Any]:
        """All of them."""
        return {"epsilon": self.epsilon, "delta": self.delta, "clip": self.clip}
