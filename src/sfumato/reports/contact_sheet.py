"""A contact sheet: pictures as they were, something to see beside them, and as they are released."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["ContactSheet", "Shot", "View"]

_MOST = 24
_LABELS = ("before", "sensitivity map", "after")
_LEGEND = (
    "Pictures were chosen by whoever made the report. The brighter a place on the map, the more sensitive "
    "the content that was found there."
)


@dataclass(frozen=True)
class View:
    """One picture of a sheet: what it shows, its address of itself, and its width and height in pixels."""

    label: str
    source: Markup
    size: tuple[int, int]


@dataclass(frozen=True)
class Shot:
    """One line of a sheet."""

    caption: str
    views: tuple[View, ...]


@dataclass(frozen=True, eq=False)
class ContactSheet:
    """A few pictures, chosen by whoever calls, each ``before``, with its map, and ``after``, at one scale.

    The three of a picture are bytes of shape ``(h, w, 3)`` with the same sides; other pictures may have other
    sides. At most 24 are shown. ``labels`` name the three, and ``legend`` says in a sentence what to see.
    """

    captions: tuple[str, ...]
    before: tuple[NDArray[np.uint8], ...]
    maps: tuple[NDArray[np.uint8], ...]
    after: tuple[NDArray[np.uint8], ...]
    labels: tuple[str, str, str] = _LABELS
    legend: str = _LEGEND

    def __post_init__(self) -> None:
        counts = {len(self.captions), len(self.before), len(self.maps), len(self.after)}
        if len(counts) != 1 or not 0 < len(self.captions) <= _MOST:
            raise BadInput(f"a contact sheet shows 1 to {_MOST} pictures, each with its map and its release.")
        for views in zip(self.before, self.maps, self.after, strict=True):
            if len({_sides(view) for view in views}) != 1:
                raise BadInput("the three views of a picture must be bytes (h, w, 3) of the same size.")

    def shots(self) -> list[Shot]:
        """The lines of the sheet, ready for a page."""
        rows = zip(self.captions, self.before, self.maps, self.after, strict=True)
        return [
            Shot(
                caption,
                tuple(
                    View(label, Markup(_address(view)), (view.shape[1], view.shape[0]))
                    for label, view in zip(self.labels, views, strict=True)
                ),
            )
            for caption, *views in rows
        ]


def _sides(view: NDArray[Any]) -> tuple[int, ...]:
    if view.dtype != np.uint8 or view.ndim != 3 or view.shape[2] != 3 or not view.size:
        raise BadInput(f"a view of a contact sheet had the shape {view.shape}: it must be bytes (h, w, 3).")
    return view.shape


def _address(view: NDArray[np.uint8]) -> str:
    # A photograph is ten times smaller as a JPEG than as a PNG.
    from sfumato.io.image_files import encode_picture

    return "data:image/jpeg;base64," + base64.b64encode(encode_picture(view, ".jpg")).decode("ascii")
