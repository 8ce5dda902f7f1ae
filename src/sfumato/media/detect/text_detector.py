"""Text, and text that looks like something personal.

With RapidOCR (extra ``text``) lines are read, and a line with an address sign, a long number, a date or the
pattern of a licence plate scores 1 whatever the reader's confidence. What was read is looked at inside one
function and is neither kept, nor logged, nor part of any message. Without RapidOCR, lines are found by their
strokes alone, and nothing is read.
"""

from __future__ import annotations

import re
import threading
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.mechanisms.parameters import one_of
from sfumato.media.detect.detector import Box, Detector, grey, open_cv
from sfumato.media.detect.strokes import stroke_lines, stroke_scores
from sfumato.media.images.image_mechanism import white

__all__ = ["Text", "looks_personal"]

# Text that is read but looks like nothing personal.
_PLAIN = 0.5
_LONG_NUMBER = 5
_PERSONAL = (
    re.compile(r"@"),
    re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}"),
    # A plate: two to ten capitals and digits, both of them, with spaces or dashes between.
    re.compile(r"^(?=[^\d]*\d)(?=[^A-Z]*[A-Z])[A-Z0-9][A-Z0-9 ·-]{2,10}[A-Z0-9]$"),
)


class Text(Detector):
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
        self._local = threading.local()

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
        """Boxes around lines; the confidence is raised to 1 where what was read looks personal."""
        array = picture[..., None] if picture.ndim == 2 else picture
        return stroke_lines(grey(array)) if self.reader == "strokes" else self._read(array)

    def scores(self, tiles: NDArray[Any]) -> NDArray[np.float64]:
        """How much the strokes of each tile are those of text."""
        return stroke_scores(grey(tiles))

    def _read(self, picture: NDArray[Any]) -> list[Box]:
        """Boxes from RapidOCR; the words themselves end here."""
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

    def __getstate__(self) -> dict[str, Any]:
        return {"reader": self.reader}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.reader = state["reader"]
        self._local = threading.local()

    def __deepcopy__(self, memo: dict[int, Any]) -> Text:
        return type(self)(self.reader)


def looks_personal(words: str) -> bool:
    """Whether a line has an address sign, five digits or more, a date, or the pattern of a licence plate."""
    line = words.strip()
    many = sum(character.isdigit() for character in line) >= _LONG_NUMBER
    return many or any(pattern.search(line) for pattern in _PERSONAL)
