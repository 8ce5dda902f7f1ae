"""Features in a public basis: turned and scaled so that what moves together in public pictures is evened out.

Noisy gradient descent goes fastest where features vary alike in all directions. The directions in which
scattering features vary are much the same for all pictures, so they are read off public ones
(:mod:`~.public_pictures`): principal axes of their features, of which the strongest are kept and divided by
their deviation. Every row is then brought to length 1, and depends on its own picture alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.learners.extractor import Extractor, Report, checked_pictures
from sfumato.learners.public_images import drawn_pictures
from sfumato.learners.rowwise import in_blocks

__all__ = ["Whitened"]

_BLOCK = 256
# Part of the total variance that is added to each: directions that hardly vary are not blown up.
_FLOOR = 1e-3
# Pictures drawn for each axis.
_DRAWN = 3


class Whitened(Extractor):
    """Features of ``inner`` along the ``dimension`` strongest axes of ``pictures``, which are public.

    Without ``pictures`` they are drawn ones. The axes are :meth:`tensors`, and belong to what is kept of a
    model: two machines may find axes of equal strength in another order.
    """

    def __init__(self, inner: Extractor, *, pictures: Any = None, dimension: int = 1000) -> None:
        self.inner, self.shape = inner, inner.shape
        self.name = f"whitened-{inner.name}"
        source = "drawn pictures" if pictures is None else "given pictures"
        self.origin = f"{inner.origin} Turned and scaled along the axes of {source}, which are public."
        self._given, self.dimension = pictures, min(dimension, inner.dimension)
        self._map: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The public ``mean`` (d,) and ``axes`` (d, dimension) of the inner features."""
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
        """Features (n, dimension) of ``pictures`` (n, *``shape``), values from 0 to 255; of length 1."""
        given = checked_pictures(pictures, self.shape)
        mean, axes = self._fitted(report)

        def rows(block: NDArray[np.float32]) -> NDArray[np.float32]:
            turned = (self.inner.transform(block) - mean) @ axes
            return np.asarray(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-6))

        return in_blocks(rows, given, size=_BLOCK, dimension=self.dimension, stage=self.name, report=report)

    def _fitted(self, report: Report | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self._map is None:
            drawn = (
                drawn_pictures(_DRAWN * self.dimension, self.shape) if self._given is None else self._given
            )
            found = self.inner.transform(drawn, report=report).astype(np.float64)
            self._map = _axes(found, self.dimension)
        return self._map


def _axes(found: NDArray[np.float64], dimension: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean, and principal axes divided by deviations; through whichever matrix is smaller."""
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
