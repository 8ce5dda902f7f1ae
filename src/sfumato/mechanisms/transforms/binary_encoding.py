"""Binary encoding with bit flips, a baseline of TADP-RME, and the ε that it really has.

**Guarantee.** Flipping a bit with probability f is randomised response with ε_bit = ln((1−f)/f). A
record of d columns in b bits each is d·b such bits, all of which may differ between two records, so
the record has pure ε = d·b·ln((1−f)/f). Unit: record, neighbours: replace.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import Box, declared_box
from sfumato.mechanisms.base import ExpectedError, Mechanism, finite
from sfumato.mechanisms.parameters import BOUNDS, RandomSource, positive, whole
from sfumato.mechanisms.randomised_response import keep_threshold
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.noise import coins, each_block
from sfumato.privacy import Guarantee

__all__ = ["BinaryEncoding"]


@dataclass(eq=False, repr=False)
class BinaryEncoding(Mechanism):
    """Each value as ``bits`` bits, each flipped with probability ``flip``; (n, d) to (n, d·bits).

    Values are clipped to ``bounds`` and cut into 2^bits equal levels, written with the highest bit first.
    Give ``epsilon`` for the whole record instead of ``flip`` to have the flips calibrated. With ``flip``
    the guarantee depends on the number of columns: ``guarantee(columns=d)``.

    **Guarantee.** d·b·ln((1−f)/f) under replace: randomised response on every bit.
    """

    kinds = ("array",)
    units = ("record",)

    bits: Annotated[int, Parameter("Bits for each value.", symbol="B")] = 8
    flip: Annotated[
        float | None,
        Parameter("Probability that a bit is flipped, instead of ε.", symbol="P", instead_of="epsilon"),
    ] = 0.1
    _: KW_ONLY
    epsilon: Annotated[float | None, Parameter("Privacy budget of one unit.", symbol="ε")] = None
    bounds: Annotated[Any, replace(BOUNDS, bound="")] = (0.0, 1.0)
    randomness: RandomSource = None

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """Pure ε for one record of ``columns`` columns."""
        self._box(columns)
        epsilon = self._record_epsilon(columns)
        return Guarantee.pure(epsilon, theorem="randomised response on every bit")

    def block_rows(self, columns: int) -> int:
        """How many rows are worked on at once: as many as give a block of bits."""
        return super().block_rows(columns * self._bits())

    def released_columns(self, columns: int) -> int:
        """A column for each bit."""
        return columns * self._bits()

    def working_bytes(self, columns: int, rows: int = 1) -> int:
        """As for every mechanism, with several words of 64 bits for each bit."""
        return (self._value_bytes + 32 * self._bits()) * columns * rows

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The share of bits that are flipped."""
        flipped = 1.0 - self._keep(columns) / 2.0**64
        return (ExpectedError("each bit", "share of wrong answers", flipped),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released bits for ``X``; see :meth:`Mechanism.perturb`."""
        rows, columns = X.shape
        box, bits = self._box(columns), self._bits()
        keep = self._keep(columns)
        size = self.block_rows(columns)
        out = np.empty((rows, columns * bits), dtype=X.dtype)

        def work(block: int) -> None:
            own = slice(block * size, min((block + 1) * size, rows))
            values = finite(X[own], first + own.start)
            with np.errstate(over="ignore"):  # what overflows is clipped
                levels = np.floor((values - box.low) / (box.high - box.low) * 2.0**bits)
            codes = np.clip(levels, 0, 2**bits - 1).astype(np.int64)
            plain = (codes[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
            flat = plain.reshape(codes.shape[0], -1).astype(bool)
            stream = self._stream(first + own.start, codes.astype(np.float64))
            out[own] = flat == coins(stream, keep, flat.size).reshape(flat.shape)

        each_block(work, -(-rows // size))
        return out

    def _record_epsilon(self, columns: int | None) -> float:
        if (self.flip is None) == (self.epsilon is None):
            raise BadInput(
                "declare exactly one of `flip` (a probability) and `epsilon` (for the whole record).",
                parameter="flip",
            )
        if self.epsilon is not None:
            return positive("epsilon", self.epsilon)
        if columns is None:
            raise BadInput(
                "what the flips promise depends on the number of columns: guarantee(columns=…).",
                parameter="columns",
            )
        flip = positive("flip", self.flip)
        if flip >= 0.5:
            raise BadInput(
                f"`flip` must lie below 0.5, where no information is left, not {shown(self.flip)}.",
                parameter="flip",
            )
        return columns * self._bits() * math.log((1.0 - flip) / flip) * (1.0 + 2.0**-40)

    def _keep(self, columns: int) -> int:
        """The coin that keeps a bit, in 2⁻⁶⁴."""
        epsilon = self._record_epsilon(columns)
        if self.flip is None:
            return keep_threshold(math.nextafter(epsilon / (columns * self._bits()), 0.0), 2)
        # In whole numbers, since 1 − flip as a float would lose the digits of a small flip.
        return (1 << 64) - math.ceil(Fraction(float(self.flip)) * (1 << 64))

    def _bits(self) -> int:
        return whole("bits", self.bits, 32)

    def _box(self, columns: int | None) -> Box:
        box = declared_box(self.bounds)
        if columns is not None:
            box.typical(columns)  # refuses bounds declared for another number of columns
        return box
