"""Pictures to files: which format holds what, and bytes that appear whole, with what belongs to them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sfumato.errors import BadInput
from sfumato.io import jpeg, webp
from sfumato.io.atomic import First, write_whole
from sfumato.io.bmp import encode_bmp
from sfumato.io.image_header import FORMATS, picture_suffix
from sfumato.io.jpeg import encode_jpeg
from sfumato.io.png_chunks import encode_png
from sfumato.io.tiff_tags import encode_tiff
from sfumato.io.webp import encode_webp

__all__ = ["QUALITY", "check_storable", "encode_picture", "write_picture"]

#: Of JPEG and WebP output, from 1 to 100.
QUALITY = 90
_MAX_BYTES = 2_000_000_000  # lengths in PNG have 31 bits


def check_storable(path: str | os.PathLike[str], shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Refuse the output ``path`` where its format cannot hold pictures of ``shape`` and ``dtype``."""
    name, format = Path(path).name, FORMATS[picture_suffix(path)]
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or 0 in shape or channels not in (1, 2, 3, 4):
        raise BadInput(f"{name} takes (height, width) or (height, width, 1 to 4), not an array of {shape}.")
    if np.dtype(dtype) not in (np.uint8, np.uint16):
        raise BadInput(f"{name} takes pictures in uint8 or uint16, not in {np.dtype(dtype).name}.")
    if np.dtype(dtype) == np.uint16 and format not in ("png", "tiff"):
        raise BadInput(f"{name} cannot hold 16 bits a sample; .png and .tif can.")
    if channels in (2, 4) and format in ("jpeg", "bmp"):
        raise BadInput(f"{name} cannot hold an alpha channel; .png, .tif and .webp can.")
    if channels == 2 and format == "webp":
        raise BadInput(f"{name} cannot hold grey with alpha; .png and .tif can.")
    longest = {"jpeg": jpeg.MAX_SIDE, "webp": webp.MAX_SIDE}.get(format, (1 << 31) - 1)
    if max(shape[:2]) > longest:
        raise BadInput(f"{name} cannot hold sides of more than {longest} pixels; .png and .tif can.")
    if math.prod(shape) * np.dtype(dtype).itemsize > _MAX_BYTES:
        raise BadInput(f"{name} cannot hold more than {_MAX_BYTES:,} bytes of pixels.")


def encode_picture(values: NDArray[Any], suffix: str, *, quality: int = QUALITY) -> bytes:
    """The bytes of a file of ``values`` (h, w) or (h, w, 1 to 4), in the format that ``suffix`` names.

    Equal values give equal bytes. ``quality`` matters to JPEG (with chroma at half the size) and to WebP; the
    other formats keep every value. Grey becomes colour in WebP, which has no grey.
    """
    check_storable(f"a picture{suffix}", values.shape, values.dtype)
    if isinstance(quality, bool) or not isinstance(quality, int) or not 1 <= quality <= 100:
        raise BadInput(
            f"`quality` must be a whole number from 1 to 100, not {quality!r}.", parameter="quality"
        )
    pixels = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    format = FORMATS[suffix.lower()]
    if format == "jpeg":
        return encode_jpeg(pixels, quality)
    if format == "webp":
        return encode_webp(pixels, quality)
    return {"png": encode_png, "tiff": encode_tiff, "bmp": encode_bmp}[format](pixels)


def write_picture(
    path: str | os.PathLike[str],
    values: NDArray[Any],
    *,
    quality: int = QUALITY,
    first: First | None = None,
) -> None:
    """Write ``values`` to ``path``, whole or not at all, in the format that its suffix names.

    ``first`` is a file and its content: it appears just before the picture does, or not at all. The content
    is asked for once the picture is complete, and told where that can be read.
    """
    check_storable(path, values.shape, values.dtype)
    write_whole(path, encode_picture(values, picture_suffix(path), quality=quality), first=first)
