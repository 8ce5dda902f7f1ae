"""Mechanisms that answer with a choice: randomised response, the exponential mechanism, sparse vector."""

from __future__ import annotations

import math

import numpy as np

from sfumato.audits.zoo.package_noise import drawn, laplace
from sfumato.audits.zoo.suspect import Array, Suspect
from sfumato.mechanisms import RandomisedResponse
from sfumato.privacy import Guarantee

__all__ = ["broken", "sound"]

_EPSILON = 1.0
_CATEGORIES = 10
_CODES = np.array([0.0]), np.array([1.0])


def broken() -> tuple[Suspect, ...]:
    """The wrong coin, a forgotten 2, and a query without noise."""
    return (_wrong_coin(), _forgotten_two(), _silent_queries())


def sound() -> tuple[Suspect, ...]:
    """Randomised response with two categories in three columns, and with ten in one."""
    zeros, ones = np.zeros(3), np.ones(3)
    return (
        _response("randomised response, three columns", RandomisedResponse(2.0, 2), zeros, ones),
        _response("randomised response, ten categories", RandomisedResponse(1.0, _CATEGORIES), *_CODES),
    )


def _truths(outputs: Array, first: Array, second: Array) -> Array:
    """How many more answers agree with the neighbour than with the record: the likelihood ratio, rescaled."""
    return np.asarray((outputs == second).sum(axis=1) - (outputs == first).sum(axis=1), dtype=np.float64)


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
        score=lambda outputs: _truths(outputs, *_CODES),
        hint="nothing: two categories are where any audit begins",
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


def _response(name: str, mechanism: RandomisedResponse, first: Array, second: Array) -> Suspect:
    return Suspect(
        name=name,
        promised=mechanism.guarantee(first.size),
        draw=drawn(mechanism, first[None], second[None]),
        attack="true answer",
        score=lambda outputs: _truths(outputs, first, second),
        hint="nothing: two categories are where any audit begins",
        inputs=(first, second),
        plain=True,
    )
