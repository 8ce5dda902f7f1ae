"""One mechanism on trial: its promise, its releases of two neighbouring inputs, the attack that knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.privacy import Guarantee

__all__ = ["Array", "Suspect"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Suspect:
    """A mechanism, broken or sound, as the audit meets it.

    ``promised`` is what its author believes. ``draw(neighbour, games, seed)`` releases one of two
    neighbouring inputs ``games`` times, each time with noise of its own; without a seed the noise is fresh.
    ``score`` is the attack that knows how the mechanism works: higher means the neighbour, ±∞ certainty.
    ``mistake`` is one sentence, and empty for a sound mechanism. ``inputs`` holds, for each of the two
    worlds, what every released value would be without noise: all that a generic attack is told.

    ``hint`` says what the attack knew beforehand. ``plain`` is True where the two inputs are opposite records
    of the declared domain, which an audit tries without suspecting anything. ``normal_scores``
    is True where scores are normal with one deviation in both worlds: then the Gaussian fit may be believed.
    """

    name: str
    mistake: str = ""
    promised: Guarantee
    draw: Callable[[bool, int, int | None], Array]
    attack: str
    score: Callable[[Array], Array]
    hint: str
    inputs: tuple[Array, Array]
    plain: bool = False
    normal_scores: bool = False

    @property
    def delta(self) -> float:
        """The δ at which the promise is read."""
        return self.promised.at_delta

    @property
    def epsilon(self) -> float:
        """The promised ε at that δ."""
        return self.promised.epsilon()

    def outputs(self, neighbour: bool, games: int, seed: int | None = None) -> Array:
        """``games`` independent releases, one a row, of the record or of its neighbour."""
        if isinstance(games, bool) or not isinstance(games, int) or games < 1:
            raise BadInput(f"`games` was {games!r}: it must be a whole number, 1 or more.", parameter="games")
        return np.asarray(self.draw(neighbour, games, seed), dtype=np.float64).reshape(games, -1)

    def scores(self, outputs: Array) -> Array:
        """What the informed attack makes of each release: higher means the neighbour."""
        return np.asarray(self.score(outputs), dtype=np.float64)
