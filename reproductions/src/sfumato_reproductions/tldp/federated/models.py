"""The small models that clients train: as few parameters as still learn, since each of them is noised."""

from __future__ import annotations

import math

from torch import nn

__all__ = ["dense", "linear", "pictures"]

_CHANNELS = (4, 8)
_HIDDEN = 16


def pictures(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions of 5 × 5 with stride 2 and a last layer, for pictures (channels, height, width).

    What the convolutions leave is averaged in squares of 2 × 2 where it is larger than 4 × 4.
    """
    first, second = _CHANNELS
    sides = [-(-side // 4) for side in shape[1:]]
    pool = 2 if min(sides) > 4 else 1
    return nn.Sequential(
        nn.Conv2d(shape[0], first, 5, 2, 2),
        nn.ReLU(),
        nn.Conv2d(first, second, 5, 2, 2),
        nn.ReLU(),
        nn.AvgPool2d(pool),
        nn.Flatten(),
        nn.Linear(second * math.prod(side // pool for side in sides), classes),
    )


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One layer."""
    return nn.Linear(shape[0], classes)


def dense(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Sixteen hidden units."""
    return nn.Sequential(nn.Linear(shape[0], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes))
