"""PNG: every chunk that matters is checked here, and only those reach the decoder.

libpng writes warnings to the terminal, forgives some faults and follows ancillary chunks into profiles and
texts. So checksums, the size of what is packed and the filters of all rows are verified first, and the
decoder, OpenCV's, then sees a file of nothing but a header and those rows. Palettes and transparent colours
are resolved here. Files are written here too, since no library writes 16 bits of grey with alpha.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import exactly
from sfumato.io.image_header import PictureHeader, damaged, header_of, library
from sfumato.io.jpeg import exif_orientation

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# How the header names the meaning of a pixel's samples.
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """Return length, kind, content and checksum."""
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def encode_png(values: NDArray[Any], level: int = 6) -> bytes:
    """Return a file without metadata of (h, w) or (h, w, 1…4) values in uint8 or uint16."""
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


_MAX_CHUNKS = 200_000
_MAX_SIDE = (1 << 31) - 1
_SAMPLES = {GREY: 1, COLOUR: 3, PALETTE: 1, GREY_ALPHA: 2, COLOUR_ALPHA: 4}
_DEPTHS = {GREY: (1, 2, 4, 8, 16), PALETTE: (1, 2, 4, 8)}
# The seven passes of an interlaced picture: first row and column, distance of rows and columns.
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


@dataclass(frozen=True)
class PngLayout:
    """A header, and the chunks that hold pixels."""

    header: PictureHeader
    sides: tuple[int, int]  # height and width as stored
    depth: int
    colour: int
    interlaced: bool
    palette: bytes
    transparent: bytes
    packed: tuple[tuple[int, int], ...]  # offsets and lengths of what is packed

    def decode(self, data: bytes, name: str) -> NDArray[Any]:
        """Return (h, w, …) in the type of the header; a palette gives colour."""
        parts = []
        for offset, length in self.packed:
            end = offset + length
            parts.append(data[offset:end])
            if zlib.crc32(parts[-1], zlib.crc32(b"IDAT")) != int.from_bytes(data[end : end + 4]):
                raise damaged(name, "a checksum of its PNG data is wrong")
        values = self._decoded(self._checked(b"".join(parts), name), name)
        if self.colour == PALETTE:
            return self._coloured(values, name)
        if self.transparent:
            return self._with_alpha(values, name)
        return values

    def _checked(self, packed: bytes, name: str) -> bytes:
        """Return ``packed``, if it is exactly the announced rows, each with a filter that exists."""
        passes = [(rows, 1 + (columns * self._bits + 7) // 8) for rows, columns in self._passes()]
        expected = sum(rows * stride for rows, stride in passes)
        unpacking = zlib.decompressobj()
        try:
            raw = unpacking.decompress(packed, expected + 1)
        except zlib.error as error:
            raise damaged(name, "its PNG data cannot be unpacked") from error
        if len(raw) != expected or not unpacking.eof:
            what = "holds fewer" if len(raw) < expected else "may hold more"
            raise damaged(name, f"it {what} pixels than its PNG header announces")
        values = np.frombuffer(raw, np.uint8)
        start = 0
        for rows, stride in passes:
            if (values[start : start + rows * stride : stride] > 4).any():
                raise damaged(name, "a row of its PNG data has an unknown filter")
            start += rows * stride
        return packed[: len(packed) - len(unpacking.unused_data)]

    @property
    def _bits(self) -> int:
        return self.depth * _SAMPLES[self.colour]

    def _passes(self) -> list[tuple[int, int]]:
        height, width = self.sides
        if not self.interlaced:
            return [(height, width)]
        sides = [((height - y + v - 1) // v, (width - x + u - 1) // u) for y, x, v, u in _PASSES]
        return [(rows, columns) for rows, columns in sides if rows > 0 and columns > 0]

    def _decoded(self, packed: bytes, name: str) -> NDArray[Any]:
        # Indices of a palette have the layout of grey levels, and are asked for as such.
        colour = GREY if self.colour == PALETTE else self.colour
        head = struct.pack(">IIBBBBB", *self.sides[::-1], self.depth, colour, 0, 0, self.interlaced)
        file = SIGNATURE + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")
        cv2 = library("cv2", name)
        try:
            values: NDArray[Any] | None = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_UNCHANGED)
        except cv2.error as error:
            raise damaged(name, "its PNG data cannot be decoded") from error
        if values is None or values.shape[:2] != self.sides or values.dtype != self.header.dtype:
            raise damaged(name, "its PNG data cannot be decoded")
        if values.ndim == 2:
            return values
        order = {GREY_ALPHA: [0, 3], COLOUR_ALPHA: [2, 1, 0, 3]}.get(self.colour, [2, 1, 0])
        return values[:, :, order]  # OpenCV's colours are blue, green, red

    def _coloured(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        indices = values // (255 // ((1 << self.depth) - 1))  # few bits are stretched to 0…255
        colours = np.frombuffer(self.palette, np.uint8).reshape(-1, 3)
        if indices.max() >= len(colours):
            raise damaged(name, "it names a colour that its PNG palette does not have")
        if self.transparent:
            alpha = np.full(len(colours), 255, np.uint8)
            alpha[: len(self.transparent)] = np.frombuffer(self.transparent, np.uint8)
            colours = np.column_stack([colours, alpha])
        return np.take(colours, indices, axis=0)

    def _with_alpha(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        """Return one grey level or colour is transparent, all others are opaque."""
        clear = np.frombuffer(self.transparent, ">u2").astype(np.int64)
        if self.depth < 8:
            clear = clear * (255 // ((1 << self.depth) - 1))
        colours = values[:, :, None] if values.ndim == 2 else values
        white = np.iinfo(values.dtype).max
        alpha = np.where((colours == clear).all(axis=2), 0, white).astype(values.dtype)
        return np.concatenate([colours, alpha[:, :, None]], axis=2)


def png_layout(file: IO[bytes], name: str) -> PngLayout:
    """Walk over all chunks up to the last, without reading what is packed."""
    if exactly(file, 8, name) != SIGNATURE:
        raise damaged(name, "it does not start as a PNG does")
    walk = _chunks(file, name)
    kind, offset, length = next(walk)
    if kind != b"IHDR" or length != 13:
        raise damaged(name, "its first PNG chunk is no header")
    width, height, depth, colour, packing, filtering, interlaced = struct.unpack(
        ">IIBBBBB", _content(file, offset, length, kind, name)
    )
    if width == 0 or height == 0:
        raise BadInput(f"{name} has no pixels: its PNG header says {width}×{height}.")
    if (
        depth not in _DEPTHS.get(colour, (8, 16) if colour in _SAMPLES else ())
        or (packing, filtering) != (0, 0)
        or interlaced > 1
        or max(width, height) > _MAX_SIDE
    ):
        raise damaged(name, "its PNG header holds values that no PNG has")
    palette = transparent = exif = b""
    packed: list[tuple[int, int]] = []
    before = kind
    for kind, offset, length in walk:
        if kind == b"IDAT":
            if packed and before != b"IDAT":
                raise damaged(name, "its PNG data is interrupted")
            packed.append((offset, length))
        elif kind == b"acTL":
            raise BadInput(f"{name} is an animated PNG; pictures with one frame are accepted.")
        elif kind == b"PLTE" and colour == PALETTE and not packed and not palette:
            palette = _content(file, offset, length, kind, name) if length <= 768 else b"?"
        elif kind == b"tRNS" and not packed and not transparent and length <= 256:
            transparent = _content(file, offset, length, kind, name)
        elif kind == b"eXIf" and length < 1 << 20:
            exif = _content(file, offset, length, kind, name)
        elif kind[0] & 0x20 == 0 and kind not in (b"PLTE", b"IEND"):  # a capital: the picture depends on it
            raise damaged(name, "it holds a PNG chunk that is not known")
        before = kind
    _check_colours(colour, depth, palette, transparent, name)
    if not packed:
        raise damaged(name, "it holds no PNG data")
    channels = 3 if colour == PALETTE else _SAMPLES[colour]
    header = header_of(
        "png",
        *(height, width, channels + bool(transparent)),
        bits=depth,
        orientation=exif_orientation(exif),
    )
    return PngLayout(
        header, (height, width), depth, colour, interlaced == 1, palette, transparent, tuple(packed)
    )


def _check_colours(colour: int, depth: int, palette: bytes, transparent: bytes, name: str) -> None:
    if colour == PALETTE:
        good = 0 < len(palette) <= 3 << depth and len(palette) % 3 == 0
        good = good and 3 * len(transparent) <= len(palette)
    elif colour in (GREY, COLOUR):
        good = len(transparent) in (0, 2 * _SAMPLES[colour])
    else:
        good = not transparent
    if not good:
        raise damaged(name, "its PNG palette or transparent colour does not fit its header")


def _chunks(file: IO[bytes], name: str) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, offset and length of every chunk's content, up to and with the last chunk."""
    offset = 8
    for _ in range(_MAX_CHUNKS):
        file.seek(offset)
        head = file.read(8)
        if len(head) < 8:
            raise BadInput(f"{name} is truncated: its PNG data has no end.")
        length, kind = struct.unpack(">I4s", head)
        if not kind.isalpha():
            raise damaged(name, "a PNG chunk does not start where the one before it ends")
        yield kind, offset + 8, length
        if kind == b"IEND":
            return
        offset += 12 + length
    raise BadInput(f"{name} is a PNG of more than {_MAX_CHUNKS} chunks, which are not accepted.")


def _content(file: IO[bytes], offset: int, length: int, kind: bytes, name: str) -> bytes:
    file.seek(offset)
    content = exactly(file, length, name)
    if zlib.crc32(content, zlib.crc32(kind)) != int.from_bytes(exactly(file, 4, name)):
        raise damaged(name, "a checksum of its PNG header is wrong")
    return content
