"""TIFF: one page of 8 or 16 bits, grey, with a palette or in colour; plain, Deflate, LZW or PackBits.

No library is asked: those that read TIFF follow whatever its many tags say, and complain on the terminal.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import tiff_tags as t
from sfumato.io.image_header import PictureHeader, damaged, exactly, header_of
from sfumato.io.tiff_packing import PACKINGS, unpacked

__all__ = ["TiffLayout", "tiff_layout"]

_MAX_TAGS = 1_000
_MAX_SEGMENTS = 1 << 16
_KEPT = {
    *(
        t.WIDTH,
        t.HEIGHT,
        t.BITS,
        t.PACKING,
        t.MEANING,
        t.FILLING,
        t.STRIPS,
        t.TURNED,
        t.SAMPLES,
        t.ROWS,
        t.STRIP_SIZES,
    ),
    *(t.PLANES, t.PREDICTOR, t.COLOURS, t.TILE_WIDTH, t.TILE_HEIGHT, t.TILES, t.TILE_SIZES, t.NUMBERS),
}
_ACCEPTED = "one page of 8 or 16 bits in grey or RGB, plain or by Deflate, LZW or PackBits, is accepted"


@dataclass(frozen=True)
class TiffLayout:
    """A header, and how the pixels are cut into strips or tiles."""

    header: PictureHeader
    order: str
    sides: tuple[int, int]
    samples: int
    bits: int
    packing: int
    meaning: int
    differences: bool
    cut: tuple[int, int]  # rows and columns of a strip or tile
    tiled: bool
    segments: tuple[tuple[int, int], ...]  # offset and length of each
    palette: tuple[int, ...]

    def decode(self, data: bytes, name: str) -> NDArray[Any]:
        """(h, w, …) in the type of the header; a palette gives colour."""
        height, width = self.sides
        rows, columns = self.cut
        values = np.empty((height, width, self.samples), self.header.dtype)
        across = -(-width // columns)
        for number, (offset, length) in enumerate(self.segments):
            top, left = number // across * rows, number % across * columns
            # The last strip ends with the picture; a tile is always whole.
            kept = rows if self.tiled else min(rows, height - top)
            packed = data[offset : offset + length]
            if len(packed) != length:
                raise BadInput(f"{name} is truncated: it ends inside its pixels.")
            part = self._segment(packed, kept, columns, name)
            values[top : top + rows, left : left + columns] = part[: height - top, : width - left]
        if self.meaning == t.WHITE_IS_ZERO:
            values[:, :, 0] = np.iinfo(values.dtype).max - values[:, :, 0]
        if self.meaning == t.PALETTE:
            colours = (np.array(self.palette).reshape(3, -1).T >> 8).astype(np.uint8)
            return colours[values[:, :, 0]]
        return values[:, :, 0] if self.samples == 1 else values

    def _segment(self, packed: bytes, rows: int, columns: int, name: str) -> NDArray[Any]:
        stride = columns * self.samples * self.bits // 8
        try:
            raw = unpacked(packed, self.packing, rows * stride)
        except ValueError as error:
            raise damaged(name, "its TIFF pixels cannot be unpacked") from error
        if len(raw) != rows * stride:
            raise damaged(name, "it holds fewer pixels than its TIFF header announces")
        values = np.frombuffer(raw, f"{self.order}u{self.bits // 8}").reshape(rows, columns, self.samples)
        values = values.astype(self.header.dtype)
        return np.add.accumulate(values, axis=1, dtype=values.dtype) if self.differences else values


def tiff_layout(file: IO[bytes], name: str) -> TiffLayout:
    """Read the directory of the only page."""
    tags, order = _directory(file, name)
    width, height = _one(tags, t.WIDTH, name), _one(tags, t.HEIGHT, name)
    samples = _one(tags, t.SAMPLES, name, 1)
    meaning = _one(tags, t.MEANING, name, t.BLACK_IS_ZERO)
    packing = _one(tags, t.PACKING, name, t.NONE)
    predictor = _one(tags, t.PREDICTOR, name, 1)
    bits = set(tags.get(t.BITS, (1,)))
    if width == 0 or height == 0:
        raise BadInput(f"{name} has no pixels: its TIFF header says {width}×{height}.")
    colours = {t.WHITE_IS_ZERO: 1, t.BLACK_IS_ZERO: 1, t.RGB: 3, t.PALETTE: 1}.get(meaning, 0)
    if meaning == 5:
        raise BadInput(f"{name} is a CMYK picture, made for print; convert it to RGB first.")
    if (
        bits not in ({8}, {16})
        or set(tags.get(t.NUMBERS, (1,))) != {1}
        or not colours
        or samples not in (colours, colours + 1)
        or (meaning == t.PALETTE and (samples, bits) != (1, {8}))
        or (_one(tags, t.PLANES, name, 1) != 1 and samples > 1)
        or _one(tags, t.FILLING, name, 1) != 1
        or packing not in PACKINGS
        or predictor not in (1, 2)
    ):
        raise BadInput(f"{name} is a rare kind of TIFF; {_ACCEPTED}.")
    depth = bits.pop()
    tiled = t.TILES in tags
    if tiled:
        cut = (_one(tags, t.TILE_HEIGHT, name), _one(tags, t.TILE_WIDTH, name))
    else:
        cut = (min(_one(tags, t.ROWS, name, height), height), width)
    palette = tags.get(t.COLOURS, ()) if meaning == t.PALETTE else ()
    if meaning == t.PALETTE and len(palette) != 3 << depth:
        raise damaged(name, "its TIFF palette does not have 256 colours")
    orientation = _one(tags, t.TURNED, name, 1)
    header = header_of(
        "tiff",
        *(height, width, 3 if palette else samples),
        bits=depth,
        orientation=orientation if 1 <= orientation <= 8 else 1,
    )
    places = (t.TILES, t.TILE_SIZES) if tiled else (t.STRIPS, t.STRIP_SIZES)
    starts, sizes = (tags.get(tag, ()) for tag in places)
    if min(cut) == 0 or max(cut) > 1 << 24:
        raise damaged(name, "its TIFF strips or tiles have no size")
    pieces = -(-height // cut[0]) * -(-width // cut[1])
    if len(starts) != pieces or len(sizes) != pieces:
        raise damaged(name, "its TIFF strips or tiles do not cover the picture")
    # Tiles may reach beyond the picture, but most of what is unpacked must belong to it.
    if pieces * cut[0] * cut[1] > 4 * header.pixels + (1 << 24):
        raise damaged(name, "its TIFF tiles are larger than its picture")
    return TiffLayout(
        *(header, order, (height, width), samples, depth, packing, meaning, predictor == 2),
        *(cut, tiled, tuple(zip(starts, sizes, strict=True)), palette),
    )


def _directory(file: IO[bytes], name: str) -> tuple[dict[int, tuple[int, ...]], str]:
    """The tags of the first page that hold unsigned integers; a second page is refused."""
    mark = exactly(file, 4, name)
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(mark)
    if order is None:
        raise BadInput(f"{name} is a rare kind of TIFF; {_ACCEPTED}.")
    (start,) = struct.unpack(order + "I", exactly(file, 4, name))
    file.seek(start)
    (count,) = struct.unpack(order + "H", exactly(file, 2, name))
    if not 0 < count <= _MAX_TAGS:
        raise damaged(name, "its TIFF directory has no tags, or too many")
    entries = exactly(file, 12 * count, name)
    if any(exactly(file, 4, name)):
        raise BadInput(f"{name} holds several pages; a TIFF with one page is accepted.")
    tags: dict[int, tuple[int, ...]] = {}
    for place in range(0, 12 * count, 12):
        tag, kind, length = struct.unpack_from(order + "HHI", entries, place)
        if tag not in _KEPT or tag in tags or kind not in t.TYPES or not 0 < length <= _MAX_SEGMENTS:
            continue
        size = struct.calcsize(t.TYPES[kind]) * length
        value = entries[place + 8 : place + 12]
        if size > 4:
            file.seek(struct.unpack(order + "I", value)[0])
            value = exactly(file, size, name)
        tags[tag] = struct.unpack_from(f"{order}{length}{t.TYPES[kind]}", value)
    return tags, order


def _one(tags: dict[int, tuple[int, ...]], tag: int, name: str, default: int | None = None) -> int:
    """The first value of a tag; one without a default must be there."""
    value = tags.get(tag, () if default is None else (default,))
    if not value:
        raise damaged(name, "its TIFF header is incomplete")
    return value[0]
