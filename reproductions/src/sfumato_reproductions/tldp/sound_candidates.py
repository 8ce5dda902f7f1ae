"""Mechanisms of this library that are not in the paper, each brought to the same promise as the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Duchi, GridTensorLDP, Hybrid, Piecewise, PrivUnit, PrivUnitG
from sfumato_reproductions.tldp.candidate import Candidate, root_mean_square
from sfumato_reproductions.tldp.promise import Promise
from sfumato_reproductions.tldp.published import Sizes
from sfumato_reproductions.tldp.response import composed_epsilon, largest_share

__all__ = ["MIDDLE", "sound_candidates"]

#: The answer that looks at nothing: what a mechanism must be below to say more than that about one tensor.
MIDDLE = "middle of the range"

_LEVELS = 256
_HALF_WAY = 0.4999


def sound_candidates(promise: Promise, sizes: Sizes, randomness: Any) -> Iterator[Candidate]:
    """The middle of the range, GridTensorLDP, Duchi, Piecewise, Hybrid, PrivUnit and PrivUnitG."""
    yield _middle(sizes)
    yield from _grid(promise, sizes, randomness)
    for kind in (Duchi, Piecewise, Hybrid):
        yield _box(kind, promise, sizes, randomness)
    for report in (PrivUnit, PrivUnitG):
        yield _report(report, promise, sizes, randomness)


@dataclass(frozen=True)
class _Released:
    value: NDArray[np.float64]


@dataclass(frozen=True)
class _Middle:
    """Releases ``value`` in place of every component."""

    value: float

    def release(self, X: NDArray[np.float64]) -> _Released:
        return _Released(np.full_like(X, self.value))


def _middle(of: Sizes) -> Candidate:
    half = of.span / 2.0
    error = half * math.sqrt(of.count)
    note = "the same answer for every tensor: a smaller error than this says something about one tensor"
    return Candidate(MIDDLE, _Middle(half), 0.0, 0.0, error, of.count, (of.span,), note=note, biased=True)


def _grid(promise: Promise, of: Sizes, randomness: Any) -> Iterator[Candidate]:
    """Every component through the best channel of 256 levels, and the unbiased estimate from two levels."""
    count, share, each = of.count, promise.epsilon, ""
    if promise.unit == "tensor":
        share = largest_share(promise.epsilon, promise.delta, count)
        each = f", ε = {share:.3g} for each component, composed exactly"
    top = of.span * (_LEVELS - 1) / _LEVELS
    for name, levels, unbiased, note in (
        ("GridTensorLDP", _LEVELS, False, f"{_LEVELS} levels, pulled toward the middle"),
        ("GridTensorLDP, 2 levels", 2, True, "unbiased but for rounding to black or white"),
    ):
        mechanism = GridTensorLDP(share, (0.0, top), levels, unit="component", randomness=randomness)
        channel, places = mechanism.channel(count), np.linspace(0.0, top, levels)
        # Of two levels the lower one and what is rounded to it; the largest error is almost half way.
        inputs = np.array([_HALF_WAY * top]) if unbiased else places
        outputs = mechanism.unbiased(places[:, None])[:, 0] if unbiased else places
        squares = (channel.matrix[: len(inputs)] * np.square(outputs - inputs[:, None])).sum(axis=1)
        proven = channel.epsilon
        if promise.unit == "tensor":
            proven = composed_epsilon(channel.epsilon, count, promise.delta)
        yield Candidate(
            name,
            mechanism,
            share,
            proven,
            math.sqrt(float(squares.max()) * count),
            count,
            (float(inputs[squares.argmax()]),),
            note=note + each,
            biased=not unbiased,
            after=mechanism.unbiased if unbiased else None,
        )


def _box(kind: Callable[..., Any], promise: Promise, of: Sizes, randomness: Any) -> Candidate:
    """Some coordinates of a tensor with all of ε, or every one with the share that composition allows."""
    common: dict[str, Any] = {"bounds": (0.0, of.span), "randomness": randomness}
    columns = of.count if promise.unit == "tensor" else 1
    mechanism, note = kind(promise.epsilon, **common), ""
    closed, proven = root_mean_square(mechanism, columns, of.count), mechanism.guarantee(columns).epsilon(0.0)
    if columns > 1:
        note = f"{mechanism.count(columns)} of {columns} components reported"
        each = kind(largest_share(promise.epsilon, promise.delta, columns), **common)
        if (smaller := root_mean_square(each, 1, of.count)) < closed:
            exact = each.guarantee(1).epsilon(0.0)
            proven = composed_epsilon(exact, of.count, promise.delta)
            mechanism, closed, columns = each, smaller, 1
            note = f"every component, ε = {each.epsilon:.3g} each, composed exactly"
    values = (of.span / 2.0, of.span)
    return Candidate(kind.__name__, mechanism, mechanism.epsilon, proven, closed, columns, values, note=note)


def _report(kind: Callable[..., Any], promise: Promise, of: Sizes, randomness: Any) -> Candidate:
    clip, centre = math.sqrt(of.count) * of.span / 2.0, of.span / 2.0
    mechanism = kind(promise.epsilon, clip, randomness=randomness)
    cap = mechanism.cap(of.count)
    notes = ["the box in its ball; a report of the centre, which has the largest error"]
    if promise.unit == "component":
        notes.append("made for tensors: ε is that of a whole one")
    if cap.epsilon < 0.9 * promise.epsilon:
        notes.append("smaller caps would take too long to hit, so more of ε is not used")
    return Candidate(
        kind.__name__,
        mechanism,
        promise.epsilon,
        cap.epsilon,
        clip * math.sqrt(cap.square) / cap.mean,
        of.count,
        (centre,),
        centre=centre,
        note="; ".join(notes),
    )
