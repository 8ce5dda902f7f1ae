"""WebP, lossy and lossless: one frame, with or without alpha; its container is read and rebuilt here."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.exif import exif_orientation
from sfumato.io.image_header import PictureHeader, damaged, exactly, header_of

__all__ = ["MAX_SIDE", "WebpLayout", "encode_webp", "webp_layout"]

MAX_SIDE = 16_383
_MAX_CHUNKS = 1_000
_ANIMATED, _ALPHA = 0x02, 0x10  # flags of the extended header


@dataclass(frozen=True)
class WebpLayout:
    """A header, and the chunks that hold pixels."""

    header: PictureHeader
    sides: tuple[int, int]  # height and width as stored
    chunks: tuple[tuple[bytes, int, int], ...]  # kind, offset and length: the alpha plane, then the picture

    def decode(self, data: bytes, name: str) -> NDArray[np.uint8]:
        """(h, w, 3), or (h, w, 4) with alpha."""
        from PIL.WebPImagePlugin import WebPImageFile

        parts = [_chunk(kind, data[offset : offset + length]) for kind, offset, length in self.chunks]
        if len(parts) == 2:  # an alpha plane of its own asks for the extended header
            height, width = self.sides
            sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
            parts.insert(0, _chunk(b"VP8X", struct.pack("<I", _ALPHA) + sides))
        body = b"WEBP" + b"".join(parts)
        try:
            # Made without Image.open, which would warn of any large picture: the limit was applied before.
            with WebPImageFile(io.BytesIO(_chunk(b"RIFF", body))) as image:
                values = np.asarray(image.convert("RGBA" if self.header.shape[2] == 4 else "RGB"))
        except Exception as error:
            # The reader has no exception of its own: broken data shows as any of a dozen.
            raise BadInput(f"{name} is damaged or truncated: its WebP data cannot be decoded.") from error
        if values.shape[:2] != self.sides:
            raise damaged(name, "its WebP data has another size than its header")
        return values


def webp_layout(file: IO[bytes], name: str) -> WebpLayout:
    """Walk over the chunks, reading the first bytes of the picture alone."""
    riff, size, webp = struct.unpack("<4sI4s", exactly(file, 12, name))
    if (riff, webp) != (b"RIFF", b"WEBP"):
        raise damaged(name, "it does not start as a WebP does")
    chunks: dict[bytes, tuple[int, int]] = {}
    offset = 12
    while offset + 8 <= size + 8:
        file.seek(offset)
        kind, length = struct.unpack("<4sI", exactly(file, 8, name))
        if kind in (b"ANIM", b"ANMF"):
            raise _animated(name)
        if len(chunks) >= _MAX_CHUNKS or offset + 8 + length > size + 8:
            raise damaged(name, "its WebP chunks do not fit into the file")
        chunks.setdefault(kind, (offset + 8, length))
        offset += 8 + length + length % 2
    file.seek(0, io.SEEK_END)
    if file.tell() < size + 8:
        raise BadInput(f"{name} is truncated: it is shorter than its WebP header says.")
    if b"VP8X" in chunks:
        file.seek(chunks[b"VP8X"][0])
        if exactly(file, 1, name)[0] & _ANIMATED:
            raise _animated(name)
    kinds: list[bytes] = [kind for kind in (b"VP8 ", b"VP8L") if kind in chunks]
    if len(kinds) != 1:
        raise damaged(name, "it does not hold exactly one WebP picture")
    file.seek(chunks[kinds[0]][0])
    height, width, alpha = (_lossy if kinds == [b"VP8 "] else _lossless)(file, name)
    if kinds == [b"VP8 "] and b"ALPH" in chunks:
        alpha = True
        kinds.insert(0, b"ALPH")
    if b"VP8X" in chunks:
        file.seek(chunks[b"VP8X"][0] + 4)
        canvas = exactly(file, 6, name)
        if (int.from_bytes(canvas[:3], "little") + 1, int.from_bytes(canvas[3:], "little") + 1) != (
            width,
            height,
        ):
            raise damaged(name, "its WebP headers give two sizes")
    orientation = 1
    if b"EXIF" in chunks:
        file.seek(chunks[b"EXIF"][0])
        orientation = exif_orientation(file.read(min(chunks[b"EXIF"][1], 1 << 20)))
    header = header_of("webp", height, width, 4 if alpha else 3, orientation=orientation)
    return WebpLayout(header, (height, width), tuple((kind, *chunks[kind]) for kind in kinds))


def encode_webp(values: NDArray[np.uint8], quality: int) -> bytes:
    """A lossy file without metadata of colour (h, w, 3), colour and alpha (h, w, 4), or grey (h, w)."""
    from PIL import Image

    colours = np.repeat(values[:, :, None], 3, axis=2) if values.ndim == 2 else values
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colours)).save(file, "WEBP", quality=quality)
    return file.getvalue()


def _lossy(file: IO[bytes], name: str) -> tuple[int, int, bool]:
    head = exactly(file, 10, name)
    if head[0] & 1 or head[3:6] != b"\x9d\x01\x2a":
        raise damaged(name, "its WebP data does not start with a key frame")
    width, height = (side & 0x3FFF for side in struct.unpack("<HH", head[6:]))
    return _sides(height, width, name), width, False


def _lossless(file: IO[bytes], name: str) -> tuple[int, int, bool]:
    mark, bits = struct.unpack("<BI", exactly(file, 5, name))
    if mark != 0x2F or bits >> 29:
        raise damaged(name, "its lossless WebP data does not start as it should")
    return (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1, bool(bits >> 28 & 1)


def _sides(height: int, width: int, name: str) -> int:
    if height == 0 or width == 0:
        raise BadInput(f"{name} has no pixels: its WebP header says {width}×{height}.")
    return height


def _animated(name: str) -> BadInput:
    return BadInput(f"{name} is an animated WebP; pictures with one frame are accepted.")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)
