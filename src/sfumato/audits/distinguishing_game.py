"""Distinguishing games with a mechanism: play, score, and bound ε from below.

A game is one release, of a record or of its neighbour, and an attacker who says which it was. Any score of
the release gives a valid bound. The best one is the log-likelihood ratio of the release under the neighbour
and under the record (Neyman & Pearson), which needs the density of the mechanism, public with its parameters.
If no density is known, a classifier that learned from other games scores the release.

**The pair game** gives a lower bound on ε from one existing release that was made row by row.

The auditor, who has the originals, pairs up rows and tosses a fair coin for each pair. The coin says which of
the two released rows is shown. The attacker, who knows both originals, guesses whose row it is: the nearer
original's, the more surely the larger the difference of the squared distances. How often he is right bounds ε
from below.

**Why the game is valid.** Let the mechanism M make released rows each from its own record by one rule, with
randomness that does not depend on where a row stands: any choice of rows out of M(x₁, …, x_n), in any order,
is then distributed as M of the chosen records in that order. Let c be the coins and D_c the table whose k-th
record is the first of pair k where c_k = 1 and the second where c_k = 0; pairs and coins do not depend on the
release. Since pairs are disjoint, the rows that are shown are such a choice, and they are distributed as
M(D_c). Turning one coin over replaces one record of D_c. So if M is (ε, δ)-DP for one record under
``replace``, the map from coins to shown rows is (ε, δ)-DP in each coin, and so are the guesses, which are
computed from it. The coins are fair and independent: this is the game of :mod:`~sfumato.audits.one_run`, with
one canary a pair. ∎

For Gaussian noise there are two sharper bounds that rest on its trade-off curve. One plays the same game
against such curves. The other shows both rows of each pair, one as a release of the record and one as a
release of its neighbour, to :func:`~sfumato.audits.lower_bounds.gaussian_bound`: if every pair is told apart
no better than two Gaussians at distance μ, so is a pair drawn at random. It is sharper by far, and takes for
granted besides that rows have independent noise and that pairs are draws from one population.

**Other neighbours.** Two steps under ``zero-out`` or ``add/remove`` make one replacement, so that what holds
of a step gives (2ε, (1 + e^ε)·δ) and 2μ for the game; the largest ε that the guesses rule out for such a
mechanism bounds that of one step (:mod:`~sfumato.audits.one_run`), at the δ that was asked for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.findings import Finding, stated_bound
from sfumato.audits.lower_bounds import Bound, failure_chance, gaussian_bound, threshold_bound
from sfumato.audits.one_run import guess_bound, guess_counts
from sfumato.audits.record_attacks import corresponding
from sfumato.audits.roc import auc
from sfumato.errors import BadInput
from sfumato.mechanisms import (
    AdditiveNoise,
    Ball,
    Box,
    Gaussian,
    Laplace,
    Mechanism,
    RandomisedResponse,
    TrustAdaptive,
    finite_array,
    known_neighbours,
    whole,
)
from sfumato.noise import grid_step
from sfumato.privacy import Neighbours, gaussian_epsilon

__all__ = ["distinguish"]

Array = NDArray[np.float64]

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
Method = Literal["likelihood", "classifier", "gaussian"]
# Shares of the games that choose a threshold; the best of many thresholds needs more than the middle one.
_CHOOSING = {"likelihood": 0.3, "classifier": 0.3, "gaussian": 0.05}


def classifier_scores(first: Array, second: Array, *, seed: int = 0) -> tuple[Array, Array]:
    """Return scores of rows ``first`` (n, d) and ``second`` (k, d), higher if ``second`` is likelier.

    Half of the rows of each, chosen at random, train the classifier; only the others are scored and returned,
    so that given the training half the scores are independent. Of a logistic regression on values and their
    squares and of gradient-boosted trees, the one that ranks a quarter of the training rows better is taken
    and fitted on all of them.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    rng = np.random.default_rng(seed)
    worlds = [rng.permutation(rows) for rows in (first, second)]
    training = [rows[: len(rows) // 2] for rows in worlds]
    judged = [rows[: len(rows) // 4] for rows in training]
    learning = [rows[len(rows) // 4 :] for rows in training]
    # On a busy machine, threads that wait for each other make the trees ten times slower than one thread.
    with threadpool_limits(limits=1, user_api="openmp"):
        qualities = []
        for model in _models(seed):
            fitted = _fit(model, learning)
            ranks = [fitted.decision_function(rows) for rows in judged]
            qualities.append(auc(ranks[1], ranks[0]))
        best = _fit(_models(seed)[int(np.argmax(qualities))], training)
        scores = [np.asarray(best.decision_function(rows[len(rows) // 2 :])) for rows in worlds]
    return scores[0], scores[1]


def _models(seed: int) -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    squares = FunctionTransformer(lambda values: np.hstack([values, np.square(values)]))
    regression = make_pipeline(StandardScaler(), squares, StandardScaler(), LogisticRegression(max_iter=1000))
    return [regression, HistGradientBoostingClassifier(random_state=seed)]


def _fit(model: Any, worlds: list[Array]) -> Any:
    return model.fit(np.concatenate(worlds), np.repeat([0, 1], [len(rows) for rows in worlds]))


def likelihood_scores(mechanism: Mechanism, one: Array, other: Array, released: Array) -> Array:
    """Return the log-likelihood of each released row (n, d) under the neighbour less that under the record.

    Known for Gaussian, Laplace, TrustAdaptive, Personalised with one ε, AdditiveNoise and
    RandomisedResponse. ``one`` and ``other`` (d,) are clipped and put on the grid first, as the mechanism
    does. Without noise the score is ±inf where a release is one of the two records exactly.
    """
    check_equal_rows(mechanism)
    if isinstance(mechanism, RandomisedResponse):
        return _response_scores(mechanism, one, other, released)
    if isinstance(mechanism, AdditiveNoise):
        return _normal_scores(one, other, released, float(mechanism.scale))
    if not isinstance(mechanism, Gaussian | Laplace | TrustAdaptive):
        raise BadInput(
            f"the densities of {type(mechanism).__name__} are not known here: play the game with "
            "method='classifier'."
        )
    scale = mechanism._scale(one.size)
    if scale == 0.0:
        is_one, is_other = (released == one).all(axis=1), (released == other).all(axis=1)
        return np.where(is_one == is_other, 0.0, np.where(is_other, np.inf, -np.inf))
    one, other = clipped(mechanism, one), clipped(mechanism, other)
    if isinstance(mechanism, Laplace):
        return np.asarray((np.abs(released - one) - np.abs(released - other)).sum(axis=1) / scale)
    return _normal_scores(one, other, released, scale)


def clipped(mechanism: Gaussian | Laplace | TrustAdaptive, row: Array) -> Array:
    """Return ``row`` as the noise is added to it: clipped and on the grid; unchanged if there is no noise."""
    domain, scale = mechanism._domain(), mechanism._scale(row.size)
    if scale == 0.0:
        return row
    step = grid_step(scale, domain.typical(row.size))
    return np.asarray(domain.cells(row[None, :], step)[0] * step + domain.centre)


def check_pair(record: ArrayLike, neighbour: ArrayLike) -> tuple[Array, Array]:
    """Return both as rows (d,) of equally many finite numbers, or raise."""
    one = finite_array(record, "the record").astype(np.float64)
    other = finite_array(neighbour, "the neighbour").astype(np.float64)
    if one.ndim != 1 or one.shape != other.shape:
        raise BadInput(
            f"the record has shape {one.shape} and the neighbour {other.shape}: two rows of equally many "
            "numbers are needed."
        )
    return one, other


def check_equal_rows(mechanism: Mechanism) -> None:
    """Raise for a mechanism that treats equal rows differently: they are no repetitions of one game."""
    if isinstance(mechanism, Gaussian) and mechanism._relative(0, 1) is not None:
        raise BadInput(
            f"{type(mechanism).__name__} has an ε for each row, so its rows are no repetitions of one game: "
            "give one ε."
        )


def _normal_scores(one: Array, other: Array, released: Array, sigma: float) -> Array:
    return np.asarray((released - 0.5 * (one + other)) @ ((other - one) / sigma) / sigma)


def _response_scores(mechanism: RandomisedResponse, one: Array, other: Array, released: Array) -> Array:
    scores = np.zeros(len(released))
    counts = mechanism._counts(one.size)
    for column, (count, threshold) in enumerate(zip(counts, mechanism._keep(one.size), strict=True)):
        # The coin has 64 bits and a double 53: a coin that almost always keeps must not become certain.
        keep = min(threshold / 2.0**64, 1.0 - 2.0**-53)
        gain = math.log(keep) + math.log(count - 1) - math.log1p(-keep)
        answers = released[:, column]
        scores += gain * ((answers == other[column]).astype(np.float64) - (answers == one[column]))
    return scores


def pair_games(
    original: ArrayLike,
    released: ArrayLike,
    *,
    delta: float,
    law: str | None = None,
    unit: str = "record",
    neighbours: Neighbours | str = Neighbours.REPLACE,
    confidence: float = 0.99,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Bound ε at ``delta`` under ``neighbours`` from below for a release made row by row, one ``unit`` a row.

    Returns one finding that assumes nothing else; with ``law="gaussian"`` and ``delta`` above 0 two more
    follow, that of the same game against Gaussian trade-off curves and that of the two-row game, which hold
    for Gaussian noise only and say so. With ``law="laplace"`` L1 distances decide instead of squared ones.
    The most certain pairs are guessed, in one of several numbers of guesses that depend on the number of
    pairs alone; the confidence pays for trying each of them.
    """
    before, after = corresponding(original, released, fewest=_FEWEST)
    if law not in (None, "gaussian", "laplace"):
        raise BadInput(
            f"`law` was {law!r}: it must be 'gaussian', 'laplace', or None where it is not known.",
            parameter="law",
        )
    rng = np.random.default_rng(seed)
    pairs = draw_pairs(before, law=law, rng=rng)
    first, second = before[pairs[:, 0]], before[pairs[:, 1]]
    if (first == second).all():
        raise BadInput("the two records of every pair are the same: there is nobody to tell apart.")
    margins = [_margin(after[side], first, second, law) for side in pairs.T]
    coins = rng.integers(0, 2, size=len(pairs))
    scores = np.where(coins == 1, margins[0], margins[1])
    each = 1.0 - failure_chance(confidence) / len(guess_counts(len(pairs)))
    game = Neighbours(neighbours)
    steps = 1 if game is Neighbours.REPLACE else 2
    change = f"two steps under {game} make one replacement" if steps == 2 else ""

    def finding(attack: str, threat: str, bound: Bound, right: int, guesses: int, each: float) -> Finding:
        return Finding.of_count(
            *(attack, threat, "share of guesses right", right, guesses, each),
            chance=0.5,
            note="; ".join(filter(None, (ROW_BY_ROW, bound.assumption, change))),
            **stated_bound(bound, unit, game),
        )

    found = []
    curves = {"pair game": False, "pair game against Gaussian curves": True}
    for attack, gaussian in curves.items():
        if not gaussian or (law == "gaussian" and delta > 0.0):
            bound = guess_bound(
                scores, coins, delta=delta, confidence=confidence, gaussian=gaussian, zero_outs=steps
            )
            right, guesses = int(bound.numbers["correct"]), int(bound.numbers["guesses"])
            found.append(finding(attack, _ONE_ROW, bound, right, guesses, each))
    if law == "gaussian" and delta > 0.0:
        # A higher score speaks for the second record of the pair.
        bound = gaussian_bound(-margins[0], -margins[1], delta=delta, confidence=confidence, seed=seed)
        mu = bound.numbers["mu"] / steps
        bound = replace(
            bound,
            epsilon=gaussian_epsilon(mu, delta),
            assumption=f"{bound.assumption}, and {_ONE_POPULATION}",
            numbers={**bound.numbers, "mu": mu},
        )
        right = int(np.count_nonzero(margins[0] > 0.0) + np.count_nonzero(margins[1] <= 0.0))
        found.append(finding("pair game of two rows", _TWO_ROWS, bound, right, 2 * len(pairs), confidence))
    return tuple(found)


def draw_pairs(original: Array, *, law: str | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return disjoint pairs of rows (m, 2), chosen by the originals alone; an odd row is left over.

    Each row is paired with the farthest of a few others drawn at random.
    """
    free = rng.permutation(len(original))
    pairs = np.empty((len(free) // 2, 2), dtype=np.intp)
    left = len(free)
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


def _margin(rows: Array, first: Array, second: Array, law: str | None) -> Array:
    """Return how much nearer each row is to the first record of its pair than to the second."""
    if law == "laplace":
        return np.asarray((np.abs(rows - second) - np.abs(rows - first)).sum(axis=1))
    # ‖y − b‖² − ‖y − a‖² without ‖y‖², which would drown the rest under much noise.
    return np.asarray(((2.0 * rows - first - second) * (first - second)).sum(axis=1))


def distinguish(
    mechanism: Mechanism,
    record: ArrayLike | None = None,
    neighbour: ArrayLike | None = None,
    *,
    games: int = 100_000,
    delta: float,
    confidence: float = 0.99,
    method: Method = "likelihood",
    seed: int = 0,
) -> Bound:
    """Bound the ε of ``mechanism`` at ``delta`` from below by ``games`` games, half of them in each world.

    Without ``record`` and ``neighbour`` (give both or none) the game is played on :func:`worst_pair`; the
    bound says which pair it was. A given pair is clipped as the mechanism clips it, and must be neighbours.
    ``method``: ``"likelihood"`` needs known densities and assumes nothing; ``"classifier"`` needs and assumes
    nothing; ``"gaussian"`` reads the likelihood game as one between two Gaussians, an assumption that the
    bound states. The noise is the mechanism's own; ``seed`` is for splits of the games.
    """
    if method not in _CHOOSING:
        raise BadInput(
            f"`method` was {method!r}: it must be 'likelihood', 'classifier' or 'gaussian'.",
            parameter="method",
        )
    whole("games", games, smallest=16)
    if (record is None) != (neighbour is None):
        raise BadInput("one of record and neighbour is missing: give both, or neither for the worst pair.")
    if record is None or neighbour is None:
        one, other = worst_pair(mechanism)
        pair = f"the neighbours at the largest distance, {_shown(one)} and {_shown(other)}"
    else:
        one, other = check_pair(record, neighbour)
        _check_neighbours(mechanism, one, other)
        pair = f"a given pair of records of {one.size} columns"  # whose values may be private
    outputs = play(mechanism, one, other, games=games // 2)
    if method == "classifier":
        first, second = classifier_scores(*outputs, seed=seed)
    else:
        first, second = (likelihood_scores(mechanism, one, other, released) for released in outputs)
    bounded = gaussian_bound if method == "gaussian" else threshold_bound
    choosing = _CHOOSING[method]
    bound = bounded(first, second, delta=delta, confidence=confidence, held_out=choosing, seed=seed)
    return replace(bound, method=f"{bound.method}; {method} scores; {pair}")


def play(mechanism: Mechanism, one: Array, other: Array, *, games: int) -> tuple[Array, Array]:
    """Return ``games`` releases of the record ``one`` (d,) and as many of its neighbour ``other``.

    One call of ``perturb`` on equal rows is ``games`` independent releases of one record wherever a mechanism
    draws the noise of every row independently and alike, as those of this package do. One whose rows depend
    on each other must be run once a game instead, and one with an ε for each row is refused.
    """
    check_equal_rows(mechanism)
    # The neighbour's rows are numbered on from the record's, so that seeded and keyed noise differ too.
    first = mechanism.perturb(np.tile(one, (games, 1)), 0)
    second = mechanism.perturb(np.tile(other, (games, 1)), games)
    return np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


def worst_pair(mechanism: Mechanism, columns: int | None = None) -> tuple[Array, Array]:
    """Return two neighbouring records of ``columns`` columns at the largest distance, of shape (columns,).

    Opposite ends of an axis of a ball, opposite corners of a box, records that differ in every category;
    under zero-out neighbours the first record is the null value, the centre. Left out, ``columns`` is the
    number that the parameters declare, or 1, with which the privacy of a ball is the same.
    """
    if isinstance(mechanism, RandomisedResponse):
        count = mechanism._counts(columns).size
        return np.zeros(count), np.ones(count)
    domain = mechanism._domain() if isinstance(mechanism, Gaussian | Laplace | TrustAdaptive) else None
    if isinstance(domain, Ball):
        far = np.zeros(columns or 1)
        far[0] = domain.radius
        return (np.zeros(far.size) if _zero_out(mechanism) else -far), far
    if isinstance(domain, Box):
        count = columns or domain.half.size
        domain.typical(count)  # refuses bounds declared for another number of columns
        first = domain.centre if _zero_out(mechanism) else domain.low
        return np.array(np.broadcast_to(first, count)), np.array(np.broadcast_to(domain.high, count))
    raise BadInput(
        f"the worst pair of {type(mechanism).__name__} is not known here, or does not exist because its "
        "records have no bound: give record and neighbour."
    )


def _zero_out(mechanism: Mechanism) -> bool:
    return known_neighbours(getattr(mechanism, "neighbours", "replace")) is Neighbours.ZERO_OUT


def _check_neighbours(mechanism: Mechanism, one: Array, other: Array) -> None:
    """Under zero-out neighbours one of the two must be the null value, or nothing is promised for them."""
    if not isinstance(mechanism, Gaussian | Laplace | TrustAdaptive) or not _zero_out(mechanism):
        return
    centre = np.broadcast_to(np.asarray(mechanism._domain().centre), one.shape)
    if not any(np.array_equal(clipped(mechanism, row), centre) for row in (one, other)):
        raise BadInput(
            "neither record nor neighbour is the null value, the centre of the declared domain: under "
            "zero-out neighbours one of them must be."
        )


def _shown(row: Array) -> str:
    """A record as it stands in a sentence, by its first coordinates."""
    start = ", ".join(f"{value:g}" for value in row[:3])
    return f"({start}, … {row.size} columns)" if row.size > 3 else f"({start})"
