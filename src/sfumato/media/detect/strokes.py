"""Text by its strokes: two tones, and many changes between them along a line. Nothing is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.media.detect.detector import Box, open_cv

__all__ = ["stroke_lines", "stroke_scores"]

# The least contrast, in grey levels, between ink and paper.
_CONTRAST = 48.0
# How many pixels lie between two changes of tone in a line of small print.
_PITCH = 6.0
# What a line must score to be one.
_LEAST = 0.15


def stroke_scores(planes: NDArray[np.uint8], *, whole_lines: bool = False) -> NDArray[np.float64]:
    """Scores (n,) of planes (n, h, w): how two-toned each is, times how often its rows change tone.

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
    """Boxes of lines of text in one plane: strong edges closed sideways, then kept where strokes fit."""
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
