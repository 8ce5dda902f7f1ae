"""Noise correlated over steps (the matrix mechanism), so that much of it cancels in the sum of gradients.

Weights after t steps depend on the gradients through their prefix sums AG, with A the matrix of ones on and
below the diagonal. With A = BC, both lower triangular, B(CG + Z) = AG + BZ is released instead of A(G + Z):
noise BZ on prefix sums grows far slower than AZ, while privacy is that of CG + Z (the matrix mechanism:
Denisov et al. 2022; Choquette-Choo et al. 2023). In :class:`CorrelatedSteps` C has the coefficients of the
square root of A,

    c_0 = 1,  c_k = c_{k−1}(2k − 1)/(2k),

cut after ``bands`` of them (Kalinin & Lampert 2024), each rounded up to a multiple of 2⁻¹⁰. Any such C with
c_0 > 0 has B = AC⁻¹, so that rounding changes a little how much cancels and nothing else.

**Guarantee.** Unit: record, zero-out neighbours. The n records are dealt once, by a permutation drawn without
looking at them, into ``period`` batches that are used in turn: a record takes part in steps j, j + period, …
and in no other, and adds its own clipped gradient there. *No amplification by sampling is claimed.* Writing
u_t for the record's gradient over the clip, neighbours shift y = CG + Z by CU with

    ‖CU‖ ≤ Δ = ‖Σ_i c^{(i·period)}‖,  c^{(s)} the column of step s,

the largest for j = 0: since C ≥ 0 it is largest where all u_t are alike, and the shift for j > 0 is that for
j = 0 moved down, its end cut off. For bands ≤ period the columns do not overlap and Δ ≤ √times·‖c‖; at
period 1 all steps count. With noise of deviation zΔ, all steps together are one Gaussian mechanism of
multiplier z, also though a gradient depends on earlier releases: given rows 0…t−1 of y, row t is Gaussian and
neighbours shift its mean by v_t = Σ_s C_ts u_s, a function of earlier rows, and Σ‖v_t‖² ≤ Δ² on every path.
Make it Δ² by one more row; the loss is then Σ⟨v_t, Z_t⟩/σ² + Δ²/2σ², a martingale of Gaussian increments
whose variances sum to a constant, and hence exactly N(Δ²/2σ², Δ²/σ²). (Denisov et al. 2022, theorem 2.1.) A
mixture over the permutation is no easier to tell apart than the worst of its parts.

Sums are whole numbers of steps and C whole multiples of 2⁻¹⁰, so CG is computed exactly in 64-bit integers,
and Z is real Gaussian noise rounded to the same grid: y is post-processing of the real mechanism, and the
gradient used, C⁻¹y by forward substitution, is a function of y alone. No slack is left.

**Participation.** Row t of G is the gradient sum of step t. A record that takes part in steps S moves G by
rows u_t, t ∈ S, each of length at most 1, hence C·G by √Σ_{s,t∈S} X_st⟨u_s, u_t⟩ with X = CᵀC. Over all u_t
that is at most √Σ_{s,t∈S}|X_st|. It is equal to it where signs r_t make every r_s r_t X_st ≥ 0, for
u_t = r_t u: where X ≥ 0, where S is one step (the length of a column), and where C has two bands, as noise
with momentum has.

**Any lower-triangular factor** (:class:`FactoredSteps`). Gradient sums G, a row a step, are released as
G + C⁻¹Z, with Z independent Gaussian noise; what is proven is that of CG + Z, and any invertible
lower-triangular C will do.

- :class:`Factor` is a matrix C that is given.
- :class:`Momentum` is n_t = βn_{t−1} + √(1 − β²)w_t, started from n_0 = w_0, so that all n_t have one
  variance: the "momentum-based noise accumulation" of the paper on adaptive multimedia privacy, section
  3.2.2. Solved for w it is C with C_00 = 1, C_tt = 1/√(1 − β²) and C_{t,t−1} = −β/√(1 − β²).

*Guarantee.* Unit: record, zero-out neighbours; records dealt into ``period`` batches that are used in turn,
without amplification. It is the theorem above with another Δ. A record of batch j takes part in the steps
S_j = {j, j + period, …}, and moves CG by at most

    Δ = max_j √Σ_{s,t∈S_j} |(CᵀC)_st|

clips (see Participation), whatever the signs in C are: nothing in the theorem needs C ≥ 0
but the place where the maximum lies, and here all j are tried. C is rounded to multiples of 2⁻¹⁰ first, and
the C that is used is the rounded one: products of its columns are exact, and Δ is rounded upward. Noise with
momentum is not free: for one participation Δ = √((1 + β²)/(1 − β²)), for one in every step it is near
√((1 + β)/(1 − β))·√steps, which is 4.4 times that of independent noise at β = 0.9.

*Edge cases.* At most 2048 steps, entries of C up to 256, and an inverse that is finite; others are refused.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.signal import lfilter

from sfumato.errors import BadInput
from sfumato.learners.dp_sgd import Array, Batches, Noise, NoisySteps
from sfumato.learners.gradient_clipping import RADIUS, ClippedSum, checked_multiplier
from sfumato.learners.learner import whole_number
from sfumato.mechanisms import delta_between, numeric, share, shown
from sfumato.noise import NORMAL, Randomness, Rounded, Stream, random_permutation
from sfumato.privacy import RECORD, Guarantee, Neighbours

__all__ = ["Factor", "Momentum"]

Integers = NDArray[np.int64]

#: C is counted in multiples of 1 / UNIT.
UNIT = 1 << 10
#: Of C in whole numbers: with these a product of columns is below 2⁴⁸ and exact in float64, in any order.
LARGEST_NUMERATOR, MOST_STEPS = 1 << 18, 1 << 11
_LARGEST_SUM = 2**62
_LARGEST_DEVIATION = 1000.0
# A sum of fewer than 2²⁴ numbers, none negative, errs by a factor below 1 + 2⁻²⁸ in any order; roots by less.
_HAIR = 1.0 + 2.0**-27


@dataclass(frozen=True)
class StepsInTurn(NoisySteps):
    """``steps`` steps on ``period`` batches in turn, with noise of ``multiplier`` over their sensitivity."""

    multiplier: float
    steps: int
    period: int

    def __post_init__(self) -> None:
        for name in ("steps", "period"):
            whole_number(name, getattr(self, name))
        checked_multiplier(self.multiplier)
        if self.deviation > _LARGEST_DEVIATION:
            raise BadInput(
                f"correlated noise of {self.deviation:.3g} times the clipping norm was asked for: at most "
                f"{_LARGEST_DEVIATION:g} can be drawn; take a larger epsilon or fewer steps."
            )

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Δ, in clipping norms, rounded upward."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """The number of steps that C reaches back, its own included."""

    @abstractmethod
    def row(self, step: int) -> Integers:
        """Return row ``step`` of C in units of 1 / UNIT, the newest first; at most ``memory`` entries."""

    @property
    def deviation(self) -> float:
        """The deviation of the entries of Z, in clipping norms."""
        return self.multiplier * self.sensitivity

    def guarantee(self, delta: float) -> Guarantee:
        """Return that of one record for all steps together; a pure function of the parameters."""
        return Guarantee.gaussian(
            self.multiplier,
            unit=RECORD,
            neighbours=Neighbours.ZERO_OUT,
            theorem="analytic Gaussian, lower-triangular matrix mechanism on batches in turn",
            at_delta=delta_between(delta),
        )

    def expected(self, records: int) -> float:
        """Return how many of ``records`` a batch holds, on average; at least 1."""
        return max(records / self.period, 1.0)

    def batches(self, records: int, stream: Stream) -> Batches:
        """Return batches in turn, each in increasing order, of a permutation drawn from ``stream``."""
        # A sum holds at most RADIUS steps of each example; whether it fits is decided by public numbers.
        largest = max(float(np.abs(self.row(step)).sum()) for step in range(self.steps))
        if -(-records // self.period) * RADIUS * largest >= _LARGEST_SUM:
            raise BadInput("too many examples were given for correlated noise: their sum overflows 64 bits.")
        order = random_permutation(stream, records)
        dealt = [np.sort(order[start :: self.period]) for start in range(self.period)]
        return lambda step, _: dealt[step % self.period]

    def noise(self, clipped: ClippedSum) -> Noise:
        """Return the noise of one run, which keeps ``memory`` steps of sums and of releases."""
        draw = Rounded(NORMAL, [math.nextafter(self.deviation * RADIUS * UNIT, math.inf)]).draw
        sums: deque[Integers] = deque(maxlen=self.memory)
        released: deque[Array] = deque(maxlen=self.memory)

        def noised(step: int, total: Array, randomness: Randomness) -> Array:
            coefficients = self.row(step)
            sums.appendleft(total.astype(np.int64))
            whole = draw(randomness.stream(b"gradient noise"), total.size)[0].astype(np.int64)
            for coefficient, earlier in zip(coefficients, sums, strict=False):
                whole += coefficient * earlier
            found = whole.astype(np.float64)
            for coefficient, before in zip(coefficients[1:], released, strict=False):
                found -= coefficient * before
            found /= float(coefficients[0])
            released.appendleft(found)
            return np.asarray(found)

        return noised

    def parameters(self) -> dict[str, object]:
        """Return the parameters for the statement."""
        return {"multiplier": self.multiplier, "period": self.period, "sensitivity": self.sensitivity}


@dataclass(frozen=True)
class CorrelatedSteps(StepsInTurn):
    """Steps in turn with the square root of prefix sums, of which ``bands`` coefficients are kept.

    One band is independent noise.
    """

    bands: int

    def __post_init__(self) -> None:
        for name in ("bands", "steps"):
            whole_number(name, getattr(self, name))
        if self.bands > self.steps:
            raise BadInput(
                f"`bands` was {self.bands}: at most one a step, of {self.steps}, can be used.",
                parameter="bands",
            )
        super().__post_init__()

    @classmethod
    def quietest(cls, multiplier: float, steps: int, period: int) -> CorrelatedSteps:
        """Return steps with as many bands as leave the least noise in prefix sums, on average.

        Tried are powers of two, and the period, up to which a record's steps do not overlap.
        """
        tried = {min(period, steps), *(1 << power for power in range(steps.bit_length()))}
        return min((cls(multiplier, steps, period, bands) for bands in sorted(tried)), key=cls.mean_deviation)

    @cached_property
    def numerators(self) -> Integers:
        """The coefficients of C in units of 2⁻¹⁰, (bands,)."""
        later = np.arange(1, self.bands)
        coefficients = np.concatenate([[1.0], np.cumprod((2.0 * later - 1.0) / (2.0 * later))])
        return np.asarray(np.ceil(coefficients * UNIT), dtype=np.int64)

    @cached_property
    def sensitivity(self) -> float:
        """Δ, in clipping norms, rounded upward."""
        column = np.zeros(self.steps + self.bands, dtype=np.int64)
        for start in range(0, self.steps, self.period):
            column[start : start + self.bands] += self.numerators
        square = sum(int(entry) ** 2 for entry in column[: self.steps])
        return math.sqrt(square) / UNIT * (1.0 + 2.0**-50)

    @property
    def memory(self) -> int:
        """The bands."""
        return self.bands

    def row(self, step: int) -> Integers:
        """Return the coefficients, which are the same in every row that has so many."""
        return self.numerators[: step + 1]

    @cached_property
    def inverse(self) -> Array:
        """The first column of C⁻¹, (steps,): noise of step t is Σ_s inverse[t−s]·Z_s."""
        impulse = np.zeros(self.steps)
        impulse[0] = 1.0
        return np.asarray(lfilter([1.0], self.numerators / UNIT, impulse))

    def variances(self) -> Array:
        """Return the variance of each step's noise in one coordinate, in squared clipping norms."""
        return np.asarray(self.deviation**2 * np.cumsum(self.inverse**2))

    def total_deviation(self) -> float:
        """Return the deviation of all steps' noise together in one coordinate: B's last row."""
        return self.deviation * float(np.linalg.norm(np.cumsum(self.inverse)))

    def mean_deviation(self) -> float:
        """Return the root of the mean variance of noise in prefix sums: over all rows of B."""
        rows = np.cumsum(np.cumsum(self.inverse) ** 2)
        return self.deviation * math.sqrt(float(rows.mean()))

    def parameters(self) -> dict[str, object]:
        """Return the parameters for the statement."""
        return {**super().parameters(), "bands": self.bands}


def pattern_sensitivity(numerators: Integers, patterns: Sequence[Sequence[int]]) -> float:
    """Return the largest √Σ_{s,t∈S}|X_st| over the sets S of steps, rounded upward, never below it.

    ``numerators`` is C in whole numbers (steps, steps); a unit in which it is counted multiplies the result.
    """
    if len(numerators) > MOST_STEPS or np.abs(numerators).max() > LARGEST_NUMERATOR:
        raise BadInput(
            f"a factor of {len(numerators)} steps with entries up to {np.abs(numerators).max():g} units was "
            f"given: at most {MOST_STEPS} steps and {LARGEST_NUMERATOR} units can be bounded."
        )
    columns = [numerators[:, list(steps)].astype(np.float64) for steps in patterns]
    return math.sqrt(max(float(np.abs(some.T @ some).sum()) for some in columns)) * _HAIR


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
        """Return C for as many ``steps`` as there are rows."""
        if len(self.matrix) != steps:
            raise BadInput(f"the factor has {len(self.matrix)} rows: one a step, of {steps}, is needed.")
        return np.asarray(self.matrix)

    def described(self) -> object:
        """Return the parameters for the statement."""
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
        """Return C for ``steps`` steps."""
        left = 1.0 / math.sqrt(1.0 - self.beta**2)
        matrix = left * (np.eye(steps) - self.beta * np.eye(steps, k=-1))
        matrix[0, 0] = 1.0
        return matrix

    def described(self) -> object:
        """Return the parameters for the statement."""
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
            raise BadInput("the factor has no finite inverse: the noise would overflow.")

    @cached_property
    def numerators(self) -> Integers:
        """C in units of 2⁻¹⁰, (steps, steps)."""
        whole = np.rint(self.factor.rows(self.steps) * UNIT)
        if not np.diag(whole).all() or np.abs(whole).max() > 2.0**62:
            raise BadInput("the factor has a number that is too large, or a diagonal that rounds to 0.")
        return whole.astype(np.int64)

    @cached_property
    def sensitivity(self) -> float:
        """Δ, in clipping norms, rounded upward."""
        patterns = [range(start, self.steps, self.period) for start in range(min(self.period, self.steps))]
        return pattern_sensitivity(self.numerators, patterns) / UNIT * (1.0 + 2.0**-50)

    @cached_property
    def memory(self) -> int:
        """The number of steps that C reaches back, its own included."""
        rows, columns = np.nonzero(self.numerators)
        return int((rows - columns).max()) + 1

    def row(self, step: int) -> Integers:
        """Return row ``step`` of C in units, the newest first."""
        return self.numerators[step, : step + 1][::-1][: self.memory]

    def variances(self) -> Array:
        """Return the variance of each step's noise in one coordinate, in squared clipping norms."""
        return np.asarray(self.deviation**2 * (self._inverse**2).sum(axis=1))

    def total_deviation(self) -> float:
        """Return the deviation of the noise of all steps together in one coordinate, in clipping norms."""
        return self.deviation * float(np.linalg.norm(self._inverse.sum(axis=0)))

    def parameters(self) -> dict[str, object]:
        """Return the parameters for the statement."""
        return {**super().parameters(), "factor": self.factor.described()}

    @cached_property
    def _inverse(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            found = solve_triangular(
                self.numerators / UNIT, np.eye(self.steps), lower=True, check_finite=False
            )
        return np.asarray(found)
