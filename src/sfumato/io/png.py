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
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import library
from sfumato.io.image_header import PictureReader, exif_orientation

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# How the header names the meaning of a pixel's samples.
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6


def png_chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk: length, kind, content and checksum."""
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _file(sides: tuple[int, int], depth: int, colour: int, packed: bytes, *, interlaced: int = 0) -> bytes:
    """Return a file of nothing but a header and the packed rows."""
    head = struct.pack(">IIBBBBB", *sides[::-1], depth, colour, 0, 0, interlaced)
    return SIGNATURE + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def encode_png(values: NDArray[Any]) -> bytes:
    """Return a file without metadata of (h, w) or (h, w, 1…4) values in uint8 or uint16."""
    height, width = values.shape[:2]
    samples = values.reshape(height, -1)
    colour = {1: GREY, 2: GREY_ALPHA, 3: COLOUR, 4: COLOUR_ALPHA}[samples.shape[1] // width]
    depth = 8 * values.dtype.itemsize
    rows = np.ascontiguousarray(samples.astype(f">u{values.dtype.itemsize}")).view(np.uint8)
    packed = zlib.compress(_filtered(rows, rows.shape[1] // width).tobytes(), 6)
    return _file((height, width), depth, colour, packed)


def _filtered(rows: NDArray[np.uint8], pixel: int) -> NDArray[np.uint8]:
    """Return each row as its difference to the left or to above, whichever is smaller on the whole."""
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


class PngReader(PictureReader):
    """Walks over all chunks up to the last, without reading what is packed; OpenCV decodes."""

    format = "PNG"

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        chunks = self._chunks()
        kind, offset, length = next(chunks)
        if kind != b"IHDR" or length != 13:
            raise self._damaged("its first PNG chunk is no header")
        width, height, depth, colour, packing, filtering, interlaced = struct.unpack(
            ">IIBBBBB", self._content(kind, offset, length)
        )
        if (
            depth not in _DEPTHS.get(colour, (8, 16) if colour in _SAMPLES else ())
            or (packing, filtering) != (0, 0)
            or interlaced > 1
            or max(width, height) > _MAX_SIDE
        ):
            raise self._damaged("its PNG header holds values that no PNG has")
        self._sides: tuple[int, int] = (height, width)
        self._depth: int = depth
        self._colour: int = colour
        self._interlaced: int = interlaced
        self._palette = self._transparent = exif = b""
        self._packed: list[tuple[int, int]] = []  # offsets and lengths of what is packed
        before = kind
        for kind, offset, length in chunks:
            if kind == b"IDAT":
                if self._packed and before != b"IDAT":
                    raise self._damaged("its PNG data is interrupted")
                self._packed.append((offset, length))
            elif kind == b"acTL":
                raise self._animated()
            elif kind == b"PLTE" and colour == PALETTE and not self._packed and not self._palette:
                self._palette = self._content(kind, offset, length) if length <= 768 else b"?"
            elif kind == b"tRNS" and not self._packed and not self._transparent and length <= 256:
                self._transparent = self._content(kind, offset, length)
            elif kind == b"eXIf" and length < 1 << 20:
                exif = self._content(kind, offset, length)
            elif kind[0] & 0x20 == 0 and kind not in (b"PLTE", b"IEND"):  # a capital: the picture needs it
                raise self._damaged("it holds a PNG chunk that is not known")
            before = kind
        self._check_colours()
        if not self._packed:
            raise self._damaged("it holds no PNG data")
        channels = (3 if colour == PALETTE else _SAMPLES[colour]) + bool(self._transparent)
        self._announce(height, width, channels, bits=depth, orientation=exif_orientation(exif))

    def decode(self, data: bytes) -> NDArray[Any]:
        """Return (h, w, …) in the type of the header; a palette gives colour."""
        parts = []
        for offset, length in self._packed:
            end = offset + length
            parts.append(data[offset:end])
            if zlib.crc32(parts[-1], zlib.crc32(b"IDAT")) != int.from_bytes(data[end : end + 4]):
                raise self._damaged("a checksum of its PNG data is wrong")
        values = self._decoded(self._checked(b"".join(parts)))
        if self._colour == PALETTE:
            return self._coloured(values)
        return self._with_alpha(values) if self._transparent else values

    def _checked(self, packed: bytes) -> bytes:
        """Return ``packed``, if it is exactly the announced rows, each with a filter that exists."""
        height, width = self._sides
        sides = [(height, width)]
        if self._interlaced:
            sides = [((height - y + v - 1) // v, (width - x + u - 1) // u) for y, x, v, u in _PASSES]
        bits = self._depth * _SAMPLES[self._colour]
        passes = [
            (rows, 1 + (columns * bits + 7) // 8) for rows, columns in sides if rows > 0 and columns > 0
        ]
        expected = sum(rows * stride for rows, stride in passes)
        unpacking = zlib.decompressobj()
        try:
            raw = unpacking.decompress(packed, expected + 1)
        except zlib.error as error:
            raise self._damaged("its PNG data cannot be unpacked") from error
        if len(raw) != expected or not unpacking.eof:
            what = "holds fewer" if len(raw) < expected else "may hold more"
            raise self._damaged(f"it {what} pixels than its PNG header announces")
        values = np.frombuffer(raw, np.uint8)
        start = 0
        for rows, stride in passes:
            if (values[start : start + rows * stride : stride] > 4).any():
                raise self._damaged("a row of its PNG data has an unknown filter")
            start += rows * stride
        return packed[: len(packed) - len(unpacking.unused_data)]

    def _decoded(self, packed: bytes) -> NDArray[Any]:
        # Indices of a palette have the layout of grey levels, and are asked for as such.
        colour = GREY if self._colour == PALETTE else self._colour
        file = _file(self._sides, self._depth, colour, packed, interlaced=self._interlaced)
        cv2 = library("cv2", self._name)
        try:
            values: NDArray[Any] | None = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_UNCHANGED)
        except cv2.error:
            values = None
        if values is None or values.shape[:2] != self._sides or values.dtype != self.header.dtype:
            raise self._damaged("its PNG data cannot be decoded")
        if values.ndim == 2:
            return values
        order = {GREY_ALPHA: [0, 3], COLOUR_ALPHA: [2, 1, 0, 3]}.get(self._colour, [2, 1, 0])
        return values[:, :, order]  # OpenCV's colours are blue, green, red

    def _coloured(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the colours of the palette that ``values`` name."""
        indices = values // (255 // ((1 << self._depth) - 1))  # few bits are stretched to 0…255
        colours = np.frombuffer(self._palette, np.uint8).reshape(-1, 3)
        if indices.max() >= len(colours):
            raise self._damaged("it names a colour that its PNG palette does not have")
        if self._transparent:
            alpha = np.full(len(colours), 255, np.uint8)
            alpha[: len(self._transparent)] = np.frombuffer(self._transparent, np.uint8)
            colours = np.column_stack([colours, alpha])
        return np.take(colours, indices, axis=0)

    def _with_alpha(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return ``values`` with alpha: one grey level or colour is transparent, all others are opaque."""
        transparent = np.frombuffer(self._transparent, ">u2").astype(np.int64)
        if self._depth < 8:
            transparent = transparent * (255 // ((1 << self._depth) - 1))
        colours = values[:, :, None] if values.ndim == 2 else values
        white = np.iinfo(values.dtype).max
        alpha = np.where((colours == transparent).all(axis=2), 0, white).astype(values.dtype)
        return np.concatenate([colours, alpha[:, :, None]], axis=2)

    def _check_colours(self) -> None:
        palette, transparent = len(self._palette), len(self._transparent)
        if self._colour == PALETTE:
            good = 0 < palette <= 3 << self._depth and palette % 3 == 0 and 3 * transparent <= palette
        elif self._colour in (GREY, COLOUR):
            good = transparent in (0, 2 * _SAMPLES[self._colour])
        else:
            good = not transparent
        if not good:
            raise self._damaged("its PNG palette or transparent colour does not fit its header")

    def _chunks(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield kind, offset and length of every chunk's content, up to and with the last chunk."""
        offset = len(SIGNATURE)
        for _ in range(_MAX_CHUNKS):
            self._file.seek(offset)
            head = self._file.read(8)
            if len(head) < 8:
                raise BadInput(f"{self._name} is truncated: its PNG data has no end.")
            length, kind = struct.unpack(">I4s", head)
            if not kind.isalpha():
                raise self._damaged("a PNG chunk does not start where the one before it ends")
            yield kind, offset + 8, length
            if kind == b"IEND":
                return
            offset += 12 + length
        raise BadInput(f"{self._name} is a PNG of more than {_MAX_CHUNKS} chunks, which are not accepted.")

    def _content(self, kind: bytes, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        content = self._take(length)
        if zlib.crc32(content, zlib.crc32(kind)) != int.from_bytes(self._take(4)):
            raise self._damaged("a checksum of its PNG header is wrong")
        return content
