"""Scores as colours, for people: dark where nothing is to hide, then violet, orange, and pale yellow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["heat"]

# Lightness rises with the score, so that the map also reads in grey and to colour-blind eyes.
_COLOURS = np.array(
    [[12, 10, 40], [84, 24, 110], [190, 54, 84], [248, 148, 40], [252, 252, 170]], dtype=float
)


def heat(scores: Any) -> NDArray[np.uint8]:
    """Scores in [0, 1], of any shape, as red, green and blue: a further axis of three."""
    places = np.linspace(0.0, 1.0, len(_COLOURS))
    values = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)
    channels = [np.interp(values, places, _COLOURS[:, channel]) for channel in range(3)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), dtype=np.uint8)
