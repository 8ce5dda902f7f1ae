"""TIFF: one page of 8 or 16 bits, grey, with a palette or in colour; plain, Deflate, LZW or PackBits.

Tags are read here: libraries follow whatever the many tags say, and complain on the terminal. Deflate is
unpacked by zlib, PackBits by Pillow, and LZW, repacked as a GIF has it, by Pillow too: libtiff prints errors,
and through OpenCV takes broken data for good. Files are written by tifffile.
"""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.image_header import PictureReader
from sfumato.loading import library

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
_CLEAR, _END, _FIRST = 256, 257, 258  # codes below are bytes, codes above are strings
_TABLE = 4096 - _FIRST  # codes have at most 12 bits
# A table is cleared when it is full, after thousands of codes; to clear it for nothing would only take time.
_SPARE_TABLES, _CODES_OF_TABLE = 100, 500


def unpacked(packed: bytes, packing: int, expected: int) -> bytes:
    """Return the first ``expected`` bytes, or fewer where there are fewer; broken data is a ValueError."""
    if packing == NONE:
        return packed[:expected]
    if packing == LZW:
        return _lzw(packed, expected)
    if packing == PACKBITS:
        from PIL import Image

        # One row of all bytes, since strings of other writers pass the ends of rows.
        return Image.frombytes("L", (expected, 1), packed, "packbits", "L").tobytes()
    try:
        # One byte more than is needed, so that the checksum behind the last one is reached.
        return zlib.decompressobj().decompress(packed, expected + 1)[:expected]
    except zlib.error as error:
        raise ValueError("broken Deflate data") from error


def _lzw(packed: bytes, expected: int) -> bytes:
    """Unpack LZW by Pillow's decoder of GIF, whose codes are the same ones in another order of bits.

    TIFF begins a code with its highest bit, GIF with its lowest, and makes codes longer one code later.
    """
    from PIL import Image

    data = np.frombuffer(packed + bytes(4), np.uint8).astype(np.uint32)
    bit, ended, tables, seen = 0, False, 0, 0
    bits, parts = _lowest_first(np.array([_CLEAR])), []
    while seen < expected and not ended:
        tables += 1
        if tables > _SPARE_TABLES + seen // _CODES_OF_TABLE:
            raise ValueError("tables of LZW that are cleared all the time")
        codes, bit, ended = _codes(data, bit, 8 * len(packed))
        seen += len(codes)
        bits = np.concatenate([bits, _lowest_first(np.append(codes, _END if ended else _CLEAR))])
        whole = len(bits) // 8 * 8
        parts.append(np.packbits(bits[:whole], bitorder="little"))
        bits = bits[whole:]
    repacked = np.concatenate([*parts, np.packbits(bits, bitorder="little")]).tobytes()
    # A GIF counts its data in blocks of up to 255 bytes.
    blocks = (repacked[start : start + 255] for start in range(0, len(repacked), 255))
    framed = b"".join(bytes([len(block)]) + block for block in blocks)
    return Image.frombytes("L", (expected, 1), framed, "gif", 8, 0, -1).tobytes()


def _lowest_first(codes: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bits of the codes of one table as a GIF holds them."""
    bits = np.unpackbits(codes.astype("<u2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")
    ends = np.searchsorted(_widths(late=1)[0], np.arange(9, 13), side="right")
    runs = zip([0, *ends[:-1]], ends, range(9, 13), strict=True)
    return np.concatenate([bits[first:last, :width].ravel() for first, last, width in runs])


def _codes(data: NDArray[np.uint32], bit: int, bits: int) -> tuple[NDArray[np.uint32], int, bool]:
    """Return the codes from ``bit`` to the next clearing or the end, their end, and if they are the last."""
    widths, offsets = _widths()
    known = np.searchsorted(bit + offsets + widths, bits, side="right")  # codes that lie within the data
    places, widths = bit + offsets[:known], widths[:known]
    at = places >> 3
    words = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    codes = words >> (32 - widths - (places & 7)).astype(np.uint32) & ((1 << widths) - 1).astype(np.uint32)
    marks = np.flatnonzero((codes == _CLEAR) | (codes == _END))
    if not len(marks):
        if known == len(offsets):
            raise ValueError("a table of LZW that is too long")
        return codes, bits, True
    mark = int(marks[0])
    return codes[:mark], int(places[mark] + widths[mark]), bool(codes[mark] == _END)


@cache
def _widths(late: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return bits of each code after a clearing, which grow with the table, and where each starts."""
    strings = _FIRST + np.maximum(np.arange(_TABLE + 2) - 1, 0)
    widths = 9 + (strings[:, None] > np.array([510, 1022, 2046]) + late).sum(axis=1)
    return widths, np.cumsum(widths) - widths


_MAX_TAGS = 1_000
_MAX_SEGMENTS = 1 << 16
_KEPT = {
    *(WIDTH, HEIGHT, BITS, PACKING, MEANING, FILLING, STRIPS, TURNED, SAMPLES, ROWS, STRIP_SIZES),
    *(PLANES, PREDICTOR, COLOURS, TILE_WIDTH, TILE_HEIGHT, TILES, TILE_SIZES, NUMBERS),
}
_ACCEPTED = "one page of 8 or 16 bits in grey or RGB, plain or by Deflate, LZW or PackBits, is accepted"


class TiffReader(PictureReader):
    """Reads the directory of the only page, and how the pixels are cut into strips or tiles."""

    format = "tiff"

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
        expected = rows * columns * self._samples * self._bits // 8
        try:
            raw = unpacked(packed, self._packing, expected)
        except ValueError as error:
            raise self._damaged("its TIFF pixels cannot be unpacked") from error
        if len(raw) != expected:
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
