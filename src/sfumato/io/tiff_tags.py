"""The tags of TIFF that matter to pixels, and files that hold nothing but those."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

__all__ = ["encode_tiff", "tiff_file"]

TYPES = {1: "B", 3: "H", 4: "I"}  # the unsigned integers that the tags below may have
WIDTH, HEIGHT, BITS, PACKING, MEANING, FILLING = 256, 257, 258, 259, 262, 266
STRIPS, TURNED, SAMPLES, ROWS, STRIP_SIZES = 273, 274, 277, 278, 279
PLANES, PREDICTOR, COLOURS = 284, 317, 320
TILE_WIDTH, TILE_HEIGHT, TILES, TILE_SIZES, EXTRA, NUMBERS = 322, 323, 324, 325, 338, 339
NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS = 1, 5, 8, 32946, 32773
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE = 0, 1, 2, 3


def encode_tiff(values: NDArray[Any]) -> bytes:
    """A Deflate-packed file without metadata of (h, w) or (h, w, 1…4) values in uint8 or uint16."""
    height, width = values.shape[:2]
    pixels = values.reshape(height, width, -1)
    samples, bits = pixels.shape[2], 8 * values.dtype.itemsize
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    packed = zlib.compress(differences.astype(f"<u{values.dtype.itemsize}").tobytes(), 6)
    tags: dict[int, tuple[str, Sequence[int]]] = {
        WIDTH: ("I", [width]),
        HEIGHT: ("I", [height]),
        BITS: ("H", [bits] * samples),
        PACKING: ("H", [DEFLATE]),
        MEANING: ("H", [RGB if samples >= 3 else BLACK_IS_ZERO]),
        STRIPS: ("I", [8]),
        SAMPLES: ("H", [samples]),
        ROWS: ("I", [height]),
        STRIP_SIZES: ("I", [len(packed)]),
        PREDICTOR: ("H", [2]),
    }
    if samples in (2, 4):
        tags[EXTRA] = ("H", [2])  # alpha that the colours were not multiplied by
    return tiff_file(tags, packed)


def tiff_file(tags: dict[int, tuple[str, Sequence[int]]], packed: bytes) -> bytes:
    """A little-endian file of one strip: its header, ``packed``, long values and the directory."""
    body = bytearray(packed + b"\0" * (len(packed) % 2))
    entries = b""
    for tag, (letter, numbers) in sorted(tags.items()):
        value = struct.pack(f"<{len(numbers)}{letter}", *numbers)
        if len(value) > 4:
            body += value + b"\0" * (len(value) % 2)
            value = struct.pack("<I", 8 + len(body) - len(value) - len(value) % 2)
        kind = next(number for number, known in TYPES.items() if known == letter)
        entries += struct.pack("<HHI", tag, kind, len(numbers)) + value.ljust(4, b"\0")
    directory = struct.pack("<H", len(tags)) + entries + bytes(4)
    return b"II*\0" + struct.pack("<I", 8 + len(body)) + bytes(body) + directory
