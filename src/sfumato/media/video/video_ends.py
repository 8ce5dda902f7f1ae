"""Where a video comes from and where it goes, as far as noise has to know."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["VideoIn", "VideoOut"]


class VideoIn(Protocol):
    """A video that can be read frame by frame; ``sound`` has rate, channels and samples, or is None."""

    @property
    def height(self) -> int:
        """Rows of a frame."""

    @property
    def width(self) -> int:
        """Columns of a frame."""

    @property
    def frames(self) -> int:
        """How many frames there are."""

    @property
    def time_base(self) -> Fraction:
        """Seconds a tick."""

    @property
    def sound(self) -> Any:
        """The sound track, or None."""

    def pictures(self) -> Iterator[Any]:
        """Frames with ``pixels``, uint8 (height, width, 3), and ``ticks``."""

    def sound_blocks(self) -> Iterator[NDArray[np.float32]]:
        """Blocks (samples, channels) within [−1, 1]."""


class VideoOut(Protocol):
    """Where released frames and sound are written."""

    def write(self, pixels: NDArray[np.uint8], ticks: int) -> None:
        """Append one frame."""

    def write_sound(self, block: NDArray[Any]) -> None:
        """Append samples (samples, channels)."""
