"""From guessed coins to bounds on ε: the best of several numbers of guesses, and games of two zero-outs.

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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.bound import Bound, check_delta
from sfumato.audits.one_run import best_guesses, one_run_bound, one_run_chance
from sfumato.audits.one_run_tradeoff import one_run_gaussian_bound, rejected
from sfumato.audits.proportions import failure_chance
from sfumato.mechanisms.gaussian import noise_multiplier
from sfumato.privacy import Guarantee, gaussian_epsilon
from sfumato.privacy.losses import GaussianLoss

__all__ = ["coin_bounding", "gaussian_mu", "guess_bound", "impossible", "refutable_epsilon"]


# As good as no ε, and one that noise exists for.
_SMALLEST = 1e-3


class _Bounding(Protocol):
    def __call__(
        self, correct: int, guesses: int, canaries: int, *, delta: float, confidence: float
    ) -> Bound: ...


def gaussian_mu(guarantee: Guarantee) -> float | None:
    """The μ of a guarantee whose curve is that of one Gaussian mechanism; None where it is any other."""
    if guarantee.proves_nothing or guarantee.slack > 0.0 or guarantee.revealed > 0.0:
        return None
    alone = guarantee.curve.alone
    return alone.mu if isinstance(alone, GaussianLoss) else None


def guess_bound(
    certainty: NDArray[np.float64],
    coins: NDArray[np.int64],
    *,
    delta: float,
    confidence: float = 0.99,
    gaussian: bool = False,
    zero_outs: int = 1,
) -> Bound:
    """The largest of the bounds for several numbers of guesses; together they hold with ``confidence``.

    ``certainty`` is above 0 where a coin is guessed to be 1 and its size orders the guesses; the numbers of
    guesses depend on that of the coins alone. ``gaussian`` bounds μ under the assumption of a Gaussian
    trade-off curve. ``zero_outs`` is 2 where turning a coin is two zero-outs, and the bound is for one.
    """
    counts = _counts(coins.size)
    each = 1.0 - failure_chance(confidence) / len(counts)
    bounding = coin_bounding(gaussian=gaussian, zero_outs=zero_outs)
    found = [
        bounding(*best_guesses(certainty, coins, guesses=count), delta=delta, confidence=each)
        for count in counts
    ]
    return replace(max(found, key=lambda item: item.epsilon), confidence=confidence)


def coin_bounding(*, gaussian: bool = False, zero_outs: int = 1) -> _Bounding:
    """How a count of correct guesses becomes a bound; ``zero_outs`` is 2 where a coin is worth two steps."""
    if zero_outs == 2:
        return _half_gaussian if gaussian else _half
    return one_run_gaussian_bound if gaussian else one_run_bound


def impossible(
    certainty: NDArray[np.float64],
    coins: NDArray[np.int64],
    proven: Guarantee,
    *,
    chance: float = 1e-6,
    zero_outs: int = 1,
) -> bool:
    """Whether coins are guessed so well as happens with at most ``chance`` if ``proven`` holds.

    The same numbers of guesses are tried as for a bound, and allowed for. No where nothing is proven.
    """
    if proven.proves_nothing:
        return False
    counts = _counts(coins.size)
    each, mu = chance / len(counts), gaussian_mu(proven)
    # The proof covers every δ: one this small lets guesses have so small a chance.
    delta = 0.1 * each / coins.size
    for count in counts:
        hits = best_guesses(certainty, coins, guesses=count)
        if mu is not None:
            sure = bool(rejected(*hits, np.array([zero_outs * mu]), each)[0])
        else:
            epsilon = proven.epsilon(delta)
            sure = math.isfinite(epsilon) and _chance(*hits, epsilon, delta, zero_outs) <= each
        if sure:
            return True
    return False


def refutable_epsilon(canaries: int, *, delta: float, chance: float) -> float:
    """Up to which ε at ``delta`` a Gaussian mechanism is :func:`impossible` if every coin is guessed right.

    No audit with so many ``canaries`` and so small a ``chance`` refutes a larger one, whatever it gives away.
    """
    coins = np.arange(canaries, dtype=np.int64) % 2
    right = np.where(coins == 1, 1.0, -1.0)

    def refuted(epsilon: float) -> bool:
        proven = Guarantee.gaussian(noise_multiplier(max(epsilon, _SMALLEST), delta), at_delta=delta)
        return impossible(right, coins, proven, chance=chance)

    return _largest(refuted)


def _counts(size: int) -> list[int]:
    """The numbers of guesses that are tried among ``size`` coins; they depend on nothing else."""
    usual = min(size, round(1.5 * size ** (2.0 / 3.0)))
    return sorted({max(1, size // 10), usual, max(1, size // 2), size})


def _chance(correct: int, guesses: int, canaries: int, epsilon: float, delta: float, zero_outs: int) -> float:
    if zero_outs == 2:
        epsilon, delta = 2.0 * epsilon, min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * delta)
    return one_run_chance(correct, guesses, canaries, epsilon, delta)


def _half(correct: int, guesses: int, canaries: int, *, delta: float, confidence: float) -> Bound:
    delta, chance = check_delta(delta), failure_chance(confidence)

    def likely(epsilon: float) -> bool:
        return _chance(correct, guesses, canaries, epsilon, delta, 2) > chance

    return Bound(
        epsilon=_largest(lambda epsilon: not likely(epsilon)),
        delta=delta,
        confidence=float(confidence),
        method="one-run game, a coin being worth two zero-outs",
        numbers={"correct": correct, "guesses": guesses, "canaries": canaries},
    )


def _largest(ruled_out: Callable[[float], bool]) -> float:
    """The largest ε that is ruled out, from below; 0 where none is."""
    if not ruled_out(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while ruled_out(high):
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


def _half_gaussian(correct: int, guesses: int, canaries: int, *, delta: float, confidence: float) -> Bound:
    found = one_run_gaussian_bound(correct, guesses, canaries, delta=delta, confidence=confidence)
    mu = found.numbers["mu"] / 2.0
    return replace(
        found,
        epsilon=gaussian_epsilon(mu, delta),
        method=f"{found.method}, a coin being worth two zero-outs",
        numbers={**found.numbers, "mu": mu},
    )
