"""BMP: uncompressed pictures with a palette, in 24 or in 32 bits, read and written without any library."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.image_header import PictureHeader, damaged, exactly, header_of

__all__ = ["BmpLayout", "bmp_layout", "encode_bmp"]

_INFO = (40, 52, 56, 108, 124)  # lengths of the headers that start alike
_PLAIN, _MASKS = 0, 3
_USUAL_MASKS = (0x00FF0000, 0x0000FF00, 0x000000FF)


@dataclass(frozen=True)
class BmpLayout:
    """A header, and how the rows are stored."""

    header: PictureHeader
    bits: int
    start: int
    upwards: bool  # the last row comes first
    palette: bytes  # blue, green, red and nothing for each colour

    def decode(self, data: bytes, name: str) -> NDArray[np.uint8]:
        """(h, w) where the palette is grey, else (h, w, 3); the fourth byte of a pixel means nothing."""
        height, width = self.header.shape[:2]
        stride = self._stride(width)
        rows = np.frombuffer(data[self.start : self.start + height * stride], np.uint8)
        if len(rows) != height * stride:
            raise BadInput(f"{name} is truncated: it holds fewer pixels than its BMP header announces.")
        rows = rows.reshape(height, stride)
        rows = rows[::-1] if self.upwards else rows
        if self.bits >= 24:
            samples = self.bits // 8
            return rows[:, : width * samples].reshape(height, width, samples)[:, :, 2::-1]
        if self.bits == 8:
            indices = rows[:, :width]
        else:
            places = np.unpackbits(rows, axis=1).reshape(height, -1, self.bits)
            weights = (1 << np.arange(self.bits)[::-1]).astype(np.uint8)
            indices = (places[:, :width] * weights).sum(axis=2, dtype=np.uint8)
        colours = np.frombuffer(self.palette, np.uint8).reshape(-1, 4)[:, 2::-1]
        if indices.max() >= len(colours):
            raise damaged(name, "it names a colour that its BMP palette does not have")
        return colours[:, 0][indices] if len(self.header.shape) == 2 else colours[indices]

    def _stride(self, width: int) -> int:
        return (width * self.bits + 31) // 32 * 4


def bmp_layout(file: IO[bytes], name: str) -> BmpLayout:
    """Read both headers and the palette."""
    mark, _, _, start, length = struct.unpack("<2sIIII", exactly(file, 18, name))
    if mark != b"BM":
        raise damaged(name, "it does not start as a BMP does")
    if length not in _INFO:
        raise BadInput(f"{name} is a rare kind of BMP; files with a Windows header are accepted.")
    info = exactly(file, length - 4, name)
    width, height, planes, bits, packing = struct.unpack_from("<iiHHI", info)
    (named,) = struct.unpack_from("<I", info, 28)
    if width == 0 or height == 0:
        raise BadInput(f"{name} has no pixels: its BMP header says {width}×{abs(height)}.")
    if width < 0 or planes != 1 or bits not in (1, 2, 4, 8, 16, 24, 32):
        raise damaged(name, "its BMP header holds values that no BMP has")
    if packing == _MASKS and bits == 32:
        masks = info[36:48] if length >= 52 else exactly(file, 12, name)
        packing = _PLAIN if struct.unpack("<III", masks) == _USUAL_MASKS else packing
    if packing != _PLAIN or bits in (2, 16):
        raise BadInput(
            f"{name} is a compressed or 16-bit BMP; plain ones of 1, 4, 8, 24, 32 bits are accepted."
        )
    palette = b""
    if bits <= 8:
        colours = named or 1 << bits
        if colours > 1 << bits:
            raise damaged(name, "its BMP palette has more colours than its pixels can name")
        palette = exactly(file, 4 * colours, name)
    if start < file.tell():
        raise damaged(name, "its BMP pixels start inside the header")
    entries = np.frombuffer(palette, np.uint8).reshape(-1, 4)
    grey = bits <= 8 and bool((entries[:, :1] == entries[:, :3]).all())
    header = header_of("bmp", abs(height), width, 1 if grey else 3)
    return BmpLayout(header, bits, start, height > 0, palette)


def encode_bmp(values: NDArray[Any]) -> bytes:
    """A file without metadata of grey (h, w) or colour (h, w, 3) in uint8."""
    height, width = values.shape[:2]
    grey = values.ndim == 2
    palette = (
        np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1) if grey else np.empty((0, 4), np.uint8)
    )
    palette = palette * np.array([1, 1, 1, 0], np.uint8)
    bits = 8 if grey else 24
    stride = (width * bits + 31) // 32 * 4
    rows = np.zeros((height, stride), np.uint8)
    rows[:, : width * bits // 8] = (values if grey else values[:, :, ::-1]).reshape(height, -1)
    start = 54 + palette.size
    head = struct.pack("<2sIIII", b"BM", start + rows.size, 0, start, 40)
    info = struct.pack("<iiHHIIiiII", width, height, 1, bits, _PLAIN, rows.size, 0, 0, len(palette), 0)
    return head + info + palette.tobytes() + rows[::-1].tobytes()
