"""Faces and licence plates by the boosted cascades that OpenCV 4 carries (Viola & Jones 2001).

A cascade answers with the margin of its last stage, which is no probability. The confidence here is a
logistic curve of that margin, with a middle and a width that were chosen on public pictures: it orders
detections; it does not calibrate them. The paper's threshold of 0.95 on face confidence therefore has no
equal here.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.media.detect.detector import Box, Detector, grey, open_cv

__all__ = ["Faces", "Plates"]

# Tiles smaller than this many windows of the cascade are enlarged, so that a face that fills one is seen.
_ENLARGED = 3.0
# The longer side of a picture that is searched; larger ones are shrunk, and their boxes enlarged.
_LONGEST = 1024


class _Cascade(Detector):
    """A cascade file, the window it was trained on, and how its margins become confidences."""

    _file: ClassVar[str]
    _window: ClassVar[tuple[int, int]]  # width, height
    _middle: ClassVar[float]
    _width: ClassVar[float]
    _neighbours: ClassVar[int]

    def __init__(self) -> None:
        # A classifier keeps the picture that it works on, so every thread has one of its own.
        self._local = threading.local()

    def load(self) -> None:
        """Load the cascade."""
        self._classifier()

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Boxes with the confidence of each."""
        plane = grey(picture[..., None] if picture.ndim == 2 else picture)
        factor = min(1.0, _LONGEST / max(plane.shape))
        return [
            (x / factor, y / factor, w / factor, h / factor, confidence)
            for x, y, w, h, confidence in self._found(plane, factor, self._neighbours)
        ]

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """The largest confidence of what is found in each tile, enlarged; 0 where nothing is.

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

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._local = threading.local()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Cascade:
        return type(self)()


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
