"""Decision thresholds chosen privately, the exact sampler behind them, and the cost of a threshold.

**Cost.** Record i has a score sᵢ in a declared range and a label yᵢ ∈ {0, 1}. At the threshold t it is called
positive if sᵢ ≥ t. Each false alarm costs c_fp and each miss c_fn, and the cost of t is

    J(t) = (1/n)·Σᵢ ℓᵢ(t),    ℓᵢ(t) = c_fp·[yᵢ = 0, sᵢ ≥ t] + c_fn·[yᵢ = 1, sᵢ < t].

Scores and labels are private; their range and number, and c_fp and c_fn, are public. Scores outside the range
are clipped to it. The paper (Adaptive multimedia DP, section 3.3.1) writes FPR·c_fp + FNR·c_fn. Its rates are
divided by the sizes of the classes, and replacing one record changes those; so here everything is divided by
n, which does not change, and a share of positives may be *declared*: the costs become c_fp/(1 − share) and
c_fn/share, and J is the paper's cost where the declared share is the true one.

**Guarantee.** Unit: record, neighbours: replace (score and label both).

- :func:`exponential_threshold` draws t from a public grid with P(t) ∝ exp(−η·Σℓᵢ(t)), η = ε/(c_fp + c_fn), by
  an exact sampler. Let Δ(t) be the change of Σℓᵢ(t). The weight of t changes by the factor exp(−ηΔ(t)), the
  sum of the weights by a mean of these factors, so log P(t) changes by at most η·(max Δ − min Δ). For one
  record, ℓ(t) − ℓ(t′) with t > t′ lies in [−c_fp, 0] if y = 0 and in [0, c_fn] if y = 1; Δ(t) − Δ(t′) is the
  difference of two such numbers, at most c_fp + c_fn in size. So the loss is at most ε, pure.
- :func:`projected_gradient_threshold` walks on the hinge surrogate h(t) = (1/n)·Σ (c_fp·[yᵢ = 0]·(sᵢ − t)₊ +
  c_fn·[yᵢ = 1]·(t − sᵢ)₊), which is convex, with slope (c_fn·misses − c_fp·false alarms)/n at t. One record
  adds −c_fp, 0 or c_fn to the sum, so replacing it moves the sum by at most c_fp + c_fn; costs are rounded
  down to the noise's grid, and the sum is one of integers. K steps with Gaussian noise of deviation
  m·(c_fp + c_fn), each chosen from the ones before, are μ = √K/m by adaptive composition. Projections and
  the mean of the walk are post-processing. *Use:* where the slope of h changes sign, false alarms cost as
  much as misses; further up there are no fewer misses and further down no fewer false alarms. So **its
  minimiser, or the threshold just above it, costs at most twice the least J**.
- :func:`functional_threshold` is the paper's: the minimiser of J(t) + v·t with v ~ Lap(ΔL/ε). It proves
  **nothing**: the theorems on perturbed objectives need a convex, differentiable one. J is a staircase, so
  the minimiser stands at the edge of a step, which is the score of a record, to the last digit.

**Sampler** of the law P(k) ∝ exp(−xₖ) over finitely many choices, for the exponential mechanism. A 64-bit
word w stands for all uniforms in [w, w+1)/2⁶⁴. Double precision decides where it is sure; where the interval,
widened by the error of the weights, holds a boundary between two choices, mpmath decides with as many further
random bits as it takes. So the law is the stated one exactly, and no slack is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Release, delta_between, noise_multiplier, numeric, positive, share, shown
from sfumato.noise import (
    Keyed,
    Randomness,
    Secure,
    Stream,
    gaussian_noise,
    grid_step,
    laplace_noise,
    mpmath_context,
)
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["exponential_threshold", "functional_threshold", "projected_gradient_threshold", "threshold_cost"]

Array = NDArray[np.float64]

# Double-precision weights err by less than 2⁻⁴³ each (at most 745·2⁻⁵³ and the error of exp).
_WEIGHT_ERROR = 2.0**-42


def exponential_choice(exponents: Sequence[Fraction], stream: Stream, count: int = 1) -> NDArray[np.intp]:
    """Return ``count`` independent indices k with P(k) ∝ exp(−exponents[k]), exactly."""
    least = min(exponents)
    above = [exponent - least for exponent in exponents]
    weights = np.exp(-np.array([float(x) for x in above]))
    ends = np.cumsum(weights)
    words = stream.words(count)
    place = words.astype(np.float64) * (2.0**-64 * ends[-1])
    chosen = np.minimum(np.searchsorted(ends, place, side="right"), len(above) - 1)
    # The weights before an end, the total, the sums of both, and the word's own cell and rounding.
    doubt = 4.0 * len(above) * _WEIGHT_ERROR + 2.0**-50 * ends[-1]
    low = np.where(chosen > 0, ends[chosen - 1], -np.inf)
    high = np.where(chosen < len(above) - 1, ends[chosen], np.inf)
    for i in np.flatnonzero((place - low <= doubt) | (high - place <= doubt)):
        chosen[i] = _exactly(above, int(words[i]), stream)
    return np.asarray(chosen, dtype=np.intp)


def _exactly(above: Sequence[Fraction], word: int, stream: Stream) -> int:
    bits, mp = 64, mpmath_context()
    while True:
        with mp.workprec(2 * bits + 64):
            ends, total = [], mp.mpf(0)
            for exponent in above:
                total += mp.exp(-mp.mpf(exponent.numerator) / exponent.denominator)
                ends.append(total)
            # x·exp(−x) ≤ 1, so every weight errs by a few units of 2^−prec, and the total is at least 1.
            doubt = mp.ldexp(16 * (len(above) + 2) * total, -mp.prec)
            low, high = mp.ldexp(word * total, -bits) - doubt, mp.ldexp((word + 1) * total, -bits) + doubt
            before = -mp.inf
            for index, end in enumerate(ends):
                after = mp.inf if index == len(ends) - 1 else end
                if before + doubt <= low and high <= after - doubt:
                    return index
                before = end
        word, bits = (word << 64) | stream.integer(64), bits + 64


_MOST_THRESHOLDS = 100_000


@dataclass(frozen=True, eq=False)
class Decisions:
    """Sorted scores of the negative and of the positive records, and what a false alarm and a miss cost."""

    negative: Array
    positive: Array
    false_alarm: float
    miss: float
    low: float
    high: float

    @classmethod
    def read(cls, scores: Any, labels: Any, costs: Any, positives: float | None, bounds: Any) -> Self:
        """Return decisions about ``scores`` (n,) with ``labels`` (n,) of 0 and 1, clipped to ``bounds``."""
        low, high = _pair("bounds", bounds)
        if not low < high:
            raise BadInput(
                f"`bounds` must be a range such as (0.0, 1.0), not {shown(bounds)}.", parameter="bounds"
            )
        each = [
            positive(name, cost) for name, cost in zip(("c_fp", "c_fn"), _pair("costs", costs), strict=True)
        ]
        if positives is not None:
            declared = share("positives", positives)
            if not 1e-6 <= declared <= 1.0 - 1e-6:
                raise BadInput(
                    f"`positives` must be a share between 0 and 1, not {shown(positives)}.",
                    parameter="positives",
                )
            each = [each[0] / (1.0 - declared), each[1] / declared]
        values, truth = numeric(scores), np.asarray(labels)
        if values is None or values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise BadInput(
                "`scores` must be one column of finite numbers, at least one of them.", parameter="scores"
            )
        known = truth.dtype.kind in "biuf" and bool(((truth == 0) | (truth == 1)).all())
        if not known or truth.shape != values.shape:
            raise BadInput(
                f"`labels` must be {values.size} numbers, each 0 or 1, one for each score.",
                parameter="labels",
            )
        values, yes = np.clip(values, low, high), truth.astype(bool)
        return cls(np.sort(values[~yes]), np.sort(values[yes]), each[0], each[1], low, high)

    @property
    def count(self) -> int:
        """n, which is public."""
        return int(self.negative.size + self.positive.size)

    def counts(self, thresholds: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return false alarms and misses at each threshold."""
        alarms = self.negative.size - np.searchsorted(self.negative, thresholds, side="left")
        return np.asarray(alarms), np.asarray(np.searchsorted(self.positive, thresholds, side="left"))

    def costs(self, thresholds: Any) -> Array:
        """Return j at each threshold."""
        alarms, misses = self.counts(thresholds)
        return np.asarray((self.false_alarm * alarms + self.miss * misses) / self.count)

    def grid(self, thresholds: Any) -> Array:
        """Return ``thresholds``, rising and inside the range, or that many of them equally spaced over it."""
        if isinstance(thresholds, int) and not isinstance(thresholds, bool):
            if not 2 <= thresholds <= _MOST_THRESHOLDS:
                raise BadInput(f"2 to {_MOST_THRESHOLDS} thresholds can be tried, not {thresholds}.")
            return np.linspace(self.low, self.high, thresholds)
        grid = numeric(thresholds)
        if grid is None or grid.ndim != 1 or not 1 <= grid.size <= _MOST_THRESHOLDS:
            raise BadInput(
                f"`thresholds` must be a number of them or a list, not {shown(thresholds)}.",
                parameter="thresholds",
            )
        if not (self.low <= grid[0] and grid[-1] <= self.high and (np.diff(grid) > 0).all()):
            raise BadInput(
                "`thresholds` must rise, and lie inside the bounds of the scores.", parameter="thresholds"
            )
        return grid

    def described(self, **more: Any) -> dict[str, Any]:
        """Return the public parameters of a statement."""
        costs = {"false_alarm": self.false_alarm, "miss": self.miss}
        return {"costs": costs, "bounds": [self.low, self.high], "records": self.count} | more


def threshold_cost(
    scores: Any,
    labels: Any,
    threshold: float,
    *,
    costs: tuple[float, float] = (1.0, 1.0),
    positives: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return J(``threshold``), computed from the data itself: not private."""
    return float(Decisions.read(scores, labels, costs, positives, bounds).costs(float(threshold)))


def _pair(name: str, value: Any) -> tuple[float, float]:
    pair = numeric(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else None
    if pair is None or pair.shape != (2,) or not np.isfinite(pair).all():
        raise BadInput(f"`{name}` must be two finite numbers, not {shown(value)}.", parameter=name)
    return float(pair[0]), float(pair[1])


_SOURCE = "Adaptive multimedia DP, section 3.3.1"
_MOST_STEPS = 100_000


def exponential_threshold(
    scores: Any,
    labels: Any,
    *,
    epsilon: float,
    thresholds: Any = 101,
    costs: tuple[float, float] = (1.0, 1.0),
    positives: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    randomness: Randomness | None = None,
) -> Release[float]:
    """Return a threshold of a public grid, likelier the less it costs; pure ε.

    ``scores`` and ``labels`` are (n,); ``thresholds`` is how many, equally spaced over ``bounds``, or which.
    ``costs`` are those of a false alarm and of a miss; ``positives`` is a declared share of positives.
    """
    problem, epsilon = Decisions.read(scores, labels, costs, positives, bounds), positive("epsilon", epsilon)
    grid = problem.grid(thresholds)
    stream = _source(randomness).stream(b"exponential threshold")
    value = float(grid[exponential_choice(_exponents(problem, grid, epsilon), stream)[0]])
    parameters = problem.described(epsilon=epsilon, thresholds=grid.tolist())
    proven = Guarantee.pure(epsilon, theorem="exponential mechanism, loss bounded by the range of change")
    return _release("exponential_threshold", value, parameters, proven, None, randomness)


def projected_gradient_threshold(
    scores: Any,
    labels: Any,
    *,
    epsilon: float,
    delta: float,
    steps: int = 64,
    rate: float | None = None,
    costs: tuple[float, float] = (1.0, 1.0),
    positives: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    randomness: Randomness | None = None,
    report: Callable[[str, float], None] | None = None,
) -> Release[float]:
    """Return a threshold near the minimiser of the hinge surrogate, by noisy steps of rate/√k; (ε, δ).

    ``rate`` is the paper's η₀; by default the width of ``bounds`` over the larger cost. The walk starts in
    the middle, and the value is the mean of the second half of it. Other arguments are those of
    :func:`exponential_threshold`.
    """
    problem, epsilon = Decisions.read(scores, labels, costs, positives, bounds), positive("epsilon", epsilon)
    delta = delta_between(delta)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= _MOST_STEPS:
        raise BadInput(
            f"`steps` must be a whole number from 1 to {_MOST_STEPS}, not {shown(steps)}.", parameter="steps"
        )
    wide = (problem.high - problem.low) / max(problem.false_alarm, problem.miss)
    first = wide if rate is None else positive("rate", rate)
    multiplier = _multiplier(epsilon, delta, steps)
    value = _walk(problem, multiplier, steps, first, _source(randomness), report)
    parameters = problem.described(epsilon=epsilon, delta=delta, steps=steps, rate=first)
    proven = replace(Guarantee.gaussian(multiplier).times(steps), at_delta=delta)
    return _release("projected_gradient_threshold", value, parameters, proven, None, randomness)


def functional_threshold(
    scores: Any,
    labels: Any,
    *,
    epsilon: float,
    costs: tuple[float, float] = (1.0, 1.0),
    positives: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    randomness: Randomness | None = None,
) -> Release[float]:
    """Return the paper's functional mechanism: the minimiser of J(t) + v·t, v ~ Lap(ΔL/ε). Proven: nothing.

    ΔL, which the paper leaves open, is the most that one record moves J: the larger cost over n.
    """
    problem, epsilon = Decisions.read(scores, labels, costs, positives, bounds), positive("epsilon", epsilon)
    _source(randomness)
    change = max(problem.false_alarm, problem.miss) / problem.count
    slope = float(laplace_noise(change / epsilon, 1, randomness=randomness)[0])
    # J is constant from just above one score up to and including the next.
    scores = np.concatenate([problem.negative, problem.positive])
    edges = np.concatenate([scores, np.nextafter(scores, np.inf), [problem.low, problem.high]])
    edges = np.unique(np.clip(edges, problem.low, problem.high))
    value = float(edges[np.argmin(problem.costs(edges) + slope * edges)])
    proven = Guarantee.nothing(
        "the perturbed cost is a staircase, so its minimiser is the score of a record; theorems on perturbed "
        "objectives need a convex and differentiable one"
    )
    claim = Claim(
        text="adding noise to objective function coefficients rather than outputs: "
        "L_private(T) = L(T) + <v, T>, v ~ Lap(0, Delta L / epsilon)^d",
        source=_SOURCE,
        epsilon=epsilon,
    )
    parameters = problem.described(epsilon=epsilon)
    return _release("functional_threshold", value, parameters, proven, claim, randomness)


def _exponents(problem: Decisions, grid: Array, epsilon: float) -> list[Fraction]:
    """Return η·Σℓᵢ(t) at each threshold, as exact numbers."""
    false_alarm, miss = Fraction(problem.false_alarm), Fraction(problem.miss)
    rate = Fraction(epsilon) / (false_alarm + miss)
    pairs = zip(*problem.counts(grid), strict=True)
    return [rate * (false_alarm * int(alarms) + miss * int(misses)) for alarms, misses in pairs]


def _walk(
    problem: Decisions,
    multiplier: float,
    steps: int,
    rate: float,
    source: Randomness,
    report: Callable[[str, float], None] | None = None,
) -> float:
    """Return the mean of the second half of ``steps`` noisy projected steps from the middle of the range."""
    count, smaller = problem.count, min(problem.false_alarm, problem.miss)
    sigma = math.nextafter(multiplier * (problem.false_alarm + problem.miss), math.inf)
    step = grid_step(sigma, smaller)
    noise = gaussian_noise(sigma, steps, grid=step, randomness=source)
    alarm_cells, miss_cells = (math.floor(cost / step) for cost in (problem.false_alarm, problem.miss))
    if (alarm_cells + miss_cells) * count >= 1 << 53:
        raise BadInput(
            f"costs of {problem.false_alarm:g} and {problem.miss:g} over {count} records cannot be added up "
            "exactly; bring them closer together."
        )
    threshold, late = 0.5 * (problem.low + problem.high), []
    for k in range(1, steps + 1):
        alarms, misses = (int(number) for number in problem.counts(threshold))
        # Integers times a power of two, and noise on the same grid: the sum carries no low bits of its own.
        total = (miss_cells * misses - alarm_cells * alarms) * step + float(noise[k - 1])
        threshold = min(max(threshold - rate / math.sqrt(k) * total / count, problem.low), problem.high)
        if k > steps // 2:
            late.append(threshold)
        if report is not None:
            report("walking", k / steps)
    return math.fsum(late) / len(late)


def _multiplier(epsilon: float, delta: float, steps: int) -> float:
    """Return σ of one step over its sensitivity, such that all of ``steps`` are (ε, δ)."""
    return noise_multiplier(epsilon, delta) * math.sqrt(steps) * (1.0 + 1e-12)


def _release(
    name: str,
    value: float,
    parameters: dict[str, Any],
    proven: Guarantee,
    claim: Claim | None,
    randomness: Randomness | None,
) -> Release[float]:
    notes = ("reproducible run: not for release",) if _source(randomness).reproducible else ()
    return Release(value, Statement(name, parameters, claim, proven, notes=notes), {"kind": "threshold"})


def _source(randomness: Randomness | None) -> Randomness:
    if isinstance(randomness, Keyed):
        raise BadInput(
            "keyed noise belongs to the content of one unit: a threshold is chosen from all of them."
        )
    return Secure() if randomness is None else randomness
