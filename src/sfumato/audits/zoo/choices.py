"""Specimens that answer with a choice, and sums in which one client decides who else is in them.

The choices are randomised response, the exponential mechanism and sparse vector. In the sums the mistakes are
a deadline that the first answer sets, and a taken name.

Twenty clients send updates of length 1, the clip, and the noise is made for one of them (zero-out). In one
world the first client sends nothing; in the other it does what the mistake allows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.audits.zoo.suspect import Array, Suspect, laplace, noised, of_mechanism
from sfumato.mechanisms import RandomisedResponse
from sfumato.privacy import Guarantee, Neighbours

_OTHERS = 19
_SIGMA, _DELTA = 1.0, 1e-2
# Seconds after which the first client answers, and all others; and that every client has.
_SOON, _LATER, _TIMEOUT = 1.0, 30.0, 60.0

_EPSILON = 1.0
_CATEGORIES = 10
_CODES = np.array([0.0]), np.array([1.0])
_TWO = "nothing: two categories are where any audit begins"


def _broken_sums() -> tuple[Suspect, ...]:
    """The first answer sets the deadline, and a name that is taken displaces its owner."""
    return (
        _sum(
            "deadline set by the first answer",
            _in_time(2.0 * _SOON),
            hint="that one answer sets the deadline of all",
            mistake="A sum waits twice as long as the first answer took: a quick client keeps others out.",
        ),
        _sum(
            "a name that displaces its owner",
            _by_name("client 7"),
            hint="that a client may take the name of another one",
            mistake="Updates are kept by names that clients give themselves, and the last of a name counts.",
        ),
    )


def _in_time(deadline: float) -> float:
    """The sum of the updates that came by ``deadline``, that of the first client among them."""
    return float((np.array([_SOON] + [_LATER] * _OTHERS) <= deadline).sum())


def _by_name(name: str) -> float:
    """The sum of the updates by name; the first client calls itself ``name``, and sends the opposite."""
    honest = {f"client {number}": 1.0 for number in range(1, _OTHERS + 1)}
    return sum((honest | {name: -1.0}).values())


def _sum(name: str, total: float, *, hint: str, mistake: str = "") -> Suspect:
    """A noised sum that is ``total`` before the noise, and that of the others without the first client."""
    return noised(
        name,
        (np.array([float(_OTHERS)]), np.array([total])),
        _SIGMA,
        Guarantee.gaussian(
            _SIGMA,
            unit="client",
            neighbours=Neighbours.ZERO_OUT,
            theorem="Gaussian noise on the sum of clipped updates",
            at_delta=_DELTA,
        ),
        attack="likelihood ratio of the sum",
        hint=hint,
        mistake=mistake,
    )


def broken() -> tuple[Suspect, ...]:
    """The wrong coin, a forgotten 2, a query without noise, and sums in which one client decides for all."""
    return (_wrong_coin(), _forgotten_two(), _silent_queries(), *_broken_sums())


def sound() -> tuple[Suspect, ...]:
    """Randomised response with two categories in three columns, and with ten in one."""
    options: dict[str, Any] = {"score": _truths, "attack": "true answer", "hint": _TWO}
    binary, tenfold = RandomisedResponse(2.0, 2), RandomisedResponse(1.0, _CATEGORIES)
    return (
        of_mechanism("randomised response, three columns", binary, np.zeros(3), np.ones(3), **options),
        of_mechanism("randomised response, ten categories", tenfold, *_CODES, **options),
        # A public deadline for every client by itself.
        _sum("a public deadline for every client", _in_time(_TIMEOUT), hint="the sum of all others"),
    )


def _truths(outputs: Array) -> Array:
    """How many more answers are the neighbour's, 1, than the record's, 0: the likelihood ratio, rescaled."""
    return np.asarray((outputs == 1.0).sum(axis=1) - (outputs == 0.0).sum(axis=1), dtype=np.float64)


def _wrong_coin() -> Suspect:
    """Any two categories are a worst pair: the true answer is likely under one and rare under the other."""
    keep = math.exp(_EPSILON) / (1.0 + math.exp(_EPSILON))

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        generator = np.random.default_rng(seed)
        other = generator.integers(0, _CATEGORIES - 1, games)
        other += other >= int(neighbour)
        return np.where(generator.random(games) < keep, float(neighbour), other)[:, None]

    return Suspect(
        name="coin of two for ten categories",
        mistake="An answer is kept with probability e^ε/(1 + e^ε): right for two categories, not for ten.",
        promised=Guarantee.pure(_EPSILON, theorem="randomised response"),
        draw=draw,
        attack="true answer",
        score=_truths,
        hint=_TWO,
        inputs=_CODES,
        plain=True,
    )


def _forgotten_two() -> Suspect:
    """One record may raise one candidate's score and lower all others': that is what the 2 is for."""
    weights = np.exp(_EPSILON * np.array([[1.0] + [0.0] * 9, [0.0] + [1.0] * 9]))
    chances = weights / weights.sum(axis=1, keepdims=True)

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        generator = np.random.default_rng(seed)
        return generator.choice(_CATEGORIES, games, p=chances[int(neighbour)]).astype(np.float64)[:, None]

    return Suspect(
        name="exponential mechanism without its 2",
        mistake="Candidates are chosen with weight exp(ε·score/Δ) instead of exp(ε·score/2Δ).",
        promised=Guarantee.pure(_EPSILON, theorem="exponential mechanism"),
        draw=draw,
        attack="likelihood ratio",
        score=lambda outputs: (outputs[:, 0] != 0.0).astype(np.float64),
        hint="scores that move in opposite directions",
        inputs=_CODES,
    )


def _silent_queries() -> Suspect:
    """Two queries that change places: the answers "no, yes" and "yes, no" exclude one world each."""
    queries = np.array([[0.0, 1.0], [1.0, 0.0]])

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        threshold = laplace(2.0 / _EPSILON, (games, 1), seed)
        return np.where(queries[int(neighbour)] >= threshold, 1.0, 0.0)

    def score(outputs: Array) -> Array:
        difference = outputs[:, 0] - outputs[:, 1]
        return np.where(difference == 0.0, 0.0, np.copysign(np.inf, difference))

    return Suspect(
        name="sparse vector, noiseless queries",
        mistake="Queries are held against a noisy threshold, and get no noise of their own.",
        promised=Guarantee.pure(_EPSILON, theorem="sparse vector"),
        draw=draw,
        attack="impossible answers",
        score=score,
        hint="two queries that one record moves in opposite directions",
        inputs=(queries[0], queries[1]),
    )
