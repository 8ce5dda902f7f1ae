"""One run, many canaries: a lower bound on the μ of Gaussian-DP, from the same guesses as ``one_run``.

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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sfumato.audits.bound import Bound
from sfumato.audits.gaussian_fit import needs_delta
from sfumato.audits.one_run import check_guesses
from sfumato.audits.proportions import failure_chance
from sfumato.privacy import gaussian_epsilon

__all__ = ["GAUSSIAN_CURVE", "one_run_gaussian_bound", "rejected"]

Array = NDArray[np.float64]

#: The sentence that every bound of this kind carries.
GAUSSIAN_CURVE = (
    "holds only if the mechanism's trade-off curve for one canary is exactly that of Gaussian noise"
)

# μ is searched up to 12, which 10²⁰ canaries could not reach, on ever finer grids of so many steps.
_LARGEST_MU, _STEPS, _ROUNDS = 12.0, 32, 4


def one_run_gaussian_bound(
    correct: int, guesses: int, canaries: int, *, delta: float, confidence: float = 0.99
) -> Bound:
    """A lower bound on μ from one run, and the ε that Gaussian noise of that μ has at ``delta``.

    ``correct`` of ``guesses`` guesses among ``canaries`` hit; the number of guesses must not depend on the
    coins or on the release (see :func:`~sfumato.audits.one_run.best_guesses`). μ is at most 12 and found to
    within 2e-5 from below. The bound states its assumption.
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
    return Bound(
        epsilon=gaussian_epsilon(low, delta),
        delta=delta,
        confidence=float(confidence),
        method="one-run game against Gaussian trade-off curves",
        assumption=GAUSSIAN_CURVE,
        numbers={"correct": correct, "guesses": guesses, "canaries": canaries, "mu": low},
    )


def rejected(correct: int, guesses: int, canaries: int, mus: Array, chance: float) -> NDArray[np.bool_]:
    """For each μ, whether every μ-Gaussian-DP mechanism has P(C ≥ correct) < ``chance``."""
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
