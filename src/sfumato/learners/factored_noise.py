"""Correlated noise of any lower-triangular factor: a given matrix, or noise that remembers itself.

Gradient sums G, a row a step, are released as G + C⁻¹Z, with Z independent Gaussian noise; what is proven is
that of CG + Z (:mod:`sfumato.learners.correlated_noise`), and any invertible lower-triangular C will do.

- :class:`Factor` is a matrix C that is given.
- :class:`Momentum` is n_t = βn_{t−1} + √(1 − β²)w_t, started from n_0 = w_0, so that all n_t have one
  variance: the "momentum-based noise accumulation" of the paper on adaptive multimedia privacy, section
  3.2.2. Solved for w it is C with C_00 = 1, C_tt = 1/√(1 − β²) and C_{t,t−1} = −β/√(1 − β²).

**Guarantee.** Unit: record, zero-out neighbours; records dealt into ``period`` batches that are used in turn,
without amplification. It is the theorem of :mod:`sfumato.learners.correlated_noise` with another Δ. A record
of batch j takes part in the steps S_j = {j, j + period, …}, and moves CG by at most

    Δ = max_j √Σ_{s,t∈S_j} |(CᵀC)_st|

clips (:mod:`sfumato.learners.participation`), whatever the signs in C are: nothing in the theorem needs C ≥ 0
but the place where the maximum lies, and here all j are tried. C is rounded to multiples of 2⁻¹⁰ first, and
the C that is used is the rounded one: products of its columns are exact, and Δ is rounded upward. Noise with
momentum is not free: for one participation Δ = √((1 + β²)/(1 − β²)), for one in every step it is near
√((1 + β)/(1 − β))·√steps, which is 4.4 times that of independent noise at β = 0.9.

**Edge cases.** At most 2048 steps, entries of C up to 256, and an inverse that is finite; others are refused.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from sfumato.errors import BadInput
from sfumato.learners.correlated_noise import UNIT, StepsInTurn
from sfumato.learners.participation import MOST_STEPS, pattern_sensitivity
from sfumato.mechanisms.parameters import numeric, share, shown

__all__ = ["Factor", "FactoredSteps", "Momentum"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """A lower-triangular ``matrix`` (steps, steps) without zeros on its diagonal, given by its rows."""

    matrix: Any

    def __post_init__(self) -> None:
        matrix = numeric(self.matrix)
        if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise BadInput(
                f"the factor has the shape {np.shape(self.matrix)}: a square matrix of numbers is needed."
            )
        if not np.isfinite(matrix).all() or np.triu(matrix, 1).any() or not np.diag(matrix).all():
            raise BadInput("the factor must be lower triangular and finite, with no zero on its diagonal.")
        object.__setattr__(self, "matrix", matrix.astype(np.float64))

    def rows(self, steps: int) -> Array:
        """C for as many ``steps`` as there are rows."""
        if len(self.matrix) != steps:
            raise BadInput(f"the factor has {len(self.matrix)} rows: one a step, of {steps}, is needed.")
        return np.asarray(self.matrix)

    def described(self) -> object:
        """For the statement."""
        digest = hashlib.sha256(self.matrix.astype("<f8").tobytes()).hexdigest()
        return {"rows": len(self.matrix), "sha256": digest}


@dataclass(frozen=True)
class Momentum:
    """Noise n_t = ``beta``·n_{t−1} + √(1 − ``beta``²)·w_t, 0 ≤ ``beta`` ≤ 0.99."""

    beta: float

    def __post_init__(self) -> None:
        if share("beta", self.beta) > 0.99:
            raise BadInput(f"`beta` was {shown(self.beta)}: it must be 0.99 at most.", parameter="beta")

    def rows(self, steps: int) -> Array:
        """C for ``steps`` steps."""
        left = 1.0 / math.sqrt(1.0 - self.beta**2)
        matrix = left * (np.eye(steps) - self.beta * np.eye(steps, k=-1))
        matrix[0, 0] = 1.0
        return matrix

    def described(self) -> object:
        """For the statement."""
        return {"beta": float(self.beta)}


@dataclass(frozen=True)
class FactoredSteps(StepsInTurn):
    """Steps in turn whose noise, of deviation ``multiplier`` × Δ, is correlated by ``factor``."""

    factor: Factor | Momentum

    def __post_init__(self) -> None:
        if not isinstance(self.factor, Factor | Momentum):
            raise BadInput(
                f"`factor` was {shown(self.factor)}: a Factor or a Momentum is needed.", parameter="factor"
            )
        if isinstance(self.steps, int) and self.steps > MOST_STEPS:
            raise BadInput(
                f"`steps` was {self.steps}: a factor can have at most {MOST_STEPS}.", parameter="steps"
            )
        super().__post_init__()
        if not np.isfinite(self._inverse).all():
            raise BadInput("the factor has no finite inverse: noise would leave the numbers.")

    @cached_property
    def numerators(self) -> NDArray[np.int64]:
        """C in units of 2⁻¹⁰, (steps, steps)."""
        whole = np.rint(self.factor.rows(self.steps) * UNIT)
        if not np.diag(whole).all() or np.abs(whole).max() > 2.0**62:
            raise BadInput("the factor has a number that is too large, or a diagonal that rounds to 0.")
        return whole.astype(np.int64)

    @cached_property
    def sensitivity(self) -> float:
        """Δ, in clips, rounded upward."""
        patterns = [range(start, self.steps, self.period) for start in range(min(self.period, self.steps))]
        return pattern_sensitivity(self.numerators, patterns) / UNIT * (1.0 + 2.0**-50)

    @cached_property
    def memory(self) -> int:
        """How many steps back C reaches, its own included."""
        rows, columns = np.nonzero(self.numerators)
        return int((rows - columns).max()) + 1

    def row(self, step: int) -> NDArray[np.int64]:
        """Row ``step`` of C in units, the newest first."""
        return self.numerators[step, : step + 1][::-1][: self.memory]

    def variances(self) -> Array:
        """Of the noise of each step in one coordinate, over that of Z."""
        return np.asarray((self._inverse**2).sum(axis=1))

    def total_deviation(self) -> float:
        """The deviation of the noise of all steps together in one coordinate, in clips."""
        return self.deviation * float(np.linalg.norm(self._inverse.sum(axis=0)))

    def parameters(self) -> dict[str, object]:
        """For the statement."""
        return {
            "multiplier": self.multiplier,
            "period": self.period,
            "factor": self.factor.described(),
            "sensitivity": self.sensitivity,
        }

    @cached_property
    def _inverse(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            found = solve_triangular(
                self.numerators / UNIT, np.eye(self.steps), lower=True, check_finite=False
            )
        return np.asarray(found)
