"""Images in a report: originals beside their releases, and contact sheets with a sensitivity map.

Images are encoded here and embedded in the page, so nothing is downloaded.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["ContactSheet", "Pictures", "png"]

_MOST_PICTURES = 64

_MOST_ROWS = 24
_LABELS = ("before", "sensitivity map", "after")
_LEGEND = (
    "Pictures were chosen by whoever made the report. The brighter a place on the map, the more sensitive "
    "the content that was found there."
)


def png(image: NDArray[np.uint8]) -> bytes:
    """Return ``image`` of shape ``(h, w)`` (grey) or ``(h, w, 3)`` (colour) as a PNG file."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG", optimize=True)
    return out.getvalue()


@dataclass(frozen=True)
class View:
    """One image of a page: its label, its data URI, and its width and height in pixels."""

    label: str
    source: Markup
    size: tuple[int, int]

    @classmethod
    def of(cls, label: str, image: NDArray[np.uint8], kind: str) -> View:
        """Return the view of ``image`` as ``kind``: png, or jpeg, ten times smaller for photographs."""
        if kind == "png":
            content = png(image)
        else:
            from sfumato.io import encode_picture

            content = encode_picture(image, ".jpg")
        # A data address is made of harmless characters only and must not be touched.
        source = Markup(f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}")
        return cls(label, source, image.shape[1::-1])


@dataclass(frozen=True)
class Shot:
    """Images that stand side by side, with their caption."""

    caption: str
    views: tuple[View, ...]


@dataclass(frozen=True, eq=False)
class Pictures:
    """A few originals and their releases, chosen by whoever calls, never by Sfumato.

    ``before`` and ``after`` are ``(m, h, w)`` or ``(m, h, w, 3)``, the same m (64 at most), sizes may differ.
    ``span`` is what black and white stand for; released values outside of it are shown as black or white.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    span: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            images = np.asarray(getattr(self, name))
            if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3) or 0 in images.shape:
                raise BadInput(
                    f"pictures {name} had the shape {images.shape}: they must be (m, h, w) or (m, h, w, 3)."
                )
            if images.dtype.kind not in "fiub" or not np.isfinite(images).all():
                raise BadInput(f"pictures {name} hold values that are no finite numbers.")
            object.__setattr__(self, name, images)
        if len(self.before) != len(self.after) or len(self.before) > _MOST_PICTURES:
            raise BadInput(
                f"{len(self.before)} pictures before and {len(self.after)} after were given: "
                f"they must be as many, and at most {_MOST_PICTURES}."
            )
        low, high = self.span
        if not (np.isfinite([low, high]).all() and low < high):
            raise BadInput(
                f"the span of pictures was {self.span!r}: it must be two numbers, the lower first."
            )

    @property
    def clipped(self) -> float:
        """Return the share of released values outside the span, which are shown as black or white."""
        low, high = self.span
        return float(np.mean((self.after < low) | (self.after > high)))

    def levels(self, images: NDArray[Any]) -> NDArray[np.uint8]:
        """Return ``images`` as bytes: 0 at the low end of the span, 255 at the high end."""
        low, high = self.span
        scaled = (np.clip(images.astype(np.float64), low, high) - low) / (high - low)
        return np.rint(255.0 * scaled).astype(np.uint8)

    def shots(self) -> list[Shot]:
        """Return each original beside its release, ready for a page."""
        pairs = zip(self.levels(self.before), self.levels(self.after), strict=True)
        return [
            Shot(str(number), (View.of("original", before, "png"), View.of("released", after, "png")))
            for number, (before, after) in enumerate(pairs, start=1)
        ]


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
        if not 0 < len(self.captions) <= _MOST_ROWS:
            raise BadInput(f"a contact sheet shows 1 to {_MOST_ROWS} pictures, not {len(self.captions)}.")

    def shots(self) -> list[Shot]:
        """Return the rows of the sheet, ready for a page."""
        rows = zip(self.captions, self.before, self.maps, self.after, strict=True)
        return [
            Shot(
                caption,
                tuple(View.of(label, view, "jpeg") for label, view in zip(self.labels, views, strict=True)),
            )
            for caption, *views in rows
        ]
