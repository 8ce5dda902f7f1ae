"""Sums in which one client decides who else is in them: a deadline that the first answer sets, a taken name.

Twenty clients send updates of length 1, the clip, and the noise is made for one of them (zero-out). In one
world the first client sends nothing; in the other it does what the mistake allows.
"""

from __future__ import annotations

import numpy as np

from sfumato.audits.zoo.densities import normal_ratio
from sfumato.audits.zoo.package_noise import normal
from sfumato.audits.zoo.suspect import Array, Suspect
from sfumato.privacy import Guarantee, Neighbours

__all__ = ["broken", "sound"]

_OTHERS = 19
_SIGMA, _DELTA = 1.0, 1e-2
# Seconds after which the first client answers, and all others; and that every client has.
_SOON, _LATER, _TIMEOUT = 1.0, 30.0, 60.0


def broken() -> tuple[Suspect, ...]:
    """The first answer sets the deadline, and a name that is taken displaces its owner."""
    return (
        _suspect(
            _in_time(2.0 * _SOON),
            name="deadline set by the first answer",
            mistake="A sum waits twice as long as the first answer took: a quick client keeps others out.",
            hint="that one answer sets the deadline of all",
        ),
        _suspect(
            _by_name("client 7"),
            name="a name that displaces its owner",
            mistake="Updates are kept by names that clients give themselves, and the last of a name counts.",
            hint="that a client may take the name of another one",
        ),
    )


def sound() -> tuple[Suspect, ...]:
    """A public deadline for every client by itself."""
    name, hint = "a public deadline for every client", "the sum of all others"
    return (_suspect(_in_time(_TIMEOUT), name=name, hint=hint),)


def _in_time(deadline: float) -> float:
    """The sum of the updates that came by ``deadline``, that of the first client among them."""
    return float((np.array([_SOON] + [_LATER] * _OTHERS) <= deadline).sum())


def _by_name(name: str) -> float:
    """The sum of the updates by name; the first client calls itself ``name``, and sends the opposite."""
    honest = {f"client {number}": 1.0 for number in range(1, _OTHERS + 1)}
    return sum((honest | {name: -1.0}).values())


def _suspect(total: float, *, name: str, hint: str, mistake: str = "") -> Suspect:
    """A noised sum that is ``total`` before the noise, and that of the others without the first client."""
    absent, there = np.array([float(_OTHERS)]), np.array([total])

    def draw(neighbour: bool, games: int, seed: int | None) -> Array:
        return (there if neighbour else absent) + normal(_SIGMA, (games, 1), seed)

    return Suspect(
        name=name,
        mistake=mistake,
        promised=Guarantee.gaussian(
            _SIGMA,
            unit="client",
            neighbours=Neighbours.ZERO_OUT,
            theorem="Gaussian noise on the sum of clipped updates",
            at_delta=_DELTA,
        ),
        draw=draw,
        attack="likelihood ratio of the sum",
        score=lambda outputs: normal_ratio(outputs, absent, there, _SIGMA),
        hint=hint,
        inputs=(absent, there),
    )
