"""TIFF: one page of 8 or 16 bits, grey, with a palette or in colour; plain, Deflate, LZW or PackBits.

Tags are read here: libraries follow whatever the many tags say, and complain on the terminal. Deflate is
unpacked by zlib, PackBits by Pillow and LZW by FFmpeg: libtiff prints errors, and through OpenCV takes broken
data for good. Files are written by tifffile.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import library
from sfumato.io.image_header import PictureReader

TYPES = {1: "B", 3: "H", 4: "I"}  # the unsigned integers that the tags below may have
WIDTH, HEIGHT, BITS, PACKING, MEANING, FILLING = 256, 257, 258, 259, 262, 266
STRIPS, TURNED, SAMPLES, ROWS, STRIP_SIZES = 273, 274, 277, 278, 279
PLANES, PREDICTOR, COLOURS = 284, 317, 320
TILE_WIDTH, TILE_HEIGHT, TILES, TILE_SIZES, EXTRA, NUMBERS = 322, 323, 324, 325, 338, 339
NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS = 1, 5, 8, 32946, 32773
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE = 0, 1, 2, 3


def encode_tiff(values: NDArray[Any]) -> bytes:
    """Return a Deflate-packed file without metadata of (h, w) or (h, w, 1…4) values in uint8 or uint16."""
    tifffile = library("tifffile", "a .tif file")
    channels = values.shape[2] if values.ndim == 3 else 1
    file = io.BytesIO()
    tifffile.imwrite(
        file,
        values,
        byteorder="<",
        photometric="rgb" if channels >= 3 else "minisblack",
        planarconfig="contig",
        extrasamples=["unassalpha"] if channels in (2, 4) else None,
        compression="zlib",
        predictor=True,
        rowsperstrip=values.shape[0],
        metadata=None,
        software=False,
    )
    return file.getvalue()


PACKINGS = (NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS)
# Samples and bits of a pixel of so many bytes, as FFmpeg is told of it: it only unpacks bytes.
_PIXELS = {1: (1, 8), 2: (1, 16), 3: (3, 8), 4: (4, 8), 6: (3, 16), 8: (4, 16)}


def unpacked(packed: bytes, packing: int, rows: int, columns: int, pixel_bytes: int) -> bytes:
    """Return the bytes of a strip or tile, or fewer where there are fewer; broken data is a ValueError."""
    expected = rows * columns * pixel_bytes
    if packing == NONE:
        return packed[:expected]
    if packing == LZW:
        # FFmpeg goes on with zeros where the data ends early, so that it has to agree with itself on ones.
        found, again = (_lzw(packed + end, rows, columns, pixel_bytes) for end in (bytes(4), b"\xff" * 4))
        if found != again:
            raise ValueError("LZW data that ends early")
        return found
    if packing == PACKBITS:
        from PIL import Image

        # One row of all bytes, since strings of other writers pass the ends of rows.
        return Image.frombytes("L", (expected, 1), packed, "packbits", "L").tobytes()
    try:
        # One byte more than is needed, so that the checksum behind the last one is reached.
        return zlib.decompressobj().decompress(packed, expected + 1)[:expected]
    except zlib.error as error:
        raise ValueError("broken Deflate data") from error


def _lzw(packed: bytes, rows: int, columns: int, pixel_bytes: int) -> bytes:
    """Unpack LZW by FFmpeg, which is given a file of one strip."""
    av = library("av", "a .tif file packed by LZW")
    samples, bits = _PIXELS[pixel_bytes]
    meaning = RGB if samples >= 3 else BLACK_IS_ZERO
    tags = {WIDTH: columns, HEIGHT: rows, BITS: bits, PACKING: LZW, MEANING: meaning}
    tags |= {STRIPS: 8, SAMPLES: samples, ROWS: rows, STRIP_SIZES: len(packed)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    file = struct.pack("<4sI", b"II*\0", 8 + len(packed)) + packed
    file += struct.pack("<H", len(tags)) + entries + bytes(4)
    decoder = av.CodecContext.create("tiff", "r")
    decoder.options = {"err_detect": "explode"}  # otherwise it fills with black what is missing
    try:
        (frame,) = decoder.decode(av.Packet(file))
    except av.FFmpegError as error:
        raise ValueError("broken LZW data") from error
    plane = frame.planes[0]
    lines = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return lines[:rows, : columns * pixel_bytes].tobytes()


_MAX_TAGS = 1_000
_MAX_SEGMENTS = 1 << 16
_KEPT = {
    *(WIDTH, HEIGHT, BITS, PACKING, MEANING, FILLING, STRIPS, TURNED, SAMPLES, ROWS, STRIP_SIZES),
    *(PLANES, PREDICTOR, COLOURS, TILE_WIDTH, TILE_HEIGHT, TILES, TILE_SIZES, NUMBERS),
}
_ACCEPTED = "one page of 8 or 16 bits in grey or RGB, plain or by Deflate, LZW or PackBits, is accepted"


class TiffReader(PictureReader):
    """Reads the directory of the only page, and how the pixels are cut into strips or tiles."""

    format = "TIFF"

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        self._tags = self._directory()
        width, height = self._one(WIDTH), self._one(HEIGHT)
        self._sides, self._samples = (height, width), self._one(SAMPLES, 1)
        self._meaning, self._packing = self._one(MEANING, BLACK_IS_ZERO), self._one(PACKING, NONE)
        self._differences = self._one(PREDICTOR, 1) == 2
        self._check_kind()
        self._bits = self._tags[BITS][0]
        self._palette = self._tags.get(COLOURS, ()) if self._meaning == PALETTE else ()
        if self._meaning == PALETTE and len(self._palette) != 3 << self._bits:
            raise self._damaged("its TIFF palette does not have 256 colours")
        turned = self._one(TURNED, 1)
        self._announce(
            *(height, width, 3 if self._palette else self._samples),
            bits=self._bits,
            orientation=turned if 1 <= turned <= 8 else 1,
        )
        self._tiled = TILES in self._tags
        if self._tiled:
            rows, columns = self._one(TILE_HEIGHT), self._one(TILE_WIDTH)
        else:
            rows, columns = min(self._one(ROWS, height), height), width
        if min(rows, columns) == 0 or max(rows, columns) > 1 << 24:
            raise self._damaged("its TIFF strips or tiles have no size")
        places = (TILES, TILE_SIZES) if self._tiled else (STRIPS, STRIP_SIZES)
        starts, sizes = (self._tags.get(tag, ()) for tag in places)
        pieces = -(-height // rows) * -(-width // columns)
        if len(starts) != pieces or len(sizes) != pieces:
            raise self._damaged("its TIFF strips or tiles do not cover the picture")
        # Tiles may reach beyond the picture, but most of what is unpacked must belong to it.
        if pieces * rows * columns > 4 * self.header.pixels + (1 << 24):
            raise self._damaged("its TIFF tiles are larger than its picture")
        self._cut, self._segments = (rows, columns), list(zip(starts, sizes, strict=True))

    def decode(self, data: bytes) -> NDArray[Any]:
        """Return (h, w, …) in the type of the header; a palette gives colour."""
        height, width = self._sides
        rows, columns = self._cut
        values = np.empty((height, width, self._samples), self.header.dtype)
        across = -(-width // columns)
        for number, (offset, length) in enumerate(self._segments):
            top, left = number // across * rows, number % across * columns
            # The last strip ends with the picture; a tile is always whole.
            kept = rows if self._tiled else min(rows, height - top)
            packed = data[offset : offset + length]
            if len(packed) != length:
                raise BadInput(f"{self._name} is truncated: it ends inside its pixels.")
            part = self._segment(packed, kept, columns)
            values[top : top + rows, left : left + columns] = part[: height - top, : width - left]
        if self._meaning == WHITE_IS_ZERO:
            values[:, :, 0] = np.iinfo(values.dtype).max - values[:, :, 0]
        if self._meaning == PALETTE:
            colours = (np.array(self._palette).reshape(3, -1).T >> 8).astype(np.uint8)
            return colours[values[:, :, 0]]
        return values[:, :, 0] if self._samples == 1 else values

    def _segment(self, packed: bytes, rows: int, columns: int) -> NDArray[Any]:
        pixel_bytes = self._samples * self._bits // 8
        try:
            raw = unpacked(packed, self._packing, rows, columns, pixel_bytes)
        except ValueError as error:
            raise self._damaged("its TIFF pixels cannot be unpacked") from error
        if len(raw) != rows * columns * pixel_bytes:
            raise self._damaged("it holds fewer pixels than its TIFF header announces")
        values = np.frombuffer(raw, f"{self._order}u{self._bits // 8}").astype(self.header.dtype)
        values = values.reshape(rows, columns, self._samples)
        return np.add.accumulate(values, axis=1, dtype=values.dtype) if self._differences else values

    def _check_kind(self) -> None:
        """Refuse a page of another kind than those accepted."""
        bits, colours = set(self._tags.get(BITS, (1,))), {RGB: 3}.get(self._meaning, 1)
        if self._meaning == 5:
            raise BadInput(f"{self._name} is a CMYK picture, made for print; convert it to RGB first.")
        if (
            bits not in ({8}, {16})
            or set(self._tags.get(NUMBERS, (1,))) != {1}
            or self._meaning not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE)
            or self._samples not in (colours, colours + 1)
            or (self._meaning == PALETTE and (self._samples, bits) != (1, {8}))
            or (self._one(PLANES, 1) != 1 and self._samples > 1)
            or self._one(FILLING, 1) != 1
            or self._packing not in PACKINGS
            or self._one(PREDICTOR, 1) not in (1, 2)
        ):
            raise BadInput(f"{self._name} is a rare kind of TIFF; {_ACCEPTED}.")

    def _directory(self) -> dict[int, tuple[int, ...]]:
        """Return the tags of the first page that hold unsigned integers; a second page is refused."""
        self._order = order = "<" if self._take(4) == b"II*\0" else ">"
        self._file.seek(*self._unpack(order + "I"))
        (count,) = self._unpack(order + "H")
        if not 0 < count <= _MAX_TAGS:
            raise self._damaged("its TIFF directory has no tags, or too many")
        entries = self._take(12 * count)
        if any(self._take(4)):
            raise BadInput(f"{self._name} holds several pages; a TIFF with one page is accepted.")
        tags: dict[int, tuple[int, ...]] = {}
        for place in range(0, 12 * count, 12):
            tag, kind, length = struct.unpack_from(order + "HHI", entries, place)
            if tag not in _KEPT or tag in tags or kind not in TYPES or not 0 < length <= _MAX_SEGMENTS:
                continue
            size = struct.calcsize(TYPES[kind]) * length
            value = entries[place + 8 : place + 12]
            if size > 4:
                self._file.seek(struct.unpack(order + "I", value)[0])
                value = self._take(size)
            tags[tag] = struct.unpack_from(f"{order}{length}{TYPES[kind]}", value)
        return tags

    def _one(self, tag: int, default: int | None = None) -> int:
        """Return the first value of a tag; one without a default must be there."""
        value = self._tags.get(tag, () if default is None else (default,))
        if not value:
            raise self._damaged("its TIFF header is incomplete")
        return value[0]
