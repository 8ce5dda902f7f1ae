"""Distinguishing games with a mechanism: play, score, and bound ε from below.

A game is one release, of a record or of its neighbour, and an attacker who says which it was. Any score of
the release gives a valid bound, a poor one a small bound: the log-likelihood ratio where densities are known,
a classifier where they are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.audits.bound import Bound
from sfumato.audits.game_classifier import classifier_scores
from sfumato.audits.gaussian_fit import gaussian_bound
from sfumato.audits.likelihood import check_equal_rows, check_pair, clipped, likelihood_scores
from sfumato.audits.threshold import threshold_bound
from sfumato.errors import BadInput
from sfumato.mechanisms import Gaussian, Laplace, Mechanism, RandomisedResponse, TrustAdaptive
from sfumato.mechanisms.domain import Ball, Box
from sfumato.mechanisms.parameters import known_neighbours
from sfumato.privacy import Neighbours

__all__ = ["classifier_scores", "distinguish", "likelihood_scores", "play", "worst_pair"]

Array = NDArray[np.float64]
Method = Literal["likelihood", "classifier", "gaussian"]

# Shares of the games that choose a threshold; the best of many thresholds needs more than the middle one.
_CHOOSING = {"likelihood": 0.3, "classifier": 0.3, "gaussian": 0.05}


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
    """A lower bound on the ε of ``mechanism`` at ``delta`` from ``games`` games, half of them in each world.

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
    _check_games(games, 16)
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


def play(mechanism: Mechanism, record: ArrayLike, neighbour: ArrayLike, *, games: int) -> tuple[Array, Array]:
    """``games`` releases of ``record`` and as many of ``neighbour``, each of shape (games, d).

    One call of ``perturb`` on equal rows is ``games`` independent releases of one record wherever a mechanism
    draws the noise of every row independently and alike, as those of this package do. One whose rows depend
    on each other must be run once a game instead, and one with an ε for each row is refused.
    """
    one, other = check_pair(record, neighbour)
    _check_games(games, 1)
    check_equal_rows(mechanism)
    # The neighbour's rows are numbered on from the record's, so that seeded and keyed noise differ too.
    first = mechanism.perturb(np.tile(one, (games, 1)), 0)
    second = mechanism.perturb(np.tile(other, (games, 1)), games)
    return np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


def worst_pair(mechanism: Mechanism, columns: int | None = None) -> tuple[Array, Array]:
    """Two neighbouring records of ``columns`` columns at the largest distance, of shape (columns,).

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


def _check_games(games: int, least: int) -> None:
    if isinstance(games, bool) or not isinstance(games, int) or games < least:
        raise BadInput(
            f"`games` was {games!r}: it must be a whole number, {least} or more.", parameter="games"
        )


def _shown(row: Array) -> str:
    """A record as it stands in a sentence, by its first coordinates."""
    start = ", ".join(f"{value:g}" for value in row[:3])
    return f"({start}, … {row.size} columns)" if row.size > 3 else f"({start})"
