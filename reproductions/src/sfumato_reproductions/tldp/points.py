"""The points of figures 1 and 2: where TLDP stands, and what may be set against it at the same promise.

A mechanism is *sound* here if its guarantee is proven and nothing is ever shown as it is. Those that work
component by component spend the same pure ε₁ on each, so that

- unit component: ε₁ is TLDP's ε for a component (TLDP's δ is left unused);
- unit tensor: ε₁ is the largest that composes to TLDP's (ε, δ) for a tensor, exactly (``response``);
- both: the smaller of the two, which is no weaker than TLDP in either unit.

The others promise (ε, δ) or ε of a tensor, and are offered for that unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sfumato_reproductions.tldp.candidate import TLDP
from sfumato_reproductions.tldp.network import FEATURES
from sfumato_reproductions.tldp.promise import Promise
from sfumato_reproductions.tldp.protocol import SHAPES, Run
from sfumato_reproductions.tldp.response import largest_share
from sfumato_reproductions.tldp.settings import (
    CLEAN,
    GAUSSIAN,
    GRID,
    HYBRID,
    PRIVUNIT,
    SAME_NOISE,
    SHOWN,
    WHOLE,
    Setting,
)

__all__ = ["UNITS", "Point", "points", "settings", "tensor_shape", "variants"]

UNITS = ("component", "tensor", "both")

#: Data sets whose values are grey, for which the paper has weights (and its stand-in, digits).
_WEIGHTED = ("mnist", "digits")
#: Whose (ε, δ) a weighted variant is held to: its own is larger, since its coins look at the data.
_PLAIN = {"TLDP-L-w": "TLDP-L", "TLDP-G-w": "TLDP-G"}


def tensor_shape(figure: int, data: str) -> tuple[int, ...]:
    """The shape of what is protected: a picture in figure 1, features in figure 2."""
    return SHAPES[data] if figure == 1 else (FEATURES,)


def variants(figure: int, data: str) -> list[str]:
    """TLDP as the paper plots it: with weights on MNIST in type I only."""
    weighted = figure == 1 and data in _WEIGHTED
    return [name for name, (_, weights) in TLDP.items() if weights is None or weighted]


@dataclass(frozen=True)
class Point:
    """TLDP at one claimed ε, to be compared for one of ``UNITS``."""

    figure: int
    data: str
    tldp: Setting
    unit: str

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What is proven of TLDP, at its own δ, of the unit or of both."""
        units = ("component", "tensor") if self.unit == "both" else (self.unit,)
        return tuple(_proven(self.tldp, unit, self.shape) for unit in units)

    @property
    def held(self) -> tuple[Promise, ...]:
        """What the sound mechanism is held to: for weights, the stronger promise of TLDP without them."""
        plain = Setting(_PLAIN.get(self.tldp.kind, self.tldp.kind), self.tldp.epsilon)
        return Point(self.figure, self.data, plain, self.unit).promises

    def offered(self) -> tuple[Setting, ...]:
        """Every sound setting that may be chosen here."""
        held = {promise.unit: promise for promise in self.held}
        share = min(_share(promise, self.shape) for promise in held.values())
        made = [Setting(kind, share) for kind in (HYBRID, GRID)]
        if self.unit == "tensor":
            whole = held["tensor"]
            made.append(Setting(GAUSSIAN, whole.epsilon, whole.delta))
            if self.figure == 2:
                made.append(Setting(PRIVUNIT, whole.epsilon))
        return tuple(made)

    def shown(self) -> Setting:
        """What shows or withholds a whole tensor with TLDP's δ for a tensor."""
        return Setting(SHOWN, 0.0, _proven(self.tldp, "tensor", self.shape).delta)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of what is protected."""
        return tensor_shape(self.figure, self.data)


@lru_cache(maxsize=512)
def _proven(setting: Setting, unit: str, shape: tuple[int, ...]) -> Promise:
    return setting.proven(unit, shape)


@lru_cache(maxsize=512)
def _share(promise: Promise, shape: tuple[int, ...]) -> float:
    """The ε of a component with which a mechanism keeps to ``promise``."""
    if promise.unit == "component":
        return promise.epsilon
    return largest_share(promise.epsilon, promise.delta, math.prod(shape))


def points(run: Run, figure: int, data: str) -> Iterator[Point]:
    """All points of one panel, for each unit."""
    for name in variants(figure, data):
        for epsilon in run.epsilons:
            yield from (Point(figure, data, Setting(name, epsilon), unit) for unit in UNITS)


def settings(run: Run, figure: int, data: str) -> Iterator[tuple[Setting, bool]]:
    """What is released besides the sound mechanisms, and whether for the first seed only."""
    yield Setting(CLEAN), False
    for epsilon in run.epsilons:
        yield from ((Setting(kind, epsilon), True) for kind in WHOLE)
        yield from ((Setting(kind, epsilon), False) for kind in variants(figure, data))
        yield Setting(SAME_NOISE, epsilon), False
        if figure == 1:
            yield Point(figure, data, Setting("TLDP-L", epsilon), "tensor").shown(), False
