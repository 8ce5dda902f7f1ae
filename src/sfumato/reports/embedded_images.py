"""Pictures that a report shows, before and after: encoded here, inside the page, with nothing to download."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput

__all__ = ["Pictures", "data_uri", "png"]

_MOST = 64


@dataclass(frozen=True, eq=False)
class Pictures:
    """A few originals and their releases, chosen by whoever calls, never by Sfumato.

    ``before`` and ``after`` are ``(m, h, w)`` or ``(m, h, w, 3)``, the same m (64 at most), sizes may differ.
    ``span`` is what black and white stand for; released values outside of it are shown as black or white.
    ``captions`` are none or m.
    """

    before: NDArray[Any]
    after: NDArray[Any]
    span: tuple[float, float] = (0.0, 1.0)
    captions: tuple[str, ...] = ()

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
        if len(self.before) != len(self.after) or len(self.before) > _MOST:
            raise BadInput(
                f"{len(self.before)} pictures before and {len(self.after)} after were given: "
                f"they must be as many, and at most {_MOST}."
            )
        low, high = self.span
        if not (np.isfinite([low, high]).all() and low < high):
            raise BadInput(
                f"the span of pictures was {self.span!r}: it must be two numbers, the lower first."
            )
        object.__setattr__(self, "captions", tuple(self.captions))
        if self.captions and len(self.captions) != len(self.before):
            raise BadInput(f"{len(self.captions)} captions were given for {len(self.before)} pictures.")

    @property
    def clipped(self) -> float:
        """The share of released values that lie outside the span and are shown as black or white."""
        low, high = self.span
        return float(np.mean((self.after < low) | (self.after > high)))

    def levels(self, images: NDArray[Any]) -> NDArray[np.uint8]:
        """``images`` as bytes: 0 at the low end of the span, 255 at the high end."""
        low, high = self.span
        scaled = (np.clip(images.astype(np.float64), low, high) - low) / (high - low)
        return np.rint(255.0 * scaled).astype(np.uint8)


def png(image: NDArray[np.uint8]) -> bytes:
    """``image`` of shape ``(h, w)`` (grey) or ``(h, w, 3)`` (colour) as a PNG file."""
    height, width = image.shape[:2]
    colour = 2 if image.ndim == 3 else 0
    rows = image.reshape(height, -1)
    # Each row of a PNG starts with the number of its filter; 0 leaves it as it is.
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def data_uri(image: NDArray[np.uint8]) -> str:
    """``image`` as the address of itself, for the ``src`` of a picture."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
