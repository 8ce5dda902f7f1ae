"""Which way up a picture is: the display matrix of a video frame, applied to its pixels.

Phones record sideways and say so in a matrix. The pixels are turned once, when read, and no matrix is
written, so that a player has nothing left to turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["Turn", "turn_of"]

# The matrix maps a stored position (x, y) to (a·x + c·y, b·x + d·y), with y pointing down; each quarter turn
# and each mirroring is one pattern of signs of (a, b, c, d).
_PATTERNS = {
    (1, 0, 0, 1): (0, False),
    (0, 1, -1, 0): (90, False),
    (-1, 0, 0, -1): (180, False),
    (0, -1, 1, 0): (270, False),
    (-1, 0, 0, 1): (0, True),
    (0, 1, 1, 0): (270, True),
    (1, 0, 0, -1): (180, True),
    (0, -1, -1, 0): (90, True),
}


@dataclass(frozen=True)
class Turn:
    """A mirroring from left to right, or none, and then a turn by ``degrees`` clockwise."""

    degrees: int = 0
    mirrored: bool = False

    @property
    def sideways(self) -> bool:
        """Whether width and height change places."""
        return self.degrees in (90, 270)

    def upright(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """``pixels`` (h, w, …) turned; a view."""
        return np.rot90(pixels[:, ::-1] if self.mirrored else pixels, -self.degrees // 90)


def turn_of(frame: Any, name: str) -> Turn:
    """The turn that the display matrix of a decoded frame of the file ``name`` asks for."""
    data = next((side for side in frame.side_data if side.type.name == "DISPLAYMATRIX"), None)
    if data is None:
        return Turn()
    matrix = np.frombuffer(bytes(data), dtype=np.int32)
    if matrix.size != 9:
        raise BadInput(f"{name} has a display matrix that cannot be read.")
    turning = matrix[[0, 1, 3, 4]].astype(np.float64)
    size = float(np.abs(turning).max())
    signs = tuple(int(sign) for sign in np.rint(turning / size)) if size else ()
    if signs not in _PATTERNS or np.abs(turning - size * np.array(signs)).max() > 0.01 * size:
        raise BadInput(f"{name} is to be shown turned by something else than quarter turns.")
    return Turn(*_PATTERNS[signs])
