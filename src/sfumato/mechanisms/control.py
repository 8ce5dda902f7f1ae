"""Additive noise as a control: the same kind of noise, no clipping, and therefore no promise.

**Guarantee.** Nothing: without a declared bound two records may be arbitrarily far apart.

**Edge cases.** What noise carries beyond the largest number of the type is that number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.parameters import positive
from sfumato.mechanisms.records import finite, held
from sfumato.noise import NORMAL, Randomness, Rounded, Stream, grid_step
from sfumato.privacy import RECORD, Claim, Guarantee, Neighbours

__all__ = ["AdditiveNoise"]


class AdditiveNoise(Mechanism):
    """Adds Gaussian noise of standard deviation ``scale`` to every value; proves nothing."""

    def __init__(self, scale: float = 0.1, *, randomness: Randomness | None = None) -> None:
        self.scale = scale
        self.randomness = randomness

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Nothing."""
        positive("scale", self.scale)
        return Guarantee.nothing(
            "records are not clipped, so their distance has no bound",
            unit=RECORD,
            neighbours=Neighbours.REPLACE,
        )

    def claim(self) -> Claim | None:
        """TADP-RME uses it as a control and claims nothing for it."""
        return None

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The deviation of the noise."""
        return (ExpectedError("each value", "root mean square error", positive("scale", self.scale)),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        scale = positive("scale", self.scale)
        step = grid_step(scale, scale)
        rounded = Rounded(NORMAL, [scale / step])
        out = np.empty(X.shape, dtype=X.dtype)

        def write(stream: Stream, rows: slice, values: NDArray[np.float64]) -> None:
            noise = rounded.draw(stream, values.size)[0].reshape(values.shape)
            with np.errstate(over="ignore"):
                noised = values + noise * step
            out[rows] = held(noised, X.dtype)

        self._each_stream(X, first, finite, write, every_bit=True)
        return out
