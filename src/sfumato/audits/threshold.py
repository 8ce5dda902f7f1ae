"""From a distinguishing game to a lower bound on ε, without any assumption on the mechanism.

The attacker sees one release and says "neighbour" when its score is above a threshold t. With
α = P(score > t | record) and β = P(score ≤ t | neighbour), (ε, δ)-DP says both

    1 − β ≤ e^ε·α + δ    and    1 − α ≤ e^ε·β + δ,

so ε ≥ log((1 − δ − β)/α) and ε ≥ log((1 − δ − α)/β). The threshold is chosen on games that are then put
aside. On the others, which it does not depend on, the two errors are counted, and Clopper–Pearson bounds on
both together (:func:`~sfumato.audits.proportions.joint_upper`) hold with ``confidence``; with them both
inequalities hold at once, so the larger ε may be taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.proportions import failure_chance, joint_upper
from sfumato.errors import BadInput

__all__ = [
    "Errors",
    "best_threshold",
    "count_errors",
    "game_numbers",
    "game_scores",
    "held_out_parts",
    "threshold_bound",
]

Array = NDArray[np.float64]
Errors = tuple[tuple[int, int], tuple[int, int]]


def threshold_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.99,
    held_out: float = 0.5,
    seed: int = 0,
) -> Bound:
    """A lower bound on ε at ``delta`` from the scores of releases of a record and of its neighbour.

    ``first`` holds one score for each independent release of the record, ``second`` for each release of the
    neighbour, a higher score speaking for the neighbour; two or more each, in any number. ±inf means
    certainty, NaN is refused, and equal scores always fall on one side of the threshold together. The share
    ``held_out`` of both chooses the threshold. ε is never negative and always finite.
    """
    delta, chance = check_delta(delta), failure_chance(confidence)
    choosing, judging = held_out_parts(first, second, held_out=held_out, seed=seed)
    threshold = best_threshold(
        *choosing, lambda alpha, beta: np.maximum(_epsilon(alpha, beta, delta), _epsilon(beta, alpha, delta))
    )
    errors = count_errors(*judging, threshold)
    alpha, beta = joint_upper(*errors, chance)
    forth, back = _epsilon(alpha, beta, delta), _epsilon(beta, alpha, delta)
    tight = int(np.argmin(forth)) if forth.min() >= back.min() else int(np.argmin(back))
    return Bound(
        epsilon=max(float(forth.min()), float(back.min()), 0.0),
        delta=delta,
        confidence=float(confidence),
        method="threshold game, Clopper–Pearson on games that did not choose the threshold",
        numbers=game_numbers(threshold, errors, float(alpha[tight]), float(beta[tight])),
    )


def game_scores(scores: ArrayLike, world: str) -> Array:
    """``scores`` as an array (n,) of two or more numbers, ±inf allowed; a refusal names ``world``."""
    try:
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"the scores of the {world} are no numbers: give one number for each game.") from None
    if values.ndim != 1 or values.size < 2:
        raise BadInput(
            f"the scores of the {world} have shape {values.shape}: one number for each of two or more games "
            "is needed."
        )
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise BadInput(
            f"game {bad[0] + 1} of the {world} has the score NaN ({bad.size} such games): every game needs a "
            "number, or ±inf where the attacker is certain."
        )
    return values


def held_out_parts(
    first: ArrayLike, second: ArrayLike, *, held_out: float, seed: int
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The choosing games of both worlds, and the judging games of both; at least one game in each of them."""
    if isinstance(held_out, bool) or not 0.0 < held_out < 1.0:
        raise BadInput(
            f"`held_out` was {held_out!r}: it is the share of games that choose, between 0 and 1.",
            parameter="held_out",
        )
    rng = np.random.default_rng(seed)
    choosing, judging = [], []
    for scores, world in ((first, "record"), (second, "neighbour")):
        values = rng.permutation(game_scores(scores, world))
        cut = min(max(round(held_out * values.size), 1), values.size - 1)
        choosing.append(values[:cut])
        judging.append(values[cut:])
    return (choosing[0], choosing[1]), (judging[0], judging[1])


def best_threshold(first: Array, second: Array, value: Callable[[Array, Array], Array]) -> float:
    """Where ``value`` of upper bounds on (α, β) is largest, over every event of the form score > t.

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
    """(False positives, games) among the record's scores, (false negatives, games) among the neighbour's."""
    false_positives = int(np.count_nonzero(first > threshold))
    false_negatives = int(np.count_nonzero(second <= threshold))
    return (false_positives, first.size), (false_negatives, second.size)


def game_numbers(threshold: float, errors: Errors, alpha: float, beta: float) -> dict[str, float]:
    """What a bound from a threshold game rests on; ``alpha`` and ``beta`` are the bounds that decided."""
    return {
        "threshold": float(np.nan_to_num(threshold)),
        "false positives": errors[0][0],
        "record games": errors[0][1],
        "false negatives": errors[1][0],
        "neighbour games": errors[1][1],
        "alpha upper": alpha,
        "beta upper": beta,
    }


def _wilson_upper(count: NDArray[np.int64], total: int, z: float) -> Array:
    share = count / total
    spread = z * np.sqrt(share * (1.0 - share) / total + (z / (2.0 * total)) ** 2)
    return np.minimum((share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total), 1.0)


def _epsilon(alpha: Array, beta: Array, delta: float) -> Array:
    """log((1 − δ − β)/α), hugely negative where the numerator is not positive; falls in α and in β."""
    return np.asarray(np.log(np.maximum(1.0 - delta - beta, math.exp(-700.0))) - np.log(alpha))
