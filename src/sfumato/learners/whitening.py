"""Features whitened in a public basis, and the drawn pictures that the basis is computed from.

Noisy gradient descent goes fastest where features vary alike in all directions. The directions in which
scattering features vary are much the same for all pictures, so they are read off public ones: principal axes
of their features, of which the strongest are kept and divided by their deviation. Every row is then brought
to length 1, and depends on its own picture alone.

**Public pictures** are strokes of a pen and fallen leaves, drawn from a fixed seed. What features of pictures
have in common (which of them move together, and how much) shows already in pictures that were never taken:
curves on a dark ground, as in handwriting, and shapes of all sizes that hide each other, the *dead leaves*
whose statistics are near those of photographs (Lee, Mumford & Huang 2001). Public maps can be fitted to them
without private data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, checked_pictures
from sfumato.learners.learner import Report

_SEED = 20_010_801
_POINTS = 20
_LEAVES = 24

Plane = NDArray[np.float32]

# Part of the total variance that is added to each: directions that hardly vary are not enlarged.
_FLOOR = 1e-3
# Pictures drawn for each axis.
_DRAWN = 3


def drawn_pictures(count: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return ``count`` pictures of ``shape``, (height, width[, channels]); always the same ones.

    Every second one shows strokes, the others leaves; strokes of pictures with channels are coloured.
    """
    rng = np.random.default_rng(_SEED)
    places = tuple(axis.astype(np.float32) for axis in np.mgrid[: shape[0], : shape[1]])
    channels = (*shape, 1)[2]
    made = np.empty((count, *shape[:2], channels), dtype=np.float32)
    for number in range(count):
        made[number] = (_leaves if number % 2 else _strokes)(rng, places, channels)
    return np.asarray(np.rint(made * 255.0), dtype=np.uint8).reshape(count, *shape)


def _strokes(rng: np.random.Generator, places: tuple[Plane, ...], channels: int) -> Plane:
    """Draw one to four curves of one width."""
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
    """Draw ellipses and rectangles over each other; small ones are frequent, as a power of their size."""
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


class Whitened(Extractor):
    """Features of ``inner`` along the ``dimension`` strongest axes of drawn pictures, which are public.

    The axes are :meth:`tensors`, and belong to what is kept of a
    model: two machines may find axes of equal strength in another order.
    """

    block = 256

    def __init__(self, inner: Extractor, *, dimension: int = 1000) -> None:
        self.inner, self.shape = inner, inner.shape
        self.name = f"whitened-{inner.name}"
        self.origin = f"{inner.origin} Turned and scaled along the axes of drawn pictures, which are public."
        self.dimension = min(dimension, inner.dimension)
        self._map: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the public ``mean`` (d,) and ``axes`` (d, dimension) of the inner features."""
        mean, axes = self._fitted(None)
        return {"mean": mean, "axes": axes}

    def take(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Use the map that :meth:`tensors` gave elsewhere."""
        mean, axes = (np.asarray(tensors[name], dtype=np.float32) for name in ("mean", "axes"))
        if mean.shape != (self.inner.dimension,) or axes.shape != (self.inner.dimension, self.dimension):
            raise BadInput(
                f"the kept axes have shape {axes.shape}: {(self.inner.dimension, self.dimension)} is needed."
            )
        self._map = mean, axes

    def transform(self, pictures: Any, *, report: Report | None = None) -> NDArray[np.float32]:
        """Return features (n, dimension), of length 1, of ``pictures`` (n, *``shape``) from 0 to 255."""
        checked_pictures(pictures, self.shape)
        self._fitted(report)
        return super().transform(pictures, report=report)

    def _rows(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        mean, axes = self._fitted(None)
        turned = (self.inner.transform(block) - mean) @ axes
        return np.asarray(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-6))

    def _fitted(self, report: Report | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self._map is None:
            drawn = drawn_pictures(_DRAWN * self.dimension, self.shape)
            found = self.inner.transform(drawn, report=report).astype(np.float64)
            self._map = _axes(found, self.dimension)
        return self._map


def _axes(found: NDArray[np.float64], dimension: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean, and principal axes divided by deviations; through whichever matrix is smaller."""
    mean = found.mean(axis=0)
    centred = found - mean
    if len(found) > centred.shape[1]:
        strength, axes = np.linalg.eigh(centred.T @ centred / len(found))
    else:
        strength, turned = np.linalg.eigh(centred @ centred.T / len(found))
        axes = centred.T @ turned / np.sqrt(np.maximum(strength * len(found), 1e-12))
    strength, axes = np.maximum(strength[::-1][:dimension], 0.0), axes[:, ::-1][:, :dimension]
    floor = _FLOOR * float(strength.sum())
    return mean.astype(np.float32), (axes / np.sqrt(strength + floor)).astype(np.float32)
