"""What all tiers share that are drawn one at a time: which there are, and noise that is keyed by all of them.

Noise that is a function of the secret, the content and the whole ladder, and not of the tier that is drawn,
is the same for every tier: so drawn one by one they are nested as if they had been drawn together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.parameters import share, shown
from sfumato.noise import Stream

__all__ = ["Tier"]


class Tier(Mechanism):
    """The tier of readers of ``distrust`` among ``levels`` of the base class that stands after this one."""

    distrust: float
    levels: Sequence[float]

    def ladder(self) -> tuple[tuple[float, ...], int]:
        """All levels, the most trusted first, and which of them this tier is."""
        levels = self.levels
        given = list(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else []
        known = tuple(sorted({share("levels", level) for level in given}))
        if not known or len(known) != len(given):
            raise BadInput(
                f"`levels` must be one or more different numbers from 0 to 1, not {shown(levels)}.",
                parameter="levels",
            )
        if share("distrust", self.distrust) not in known:
            raise BadInput(
                f"`distrust` must be one of the levels {shown(list(known))}, not {shown(self.distrust)}.",
                parameter="distrust",
            )
        return known, known.index(float(self.distrust))

    def _stream(self, first: int, content: NDArray[Any]) -> Stream:
        # Drawn anew for each reader, rungs could be averaged away by readers of several tiers.
        if self.keyed is None:
            raise BadInput(
                "a tier that is drawn on its own needs keyed noise: randomness=sf.Keyed(…); "
                "TrustAdaptive.tiers draws all of them at once without.",
                parameter="randomness",
            )
        return super()._stream(first, content)

    def _context(self, columns: int) -> dict[str, Any]:
        # Keyed by the whole ladder: no rung's noise serves at two scales, and every tier finds the same.
        # These are wire names.
        levels, _ = self.ladder()
        return super()._context(columns) | {"trust": list(levels), "levels": list(levels)}
