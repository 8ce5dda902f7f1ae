"""Chunks of PNG, and files that hold nothing but a header and pixels."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIGNATURE", "encode_png", "png_chunk"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# How the header names the meaning of a pixel's samples.
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """Length, kind, content and checksum."""
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def encode_png(values: NDArray[Any], level: int = 6) -> bytes:
    """A file without metadata of (h, w) or (h, w, 1…4) values in uint8 or uint16."""
    height, width = values.shape[:2]
    samples = values.reshape(height, -1)
    colour = {1: GREY, 2: GREY_ALPHA, 3: COLOUR, 4: COLOUR_ALPHA}[samples.shape[1] // width]
    depth = 8 * values.dtype.itemsize
    rows = np.ascontiguousarray(samples.astype(f">u{values.dtype.itemsize}")).view(np.uint8)
    packed = zlib.compress(_filtered(rows, rows.shape[1] // width).tobytes(), level)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return SIGNATURE + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def _filtered(rows: NDArray[np.uint8], pixel: int) -> NDArray[np.uint8]:
    """Each row as its difference to the pixel on the left or above, whichever is smaller on the whole."""
    out = np.empty((rows.shape[0], 1 + rows.shape[1]), np.uint8)
    left, above = rows.copy(), rows.copy()
    left[:, pixel:] -= rows[:, :-pixel]
    above[1:] -= rows[:-1]
    sizes = [
        np.abs(part.view(np.int8).astype(np.int16)).sum(axis=1, dtype=np.int64) for part in (left, above)
    ]
    lower = sizes[1] < sizes[0]
    out[:, 0] = np.where(lower, 2, 1)
    out[:, 1:] = np.where(lower[:, None], above, left)
    return out
