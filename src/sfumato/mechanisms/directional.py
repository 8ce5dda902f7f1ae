"""Gaussian noise along public orthonormal directions, with a deviation of its own for each of them.

The baseline *IDN* of TLDP (Yang et al. 2021, Differential privacy for tensor-valued queries), and the base of
``matrix_variate``.

**Guarantee.** A tensor is clipped, turned to the coordinates of the public directions, and coordinate j is
divided by its public stretch s_j ≥ 1. There it is put on the grid toward zero, and its norm is checked in
integers: it is at most the radius r of the declared domain, whatever error the turning had. So neighbours are
at most Δ = 2r (replace) or r (zero-out) apart on the grid; independent, exactly rounded noise of deviation σ
is added to every coordinate; and the analytic Gaussian (Balle & Wang 2018, theorem 8) at μ = Δ/σ bounds the
loss, with no slack. Multiplying by s_j and turning back is post-processing. Unit: tensor.

In the tensor's own coordinates the noise has the covariance C = W·diag(σs_j)²·Wᵀ, and μ² is the maximum of
xᵀC⁻¹x over all differences x of norm at most Δ. So no direction may have less noise than the plain Gaussian
mechanism gives to all of them: at equal ε and δ, directional noise is never the smaller one.

For a box without directions or deviations, one component has Δ equal to its side; in every other case what
is proven of a component is what is proven of the tensor that it is part of.

**Edge cases.** With the axes as directions and equal deviations this is the Gaussian mechanism, bit for bit.
A box that is turned is enclosed in the ball around its centre. NaN and infinities are refused.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import AdditiveMechanism
from sfumato.mechanisms.domain import Box, Domain, declared_domain
from sfumato.mechanisms.expected_error import ExpectedError
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, known_neighbours, numeric, one_of, positive
from sfumato.mechanisms.public_frames import Frame, Turned, check_fits, described, orthonormal, stretches
from sfumato.mechanisms.tensors import TensorMechanism
from sfumato.noise import NORMAL, Randomness
from sfumato.noise.laws import Law
from sfumato.privacy import Claim, Guarantee, Neighbours, Unit
from sfumato.privacy.defaults import DELTA, RECORDS, REQUIRED

__all__ = ["DirectionalGaussian", "IndependentDirectional"]

Array = NDArray[np.float64]

CALIBRATIONS = ("analytic", "paper")


class DirectionalGaussian(TensorMechanism, AdditiveMechanism):
    """Base of mechanisms whose Gaussian noise has a public covariance, which subclasses declare."""

    unit = "tensor"
    epsilon: float
    delta: float
    clip: float | None
    bounds: Any
    calibration: str
    neighbours: str

    #: Names of the parameters that hold arrays; where all of them are None nothing is turned or stretched.
    _arrays: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _frame(self, columns: int) -> Frame:
        """The directions and stretches for tensors of ``columns`` components."""

    @abstractmethod
    def _paper_sigma(self, columns: int, sensitivity: float, radius: float) -> float:
        """The deviation that the method's authors ask for in the direction with the least noise."""

    def guarantee(self, columns: int | None = None) -> Guarantee:
        """What is proven for one tensor; that of the authors' calibration depends on the tensor's size."""
        size = self._size(columns, needed=not self._analytic())
        self._domain_for(columns)
        if columns is not None or self.shape is not None:
            self._frame(size)
        return self._proven("tensor", size)

    def sigma(self, columns: int) -> float:
        """The deviation of the noise in the direction that has the least of it."""
        inner = self._inner()
        sensitivity = inner.sensitivity("l2", columns, known_neighbours(self.neighbours))
        if self._analytic():
            return math.nextafter(sensitivity * self._multiplier(columns), math.inf)
        radius = inner.sensitivity("l2", columns, Neighbours.ZERO_OUT)
        return self._paper_sigma(columns, sensitivity, radius)

    def deviations_along(self, columns: int) -> Array:
        """The deviation of the noise along each direction, (columns,), in the order of components."""
        return self._frame(columns).stretch * self.sigma(columns)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of the noise, over all components."""
        error = math.sqrt(float(np.square(self.deviations_along(columns)).mean()))
        return (ExpectedError("each value", "root mean square error", error),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        columns = X.shape[1]
        self._size(columns, needed=True)
        frame, inner = self._frame(columns), self._inner()
        if frame.plain:
            bare = self._bare()  # one context for keyed noise, however the axes were spelled
            return np.asarray(super(DirectionalGaussian, bare).perturb(X, first))
        check_fits(X.dtype, inner.reach, self.sigma(columns) * float(np.linalg.norm(frame.stretch)))
        noised = super().perturb(X.astype(np.float64), first)
        out = np.empty(X.shape, dtype=X.dtype)

        def turn_back(rows: slice) -> None:
            out[rows] = frame.turned_back(noised[rows]) + inner.centre

        self._each_rows(X, turn_back)
        return out

    def parameters(self) -> dict[str, Any]:
        """Every parameter but the randomness as a JSON value; arrays by their shape and digest."""
        given = {name: getattr(self, name) for name in self._arrays}
        plain = super(DirectionalGaussian, self._bare()).parameters()
        return plain | {name: described(value) for name, value in given.items()}

    def _proven(self, unit: str, size: int) -> Guarantee:
        inner, multiplier, turned = self._inner(), self._multiplier(size), not self._undeclared()
        if unit == "component" and isinstance(inner, Box) and not turned:
            # The box is as wide as its diagonal for the tensor, and as its widest side for a component.
            diagonal = inner.sensitivity("l2", size, Neighbours.ZERO_OUT)
            multiplier = math.nextafter(multiplier * (diagonal / float(np.max(inner.half))), 0.0)
        return Guarantee.gaussian(
            multiplier,
            unit=Unit(unit),
            neighbours=known_neighbours(self.neighbours),
            theorem="analytic Gaussian" + " along public directions" * turned,
            at_delta=delta_between(self.delta),
        )

    def _multiplier(self, size: int) -> float:
        """The smallest deviation over the sensitivity."""
        epsilon, delta = positive("epsilon", self.epsilon), delta_between(self.delta)
        if self._analytic():
            return noise_multiplier(epsilon, delta)
        sensitivity = self._inner().sensitivity("l2", size, known_neighbours(self.neighbours))
        return math.nextafter(self.sigma(size) / sensitivity, 0.0)

    def _analytic(self) -> bool:
        return one_of("calibration", self.calibration, CALIBRATIONS) == "analytic"

    def _bare(self) -> DirectionalGaussian:
        made = self._with(**dict.fromkeys(self._arrays))
        assert isinstance(made, DirectionalGaussian)  # it is of this very class
        return made

    def _undeclared(self) -> bool:
        return all(getattr(self, name) is None for name in self._arrays)

    def _inner(self) -> Domain:
        return declared_domain("l2", self.clip, self.bounds)

    def _domain(self) -> Domain:
        return self._inner() if self._undeclared() else Turned(self._inner(), cache(self._frame))

    def _law(self) -> Law:
        return NORMAL

    def _scale(self, columns: int) -> float:
        return self.sigma(columns)


class IndependentDirectional(DirectionalGaussian):
    """IDN: noise along public directions of each mode of a tensor, each combination with its own deviation.

    ``directions`` is a list with an orthonormal matrix, or None for the axes, for each mode of the tensor;
    the columns are the directions. One matrix instead stands for all components at once. ``deviations`` are
    positive numbers that broadcast to the shape of the tensor; only their ratios matter. Both are public and
    must not be computed from the tensors. ``epsilon`` and ``delta`` are the promise for one tensor.

    ``calibration``:

    * ``"analytic"`` (default): noise that proves ε at δ;
    * ``"paper"``: σ = s₂/(√(ζ² + 2ε) − ζ) with ζ² = −2 ln δ + 2√(−I ln δ) + I, which TLDP prints for IDN with
      the identity as its subspace; here it is that of the direction with the least noise. It bounds the inner
      product of noise and difference by the product of their lengths, so the proven ε is far smaller.
    """

    _arrays = ("directions", "deviations")

    def __init__(
        self,
        epsilon: float = REQUIRED,
        delta: float = DELTA,
        clip: float | None = None,
        *,
        bounds: Any = None,
        directions: Any = None,
        deviations: Any = None,
        calibration: str = "analytic",
        neighbours: str = RECORDS.neighbours,
        shape: Sequence[int] | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.bounds = bounds
        self.directions = directions
        self.deviations = deviations
        self.calibration = calibration
        self.neighbours = neighbours
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the authors say of their calibration; of the analytic one, its own theorem."""
        authors = "Yang et al. 2021, as printed in TLDP, section 5.3"
        return Claim(
            text="(ε, δ)-DP for tensors, with noise along the directions of a utility subspace",
            source="Balle & Wang 2018, theorem 8" if self._analytic() else authors,
            epsilon=positive("epsilon", self.epsilon),
            delta=delta_between(self.delta),
            unit=Unit("tensor"),
            neighbours=known_neighbours(self.neighbours),
        )

    def _frame(self, columns: int) -> Frame:
        self._size(columns, needed=True)
        shape = (columns,) if self.shape is None else tuple(self.shape)
        deviations = np.ones(1) if self.deviations is None else stretches("deviations", self.deviations)
        try:
            stretch = np.broadcast_to(deviations, shape).reshape(-1)
        except ValueError:
            raise BadInput(
                f"`deviations` of shape {deviations.shape} do not broadcast to tensors of shape {shape}.",
                parameter="deviations",
            ) from None
        if self.directions is None:
            return Frame(shape, (None,) * len(shape), stretch / stretch.min())
        matrix = numeric(self.directions)
        given = [matrix] if matrix is not None and matrix.ndim == 2 else self.directions
        sides = (columns,) if given is not self.directions else shape
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(sides):
            raise BadInput(
                f"`directions` must hold one matrix, or None, for each of the {len(shape)} modes of "
                "tensors of "
                f"shape {shape}, or be one matrix of shape ({columns}, {columns}).",
                parameter="directions",
            )
        bases = tuple(orthonormal(f"mode {k + 1}", given[k], sides[k]) for k in range(len(sides)))
        return Frame(sides, bases, stretch / stretch.min())

    def _paper_sigma(self, columns: int, sensitivity: float, radius: float) -> float:
        epsilon, rare = positive("epsilon", self.epsilon), -math.log(delta_between(self.delta))
        zeta = math.sqrt(2.0 * rare + 2.0 * math.sqrt(columns * rare) + columns)
        # s₂/(√(ζ² + 2ε) − ζ), without the cancellation.
        return sensitivity * (zeta + math.sqrt(zeta * zeta + 2.0 * epsilon)) / (2.0 * epsilon)
