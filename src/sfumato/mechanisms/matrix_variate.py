"""Matrix-variate Gaussian noise: correlated between rows and between columns, along public directions.

*MVG* (Chanyaswad, Dytso, Poor & Mittal 2018): noise Z ~ MVG(0, Σ, Ψ) on an m × n matrix, the covariance of
two entries being Σ_ii′·Ψ_jj′. Each covariance has public directions W and a split θ of its precision budget:
Σ = W·diag(cθᵢ^{−1/2})·Wᵀ, so that a direction with more of the budget has less noise.

**Guarantee.** That of ``directional``, with the deviation σ·s_ij along the direction (i, j) proportional to
(θᵢφ_j)^{−1/4}: unit tensor, by the analytic Gaussian at μ = Δ/σ, where Δ is the largest Frobenius distance of
neighbours and σ the smallest deviation. That is the exact loss of the worst pair: Gaussian noise of
covariance C on a difference x has μ² = xᵀC⁻¹x, which is largest along the direction with the least noise.

The authors' own theorem asks instead for ‖σ(Σ⁻¹)‖₂·‖σ(Ψ⁻¹)‖₂ ≤ B, B = (−β + √(β² + 8αε))²/(4α²), with
α = (H_r + H_{r,1/2})γ² + 2H_r·γ·s₂, β = 2(mn)^{1/4}·H_r·s₂·ζ, ζ = 2√(−mn ln δ) − 2 ln δ + mn, r = min(m, n),
H the generalised harmonic numbers, γ the largest norm of a matrix and s₂ its sensitivity; σ(·) is the vector
of singular values. It holds, and is far from tight: ``calibration="paper"`` adds that noise, claims (ε, δ),
and proves the much smaller ε that it has.

**Edge cases.** Records that are rows count as matrices of one row. Without directions and with equal shares
the analytic calibration is the Gaussian mechanism, bit for bit.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.directional import Calibration, DirectionalGaussian, Frame, orthonormal, stretches
from sfumato.mechanisms.parameters import (
    Bounds,
    Clip,
    Delta,
    Epsilon,
    NeighboursName,
    Parameter,
    RandomSource,
    delta_between,
    known_neighbours,
    positive,
)
from sfumato.mechanisms.tensors import TensorShape
from sfumato.privacy import DELTA, RECORDS, REQUIRED, Claim, Unit

__all__ = ["MatrixVariateGaussian"]

Array = NDArray[np.float64]


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
    units = ("tensor",)

    _arrays = ("row_directions", "row_precision", "column_directions", "column_precision")

    def __init__(
        self,
        epsilon: Epsilon = REQUIRED,
        delta: Delta = DELTA,
        clip: Clip = None,
        *,
        bounds: Bounds = None,
        row_directions: Annotated[
            Any, Parameter("Public orthonormal directions of the rows; the axes unless given.")
        ] = None,
        row_precision: Annotated[
            Any, Parameter("Shares of the precision budget of the rows' directions.")
        ] = None,
        column_directions: Annotated[
            Any, Parameter("Public orthonormal directions of the columns; the axes unless given.")
        ] = None,
        column_precision: Annotated[
            Any, Parameter("Shares of the precision budget of the columns' directions.")
        ] = None,
        calibration: Calibration = "analytic",
        neighbours: NeighboursName = RECORDS.neighbours,
        shape: TensorShape = None,
        randomness: RandomSource = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.bounds = bounds
        self.row_directions = row_directions
        self.row_precision = row_precision
        self.column_directions = column_directions
        self.column_precision = column_precision
        self.calibration = calibration
        self.neighbours = neighbours
        self.shape = shape
        self.randomness = randomness

    def claim(self) -> Claim | None:
        """What the authors say of their calibration; of the analytic one, its own theorem."""
        authors = "Chanyaswad, Dytso, Poor & Mittal 2018, the sufficient condition of the MVG mechanism"
        return Claim(
            text="(ε, δ)-DP for matrices, with noise from a matrix-variate Gaussian distribution",
            source="Balle & Wang 2018, theorem 8" if self._analytic() else authors,
            epsilon=positive("epsilon", self.epsilon),
            delta=delta_between(self.delta),
            unit=Unit("tensor"),
            neighbours=known_neighbours(self.neighbours),
        )

    def covariances(self, columns: int) -> tuple[Array, Array]:
        """Σ (m, m) and Ψ (n, n) of the noise on matrices of ``columns`` entries."""
        made = []
        for side, basis, spread in zip(
            self._sides(columns), self._frame(columns).bases, self._spreads(columns), strict=True
        ):
            turned = np.eye(side) if basis is None else basis
            made.append((turned * spread) @ turned.T)
        return made[0] * self.sigma(columns) ** 2, made[1]

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
