"""Pictures that nobody is in: strokes of a pen and fallen leaves, drawn from a fixed seed.

What features of pictures have in common (which of them move together, and how much) shows already in pictures
that were never taken: curves on a dark ground, as in handwriting, and shapes of all sizes that hide each
other, the *dead leaves* whose statistics are near those of photographs (Lee, Mumford & Huang 2001). Public
maps can be fitted to them without asking anybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["drawn_pictures"]

_SEED = 20_010_801
_POINTS = 20
_LEAVES = 24

Plane = NDArray[np.float32]


def drawn_pictures(count: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """``count`` pictures of ``shape``, (height, width) or (height, width, channels); always the same ones.

    Every second one shows strokes, the others leaves; strokes of pictures with channels are coloured.
    """
    if len(shape) not in (2, 3) or min(shape) < 1 or count < 1:
        raise BadInput(f"{count} pictures of shape {shape!r} cannot be drawn: (height, width[, channels]).")
    rng = np.random.default_rng(_SEED)
    places = tuple(axis.astype(np.float32) for axis in np.mgrid[: shape[0], : shape[1]])
    channels = (*shape, 1)[2]
    made = np.empty((count, *shape[:2], channels), dtype=np.float32)
    for number in range(count):
        made[number] = (_leaves if number % 2 else _strokes)(rng, places, channels)
    return np.asarray(np.rint(made * 255.0), dtype=np.uint8).reshape(count, *shape)


def _strokes(rng: np.random.Generator, places: tuple[Plane, ...], channels: int) -> Plane:
    """One to four curves of one width."""
    size = min(places[0].shape)
    centre = np.array(places[0].shape) / 2.0
    curves = int(rng.integers(1, 5))
    corners = centre + size * (
        rng.normal(0.0, 0.06, (curves, 1, 2)) + rng.uniform(-0.36, 0.36, (curves, 3, 2))
    )
    along = np.linspace(0.0, 1.0, _POINTS)[:, None]
    bends = (1.0 - along) ** 2, 2.0 * along * (1.0 - along), along**2
    points = sum(bend * corners[:, None, corner] for corner, bend in enumerate(bends)).reshape(-1, 2)
    down, across = (
        (place.ravel() - points[:, axis, None].astype(np.float32)) for axis, place in enumerate(places)
    )
    nearest = np.sqrt((down**2 + across**2).min(axis=0)).reshape(places[0].shape)
    ink = np.clip(size * rng.uniform(0.03, 0.075) - nearest + 0.5, 0.0, 1.0)
    ground, colour = rng.uniform(0.0, 1.0, (2, channels)) if channels > 1 else np.array([[0.0], [1.0]])
    return np.asarray(ground + (colour - ground) * ink[:, :, None], dtype=np.float32)


def _leaves(rng: np.random.Generator, places: tuple[Plane, ...], channels: int) -> Plane:
    """Ellipses and rectangles over each other; small ones are frequent, as a power of their size."""
    size = min(places[0].shape)
    picture = np.broadcast_to(rng.uniform(0.0, 1.0, channels), (*places[0].shape, channels)).astype(
        np.float32
    )
    reach = 0.5 * size * np.minimum(1.0, 0.06 / rng.uniform(0.02, 1.0, _LEAVES) ** 0.7)
    middle = rng.uniform(0.0, 1.0, (_LEAVES, 2)) * places[0].shape
    turn, flat = rng.uniform(0.0, np.pi, _LEAVES), rng.uniform(0.4, 1.0, _LEAVES)
    round_ones, colours = rng.random(_LEAVES) < 0.5, rng.uniform(0.0, 1.0, (_LEAVES, channels))
    for leaf in range(_LEAVES):
        down, across = (places[axis] - np.float32(middle[leaf, axis]) for axis in (0, 1))
        cosine, sine = np.float32(np.cos(turn[leaf])), np.float32(np.sin(turn[leaf]))
        u = down * cosine + across * sine
        v = (across * cosine - down * sine) / np.float32(flat[leaf])
        gone = np.hypot(u, v) if round_ones[leaf] else np.maximum(np.abs(u), np.abs(v))
        cover = np.clip(np.float32(reach[leaf]) - gone + 0.5, 0.0, 1.0)[:, :, None]
        picture += cover * (colours[leaf].astype(np.float32) - picture)
    return picture
