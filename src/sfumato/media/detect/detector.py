"""The interface of detectors, and the views of an image that they see."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import loading
from sfumato.errors import BadInput
from sfumato.media.images.image_mechanism import white
from sfumato.media.images.tiles import tiles_of

__all__ = ["Box", "Detector"]

#: x, y, width and height in pixels, and a confidence in [0, 1].
Box = tuple[float, float, float, float, float]

# Red, green and blue in luma (ITU-R BT.601).
_LUMA = np.array([0.299, 0.587, 0.114])


class PerThread:
    """A detector whose model every thread loads for itself, into ``_local``; it is copied without it."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._local = threading.local()


class Detector(ABC):
    """Finds what gives somebody away; ``factor`` names which of the four factors of sensitivity it speaks of.

    Pictures are arrays (h, w) or (h, w, c) of 8-bit, 16-bit or floating-point values, as in
    :class:`~sfumato.media.images.image_mechanism.PictureMechanism`; an alpha channel is not looked at.
    """

    factor: str

    @property
    def name(self) -> str:
        """How a statement names the detector, with everything that shapes what it finds."""
        return type(self).__name__.lower()

    def load(self) -> None:  # noqa: B027 (most detectors need nothing)
        """Load what it looks with, and refuse where that is missing: asked before anybody pays."""

    @abstractmethod
    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Return what is found in the whole of one picture."""

    @abstractmethod
    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """Return scores (n,) in [0, 1] of ``tiles`` (n, side, side, c), each from its own pixels alone."""

    def tile_scores(self, pictures: NDArray[Any], tile: int) -> NDArray[np.float64]:
        """Return scores (n, rows, cols) of the tiles of ``pictures`` (n, h, w, c).

        A pixel influences the score of the tile that it lies in and no other: a detector is handed one tile
        at a time, so that it cannot look at others even by mistake.
        """
        cut = tiles_of(pictures, tile)
        alone = cut.reshape(-1, 1, *cut.shape[3:])
        scores = np.concatenate([np.asarray(self.scores(each), dtype=np.float64) for each in alone])
        # A score that is not a number would say nothing about its tile: the most careful reading is 1.
        scores = np.clip(np.where(np.isnan(scores), 1.0, scores), 0.0, 1.0)
        return np.asarray(scores.reshape(cut.shape[:3]), dtype=np.float64)


def grey(pictures: NDArray[Any]) -> NDArray[np.uint8]:
    """Return luma on 256 levels: (…, h, w) of pictures (…, h, w, c)."""
    scaled = pictures.astype(np.float64) * (255.0 / white(pictures.dtype))
    channels = scaled.shape[-1]
    luma = scaled[..., :3] @ _LUMA if channels >= 3 else scaled[..., 0]
    return np.asarray(np.clip(np.rint(luma), 0.0, 255.0), dtype=np.uint8)


def open_cv() -> Any:
    """Return the OpenCV module, or a sentence that says how to get it."""
    try:
        return loading.open_cv()
    except ImportError:
        raise BadInput("detectors for pictures need OpenCV: pip install 'sfumato[media]'.") from None
