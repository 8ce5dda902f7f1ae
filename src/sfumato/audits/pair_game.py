"""A lower bound on ε from one release that already exists, made row by row: the pair game.

The auditor, who has the originals, pairs up rows and tosses a fair coin for each pair. The coin says which of
the two released rows is shown. The attacker, who knows both originals, guesses whose row it is: the nearer
original's, the more surely the larger the difference of the squared distances. How often he is right bounds ε
from below.

**Why the game is valid.** Let the mechanism M make released rows each from its own record by one rule, with
randomness that does not depend on where a row stands: any choice of rows out of M(x₁, …, x_n), in any order,
is then distributed as M of the chosen records in that order. Let c be the coins and D_c the table whose k-th
record is the first of pair k where c_k = 1 and the second where c_k = 0; pairs and coins are chosen without a
look at the release. Since pairs are disjoint, the rows that are shown are such a choice, and they are
distributed as M(D_c). Turning one coin over replaces one record of D_c. So if M is (ε, δ)-DP for one record
under ``replace``, the map from coins to shown rows is (ε, δ)-DP in each coin, and so are the guesses, which
are computed from it. The coins are fair and independent: this is the game of
:mod:`~sfumato.audits.one_run`, with one canary a pair. ∎

For Gaussian noise there are two sharper bounds that rest on its trade-off curve. One plays the same game
against such curves. The other shows both rows of each pair, one as a release of the record and one as a
release of its neighbour, to :func:`~sfumato.audits.gaussian_fit.gaussian_bound`: if every pair is told apart
no better than two Gaussians at distance μ, so is a pair drawn at random. It is sharper by far, and takes for
granted besides that rows have independent noise and that pairs are draws from one population.

**Other neighbours.** Two steps under ``zero-out`` or ``add/remove`` make one replacement, so that what holds
of a step gives (2ε, (1 + e^ε)·δ) and 2μ for the game; the largest ε that the guesses rule out for such a
mechanism bounds that of one step (:mod:`~sfumato.audits.coin_bounds`), at the δ that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.bound import Bound
from sfumato.audits.coin_bounds import coin_bounding
from sfumato.audits.findings import Finding
from sfumato.audits.gaussian_fit import gaussian_bound
from sfumato.audits.one_run import best_guesses
from sfumato.audits.proportions import failure_chance, interval
from sfumato.audits.reidentification import View, corresponding
from sfumato.errors import BadInput
from sfumato.privacy import Neighbours, gaussian_epsilon

__all__ = ["ROW_BY_ROW", "draw_pairs", "pair_games"]

Floats = NDArray[np.float64]

_FEWEST = 20
# Among how many records drawn at random the farthest is taken for a partner.
_CANDIDATES = 32
_ONE_ROW = (
    "knows both records of each pair and sees one of their two rows, chosen by a coin; guesses whose it is"
)
_TWO_ROWS = "knows both records of each pair and sees each of their rows by itself; guesses whose it is"
_ONE_POPULATION = "if rows have independent noise and pairs are draws from one population"
#: What every bound from the rows of one release takes for granted.
ROW_BY_ROW = "valid for a mechanism that makes each released row from its own record alone, by one rule"


def pair_games(
    original: ArrayLike,
    released: ArrayLike,
    *,
    delta: float,
    view: View | None = None,
    partners: str = "farthest",
    law: str | None = None,
    guesses: Sequence[int] | None = None,
    unit: str = "record",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Lower bounds on ε at ``delta`` under ``neighbours`` for a release made row by row, one ``unit`` a row.

    Returns one finding that assumes nothing else; with ``law="gaussian"`` and ``delta`` above 0 two more
    follow, that of the same game against Gaussian trade-off curves and that of the two-row game, which hold
    for Gaussian noise only and say so. With ``law="laplace"`` L1 distances decide instead of squared ones.
    ``partners`` are ``"random"`` or the ``"farthest"`` of a few drawn at random, by the originals alone. The
    most certain pairs are guessed, as many as one of ``guesses`` says: numbers fixed beforehand, by default
    about m^(2/3), a quarter, a half and all of the m pairs; the confidence pays for trying each of them.
    """
    before, after = corresponding(original, released, view, fewest=_FEWEST)
    if law not in (None, "gaussian", "laplace"):
        raise BadInput(
            f"`law` was {law!r}: it must be 'gaussian', 'laplace', or None where it is not known.",
            parameter="law",
        )
    told = _Told(unit, Neighbours(neighbours), confidence)
    rng = np.random.default_rng(seed)
    pairs = draw_pairs(before, partners=partners, law=law, rng=rng)
    first, second = before[pairs[:, 0]], before[pairs[:, 1]]
    if (first == second).all():
        raise BadInput("the two records of every pair are the same: there is nobody to tell apart.")
    margins = [_margin(after[side], first, second, law) for side in pairs.T]
    coins = rng.integers(0, 2, size=len(pairs))
    scores = np.where(coins == 1, margins[0], margins[1])
    tried = _numbers_of_guesses(guesses, len(pairs))
    found = [_one_run("pair game", False, scores, coins, tried, delta, told)]
    if law == "gaussian" and delta > 0.0:
        found.append(_one_run("pair game against Gaussian curves", True, scores, coins, tried, delta, told))
        # There a higher score speaks for the second record of the pair.
        bound = gaussian_bound(-margins[0], -margins[1], delta=delta, confidence=confidence, seed=seed)
        right = int(np.count_nonzero(margins[0] > 0.0) + np.count_nonzero(margins[1] <= 0.0))
        bound = replace(bound, assumption=f"{bound.assumption}, and {_ONE_POPULATION}")
        if told.steps == 2:
            mu = bound.numbers["mu"] / 2.0
            numbers = {**bound.numbers, "mu": mu}
            bound = replace(bound, epsilon=gaussian_epsilon(mu, delta), numbers=numbers)
        found.append(
            told.finding("pair game of two rows", _TWO_ROWS, bound, right, 2 * len(pairs), confidence)
        )
    return tuple(found)


def draw_pairs(
    original: Floats, *, partners: str, law: str | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Disjoint pairs of rows (m, 2), chosen by the originals alone; an odd row is left over."""
    order = rng.permutation(len(original))
    if partners == "random":
        return order[: len(order) // 2 * 2].reshape(-1, 2)
    if partners != "farthest":
        raise BadInput(
            f"`partners` was {partners!r}: rows are paired with 'random' or with 'farthest' ones.",
            parameter="partners",
        )
    pairs = np.empty((len(order) // 2, 2), dtype=np.intp)
    free, left = order, len(order)
    for pair in pairs:
        left -= 1
        row = free[left]
        places = rng.integers(0, left, size=min(left, _CANDIDATES))
        difference = original[free[places]] - original[row]
        size = np.abs(difference).sum(axis=1) if law == "laplace" else (difference**2).sum(axis=1)
        place = places[np.argmax(size)]
        pair[:] = row, free[place]
        left -= 1
        free[place] = free[left]
    return pairs


def _margin(rows: Floats, first: Floats, second: Floats, law: str | None) -> Floats:
    """How much nearer each row is to the first record of its pair than to the second; its sign guesses."""
    if law == "laplace":
        return np.asarray((np.abs(rows - second) - np.abs(rows - first)).sum(axis=1))
    # ‖y − b‖² − ‖y − a‖² without ‖y‖², which would drown the rest under much noise.
    return np.asarray(((2.0 * rows - first - second) * (first - second)).sum(axis=1))


def _numbers_of_guesses(guesses: Sequence[int] | None, pairs: int) -> list[int]:
    """How many guesses are tried, each number once; they depend on the number of pairs alone."""
    if guesses is None:
        return sorted({round(1.1 * pairs ** (2.0 / 3.0)), pairs // 4, pairs // 2, pairs})
    tried = sorted(set(guesses))
    if not tried or tried[0] < 1 or tried[-1] > pairs:
        raise BadInput(
            f"`guesses` must be whole numbers from 1 to the number of pairs, which is {pairs}.",
            parameter="guesses",
        )
    return tried


@dataclass(frozen=True)
class _Told:
    """What a bound is about, and the confidence of the findings."""

    unit: str
    neighbours: Neighbours
    confidence: float

    @property
    def steps(self) -> int:
        """How many steps of the neighbours make one replacement."""
        return 1 if self.neighbours is Neighbours.REPLACE else 2

    def finding(
        self, attack: str, threat: str, bound: Bound, correct: int, asked: int, each: float
    ) -> Finding:
        """The finding of ``bound``, when ``correct`` of ``asked`` guesses were right."""
        steps = f"two steps under {self.neighbours} make one replacement" if self.steps == 2 else ""
        return Finding(
            attack=attack,
            threat=threat,
            measure="share of guesses right",
            value=correct / asked,
            chance=0.5,
            interval=interval(correct, asked, each),
            confidence=self.confidence,
            epsilon_lower=bound.epsilon,
            delta=bound.delta,
            unit=self.unit,
            neighbours=str(self.neighbours),
            numbers={name.replace(" ", "_"): float(value) for name, value in bound.numbers.items()},
            note="; ".join(part for part in (ROW_BY_ROW, bound.assumption, steps) if part),
        )


def _one_run(
    attack: str,
    gaussian: bool,
    scores: Floats,
    coins: NDArray[np.int64],
    tried: Sequence[int],
    delta: float,
    told: _Told,
) -> Finding:
    """The largest of the bounds at all numbers of guesses, each at a confidence that pays for all."""
    each = 1.0 - failure_chance(told.confidence) / len(tried)
    bounded = coin_bounding(gaussian=gaussian, zero_outs=told.steps)
    counts = [best_guesses(scores, coins, guesses=number) for number in tried]
    bounds = [bounded(*count, delta=delta, confidence=each) for count in counts]
    best = int(np.argmax([bound.epsilon for bound in bounds]))
    correct, number, _ = counts[best]
    return told.finding(attack, _ONE_ROW, bounds[best], correct, number, each)
