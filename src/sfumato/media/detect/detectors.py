"""Detectors by name: faces and licence plates (cascades), salient regions (spectral residual), and others.

**Cascades** are those that OpenCV 4 carries (Viola & Jones 2001). A cascade answers with the margin of its
last stage, which is no probability. The confidence here is a logistic curve of that margin, with a middle and
a width that were chosen on public pictures: it orders detections; it does not calibrate them. The paper's
threshold of 0.95 on face confidence therefore has no equal here.

**Saliency** is the spectral residual of an image, or of each tile: where a viewer looks, not what is secret.
It counts for the factor behaviour, for want of a detector of what people do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import saliency_weights, shown
from sfumato.media.detect.detector import Box, Detector, PerThread, grey, open_cv
from sfumato.media.detect.text_detector import Text

__all__ = ["Faces", "Plates", "Saliency", "named_detectors"]

# Tiles smaller than this many windows of the cascade are enlarged, so that a face that fills one is seen.
_ENLARGED = 3.0
# The longer side of a picture that is searched; larger ones are shrunk, and their boxes enlarged.
_LONGEST = 1024


class _Cascade(PerThread, Detector):
    """A cascade file, the window it was trained on, and how its margins become confidences.

    A classifier keeps the picture that it works on, so every thread has one of its own.
    """

    _file: ClassVar[str]
    _window: ClassVar[tuple[int, int]]  # width, height
    _middle: ClassVar[float]
    _width: ClassVar[float]
    _neighbours: ClassVar[int]

    def load(self) -> None:
        """Load the cascade."""
        self._classifier()

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Return boxes with the confidence of each."""
        plane = grey(picture[..., None] if picture.ndim == 2 else picture)
        factor = min(1.0, _LONGEST / max(plane.shape))
        return [
            (x / factor, y / factor, w / factor, h / factor, confidence)
            for x, y, w, h, confidence in self._found(plane, factor, self._neighbours)
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """Return the largest confidence of what is found in each tile, enlarged; 0 where nothing is.

        Tiles are searched one by one: a cascade that runs over several side by side skips windows according
        to what it met before, so that one tile would change what is found in the next.
        """
        planes = grey(tiles)
        factor = max(1.0, _ENLARGED * min(self._window) / min(planes.shape[1:]))
        best = [max((box[4] for box in self._found(plane, factor, 1)), default=0.0) for plane in planes]
        return np.asarray(best, dtype=np.float64)

    def _found(self, plane: NDArray[np.uint8], factor: float, neighbours: int) -> list[Box]:
        cv2 = open_cv()
        if factor != 1.0:
            way = cv2.INTER_LINEAR if factor > 1.0 else cv2.INTER_AREA
            plane = cv2.resize(plane, None, fx=factor, fy=factor, interpolation=way)
        if plane.shape[1] < self._window[0] or plane.shape[0] < self._window[1]:
            return []
        places, _, margins = self._classifier().detectMultiScale3(
            plane, scaleFactor=1.1, minNeighbors=neighbours, outputRejectLevels=True
        )
        if not len(places):
            return []
        values = (np.asarray(margins, dtype=np.float64).ravel() - self._middle) / self._width
        confidences = 1.0 / (1.0 + np.exp(-np.clip(values, -50.0, 50.0)))
        return [
            (float(x), float(y), float(w), float(h), float(confidence))
            for (x, y, w, h), confidence in zip(np.asarray(places), confidences, strict=True)
        ]

    def _classifier(self) -> Any:
        if not hasattr(self._local, "classifier"):
            cv2 = open_cv()
            folder = getattr(getattr(cv2, "data", None), "haarcascades", None)
            made = cv2.CascadeClassifier(f"{folder}{self._file}") if folder else None
            if made is None or made.empty():
                raise BadInput(
                    "this OpenCV carries no cascades, as those from version 5 on do: "
                    "pip install 'opencv-python-headless<5'."
                )
            self._local.classifier = made
        return self._local.classifier


class Faces(_Cascade):
    """Frontal faces."""

    factor = "identity"
    _file = "haarcascade_frontalface_alt2.xml"
    _window = (20, 20)
    _middle, _width, _neighbours = 54.5, 0.5, 3


class Plates(_Cascade):
    """Licence plates, by a cascade that was trained on those of one country and finds others less well."""

    factor = "location"
    _file = "haarcascade_russian_plate_number.xml"
    _window = (60, 20)
    _middle, _width, _neighbours = 2.0, 0.3, 3


# The side in tiles of the grid on which a whole picture's map is given as boxes.
_GRID = 16


class Saliency(Detector):
    """Tiles by how much of the spectrum of each is out of the ordinary; pictures on a grid of 16×16 boxes."""

    factor = "behaviour"

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Return a grid of boxes that covers the picture, each with the mean of the map inside it."""
        plane = grey(picture[..., None] if picture.ndim == 2 else picture) / 255.0
        height, width = plane.shape
        values = saliency_weights(plane.reshape(1, -1), (height, width)).reshape(height, width)
        rows, cols = (np.linspace(0, side, min(_GRID, side) + 1).astype(int) for side in (height, width))
        return [
            (float(x0), float(y0), float(x1 - x0), float(y1 - y0), float(values[y0:y1, x0:x1].mean()))
            for y0, y1 in pairwise(rows)
            for x0, x1 in pairwise(cols)
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """Return the contrast of each tile's own map with its contrast in grey: 0 for a plain tile.

        Within a tile the map is scaled to [0, 1], so its mean says how widely interest is spread; times the
        tile's deviation in grey, of which half the range counts as full.
        """
        planes = grey(tiles) / 255.0
        rows = planes.reshape(len(planes), -1)
        spread = saliency_weights(rows, planes.shape[1:]).mean(axis=1)
        return np.asarray(np.minimum(1.0, 4.0 * rows.std(axis=1)) * np.minimum(1.0, 2.0 * spread))


DETECTORS: Mapping[str, Callable[[], Detector]] = {
    "faces": Faces,
    "plates": Plates,
    "text": Text,
    "saliency": Saliency,
}


_loaded = threading.local()


def named_detectors(chosen: Iterable[str | Detector]) -> tuple[Detector, ...]:
    """Return the detectors that ``chosen`` names; detectors themselves pass through."""
    alone = isinstance(chosen, str | Detector) or not isinstance(chosen, Iterable)
    listed: list[Any] = [chosen] if alone else list(chosen)
    known = [isinstance(each, Detector) or (isinstance(each, str) and each in DETECTORS) for each in listed]
    if not listed or not all(known):
        raise BadInput(
            f"`detectors` must be among {', '.join(DETECTORS)}, not {shown(listed)}.", parameter="detectors"
        )
    return tuple(each if isinstance(each, Detector) else _detector(each) for each in listed)


def _detector(name: str) -> Detector:
    """Return the detector ``name``, made once in every thread: cascades and models are not thread-safe."""
    made: dict[str, Detector] = _loaded.__dict__.setdefault("made", {})
    if name not in made:
        made[name] = DETECTORS[name]()
    return made[name]
