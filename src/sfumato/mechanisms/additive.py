"""Mechanisms that clip each record into a declared domain and add noise on a public grid.

**Guarantee.** Records are clipped and put on the grid by a deterministic map into the domain, so two
neighbouring records are at most ``sensitivity`` apart there. The released integer is the rounding of
(grid value + real noise), because rounding commutes with adding an integer; it is post-processing of
the real mechanism, whose guarantee therefore holds for it exactly, with no slack.

**Edge cases.** A record of zeros stays zero; one outside the domain is scaled back (ball; to zero where its
norm is beyond double precision) or clipped (box). NaN and infinities are refused. Rows are independent: the
guarantee does not depend on n.

Additive noise as a control: the same kind of noise, no clipping, and therefore no promise.

**Guarantee.** Nothing: without a declared bound two records may be arbitrarily far apart.

**Edge cases.** What noise carries beyond the largest number of the type is that number.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.base import ExpectedError, Mechanism, finite, held
from sfumato.mechanisms.domain import Domain
from sfumato.mechanisms.parameters import Parameter, RandomSource, positive
from sfumato.noise import NORMAL, Law, Rounded, Stream, grid_step
from sfumato.privacy import RECORD, Claim, Guarantee, Neighbours

__all__ = ["AdditiveNoise"]

Array = NDArray[np.float64]


class AdditiveNoise(Mechanism):
    """Adds Gaussian noise of standard deviation ``scale`` to every value; proves nothing.

    **Guarantee.** Nothing: records are not clipped.
    """

    kinds = ("array",)
    units = ()

    def __init__(
        self,
        scale: Annotated[float, Parameter("Standard deviation of the noise.", symbol="σ")] = 0.1,
        *,
        randomness: RandomSource = None,
    ) -> None:
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


# In noise scales: how far a draw may lie from zero; beyond it are fewer than one Laplace draw in 10⁵⁵.
_FARTHEST = 128.0


class AdditiveMechanism(Mechanism):
    """A mechanism that is a domain, a law and a scale."""

    @abstractmethod
    def _domain(self) -> Domain:
        """Where records are clipped into."""

    @abstractmethod
    def _law(self) -> Law:
        """The law of the noise."""

    @abstractmethod
    def _scale(self, columns: int) -> float:
        """The scale of the noise, in the data's own unit, for records of ``columns`` columns."""

    def _domain_for(self, columns: int | None) -> Domain:
        """The domain, once known to fit records of ``columns`` columns, where their number is known."""
        domain = self._domain()
        if columns is not None:
            domain.typical(columns)
        return domain

    def _relative(self, first: int, rows: int) -> Array | None:
        """Factors in (0, 1] on the scale, one a row; None where all rows share the scale."""
        return None

    def _finish(self, stream: Stream, noised: Array, block: NDArray[Any]) -> Array:
        """What is released for the rows ``block`` once they are ``noised``; may draw from ``stream``."""
        return noised

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The deviation of the noise; that of the noisiest record where records differ."""
        deviation = self._scale(columns) * self._law().deviation
        return (ExpectedError("each value", "root mean square error", deviation),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        return self._perturb_tiers(X, first, [self._scale(X.shape[1])])[0]

    def _perturb_tiers(self, X: NDArray[Any], first: int, rungs: Sequence[float]) -> list[NDArray[Any]]:
        """One array of the shape of X for each tier; tier i sums the noises of rungs 0…i, then rounds."""
        columns = X.shape[1]
        domain = self._domain()
        step = grid_step(rungs[0], domain.typical(columns))
        if domain.reach + _FARTHEST * sum(rungs) > float(np.finfo(X.dtype).max):
            raise BadInput(
                f"noise of scale {sum(rungs):g} on values up to {domain.reach:g} does not fit in {X.dtype}; "
                "give the records as float64."
            )
        rounded = Rounded(self._law(), [scale / step for scale in rungs])
        factors = self._relative(first, len(X))
        out = [np.empty(X.shape, dtype=X.dtype) for _ in rungs]

        plain = type(self)._finish is AdditiveMechanism._finish and not np.any(domain.centre)

        def write(stream: Stream, rows: slice, cells: Array) -> None:
            each = None if factors is None else np.repeat(factors[rows], columns)
            if plain:
                noised = [tier[rows].reshape(-1) for tier in out]
            else:
                noised = list(np.empty((len(out), cells.size)))
            rounded.add(stream, cells.reshape(-1), step, noised, relative=each)
            if not plain:
                for tier, values in zip(out, noised, strict=True):
                    shaped = values.reshape(cells.shape) + domain.centre
                    tier[rows] = self._finish(stream, shaped, X[rows])

        self._each_stream(X, first, lambda block, at: domain.cells(finite(block, at), step), write)
        return out
