"""From clipped floating-point vectors to integers whose sum neither wraps around nor loses a bit, and back.

Values are clipped to [−``clip``, ``clip``], divided by ``step`` and rounded toward zero: integers of size at
most ⌊clip / step⌋. A value that stands on the grid already, such as grid-exact noise on a grid at least as
coarse, stays what it is. The sum of n clients is at most n·⌊clip / step⌋ in size, which must be at most
2^(bits−1) − 1, so that it does not wrap around, and at most 2⁵³, so that float64 holds it; times a power of
two it is then exact. Rounding and clipping what a mechanism released is post-processing: it costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import BadInput
from sfumato.learners.federated.secure.secure_terms import SecureSum

__all__ = ["Quantiser"]


@dataclass(frozen=True, kw_only=True)
class Quantiser:
    """The public grid of a secure sum; ``step`` is a power of two. The same for all clients."""

    clip: float = 1024.0
    step: float = 2.0**-30

    def __post_init__(self) -> None:
        for name in ("clip", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
                raise BadInput(f"`{name}` was {value!r}: it must be a positive number.", parameter=name)
        if not 1e-300 < self.step < 1e300 or math.frexp(self.step)[0] != 0.5:
            raise BadInput(
                f"`step` was {self.step!r}: it must be a power of two, such as 2⁻³⁰.", parameter="step"
            )
        if not 1.0 <= self.clip / self.step <= 2.0**53:
            raise BadInput(
                f"a clip of {self.clip:g} and a step of {self.step:g}: the clip must be 1 to 2⁵³ steps wide."
            )

    @property
    def largest(self) -> int:
        """The largest size of an integer that a value becomes."""
        return math.floor(self.clip / self.step)

    def check(self, terms: SecureSum) -> None:
        """Refuse ``terms`` under which a sum of these integers could wrap around or lose bits."""
        if self.largest > terms.limit or self.largest * terms.clients > 2**53:
            raise BadInput(
                f"{terms.clients} clients with values up to {self.clip:g} in steps of {self.step:g} do not "
                f"fit into sums of {min(terms.bits, 54)} bits; declare a smaller clip or a larger step."
            )

    def integers(self, values: ArrayLike) -> NDArray[np.int64]:
        """One integer a value, in a new array of the same shape."""
        given = np.asarray(values, dtype=np.float64)
        if not np.isfinite(given).all():
            raise BadInput("a vector to be summed holds NaN or infinities: finite numbers are summed.")
        cells = np.clip(given, -self.clip, self.clip)
        cells /= self.step
        return np.trunc(cells, out=cells).astype(np.int64)

    def values(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """What ``integers`` stand for; exact for sums that ``check`` admits."""
        return integers.astype(np.float64) * self.step
