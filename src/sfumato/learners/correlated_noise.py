"""Noise that is correlated over steps, so that much of it cancels in the sum of all gradients.

Weights after t steps depend on the gradients through their prefix sums AG, with A the matrix of ones on and
below the diagonal. With A = BC, both lower triangular, B(CG + Z) = AG + BZ is released instead of A(G + Z):
noise BZ on prefix sums grows far slower than AZ, while privacy is that of CG + Z (the matrix mechanism:
Denisov et al. 2022; Choquette-Choo et al. 2023). Here C has the coefficients of the square root of A,

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

The same holds for any other lower-triangular C, with its own Δ: :mod:`sfumato.learners.factored_noise`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from torch import Tensor

from sfumato.errors import BadInput
from sfumato.learners.noisy_sum import RADIUS, clip_and_multiplier
from sfumato.mechanisms.parameters import delta_between, shown
from sfumato.noise import NORMAL, Rounded, Stream, permutation
from sfumato.privacy import RECORD, Guarantee, Neighbours

__all__ = ["UNIT", "CorrelatedNoise", "CorrelatedSteps", "StepsInTurn", "square_root_coefficients"]

#: C is counted in multiples of 1 / UNIT.
UNIT = 1 << 10
_LARGEST_SUM = 2**62
_LARGEST_DEVIATION = 1000.0


def square_root_coefficients(bands: int) -> NDArray[np.float64]:
    """The first ``bands`` coefficients of the square root of the prefix-sum matrix."""
    later = np.arange(1, bands, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2.0 * later - 1.0) / (2.0 * later))])


@dataclass(frozen=True)
class StepsInTurn(ABC):
    """``steps`` steps on ``period`` batches in turn, with noise of ``multiplier`` over their sensitivity."""

    multiplier: float
    steps: int
    period: int

    def __post_init__(self) -> None:
        for name in ("steps", "period"):
            _check_whole(name, getattr(self, name))
        clip_and_multiplier(1.0, self.multiplier)
        if self.deviation > _LARGEST_DEVIATION:
            raise BadInput(
                f"correlated noise of {self.deviation:.3g} times the clip was asked for: at most "
                f"{_LARGEST_DEVIATION:g} can be drawn; take a larger epsilon or fewer steps."
            )

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Δ, in clips, rounded upward."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many steps back C reaches, its own included."""

    @abstractmethod
    def row(self, step: int) -> NDArray[np.int64]:
        """Row ``step`` of C in units of 1 / UNIT, the newest first; at most ``memory`` entries."""

    @abstractmethod
    def variances(self) -> NDArray[np.float64]:
        """Of the noise of each step in one coordinate, over that of Z, (steps,)."""

    @abstractmethod
    def total_deviation(self) -> float:
        """The deviation of the noise of all steps together in one coordinate, in clips."""

    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """For the statement."""

    @property
    def deviation(self) -> float:
        """The deviation of the entries of Z, in clips."""
        return self.multiplier * self.sensitivity

    def guarantee(self, delta: float) -> Guarantee:
        """For one record, of all steps together; a pure function of the parameters."""
        return Guarantee.gaussian(
            self.multiplier,
            unit=RECORD,
            neighbours=Neighbours.ZERO_OUT,
            theorem="analytic Gaussian, lower-triangular matrix mechanism on batches in turn",
            at_delta=delta_between(delta),
        )

    def expected(self, records: int) -> float:
        """How many of ``records`` a batch holds, on average; at least 1."""
        return max(records / self.period, 1.0)

    def batches(self, records: int, stream: Stream) -> Iterator[NDArray[np.intp]]:
        """The positions of the examples of each step, each in increasing order."""
        # A sum holds at most RADIUS steps of each example; whether it fits is decided by public numbers.
        largest = max(float(np.abs(self.row(step)).sum()) for step in range(self.steps))
        if -(-records // self.period) * RADIUS * largest >= _LARGEST_SUM:
            raise BadInput("too many examples were given for correlated noise: their sum leaves 64 bits.")
        order = permutation(stream, records)
        dealt = [np.sort(order[start :: self.period]) for start in range(self.period)]
        return (dealt[step % self.period] for step in range(self.steps))

    def noise(self, stream: Stream) -> CorrelatedNoise:
        """The noise of one run."""
        return CorrelatedNoise(self, stream)


@dataclass(frozen=True)
class CorrelatedSteps(StepsInTurn):
    """Steps in turn with the square root of prefix sums, of which ``bands`` coefficients are kept.

    One band is independent noise.
    """

    bands: int

    def __post_init__(self) -> None:
        _check_whole("bands", self.bands)
        _check_whole("steps", self.steps)
        if self.bands > self.steps:
            raise BadInput(
                f"`bands` was {self.bands}: at most one a step, of {self.steps}, can be used.",
                parameter="bands",
            )
        super().__post_init__()

    @classmethod
    def quietest(cls, multiplier: float, steps: int, period: int) -> CorrelatedSteps:
        """With as many bands as leave the least noise in prefix sums, on average.

        Tried are powers of two, and the period, up to which a record's steps do not overlap.
        """
        tried = {min(period, steps), *(1 << power for power in range(steps.bit_length()))}
        return min((cls(multiplier, steps, period, bands) for bands in sorted(tried)), key=cls.mean_deviation)

    @cached_property
    def numerators(self) -> NDArray[np.int64]:
        """The coefficients of C in units of 2⁻¹⁰, (bands,)."""
        return np.ceil(square_root_coefficients(self.bands) * UNIT).astype(np.int64)

    @cached_property
    def sensitivity(self) -> float:
        """Δ, in clips, rounded upward."""
        column = np.zeros(self.steps + self.bands, dtype=np.int64)
        for start in range(0, self.steps, self.period):
            column[start : start + self.bands] += self.numerators
        square = sum(int(entry) ** 2 for entry in column[: self.steps])
        return math.sqrt(square) / UNIT * (1.0 + 2.0**-50)

    @property
    def memory(self) -> int:
        """The bands."""
        return self.bands

    def row(self, step: int) -> NDArray[np.int64]:
        """The coefficients, which are the same in every row that has so many."""
        return self.numerators[: step + 1]

    def factor(self) -> NDArray[np.float64]:
        """C as a matrix (steps, steps)."""
        column = np.zeros(self.steps)
        column[: self.bands] = self.numerators / UNIT
        return np.asarray(toeplitz(column, np.zeros(self.steps)))

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """The first column of C⁻¹, (steps,): noise of step t is Σ_s inverse[t−s]·Z_s."""
        found = np.zeros(self.steps)
        coefficients = self.numerators / UNIT
        found[0] = 1.0 / coefficients[0]
        for step in range(1, self.steps):
            count = min(step, self.bands - 1)
            found[step] = -(coefficients[1 : count + 1] @ found[step - count : step][::-1]) / coefficients[0]
        return found

    def variances(self) -> NDArray[np.float64]:
        """Of the noise of each step in one coordinate, over that of Z."""
        return np.asarray(np.cumsum(self.inverse**2))

    def total_deviation(self) -> float:
        """The deviation of the noise of all steps together in one coordinate, in clips: B's last row."""
        return self.deviation * float(np.linalg.norm(np.cumsum(self.inverse)))

    def mean_deviation(self) -> float:
        """The root of the mean variance of noise in prefix sums, in clips: over all rows of B."""
        rows = np.cumsum(np.cumsum(self.inverse) ** 2)
        return self.deviation * math.sqrt(float(rows.mean()))

    def parameters(self) -> dict[str, object]:
        """For the statement."""
        return {
            "multiplier": self.multiplier,
            "period": self.period,
            "bands": self.bands,
            "sensitivity": self.sensitivity,
        }


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"`{name}` was {shown(value)}: a whole number, 1 or more, is needed.", parameter=name)


class CorrelatedNoise:
    """Adds correlated noise to the sums of each step; keeps ``memory`` steps of sums and of releases."""

    def __init__(self, plan: StepsInTurn, stream: Stream) -> None:
        self._plan, self._stream = plan, stream
        self._scale = math.nextafter(plan.deviation * RADIUS * UNIT, math.inf)
        self._noise = Rounded(NORMAL, [self._scale])
        self._sums: deque[NDArray[np.int64]] = deque(maxlen=plan.memory)
        self._seen: deque[NDArray[np.float64]] = deque(maxlen=plan.memory)
        self._variances = plan.variances() * (self._scale / UNIT) ** 2
        self._step = 0

    def __call__(self, sums: Sequence[Tensor]) -> tuple[list[Tensor], float]:
        """Noisy sums, float64, and the variance of their noise; both in steps of a clip / RADIUS."""
        if self._step >= self._plan.steps:
            raise BadInput("more steps were asked for than the noise was made for.")
        flat = np.concatenate([total.double().numpy().ravel() for total in sums])
        coefficients = self._plan.row(self._step)
        self._sums.appendleft(flat.astype(np.int64))
        whole = self._noise.draw(self._stream, flat.size)[0].astype(np.int64)
        for coefficient, earlier in zip(coefficients, self._sums, strict=False):
            whole += coefficient * earlier
        seen = whole.astype(np.float64)
        for coefficient, earlier_seen in zip(coefficients[1:], self._seen, strict=False):
            seen -= coefficient * earlier_seen
        seen /= float(coefficients[0])
        self._seen.appendleft(seen)
        variance = float(self._variances[self._step])
        self._step += 1
        parts = torch.split(torch.from_numpy(seen), [total.numel() for total in sums])
        return [part.reshape(total.shape).clone() for part, total in zip(parts, sums, strict=True)], variance
