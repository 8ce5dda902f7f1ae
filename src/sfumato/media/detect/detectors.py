"""Detectors of sensitive content: faces, licence plates, text and salient regions, and their interface.

**Cascades** are those that OpenCV 4 carries (Viola & Jones 2001). A cascade answers with the margin of its
last stage, which is no probability. The confidence here is a logistic curve of that margin, with a middle and
a width that were chosen on public pictures: it orders detections; it does not calibrate them. The paper's
threshold of 0.95 on face confidence therefore has no equal here.

**Text.** With RapidOCR (extra ``text``) lines are read, and a line with an address sign, a long number, a
date or the pattern of a licence plate scores 1 whatever the reader's confidence. What was read is looked at
inside one function and is neither kept, nor logged, nor part of any message. Without RapidOCR, lines are
found by their strokes alone, which show text by two tones and many changes between them along a line; nothing
is read.

**Saliency** is the spectral residual of an image, or of each tile: where a viewer looks, not what is secret.
It counts for the factor behaviour, for want of a detector of what people do.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato import loading
from sfumato.errors import BadInput
from sfumato.mechanisms import one_of, saliency_weights, shown
from sfumato.media.images.image_mechanism import white
from sfumato.media.images.tiles import tiles_of

__all__ = ["Box", "Detector", "Faces", "Plates", "Saliency", "Text", "named_detectors"]

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

    Pictures are arrays (h, w) or (h, w, c) of 8-bit, 16-bit or floating-point values; alpha is not looked at.
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


# The least contrast, in grey levels, between ink and paper.
_CONTRAST = 48.0
# How many pixels lie between two changes of tone in a line of small print.
_PITCH = 6.0
# What a line must score to be one.
_LEAST = 0.15


def stroke_scores(planes: NDArray[np.uint8], *, whole_lines: bool = False) -> NDArray[np.float64]:
    """Return scores (n,) of planes (n, h, w): how two-toned each is, times how often its rows change tone.

    Tones are told apart halfway between the 5th and the 95th percentile of the plane itself. Unless a plane
    is one whole line of text, some of its rows must change much more often than others, as print does.
    """
    values = planes.astype(np.float32)
    low, high = np.percentile(values, [5.0, 95.0], axis=(1, 2), keepdims=True)
    span = high - low
    level = (values - low) / np.maximum(span, 1.0)
    # Two tones: few pixels lie between them. In noise and gradients the middle half holds half of all.
    between = ((level > 0.25) & (level < 0.75)).mean(axis=(1, 2))
    two_toned = np.clip(1.0 - 2.0 * between, 0.0, 1.0)
    changes = np.diff(level > 0.5, axis=2).mean(axis=2)
    # Lines of text have rows between them that do not change at all, so the busier rows count.
    score = two_toned * np.clip(np.percentile(changes, 75.0, axis=1) * _PITCH, 0.0, 1.0)
    if not whole_lines:
        score *= np.clip((changes.max(axis=1) - changes.min(axis=1)) * _PITCH, 0.0, 1.0)
    return np.asarray(np.where(span[:, 0, 0] >= _CONTRAST, score, 0.0), dtype=np.float64)


def stroke_lines(plane: NDArray[np.uint8]) -> list[Box]:
    """Return boxes of lines of text in one plane: strong edges closed sideways, kept where strokes fit."""
    cv2 = open_cv()
    cross = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
    change = cv2.morphologyEx(plane, cv2.MORPH_GRADIENT, cross)
    _, strong = cv2.threshold(change, _CONTRAST, 255, cv2.THRESH_BINARY)
    joined = cv2.morphologyEx(strong, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, (9, 1)))
    _, _, places, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    found = []
    for x, y, w, h, area in places[1:]:
        if h < 6 or w < 2 * h or area < 0.4 * w * h:
            continue
        # Piece by piece, since light falls unevenly along a line.
        pieces = np.array_split(plane[y : y + h, x : x + w], max(1, w // (3 * h)), axis=1)
        score = float(np.mean([stroke_scores(piece[None], whole_lines=True)[0] for piece in pieces]))
        if score > _LEAST:
            found.append((float(x), float(y), float(w), float(h), score))
    return found


# Text that is read but looks like nothing personal.
_PLAIN = 0.5
_LONG_NUMBER = 5
_PERSONAL = (
    re.compile(r"@"),
    re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}"),
    # A plate: two to ten capitals and digits, both of them, with spaces or dashes between.
    re.compile(r"^(?=[^\d]*\d)(?=[^A-Z]*[A-Z])[A-Z0-9][A-Z0-9 ·-]{2,10}[A-Z0-9]$"),
)


class Text(PerThread, Detector):
    """Lines of text. ``reader``: ``"rapidocr"``, ``"strokes"``, or None for the first that is installed.

    Tiles are always scored by strokes: reading every tile alone would take seconds for each picture.
    """

    factor = "identity"

    def __init__(self, reader: str | None = None) -> None:
        installed = find_spec("rapidocr") is not None
        self.reader = (
            ("rapidocr" if installed else "strokes")
            if reader is None
            else one_of("reader", reader, ("rapidocr", "strokes"))
        )
        if self.reader == "rapidocr" and not installed:
            raise BadInput("reading text in pictures needs RapidOCR: pip install 'sfumato[text]'.")
        super().__init__()

    @property
    def name(self) -> str:
        """How a statement names the detector, with its reader."""
        return f"text by {self.reader}"

    def load(self) -> None:
        """Load OpenCV, and the reader where there is one."""
        if self.reader == "strokes":
            open_cv()
        else:
            self._engine()

    def boxes(self, picture: NDArray[Any]) -> list[Box]:
        """Return boxes around lines; the confidence is raised to 1 where what was read looks personal."""
        array = picture[..., None] if picture.ndim == 2 else picture
        return stroke_lines(grey(array)) if self.reader == "strokes" else self._read(array)

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """Return how much the strokes of each tile are those of text."""
        return stroke_scores(grey(tiles))

    def _read(self, picture: NDArray[Any]) -> list[Box]:
        """Return boxes from RapidOCR; the words themselves end here."""
        scaled = picture.astype(np.float64) * (255.0 / white(picture.dtype))
        colours = scaled[..., 2::-1] if scaled.shape[-1] >= 3 else np.repeat(scaled[..., :1], 3, axis=-1)
        read = self._engine()(np.ascontiguousarray(np.rint(colours), dtype=np.uint8))
        if read.boxes is None:
            return []
        found = []
        for corners, words, confidence in zip(read.boxes, read.txts, read.scores, strict=True):
            (x0, y0), (x1, y1) = np.min(corners, axis=0), np.max(corners, axis=0)
            score = 1.0 if looks_personal(words) else _PLAIN * min(1.0, float(confidence))
            found.append((float(x0), float(y0), float(x1 - x0), float(y1 - y0), score))
        return found

    def _engine(self) -> Any:
        if not hasattr(self._local, "engine"):
            open_cv()  # its absence is said in our words
            from rapidocr import RapidOCR

            self._local.engine = RapidOCR(params={"Global.log_level": "critical"})
        return self._local.engine


def looks_personal(words: str) -> bool:
    """Return whether a line has an @, five digits or more, a date, or the pattern of a licence plate."""
    line = words.strip()
    many = sum(character.isdigit() for character in line) >= _LONG_NUMBER
    return many or any(pattern.search(line) for pattern in _PERSONAL)


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
