"""Additive noise as a control: the same kind of noise, no clipping, and therefore no promise.

**Guarantee.** Nothing: without a declared bound two records may be arbitrarily far apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.expected import ExpectedError
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.parameters import positive
from sfumato.mechanisms.records import check_finite, finite
from sfumato.noise import NORMAL, Randomness, Rounded, each_block, grid_step
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
        size = self.block_rows(X.shape[1])
        out = np.empty(X.shape, dtype=X.dtype)

        def work(block: int) -> None:
            rows = slice(block * size, min((block + 1) * size, X.shape[0]))
            values = finite(X[rows], first + rows.start)
            # What is released is not on a grid, so the content is every bit of it (and −0 is 0).
            streams = self._streams(first + rows.start, (values + 0.0).view(np.int64))
            noise = [rounded.draw(stream, values.size // len(streams))[0] for stream in streams]
            with np.errstate(over="ignore"):
                out[rows] = values + np.concatenate(noise).reshape(values.shape) * step
            check_finite(out[rows], first + rows.start)

        each_block(work, -(-X.shape[0] // size))
        return out
