"""Lower bounds on ε and μ from one run with many canaries, by how many secret coins it gives away.

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

**Gaussian-DP.** The same guesses bound the μ of a Gaussian trade-off curve.

Mahloujifar, Melis & Chaudhuri (2024) bound the number of correct guesses by a whole trade-off curve f instead
of one point (ε, δ) of it. Here is that idea for the game of :mod:`~sfumato.audits.one_run` with r guesses
among m canaries, abstentions included, with f̄ = 1 − f, rising and concave.

**Theorem.** Let the mechanism be f-DP in each canary, C the number of correct guesses, 0 < τ ≤ 1, and

    a_v = v·τ,  u_v = (r − v)·τ,   and for i = v, v − 1, …, 1:
    p_{i−1} = max(0, m·f̄⁻¹(a_i/m) − u_i)/(r − i + 1),
    a_{i−1} = a_i + (i − 1)·p_{i−1},   u_{i−1} = u_i + (r − i + 1)·p_{i−1}.

If a_i + u_i > r at some i, then P(C ≥ v) < τ.

*Proof.* Let x_c = P(C = c), and let A_i = Σ_{c≥i} c·x_c, U_i = Σ_{c≥i} (r − c)·x_c, T_i = P(C ≥ i), so that
A_i + U_i = r·T_i. The event E of the proof in ``one_run``, for B = {i, …, r}, has probability A_i/m on S
and U_{i−1}/m on the coins with one turned over. For each S and each canary f-DP bounds the first by f̄ of
the second; f̄ is concave, so by Jensen this holds on average: A_i ≤ m·f̄(U_{i−1}/m), or
U_{i−1} ≥ m·f̄⁻¹(A_i/m), for every i ≥ 1. (The canary is drawn from all m, not from the r that are guessed:
which ones those are is read off the release, and may be the worst.)

Suppose T_v ≥ τ. Claim: A_i − k·T_i ≥ a_i − k·t_i for all i ≤ v and all real k ≤ i, where t_i = (a_i + u_i)/r.
At i = v: Σ_{c≥v} (c − k)·x_c ≥ (v − k)·τ. From i to i − 1, with k ≤ i − 1: if p_{i−1} = 0, then
A_{i−1} − k·T_{i−1} = A_i − k·T_i + (i − 1 − k)·x_{i−1} ≥ a_i − k·t_i = a_{i−1} − k·t_{i−1}.
Otherwise u_{i−1} = m·f̄⁻¹(a_i/m) ≤ m·f̄⁻¹(A_i/m) ≤ U_{i−1} (by the claim at i for k = 0), that is
r·T_{i−1} − A_{i−1} ≥ r·t_{i−1} − a_{i−1}; and the claim at i for k = i − 1 reads
A_{i−1} − (i − 1)·T_{i−1} ≥ a_{i−1} − (i − 1)·t_{i−1}, where x_{i−1} and p_{i−1} cancel. With
λ = (i − 1 − k)/(r − i + 1) ≥ 0, λ times the first plus 1 + λ times the second is the claim. Dividing by −k
and letting k → −∞, T_i ≥ t_i. So t_i > 1 contradicts T_i ≤ 1. ∎

For μ-Gaussian-DP f̄⁻¹(y) = Φ(Φ⁻¹(y) − μ), which falls in μ, so a rejected μ means that all smaller ones are
rejected too, and the largest one is a lower bound on the true μ: the chance that the true one is
rejected is at most τ = 1 − confidence.

**Several numbers of guesses** are tried, and the best bound is taken at a confidence that pays for all.

**Two zero-outs.** Where a guarantee is about zeroing a record out, and a coin chose between two records
instead, turning a coin is zeroing one record out and putting another in its place. If the mechanism is
(ε, δ)-DP under ``zero-out``, it is (2ε, (1 + e^ε)·δ)-DP in each coin (Dwork & Roth 2014, theorem 2.2), and
2μ-Gaussian-DP if it is μ-Gaussian-DP (Dong, Roth & Su 2022, theorem 2.14). The largest ε that the guesses
rule out for such a mechanism is a lower bound on its ε under ``zero-out``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sfumato.audits.lower_bounds import Bound, check_delta, check_scores, failure_chance, needs_delta
from sfumato.errors import BadInput
from sfumato.mechanisms import noise_multiplier, whole
from sfumato.privacy import GaussianLoss, Guarantee, gaussian_epsilon

__all__ = ["one_run_bound", "one_run_gaussian_bound"]

Array = NDArray[np.float64]

# Below this, P(W ≥ v)/P(W = v) is no longer a quotient of two numbers, but bounded by a geometric series.
_TINY = 1e-280

#: The sentence that every bound of this kind carries.
GAUSSIAN_CURVE = (
    "holds only if the mechanism's trade-off curve for one canary is exactly that of Gaussian noise"
)
# μ is searched up to 12, which 10²⁰ canaries could not reach, on ever finer grids of so many steps.
_LARGEST_MU, _STEPS, _ROUNDS = 12.0, 32, 4
# As good as no ε, and one that noise exists for.
_SMALLEST = 1e-3
_TWO = ", a coin being worth two zero-outs"


def one_run_bound(
    correct: int,
    guesses: int,
    canaries: int,
    *,
    delta: float,
    confidence: float = 0.99,
    zero_outs: int = 1,
) -> Bound:
    """Bound ε at ``delta`` from below, given that ``correct`` of ``guesses`` among ``canaries`` hit.

    The number of guesses must not depend on the coins or on the release (see :func:`best_guesses`).
    ``zero_outs`` is 2 where turning a coin is two zero-outs, and the bound is for one.
    """
    check_guesses(correct, guesses, canaries)
    delta, chance = check_delta(delta), failure_chance(confidence)

    def ruled_out(epsilon: float) -> bool:
        return one_run_chance(correct, guesses, canaries, epsilon, delta, zero_outs) <= chance

    method = "one-run game, the most correct guesses that any (ε, δ)-DP mechanism allows"
    return Bound(
        epsilon=_largest(ruled_out),
        delta=delta,
        confidence=float(confidence),
        method=method + (_TWO if zero_outs == 2 else ""),
        numbers={"correct": correct, "guesses": guesses, "canaries": canaries},
    )


def one_run_chance(
    correct: int, guesses: int, canaries: int, epsilon: float, delta: float, zero_outs: int = 1
) -> float:
    """Return the largest probability, over (ε, δ)-DP mechanisms, of ``correct`` or more correct guesses."""
    check_guesses(correct, guesses, canaries)
    if correct == 0:
        return 1.0
    if zero_outs == 2:
        epsilon, delta = 2.0 * epsilon, min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * delta)
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


def best_guesses(scores: ArrayLike, bits: ArrayLike, *, guesses: int) -> tuple[int, int, int]:
    """Return (correct, guesses, canaries) if the ``guesses`` most certain coins are guessed and no others.

    ``scores`` hold one number for each canary, computed from the release without the coins ``bits`` (0 or 1):
    its sign is the guess (above 0 for 1) and its size the certainty, ±inf allowed. Which canaries are guessed
    may depend on the release in any way, since the theorems allow every abstention; ``guesses``, their
    number, must not depend on the release or on the coins.
    """
    values, coins = check_scores(scores, "the scores of canaries"), np.asarray(bits)
    if values.shape != coins.shape or not np.isin(coins, (0, 1)).all():
        raise BadInput(
            f"`bits` have shape {coins.shape}: each of {values.size} canaries needs 0 (out) or 1 (in).",
            parameter="bits",
        )
    check_guesses(0, guesses, values.size)
    most = np.argsort(-np.abs(values), kind="stable")[:guesses]
    return int(np.count_nonzero((values[most] > 0.0) == (coins[most] == 1))), guesses, values.size


def check_guesses(correct: int, guesses: int, canaries: int) -> None:
    """Raise unless these are whole numbers with 0 ≤ correct ≤ guesses ≤ canaries and one guess or more."""
    whole("correct", correct, smallest=0)
    whole("guesses", guesses)
    whole("canaries", canaries)
    if not correct <= guesses <= canaries:
        raise BadInput(
            f"{correct} correct of {guesses} guesses among {canaries} canaries cannot be: no coin is guessed "
            "twice, and no more guesses are correct than are made."
        )


def one_run_gaussian_bound(
    correct: int,
    guesses: int,
    canaries: int,
    *,
    delta: float,
    confidence: float = 0.99,
    zero_outs: int = 1,
) -> Bound:
    """Bound μ from below by one run, and return the ε that Gaussian noise of that μ has at ``delta``.

    Arguments are those of :func:`one_run_bound`. μ of a coin is at most 12 and found to within 2e-5 from
    below. The bound states its assumption.
    """
    check_guesses(correct, guesses, canaries)
    delta, chance = needs_delta(delta), failure_chance(confidence)
    low, high = 0.0, _LARGEST_MU
    for _ in range(_ROUNDS):
        mus = np.linspace(low, high, _STEPS + 1)
        out = rejected(correct, guesses, canaries, mus, chance)
        # Rejections come first; rounding must not let one that stands alone behind them count.
        first_kept = int(np.argmin(out)) if not out.all() else mus.size
        if first_kept == 0:
            break
        low, high = float(mus[first_kept - 1]), float(mus[min(first_kept, mus.size - 1)])
    mu = low / zero_outs
    return Bound(
        epsilon=gaussian_epsilon(mu, delta),
        delta=delta,
        confidence=float(confidence),
        method="one-run game against Gaussian trade-off curves" + (_TWO if zero_outs == 2 else ""),
        assumption=GAUSSIAN_CURVE,
        numbers={"correct": correct, "guesses": guesses, "canaries": canaries, "mu": mu},
    )


def rejected(correct: int, guesses: int, canaries: int, mus: Array, chance: float) -> NDArray[np.bool_]:
    """Return, for each μ, whether every μ-Gaussian-DP mechanism has P(C ≥ correct) < ``chance``."""
    hits = np.full(mus.shape, correct * chance)
    misses = np.full(mus.shape, (guesses - correct) * chance)
    out = np.zeros(mus.shape, dtype=bool)
    for i in range(correct, 0, -1):
        needed = canaries * special.ndtr(special.ndtri(np.minimum(hits / canaries, 1.0)) - mus)
        more = np.maximum(needed - misses, 0.0)
        hits += more * ((i - 1) / (guesses - i + 1))
        misses += more
        out |= hits + misses > guesses * (1.0 + 1e-9)  # the allowance covers the rounding of the sums
        if (out | (more == 0.0)).all():  # where nothing is added now, nothing will be added any more
            break
    return out


def gaussian_mu(guarantee: Guarantee) -> float | None:
    """Return the μ of a guarantee whose curve is that of one Gaussian mechanism; None for any other."""
    if guarantee.proves_nothing or guarantee.slack > 0.0 or guarantee.revealed > 0.0:
        return None
    alone = guarantee.curve.alone
    return alone.mu if isinstance(alone, GaussianLoss) else None


def guess_bound(
    certainty: Array,
    coins: NDArray[np.int64],
    *,
    delta: float,
    confidence: float = 0.99,
    gaussian: bool = False,
    zero_outs: int = 1,
) -> Bound:
    """Return the largest of the bounds for several numbers of guesses, jointly with ``confidence``.

    ``certainty`` is above 0 where a coin is guessed to be 1 and its size orders the guesses. ``gaussian``
    bounds μ under the assumption of a Gaussian trade-off curve. ``zero_outs`` is 2 where
    turning a coin is two zero-outs, and the bound is for one.
    """
    tried = guess_counts(coins.size)
    each = 1.0 - failure_chance(confidence) / len(tried)
    bounded = one_run_gaussian_bound if gaussian else one_run_bound
    found = [
        bounded(
            *best_guesses(certainty, coins, guesses=count), delta=delta, confidence=each, zero_outs=zero_outs
        )
        for count in tried
    ]
    return replace(max(found, key=lambda item: item.epsilon), confidence=confidence)


def impossible(
    certainty: Array,
    coins: NDArray[np.int64],
    proven: Guarantee,
    *,
    chance: float = 1e-6,
    zero_outs: int = 1,
) -> bool:
    """Return whether coins are guessed so well as happens with at most ``chance`` if ``proven`` holds.

    The same numbers of guesses are tried as for a bound, and allowed for. No where nothing is proven.
    """
    if proven.proves_nothing:
        return False
    counts = guess_counts(coins.size)
    each, mu = chance / len(counts), gaussian_mu(proven)
    for count in counts:
        hits = best_guesses(certainty, coins, guesses=count)
        if mu is None:
            sure = contradicts(*hits, proven, each, zero_outs)
        else:
            sure = bool(rejected(*hits, np.array([zero_outs * mu]), each)[0])
        if sure:
            return True
    return False


def contradicts(
    correct: int, guesses: int, canaries: int, proven: Guarantee, chance: float, zero_outs: int = 1
) -> bool:
    """Return whether so many correct guesses have a probability of at most ``chance`` if ``proven`` holds.

    No guesses have a chance below δ. The proof covers every δ, so it is asked at one far below ``chance``.
    """
    delta = 0.1 * chance / canaries
    epsilon = proven.epsilon(delta) if delta > 0.0 else math.inf
    return (
        math.isfinite(epsilon)
        and one_run_chance(correct, guesses, canaries, epsilon, delta, zero_outs) <= chance
    )


def refutable_epsilon(canaries: int, *, delta: float, chance: float) -> float:
    """Return the largest ε at ``delta`` at which a Gaussian mechanism is :func:`impossible` if all coins hit.

    No audit with so many ``canaries`` and so small a ``chance`` refutes a larger one, whatever it gives away.
    """
    coins = np.arange(canaries, dtype=np.int64) % 2
    right = np.where(coins == 1, 1.0, -1.0)

    def refuted(epsilon: float) -> bool:
        proven = Guarantee.gaussian(noise_multiplier(max(epsilon, _SMALLEST), delta), at_delta=delta)
        return impossible(right, coins, proven, chance=chance)

    return _largest(refuted)


def guess_counts(size: int) -> list[int]:
    """Return the numbers of guesses that are tried among ``size`` coins; they depend on nothing else."""
    usual = min(size, round(1.5 * math.pow(size, 2.0 / 3.0)))
    return sorted({max(1, size // 10), usual, max(1, size // 2), size})


def _largest(ruled_out: Callable[[float], bool]) -> float:
    """Return the largest ε that is ruled out, from below; 0 where none is."""
    if not ruled_out(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while ruled_out(high):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low
