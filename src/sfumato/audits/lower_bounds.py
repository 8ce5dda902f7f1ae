"""Lower bounds on ε from distinguishing games, with exact confidence bounds on probabilities.

**Confidence bounds** on probabilities come from counts (Clopper & Pearson 1934).

With X ~ Bin(n, p), the upper bound is the p at which P(X ≤ count) falls to ``chance``: solved by the inverse
of the regularised incomplete beta function, so the bounds hold at every n and p, not only in the limit. At
the edges 0 of n gives the lower bound 0 and the upper bound 1 − chance^{1/n}; n of n mirrors it.

**Two counts together.** Let X₁ ~ Bin(n₁, α) and X₂ ~ Bin(n₂, β) be independent and let
p₁(α) = P(Bin(n₁, α) ≤ X₁), p₂(β) = P(Bin(n₂, β) ≤ X₂). At the true α and β both are independent and
P(pᵢ ≤ u) ≤ u, so P(p₁·p₂ ≤ q) ≤ q(1 − log q), the law of a product of two uniforms (Fisher's combination).
Let q solve q(1 − log q) = chance. But for ``chance`` then p₁·p₂ > q, which says: for c = p₁(α), a number
in (q, 1], α is the Clopper–Pearson bound at chance c and β lies below the one at chance q/c. A quantity
that falls in α and in β is therefore at least the smallest of its values at these pairs of bounds. That is
sharper than one pair at chance/2 each, because large errors in both counts at once are rarer than in either.

**Threshold bound**, without any assumption on the mechanism.

The attacker sees one release and says "neighbour" when its score is above a threshold t. With
α = P(score > t | record) and β = P(score ≤ t | neighbour), (ε, δ)-DP says both

    1 − β ≤ e^ε·α + δ    and    1 − α ≤ e^ε·β + δ,

so ε ≥ log((1 − δ − β)/α) and ε ≥ log((1 − δ − α)/β). The threshold is chosen on games that are then put
aside. On the others, which it does not depend on, the two errors are counted, and Clopper–Pearson bounds on
both together (:func:`joint_upper`) hold with ``confidence``. Both inequalities hold at the true errors, so ε
is at least the smallest value, over these bounds, of the larger of the two.

**Gaussian bound**, if the privacy of the pair is that of Gaussian noise.

Between N(0, 1) and N(μ, 1) a test of type I error α has a type II error of at least Φ(Φ⁻¹(1 − α) − μ) (Dong,
Roth & Su 2022), so μ ≥ Φ⁻¹(1 − α) − Φ⁻¹(β). The threshold is chosen on games that are then put aside; on the
others both errors are counted, and the smallest value of that difference over the Clopper–Pearson bounds of
:func:`joint_upper` is below μ with ``confidence``.

ε is then read off the curve of μ at δ: far below the error rates that any number of games can measure. This
is why it is so much larger than what :func:`threshold_bound` reports, and why it is
a bound only if the two laws of the release are told apart exactly like two Gaussians.

**Component bound**, from how many components of a release speak for the neighbour.

A threshold game counts whole releases, so n games show no ε above log n or so. Where a release consists of
components that are drawn independently of each other, a few of them say far more together.

**Theorem.** Let a release have m components, independent given the record, and let an event be fixed for each
of them (its score lies above a threshold). Let q̄ and p̄ be the chances of the events under the record and
under its neighbour, each averaged over the components, and S the number of events that happen. If q̄ ≤ q and
p̄ ≥ p, then for every whole k with mq ≤ k and k − 1 ≤ mp

    P(S ≥ k | record) ≤ α_k = e^{−m·KL(k/m ‖ q)},   P(S < k | neighbour) ≤ β_k = e^{−m·KL((k−1)/m ‖ p)},

so that (ε, δ)-DP says 1 − β_k ≤ e^ε·α_k + δ, that is ε ≥ log((1 − δ − β_k)/α_k), for all such k at once.

*Proof.* S is a sum of independent coins. Hoeffding (1963, Theorem 1) bounds P(S ≥ k) by e^{−m·KL(k/m ‖ q̄)}
where k ≥ mq̄, and that grows with q̄ up to k/m; likewise P(S ≤ k − 1) where k − 1 ≤ mp̄. The components need
not be alike. ∎

q and p are measured: the components of n releases are n·m independent coins with the mean chances q̄ and p̄,
and the same inequality bounds those from their counts (:func:`chernoff_upper`), each but for half of what may
go wrong. The events are chosen on releases that are then put aside. No law of the noise is assumed, only that
components are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.errors import BadInput
from sfumato.mechanisms import proper_share
from sfumato.privacy import Guarantee, gaussian_epsilon

__all__ = ["gaussian_bound", "threshold_bound", "usual_delta"]

Errors = tuple[tuple[int, int], tuple[int, int]]
Array = NDArray[np.float64]

# The largest δ that a game is played at unless another is asked for: a larger one hides what leaks rarely.
_LARGEST_DELTA = 1e-5

# How many pairs stand for all of them; neighbouring levels then differ by 3% at chance 0.01.
_PAIRS = 256
#: The sentence that every bound of this kind carries.
GAUSSIAN_PAIR = "holds only if the mechanism is exactly Gaussian-DP on this pair of neighbours"

# (side, threshold): scores on this side beyond it, just so or with certainty, as of a value seen as it was.
_EVENTS = tuple((side, above) for side in (1.0, -1.0) for above in (0.0, float(np.finfo(np.float64).max)))


def check_delta(delta: float) -> float:
    """Return ``delta`` as a float, or raise if it is not in [0, 1)."""
    if isinstance(delta, bool) or not 0.0 <= delta < 1.0:
        raise BadInput(f"`delta` was {delta!r}: it must be 0 or more and below 1.", parameter="delta")
    return float(delta)


def usual_delta(proven: Guarantee) -> float:
    """Return the default δ of bounds: that of the headline, but at most 1e-5."""
    return _LARGEST_DELTA if proven.proves_nothing else min(proven.at_delta, _LARGEST_DELTA)


@dataclass(frozen=True)
class Bound:
    """The mechanism is (ε, ``delta``)-DP for no ε below ``epsilon``, unless an event of low chance happened.

    If the mechanism is (ε, δ)-DP, ``epsilon`` exceeds ε with probability at most 1 − ``confidence`` over the
    noise and the choices of the audit. Where ``assumption`` is not empty, this holds only under it.
    ``numbers`` are the counts and rates behind the bound.
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    assumption: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


def interval(count: int, total: int, confidence: float = 0.99) -> tuple[float, float]:
    """Return the two-sided Clopper–Pearson interval, which holds the probability with ``confidence``."""
    chance = failure_chance(confidence) / 2.0
    low = 0.0 if count == 0 else float(special.betaincinv(count, total - count + 1.0, chance))
    return low, float(_upper(count, total, np.asarray(chance)))


def joint_upper(first: tuple[int, int], second: tuple[int, int], chance: float) -> tuple[Array, Array]:
    """Return pairs (α, β), one of which lies above both true probabilities, except with ``chance``.

    ``first`` and ``second`` are (count, total) of two independent counts. A function that falls in both
    arguments is, at the true pair, at least its smallest value over the pairs.
    """
    log_q = -0.5 * float(special.chdtri(4.0, chance))  # −2·log of a product of two uniforms is χ² with 4
    levels = np.exp(np.linspace(log_q, 0.0, _PAIRS + 1))
    # From one level c to the next, the first bound is largest at the lower c, the second at the upper one.
    return _upper(*first, levels[:-1]), _upper(*second, levels[-2::-1])


def chernoff_upper(count: int, total: int, chance: float) -> float:
    """Return an upper bound on the mean chance of ``total`` independent coins, except with ``chance``.

    The coins may have chances of their own: P(S ≤ s) ≤ e^{−n·KL(s/n ‖ p̄)} for s ≤ n·p̄ (Hoeffding 1963).
    """
    share, most = count / total, -math.log(chance) / total
    low, high = share, 1.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _divergence(share, middle) <= most else (low, middle)
    return high


def failure_chance(confidence: float) -> float:
    """Return 1 − ``confidence``, or raise if it is not strictly between 0 and 1."""
    if isinstance(confidence, bool) or not 0.0 < confidence < 1.0:
        raise BadInput(
            f"`confidence` was {confidence!r}: it must lie strictly between 0 and 1, as 0.99 does.",
            parameter="confidence",
        )
    return 1.0 - float(confidence)


def check_confidence(confidence: float) -> None:
    """Raise for the confidence of a whole audit that is below 0.5 or not below 1."""
    if isinstance(confidence, bool) or not 0.5 <= confidence < 1.0:
        raise BadInput(
            f"`confidence` was {confidence!r}: it must be at least 0.5 and below 1.", parameter="confidence"
        )


def _upper(count: int, total: int, levels: Array) -> Array:
    """Return the Clopper–Pearson upper bounds at the chances ``levels``."""
    if count == total:
        return np.ones_like(levels)
    return np.asarray(special.betainccinv(count + 1.0, float(total - count), levels))


def threshold_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.99,
    held_out: float = 0.5,
    seed: int = 0,
) -> Bound:
    """Bound ε at ``delta`` from below by the scores of releases of a record and of its neighbour.

    ``first`` holds one score for each independent release of the record, ``second`` for each release of the
    neighbour, a higher score speaking for the neighbour; two or more each, in any number. ±inf means
    certainty, NaN is refused, and equal scores always fall on one side of the threshold together. The share
    ``held_out`` of both chooses the threshold. ε is never negative and always finite.
    """
    delta = check_delta(delta)

    def largest(alpha: Array, beta: Array) -> Array:
        return np.maximum(_epsilon(alpha, beta, delta), _epsilon(beta, alpha, delta))

    epsilon, numbers = _play(first, second, largest, largest, confidence, held_out, seed)
    return Bound(
        epsilon=max(epsilon, 0.0),
        delta=delta,
        confidence=float(confidence),
        method="threshold game, Clopper–Pearson on games that did not choose the threshold",
        numbers=numbers,
    )


def _play(
    first: ArrayLike,
    second: ArrayLike,
    value: Callable[[Array, Array], Array],
    worth: Callable[[Array, Array], Array],
    confidence: float,
    held_out: float,
    seed: int,
) -> tuple[float, dict[str, float]]:
    """Return what ``value`` of the errors (α, β) is at least, and the counts behind it.

    ``value`` falls in both errors. Games that are put aside choose the threshold where ``worth`` is largest.
    """
    chance = failure_chance(confidence)
    choosing, judging = held_out_parts(first, second, held_out=held_out, seed=seed)
    threshold = best_threshold(*choosing, worth)
    errors = count_errors(*judging, threshold)
    alpha, beta = joint_upper(*errors, chance)
    values = value(alpha, beta)
    tight = int(np.argmin(values))
    return float(values[tight]), game_numbers(threshold, errors, float(alpha[tight]), float(beta[tight]))


def check_scores(scores: ArrayLike, name: str, *, fewest: int = 1) -> Array:
    """Return scores (n,), n ≥ ``fewest``, as floats without NaN; ±inf is allowed. Refusals say ``name``."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{name} are no numbers: one number for each record or game is needed.") from None
    if values.ndim != 1 or values.size < fewest:
        raise BadInput(f"{name} have shape {values.shape}: {fewest} or more numbers on one axis are needed.")
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise BadInput(f"{name} are NaN in {bad.size} of {values.size} rows, first in row {bad[0]}.")
    return values


def held_out_parts(
    first: ArrayLike, second: ArrayLike, *, held_out: float, seed: int
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the choosing games of both worlds, and the judging games of both, at least one game in each."""
    proper_share("held_out", held_out)
    rng = np.random.default_rng(seed)
    choosing, judging = [], []
    for scores, world in ((first, "record"), (second, "neighbour")):
        values = rng.permutation(check_scores(scores, f"the scores of the {world}", fewest=2))
        cut = min(max(round(held_out * values.size), 1), values.size - 1)
        choosing.append(values[:cut])
        judging.append(values[cut:])
    return (choosing[0], choosing[1]), (judging[0], judging[1])


def best_threshold(first: Array, second: Array, value: Callable[[Array, Array], Array]) -> float:
    """Return where ``value`` of upper bounds on (α, β) is largest, over every event of the form score > t.

    Any choice is valid on other games. This one takes Wilson's closed form of a confidence bound at all t at
    once, at a level that falls with their number: the best of many noisy values would be noise otherwise.
    """
    seen = np.unique(np.concatenate([first, second]))
    # Between two scores that were seen nothing changes; the largest float sets +inf apart from all below it.
    candidates = np.concatenate([seen[:-1], [np.finfo(np.float64).max]]) if seen[-1] == np.inf else seen
    first, second = np.sort(first), np.sort(second)
    above = first.size - np.searchsorted(first, candidates, side="right")
    below = np.searchsorted(second, candidates, side="right")
    z = -float(special.ndtri(0.01 / math.sqrt(1.0 + candidates.size)))
    worth = value(_wilson_upper(above, first.size, z), _wilson_upper(below, second.size, z))
    return float(candidates[int(np.argmax(worth))])


def count_errors(first: Array, second: Array, threshold: float) -> Errors:
    """Return (false positives, games) of the record's scores, (false negatives, games) of the neighbour's."""
    false_positives = int(np.count_nonzero(first > threshold))
    false_negatives = int(np.count_nonzero(second <= threshold))
    return (false_positives, first.size), (false_negatives, second.size)


def game_numbers(threshold: float, errors: Errors, alpha: float, beta: float) -> dict[str, float]:
    """Return the counts behind a threshold game; ``alpha`` and ``beta`` are the bounds that decided."""
    return {
        "threshold": float(np.nan_to_num(threshold)),
        "false_positives": errors[0][0],
        "record_games": errors[0][1],
        "false_negatives": errors[1][0],
        "neighbour_games": errors[1][1],
        "alpha_upper": alpha,
        "beta_upper": beta,
    }


def _wilson_upper(count: NDArray[np.int64], total: int, z: float) -> Array:
    share = count / total
    spread = z * np.sqrt(share * (1.0 - share) / total + (z / (2.0 * total)) ** 2)
    return np.minimum((share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total), 1.0)


def _epsilon(alpha: Array, beta: Array, delta: float) -> Array:
    """log((1 − δ − β)/α), hugely negative where the numerator is not positive; falls in α and in β."""
    return np.asarray(np.log(np.maximum(1.0 - delta - beta, math.exp(-700.0))) - np.log(alpha))


def gaussian_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.99,
    held_out: float = 0.1,
    seed: int = 0,
) -> Bound:
    """Bound μ from below by a game, and return the ε that Gaussian noise of that μ has at ``delta``.

    Scores are those of :func:`threshold_bound`. ``delta`` must be above 0, since no
    Gaussian noise has a finite ε at 0. The bound states its assumption; μ is among its numbers.
    """
    delta = needs_delta(delta)
    # Where both errors are equal: there the difference is measured best, and few games find that place.
    found, numbers = _play(
        *(first, second, _mu, lambda alpha, beta: -np.maximum(alpha, beta)), confidence, held_out, seed
    )
    mu = max(found, 0.0)
    return Bound(
        epsilon=gaussian_epsilon(mu, delta),
        delta=delta,
        confidence=float(confidence),
        method="Gaussian game, Clopper–Pearson on games that did not choose the threshold",
        assumption=GAUSSIAN_PAIR,
        numbers=numbers | {"mu": mu},
    )


def needs_delta(delta: float) -> float:
    """Return ``delta``, or raise if it is 0 or not a δ."""
    if check_delta(delta) == 0.0:
        raise BadInput(
            "`delta` was 0: a Gaussian curve has no finite epsilon there; give a delta above 0.",
            parameter="delta",
        )
    return float(delta)


def _mu(alpha: Array, beta: Array) -> Array:
    """Φ⁻¹(1 − α) − Φ⁻¹(β), where a bound of 1 says nothing and stands as −∞."""
    return np.asarray(-special.ndtri(alpha) - special.ndtri(beta))


def component_bound(first: Array, second: Array, *, delta: float, confidence: float = 0.99) -> Bound:
    """Bound ε at ``delta`` from below by scores (games, components) of a record and of its neighbour.

    A score above 0 speaks for the neighbour, ±inf means certainty. Components must be independent given the
    record; two or more games each are needed, of which a tenth chooses what is counted.
    """
    delta, chance = check_delta(delta), failure_chance(confidence)
    cuts = [min(max(round(0.1 * len(world)), 1), len(world) - 1) for world in (first, second)]
    trial, worlds = (first[: cuts[0]], second[: cuts[1]]), (first[cuts[0] :], second[cuts[1] :])
    event = max(_EVENTS, key=lambda event: _best(*_happened(*trial, *event), delta, chance)[0])
    one, other = _happened(*worlds, *event)
    epsilon, least, alpha, beta = _best(one, other, delta, chance)
    false_positives = int(np.count_nonzero(one.sum(axis=1) >= least))
    false_negatives = int(np.count_nonzero(other.sum(axis=1) < least))
    errors = ((false_positives, len(one)), (false_negatives, len(other)))
    return Bound(
        epsilon=max(epsilon, 0.0),
        delta=delta,
        confidence=float(confidence),
        method="number of components that speak for the neighbour, by Hoeffding's inequality",
        numbers=game_numbers(least, errors, alpha, beta),
    )


def _happened(
    first: Array, second: Array, side: float, above: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which events happened; for the other side the two worlds change places."""
    seen = side * first > above, side * second > above
    return seen if side > 0.0 else (seen[1], seen[0])


def _best(
    one: NDArray[np.bool_], other: NDArray[np.bool_], delta: float, chance: float
) -> tuple[float, int, float, float]:
    """Return the largest ε over all k, the k it is reached at, and the bounds on both errors there."""
    size, half = one.shape[1], chance / 2.0
    high = chernoff_upper(int(one.sum()), one.size, half)
    low = 1.0 - chernoff_upper(int(other.size - other.sum()), other.size, half)
    counts = np.arange(1, size + 1)
    log_alpha = -size * _divergence(counts / size, high)
    beta = np.exp(-size * _divergence((counts - 1) / size, low))
    valid = (counts >= size * high) & (counts - 1 <= size * low)
    left = np.where(valid, 1.0 - delta - beta, 0.0)
    epsilons = np.where(left > 0.0, np.log(np.where(left > 0.0, left, 1.0)) - log_alpha, -math.inf)
    at = int(np.argmax(epsilons))
    return float(epsilons[at]), int(counts[at]), float(np.exp(log_alpha[at])), float(beta[at])


def _divergence(share: ArrayLike, chance: float) -> Array:
    """KL(share ‖ chance) of two coins."""
    return np.asarray(
        special.rel_entr(share, chance) + special.rel_entr(np.subtract(1.0, share), 1.0 - chance)
    )
