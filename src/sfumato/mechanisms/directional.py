"""Gaussian noise along public orthonormal directions, with a deviation of its own for each of them.

The baselines *IDN* (Yang et al. 2021, Differential privacy for tensor-valued queries) and *MVG* (Chanyaswad,
Dytso, Poor & Mittal 2018) of TLDP.

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

**MVG.** Noise Z ~ MVG(0, Σ, Ψ) on an m × n matrix, the covariance of two entries being Σ_ii′·Ψ_jj′. Each
covariance has public directions W and a split θ of its precision budget: Σ = W·diag(cθᵢ^{−1/2})·Wᵀ, so that a
direction with more of the budget has less noise. The deviation along the direction (i, j) is proportional to
(θᵢφ_j)^{−1/4}, and the guarantee is that above.

The authors' own theorem asks instead for ‖σ(Σ⁻¹)‖₂·‖σ(Ψ⁻¹)‖₂ ≤ B, B = (−β + √(β² + 8αε))²/(4α²), with
α = (H_r + H_{r,1/2})γ² + 2H_r·γ·s₂, β = 2(mn)^{1/4}·H_r·s₂·ζ, ζ = 2√(−mn ln δ) − 2 ln δ + mn, r = min(m, n),
H the generalised harmonic numbers, γ the largest norm of a matrix and s₂ its sensitivity; σ(·) is the vector
of singular values. It holds, and is far from tight: ``calibration="paper"`` adds that noise, claims (ε, δ),
and proves the much smaller ε that it has.

**Edge cases.** With the axes as directions and equal deviations this is the Gaussian mechanism, bit for bit.
A box that is turned is enclosed in the ball around its centre. Records that are rows count as matrices of one
row. NaN and infinities are refused. Directions and stretches are declared: nothing about them is secret.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.additive import (
    Box,
    Domain,
    GaussianMechanism,
    Norm,
    check_noise_fits,
    noise_multiplier,
)
from sfumato.mechanisms.base import ExpectedError
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Delta,
    Epsilon,
    NeighboursName,
    RandomSource,
    delta_between,
    known_neighbours,
    numeric,
    one_of,
    positive,
)
from sfumato.mechanisms.registry import Parameter, shown
from sfumato.mechanisms.tensors import TensorMechanism, TensorShape
from sfumato.noise import onto_grid
from sfumato.privacy import DELTA, RECORDS, REQUIRED, Claim, Guarantee, Neighbours, Unit

__all__ = ["IndependentDirectional", "MatrixVariateGaussian"]

Array = NDArray[np.float64]

# How far an entry of WᵀW may be from the identity's: turning back rests on it, the guarantee does not.
_ORTHONORMAL = 1e-9
# Noise that differs by more than this from direction to direction leaves nothing of some of them.
_WIDEST = 1e8


@dataclass(frozen=True)
class Frame:
    """Public directions of each mode of tensors of ``shape`` (None for the axes), and a stretch for each.

    ``stretch`` is (components,), 1 in the direction that has the least noise.
    """

    shape: tuple[int, ...]
    bases: tuple[Array | None, ...]
    stretch: Array

    @property
    def plain(self) -> bool:
        """Whether nothing is turned or stretched."""
        return all(basis is None for basis in self.bases) and bool((self.stretch == 1.0).all())

    def turned(self, rows: Array) -> Array:
        """Tensors, as rows, in coordinates along the directions, divided by their stretch."""
        return np.asarray(_along(rows, self.shape, self.bases) / self.stretch)

    def turned_back(self, rows: Array) -> Array:
        """What :meth:`turned` gave, as tensors again."""
        across = [None if basis is None else basis.T for basis in self.bases]
        return _along(rows * self.stretch, self.shape, across)


class Turned:
    """The declared domain in turned coordinates: inside the ball of its radius around its centre."""

    centre = 0.0

    def __init__(self, inner: Domain, frame: Callable[[int], Frame]) -> None:
        self._inner, self._frame = inner, frame
        self.reach = inner.reach

    def sensitivity(self, norm: Norm, columns: int, neighbours: Neighbours) -> float:
        """That of the declared domain; turning changes no distance and stretches are at least 1."""
        return self._inner.sensitivity(norm, columns, neighbours)

    def typical(self, columns: int) -> float:
        """radius/√d."""
        return self._radius(columns) / math.sqrt(columns)

    def cells(self, values: Array, step: float) -> Array:
        """Clipped into the declared domain, turned, and rounded toward zero."""
        columns = values.shape[1]
        radius = self._radius(columns)
        if isinstance(self._inner, Box):
            inside = np.clip(values, self._inner.low, self._inner.high) - self._inner.centre
        else:
            inside = _scaled_back(values, radius)
        return onto_grid(self._frame(columns).turned(inside), radius, "l2", step)

    def _radius(self, columns: int) -> float:
        return self._inner.sensitivity("l2", columns, Neighbours.ZERO_OUT)


def _along(rows: Array, shape: Sequence[int], bases: Sequence[Array | None]) -> Array:
    """Every mode of tensors, given as rows, multiplied by the transpose of its basis."""
    values, after = rows, math.prod(shape)
    for side, basis in zip(shape, bases, strict=True):
        after //= side
        if basis is not None:
            # The last mode is one product of matrices for all tensors; the others are many small ones.
            last = after == 1
            values = values.reshape(-1, side) @ basis if last else basis.T @ values.reshape(-1, side, after)
    return values.reshape(rows.shape)


def orthonormal(where: str, matrix: Any, side: int) -> Array | None:
    """``matrix`` once its columns are known to be orthonormal; None where they are the axes."""
    if matrix is None:
        return None
    basis = numeric(matrix)
    if basis is None or basis.shape != (side, side):
        found = shown(matrix) if basis is None else f"one of shape {basis.shape}"
        raise BadInput(f"the directions of {where} must be a matrix of shape ({side}, {side}), not {found}.")
    away = float(np.abs(basis.T @ basis - np.eye(side)).max())
    if not away <= _ORTHONORMAL:
        raise BadInput(
            f"the directions of {where} must be orthonormal columns, but WᵀW is {away:.2g} away from the "
            "identity."
        )
    return None if np.array_equal(basis, np.eye(side)) else basis


def stretches(name: str, value: Any) -> Array:
    """``value`` as an array, if it holds positive numbers that are not too far apart."""
    array = numeric(value)
    if array is None or not array.size or not 0.0 < array.max() <= _WIDEST * array.min() < math.inf:
        raise BadInput(
            f"`{name}` must be positive numbers, the largest at most {_WIDEST:g} times the smallest, not "
            f"{shown(value)}.",
            parameter=name,
        )
    return array


def described(value: Any) -> Any:
    """A public array by its shape and digest; a list of them as a list."""
    array = numeric(value)
    if array is None:
        return [described(item) for item in value] if isinstance(value, Sequence) else value
    digest = hashlib.sha256(np.ascontiguousarray(array, dtype="<f8").tobytes()).hexdigest()
    return {"shape": list(array.shape), "sha256": digest}


def _scaled_back(values: Array, radius: float) -> Array:
    """Rows longer than ``radius`` scaled to it; to zero where their length is beyond double precision."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    safe = np.where(largest > 0.0, largest, 1.0)
    with np.errstate(over="ignore"):
        size = safe * np.linalg.norm(values / safe, axis=1, keepdims=True)
    return np.asarray(values * (radius / np.maximum(size, radius)))


CALIBRATIONS = ("analytic", "paper")
Calibration = Annotated[
    str, Parameter("How much noise is added: what proves ε, or what the paper prints.", choices=CALIBRATIONS)
]


@dataclass(eq=False, repr=False)
class DirectionalGaussian(TensorMechanism, GaussianMechanism):
    """Base of mechanisms whose Gaussian noise has a public covariance, which subclasses declare."""

    units = ("tensor",)
    unit = "tensor"
    #: Names of the parameters that hold arrays; where all of them are None nothing is turned or stretched.
    _arrays: ClassVar[tuple[str, ...]]

    epsilon: Epsilon = REQUIRED
    delta: Delta = DELTA
    clip: Clip = None
    _: KW_ONLY
    bounds: Bounds = None
    calibration: Calibration = "analytic"
    neighbours: NeighboursName = RECORDS.neighbours
    shape: TensorShape = None
    randomness: RandomSource = None

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
        if self._analytic():
            return self._calibrated(inner, columns, self._multiplier(columns))
        sensitivity = inner.sensitivity("l2", columns, known_neighbours(self.neighbours))
        return self._paper_sigma(columns, sensitivity, inner.sensitivity("l2", columns, Neighbours.ZERO_OUT))

    def deviations_along(self, columns: int) -> Array:
        """The deviation of the noise along each direction, (columns,), in the order of components."""
        return self._frame(columns).stretch * self.sigma(columns)

    def expected_error(self, columns: int) -> tuple[ExpectedError, ...]:
        """The root mean square of the noise, over all components."""
        squares = np.square(self.deviations_along(columns))
        return (ExpectedError.each_value(math.sqrt(float(squares.mean()))),)

    def perturb(self, X: NDArray[Any], first: int = 0) -> NDArray[Any]:
        """The released rows for ``X``; see :meth:`Mechanism.perturb`."""
        columns = X.shape[1]
        self._size(columns, needed=True)
        frame, inner = self._frame(columns), self._inner()
        if frame.plain:
            bare = self._bare()  # one context for keyed noise, however the axes were spelled
            return np.asarray(super(DirectionalGaussian, bare).perturb(X, first))
        check_noise_fits(inner.reach, self.sigma(columns) * float(np.linalg.norm(frame.stretch)), X.dtype)
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
        return self._gaussian(
            multiplier, Unit(unit), "analytic Gaussian" + " along public directions" * turned
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
        return super()._domain()

    def _domain(self) -> Domain:
        return self._inner() if self._undeclared() else Turned(self._inner(), cache(self._frame))


@dataclass(eq=False, repr=False)
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

    **Guarantee.** (ε, δ) for a tensor under replace or zero-out: analytic Gaussian in public directions.
    """

    kinds = ()
    _arrays = ("directions", "deviations")

    _: KW_ONLY
    directions: Annotated[
        Any, Parameter("Public orthonormal directions of each mode; the axes unless given.")
    ] = None
    deviations: Annotated[
        Any, Parameter("Deviation of the noise along each combination of directions; only ratios matter.")
    ] = None

    def claim(self) -> Claim | None:
        """Return what the authors say of their calibration; of the analytic one, its own theorem."""
        authors = "Yang et al. 2021, as printed in TLDP, section 5.3"
        return self._claimed(
            "(ε, δ)-DP for tensors, with noise along the directions of a utility subspace",
            "Balle & Wang 2018, theorem 8" if self._analytic() else authors,
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


@dataclass(eq=False, repr=False)
class MatrixVariateGaussian(DirectionalGaussian):
    """MVG: Gaussian noise on matrices, with public directions of rows and columns and a precision budget.

    ``row_directions`` is (m, m) and ``column_directions`` (n, n), both orthonormal with the directions as
    columns, or None for the axes. ``row_precision`` (m,) and ``column_precision`` (n,) are positive shares of
    the precision budget, or None for equal ones; only their ratios matter. All are public and must not be
    computed from the matrices. ``epsilon`` and ``delta`` are the promise for one matrix.

    ``calibration``: ``"analytic"`` (default) proves ε at δ; ``"paper"`` adds the noise of the authors'
    theorem.

    **Guarantee.** (ε, δ) for a tensor under replace or zero-out: analytic Gaussian in public directions.
    """

    kinds = ()
    _arrays = ("row_directions", "row_precision", "column_directions", "column_precision")

    _: KW_ONLY
    row_directions: Annotated[
        Any, Parameter("Public orthonormal directions of the rows; the axes unless given.")
    ] = None
    row_precision: Annotated[Any, Parameter("Shares of the precision budget of the rows' directions.")] = None
    column_directions: Annotated[
        Any, Parameter("Public orthonormal directions of the columns; the axes unless given.")
    ] = None
    column_precision: Annotated[
        Any, Parameter("Shares of the precision budget of the columns' directions.")
    ] = None

    def claim(self) -> Claim | None:
        """Return what the authors say of their calibration; of the analytic one, its own theorem."""
        authors = "Chanyaswad, Dytso, Poor & Mittal 2018, the sufficient condition of the MVG mechanism"
        return self._claimed(
            "(ε, δ)-DP for matrices, with noise from a matrix-variate Gaussian distribution",
            "Balle & Wang 2018, theorem 8" if self._analytic() else authors,
        )

    def _sides(self, columns: int) -> tuple[int, int]:
        self._size(columns, needed=True)
        shape = (1, columns) if self.shape is None or len(self.shape) == 1 else tuple(self.shape)
        if len(shape) != 2:
            raise BadInput(f"matrix-variate noise is for matrices, not for tensors of shape {shape}.")
        return shape[0], shape[1]

    def _spreads(self, columns: int) -> tuple[Array, Array]:
        """The variances along the directions of rows and of columns, relative to the smallest."""
        made = []
        for name, shares, side in zip(
            ("row_precision", "column_precision"),
            (self.row_precision, self.column_precision),
            self._sides(columns),
            strict=True,
        ):
            precision = np.ones(side) if shares is None else stretches(name, shares)
            if precision.shape != (side,):
                raise BadInput(
                    f"`{name}` must hold {side} numbers, not an array of shape {precision.shape}.",
                    parameter=name,
                )
            made.append(np.sqrt(precision.max() / precision))
        return made[0], made[1]

    def _frame(self, columns: int) -> Frame:
        m, n = self._sides(columns)
        rows, across = self._spreads(columns)
        bases = orthonormal("rows", self.row_directions, m), orthonormal("columns", self.column_directions, n)
        return Frame((m, n), bases, np.sqrt(np.outer(rows, across)).reshape(-1))

    def _paper_sigma(self, columns: int, sensitivity: float, radius: float) -> float:
        rows, across = self._spreads(columns)
        budget = self._budget(columns, sensitivity, radius)
        # The precisions 1/(σ²aᵢb_j) have norms that multiply to the budget.
        return math.sqrt(float(np.linalg.norm(1.0 / rows) * np.linalg.norm(1.0 / across)) / budget)

    def _budget(self, columns: int, sensitivity: float, radius: float) -> float:
        """B of the authors' theorem."""
        epsilon, rare = positive("epsilon", self.epsilon), -math.log(delta_between(self.delta))
        ranks = np.arange(1.0, min(self._sides(columns)) + 1.0)
        harmonic, half = float((1.0 / ranks).sum()), float((1.0 / np.sqrt(ranks)).sum())
        zeta = 2.0 * math.sqrt(columns * rare) + 2.0 * rare + columns
        alpha = (harmonic + half) * radius**2 + 2.0 * harmonic * radius * sensitivity
        beta = 2.0 * math.sqrt(math.sqrt(columns)) * harmonic * sensitivity * zeta
        # (−β + √(β² + 8αε))/2α, without the cancellation.
        root = 4.0 * epsilon / (beta + math.sqrt(beta * beta + 8.0 * alpha * epsilon))
        return root * root
