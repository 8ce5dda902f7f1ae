"""A decision threshold chosen privately: what counts as a face, as speech, as sensitive.

``decisions`` says what scores, labels and the cost J(t) = (1/n)·Σᵢ ℓᵢ(t) of a threshold t are. Scores and
labels are private; their range and number, and what a false alarm (c_fp) and a miss (c_fn) cost, are public.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import Release
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.mechanisms.parameters import delta_between, positive, shown
from sfumato.media.detect.decisions import Decisions
from sfumato.media.detect.exponential_choice import exponential_choice
from sfumato.noise import Keyed, Randomness, Secure, gaussian_noise, grid_step, laplace_noise
from sfumato.privacy import Claim, Guarantee, Statement

__all__ = ["exponential_threshold", "functional_threshold", "projected_gradient_threshold"]

Array = NDArray[np.float64]

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
) -> Release:
    """A threshold of a public grid, likelier the less it costs; pure ε.

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
) -> Release:
    """A threshold near the minimiser of the hinge surrogate, by noisy projected steps of rate/√k; (ε, δ).

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
    proven = _composed(multiplier, steps, delta)
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
) -> Release:
    """The paper's functional mechanism: the minimiser of J(t) + v·t, v ~ Lap(ΔL/ε). Proven: nothing.

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
    """η·Σℓᵢ(t) at each threshold, as exact numbers."""
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
    """The mean of the second half of ``steps`` noisy projected steps from the middle of the range."""
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


@lru_cache(maxsize=64)
def _multiplier(epsilon: float, delta: float, steps: int) -> float:
    """σ of one step over its sensitivity, such that all of ``steps`` are (ε, δ)."""
    return noise_multiplier(epsilon, delta) * math.sqrt(steps) * (1.0 + 1e-12)


@lru_cache(maxsize=64)
def _composed(multiplier: float, steps: int, delta: float) -> Guarantee:
    return replace(Guarantee.gaussian(multiplier).times(steps), at_delta=delta)


def _release(
    name: str,
    value: float,
    parameters: dict[str, Any],
    proven: Guarantee,
    claim: Claim | None,
    randomness: Randomness | None,
) -> Release:
    notes = ("reproducible run: not for release",) if _source(randomness).reproducible else ()
    return Release(value, Statement(name, parameters, claim, proven, notes=notes), {"kind": "threshold"})


def _source(randomness: Randomness | None) -> Randomness:
    if isinstance(randomness, Keyed):
        raise BadInput(
            "keyed noise belongs to the content of one unit: a threshold is chosen from all of them."
        )
    return Secure() if randomness is None else randomness
