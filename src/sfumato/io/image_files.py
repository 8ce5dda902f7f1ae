"""Pictures in files: read strictly, written without metadata, whole or not at all.

JPEG, PNG, WebP, TIFF and BMP; grey or colour, 8 or 16 bits, with or without alpha. A picture is turned
upright as EXIF says, once. Nothing but pixels is written: no EXIF, no profile, no text, no thumbnail. Values
are kept as they are when a colour profile is dropped. Limits are applied to what headers announce, before
anything is unpacked; what a decoder would forgive (missing rows, wrong checksums, a second frame) is refused.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.bmp import bmp_layout
from sfumato.io.formats import file_to_read
from sfumato.io.image_header import (
    FORMATS,
    PICTURES,
    Format,
    PictureHeader,
    PictureLayout,
    picture_suffix,
    upright,
)
from sfumato.io.image_output import QUALITY, check_storable, encode_picture, write_picture
from sfumato.io.jpeg import jpeg_layout
from sfumato.io.png import png_layout
from sfumato.io.tiff import tiff_layout
from sfumato.io.webp import webp_layout

__all__ = [
    "MAX_PIXELS",
    "PICTURES",
    "QUALITY",
    "Picture",
    "PictureHeader",
    "check_storable",
    "decode_picture",
    "encode_picture",
    "picture_header",
    "picture_suffix",
    "read_picture",
    "write_picture",
]

#: Pictures of more pixels are refused unless the caller allows them.
MAX_PIXELS = 100_000_000

_LAYOUTS: dict[Format, Callable[[IO[bytes], str], PictureLayout]] = {
    "jpeg": jpeg_layout,
    "png": png_layout,
    "webp": webp_layout,
    "tiff": tiff_layout,
    "bmp": bmp_layout,
}
_SHOWN: dict[Format, str] = {"jpeg": "JPEG", "png": "PNG", "webp": "WebP", "tiff": "TIFF", "bmp": "BMP"}
# What files start with; of the last group nothing is read, but people are told what they have.
_STARTS: tuple[tuple[bytes, Format], ...] = (
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG", "png"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"BM", "bmp"),
)
_OTHERS = (
    (b"GIF8", "a GIF"),
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"8BPS", "a Photoshop file"),
)
# A file may be larger than its pixels: eight bytes is the largest pixel, the rest is room for metadata.
_PIXEL_BYTES, _SPARE_BYTES = 8, 64 << 20


@dataclass(frozen=True)
class Picture:
    """Pixels as they are looked at, with the header of the file they came from.

    ``values`` has the shape and type of the header: (h, w), or (h, w, channels), in uint8 or uint16.
    """

    values: NDArray[Any]
    header: PictureHeader


def picture_header(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> PictureHeader:
    """Shape, type and format of the picture in ``path``, without decoding it.

    Refuses what :func:`read_picture` refuses, as far as the header shows it.
    """
    path = file_to_read(path)
    format = FORMATS[picture_suffix(path)]
    try:
        with path.open("rb") as file:
            _check_bytes(os.fstat(file.fileno()).st_size, max_pixels, path.name)
            return _layout(file, format, path.name, max_pixels).header
    except OSError as error:
        raise _unreadable(path, error) from error


def read_picture(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> Picture:
    """The picture in ``path``; a file that is damaged anywhere in its pixels is refused.

    The suffix must tell the truth about the content. Files with several pictures (animations, pages) are
    refused, as are CMYK, floating point, and more than ``max_pixels`` pixels. What stands behind the end of
    a JPEG, as cameras write it, is ignored.
    """
    path = file_to_read(path)
    picture_suffix(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            _check_bytes(size, max_pixels, path.name)
            data = file.read(size)
    except OSError as error:
        raise _unreadable(path, error) from error
    return decode_picture(data, path.name, max_pixels=max_pixels)


def decode_picture(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """As :func:`read_picture`, from the bytes of a file called ``name``."""
    format = FORMATS[picture_suffix(name)]
    layout = _layout(io.BytesIO(data), format, name, max_pixels)
    values = upright(layout.decode(data, name), layout.header.orientation)
    if values.shape != layout.header.shape or values.dtype != layout.header.dtype:
        raise BadInput(f"{name} is damaged: its pixels are not what its header announces.")
    return Picture(values, layout.header)


def _layout(file: IO[bytes], format: Format, name: str, max_pixels: int) -> PictureLayout:
    _check_content(file.read(12), format, name)
    file.seek(0)
    layout = _LAYOUTS[format](file, name)
    if layout.header.pixels > max_pixels:
        height, width = layout.header.shape[:2]
        raise BadInput(f"{name} has {width}×{height} pixels; up to {max_pixels:,} in all are accepted.")
    return layout


def _check_content(start: bytes, format: Format, name: str) -> None:
    """Refuse a file whose first bytes are not those of its format, and say what they are if that is known."""
    if not start:
        raise BadInput(f"{name} is empty.")
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        found: Format | None = "webp"
    else:
        found = next((known for mark, known in _STARTS if start.startswith(mark)), None)
    if found == format:
        return
    if found is not None:
        fitting = next(suffix for suffix, known in FORMATS.items() if known == found)
        raise BadInput(f"{name} holds a {_SHOWN[found]}, which its name denies; call it {fitting}.")
    other = next((known for mark, known in _OTHERS if start.startswith(mark)), None)
    what = f"it is {other}" if other else "it does not start like one"
    raise BadInput(f"{name} is not a {_SHOWN[format]} picture: {what}.")


def _check_bytes(size: int, max_pixels: int, name: str) -> None:
    if size == 0:
        raise BadInput(f"{name} is empty.")
    if size > _PIXEL_BYTES * max_pixels + _SPARE_BYTES:
        raise BadInput(
            f"{name} is larger than any picture of {max_pixels:,} pixels, the most that is accepted."
        )


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path.name} cannot be read: {error.strerror or 'it is not a file that can be read'}.")
