"""A lower bound on ε from how many components of a release speak for the neighbour.

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
and the same inequality bounds those from their counts
(:func:`~sfumato.audits.proportions.chernoff_upper`), each but for half of what may go wrong. The events are
chosen on releases that are then put aside. No law of the noise is assumed, only that components are
independent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.proportions import chernoff_upper, failure_chance
from sfumato.audits.threshold import game_numbers

__all__ = ["component_bound"]

Array = NDArray[np.float64]

# (side, threshold): scores on this side beyond it, just so or with certainty, as of a value seen as it was.
_EVENTS = tuple((side, above) for side in (1.0, -1.0) for above in (0.0, float(np.finfo(np.float64).max)))


class _Count(NamedTuple):
    """A bound on ε, the count it is reached at, and the bounds on both errors there."""

    epsilon: float
    least: int
    alpha: float
    beta: float


def component_bound(
    first: Array, second: Array, *, delta: float, confidence: float = 0.99, held_out: float = 0.1
) -> Bound:
    """A lower bound on ε at ``delta`` from scores (games, components) of a record and of its neighbour.

    A score above 0 speaks for the neighbour, ±inf means certainty. Components must be independent given the
    record; two or more games each are needed, of which the share ``held_out`` chooses what is counted.
    """
    delta, chance = check_delta(delta), failure_chance(confidence)
    cuts = [min(max(round(held_out * len(world)), 1), len(world) - 1) for world in (first, second)]
    trial, worlds = (first[: cuts[0]], second[: cuts[1]]), (first[cuts[0] :], second[cuts[1] :])
    event = max(_EVENTS, key=lambda event: _best(*_happened(*trial, *event), delta, chance).epsilon)
    one, other = _happened(*worlds, *event)
    best = _best(one, other, delta, chance)
    false_positives = int(np.count_nonzero(one.sum(axis=1) >= best.least))
    false_negatives = int(np.count_nonzero(other.sum(axis=1) < best.least))
    errors = ((false_positives, len(one)), (false_negatives, len(other)))
    return Bound(
        epsilon=max(best.epsilon, 0.0),
        delta=delta,
        confidence=float(confidence),
        method="number of components that speak for the neighbour, by Hoeffding's inequality",
        numbers=game_numbers(best.least, errors, best.alpha, best.beta),
    )


def _happened(
    first: Array, second: Array, side: float, above: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which events happened; for the other side the two worlds change places."""
    seen = side * first > above, side * second > above
    return seen if side > 0.0 else (seen[1], seen[0])


def _best(one: NDArray[np.bool_], other: NDArray[np.bool_], delta: float, chance: float) -> _Count:
    """The largest ε over all k."""
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
    return _Count(float(epsilons[at]), int(counts[at]), float(np.exp(log_alpha[at])), float(beta[at]))


def _divergence(share: Array, chance: float) -> Array:
    """KL(share ‖ chance) of two coins."""
    return np.asarray(special.rel_entr(share, chance) + special.rel_entr(1.0 - share, 1.0 - chance))
