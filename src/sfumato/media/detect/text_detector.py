"""Detectors of text, and of text that looks personal.

With RapidOCR (extra ``text``) lines are read, and a line with an address sign, a long number, a date or the
pattern of a licence plate scores 1 whatever the reader's confidence. What was read is looked at inside one
function and is neither kept, nor logged, nor part of any message. Without RapidOCR, lines are found by their
strokes alone, which show text by two tones and many changes between them along a line; nothing is read.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms import one_of
from sfumato.media.detect.detector import Box, Detector, PerThread, grey, open_cv
from sfumato.media.images.image_mechanism import white

__all__ = ["Text"]

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
