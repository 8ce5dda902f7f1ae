"""One run, many canaries: a lower bound on ε from how many secret coins one release gives away.

The game of Steinke, Nasr & Jagielski (2023): a fair coin of the auditor puts each of m canaries in or out
(or sets it to the record or to its neighbour), the mechanism runs once on all of them, and the auditor, who
sees the release and not the coins, guesses exactly r of the m coins, abstaining on the rest. C of the guesses
are correct. The canaries may depend on each other in any way; only the coins must be independent.

**Theorem.** Let the mechanism be (ε, δ)-DP in each canary, W ~ Bin(r, e^ε/(1 + e^ε)) and
b = P(W ≥ v) for some v ≥ 1. Then P(C ≥ v) ≤ b + m·δ·b·(1 − b) / (v·P(W = v)), and for each ε, δ, m, r and v
some mechanism attains the smaller of this and 1. (At δ = 0 it is the theorem of that paper. At δ > 0 the
paper adds 2mδ·maxᵢ P(v − i ≤ W < v)/i instead, which is more wherever b ≤ 1/2.)

*Proof.* Let p_c = P(C = c), let U be a canary drawn uniformly and S′ the coins with the U-th turned over.
Fix a set B of counts and the event E: guess U equals coin U and the number of guesses equal to S lies in B.
Run on S, E has probability Σ_{c∈B} (c/m)·p_c. Run on S′, which are fair coins too, E says that guess U is
wrong and that one more than the count of correct guesses lies in B: Σ_{c∈B} ((r − c + 1)/m)·p_{c−1}. By
(ε, δ)-DP for each S and U, and on average, Σ_{c∈B} (c·p_c − e^ε(r − c + 1)·p_{c−1}) ≤ m·δ. Write w_c for
P(W = c) and h_c = p_c/w_c. Since c·w_c = e^ε(r − c + 1)·w_{c−1}, taking for B all c with a positive term
gives Σ_c c·w_c·J_c ≤ m·δ with J_c = max(h_c − h_{c−1}, 0). Now

    P(C ≥ v) − b = (1 − b)·Σ_{c≥v} w_c·h_c − b·Σ_{c<v} w_c·h_c = Σ_{c≥v} Σ_{d<v} w_c·w_d·(h_c − h_d)
                 ≤ Σ_k J_k·P(W ≥ max(v, k))·P(W < min(v, k)),

because h_c − h_d ≤ J_{d+1} + … + J_c. With q = e^ε/(1 + e^ε) and W′ ~ Bin(r − 1, q) one has
k·w_k = r·q·P(W′ = k − 1), P(W < k) = P(W′ < k) − q·P(W′ = k − 1) and P(W ≥ k) = P(W′ ≥ k − 1) −
(1 − q)·P(W′ = k − 1); W′ is log-concave, so P(W < k)/(k·w_k) rises in k and P(W ≥ k)/(k·w_k) falls. The
factor of J_k, over k·w_k, is therefore largest at k = v, and the sum at most m·δ·b·(1 − b)/(v·w_v).
Equality: h constant below and from v on, with one jump of m·δ/(v·w_v), or of 1/b from 0 if that is less; C
drawn from this law, and the r guessed canaries and the correct ones among them drawn uniformly. ∎

Since the classes of (ε, δ)-DP mechanisms are nested, the bound grows with ε, and the largest ε at which it
stays within 1 − confidence is a lower bound on the true ε.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.proportions import failure_chance
from sfumato.errors import BadInput

__all__ = ["best_guesses", "check_guesses", "one_run_bound", "one_run_chance"]

# Below this, P(W ≥ v)/P(W = v) is no longer a quotient of two numbers, but bounded by a geometric series.
_TINY = 1e-280


def one_run_bound(
    correct: int, guesses: int, canaries: int, *, delta: float, confidence: float = 0.99
) -> Bound:
    """A lower bound on ε at ``delta``, given that ``correct`` of ``guesses`` guesses among ``canaries`` hit.

    The number of guesses must not depend on the coins or on the release (see :func:`best_guesses`).
    """
    check_guesses(correct, guesses, canaries)
    delta, chance = check_delta(delta), failure_chance(confidence)
    low, high = 0.0, 1.0
    while one_run_chance(correct, guesses, canaries, high, delta) <= chance:
        low, high = high, 2.0 * high
    if one_run_chance(correct, guesses, canaries, low, delta) > chance:
        high = low
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if one_run_chance(correct, guesses, canaries, middle, delta) <= chance:
            low = middle
        else:
            high = middle
    return Bound(
        epsilon=low,
        delta=delta,
        confidence=float(confidence),
        method="one-run game, the most correct guesses that any (ε, δ)-DP mechanism allows",
        numbers={"correct": correct, "guesses": guesses, "canaries": canaries},
    )


def one_run_chance(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability, over all (ε, δ)-DP mechanisms, of ``correct`` or more correct guesses."""
    check_guesses(correct, guesses, canaries)
    if correct == 0:
        return 1.0
    wrong, miss = guesses - correct, float(special.expit(-epsilon))
    tail = float(special.betaincc(wrong + 1.0, correct, miss))
    below = float(special.betainc(wrong + 1.0, correct, miss))
    if tail > _TINY:
        log_point = (
            float(special.gammaln(guesses + 1.0) - special.gammaln(correct + 1.0))
            - float(special.gammaln(wrong + 1.0))
            + correct * float(special.log_expit(epsilon))
            + wrong * float(special.log_expit(-epsilon))
        )
        # Far below the mean the quotient is huge and the tail is 1, so that a cut-off changes nothing.
        gain = math.exp(min(math.log(tail) + math.log(max(below, _TINY)) - log_point, 700.0))
    else:
        # P(W = c + 1)/P(W = c) falls in c, so the tail is below a geometric series from its first term on.
        gain = 1.0 / (1.0 - wrong * math.exp(epsilon) / (correct + 1.0))
    return min(1.0, tail + canaries * delta * gain / correct)


def best_guesses(scores: ArrayLike, bits: ArrayLike, *, guesses: int | None = None) -> tuple[int, int, int]:
    """(Correct, guesses, canaries) when the ``guesses`` most certain coins are guessed and no others.

    ``scores`` hold one number for each canary, computed from the release without the coins ``bits`` (0 or 1):
    its sign is the guess (above 0 for 1) and its size the certainty, ±inf allowed. Which canaries are guessed
    may depend on the release in any way, since the theorems allow every abstention; how many may not, nor on
    the coins. ``guesses`` must therefore be fixed beforehand; left out, it is 1.5·m^(2/3) rounded (at most
    m), which depends on the number of canaries alone. To try several numbers, take each bound at
    1 − (1 − confidence)/number of trials and keep the largest: together they hold with ``confidence``.
    """
    values, coins = _checked(scores, bits)
    count = min(values.size, round(1.5 * values.size ** (2.0 / 3.0))) if guesses is None else guesses
    check_guesses(0, count, values.size)
    most = np.argsort(-np.abs(values), kind="stable")[:count]
    return int(np.count_nonzero((values[most] > 0.0) == (coins[most] == 1))), count, values.size


def check_guesses(correct: int, guesses: int, canaries: int) -> None:
    """Refuse what are not whole numbers with 0 ≤ correct ≤ guesses ≤ canaries and one guess or more."""
    for name, value in (("correct", correct), ("guesses", guesses), ("canaries", canaries)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise BadInput(f"`{name}` was {value!r}: it must be a whole number.", parameter=name)
    if not (0 <= correct <= guesses <= canaries and guesses >= 1):
        raise BadInput(
            f"{correct} correct of {guesses} guesses among {canaries} canaries cannot be: at least one guess "
            "is needed, none twice, and no more correct ones than guesses."
        )


def _checked(scores: ArrayLike, bits: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    values, coins = np.asarray(scores, dtype=np.float64), np.asarray(bits)
    if values.ndim != 1 or values.size == 0 or values.shape != coins.shape:
        raise BadInput(
            f"scores of shape {values.shape} and bits of shape {coins.shape} were given: one score and one "
            "bit for each canary are needed."
        )
    if np.isnan(values).any():
        raise BadInput(f"canary {int(np.argmax(np.isnan(values))) + 1} has the score NaN: give it a number.")
    if not np.isin(coins, (0, 1)).all():
        raise BadInput("`bits` must be 0 (out) or 1 (in), as the coins fell.", parameter="bits")
    return values, coins
