"""JPEG: headers, decoding that notices every fault, and encoding, also straight from luma and chroma planes.

libjpeg fills what is missing with grey and goes on; here its warnings are refusals. Of the many kinds of
JPEG, 8-bit baseline and progressive files in grey or colour are read. CMYK is refused rather than converted:
what its inks look like depends on a print profile.

The one thing that is read from EXIF: which way up the picture is. Everything else in it is dropped.

Many JPEG files of one size at once: from bytes to one array, and from planes of luma and chroma to bytes.

The fast way for folders of photographs. A release that stays in JPEG's own planes is never turned into red,
green and blue and back.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import exactly
from sfumato.io.image_header import PictureHeader, damaged, header_of, library, upright

__all__ = ["encode_many"]

#: Of JPEG and WebP output, from 1 to 100.
QUALITY = 90
_ORIENTATION = 0x0112
_SHORT = 3
_MAX_TAGS = 1000


def exif_orientation(exif: bytes) -> int:
    """The orientation, 1 to 8, in a block of EXIF (with or without its ``Exif`` prefix); 1 if there is none.

    Anything that is broken counts as no orientation: viewers show such pictures as they are stored.
    """
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 8:
        return 1
    (offset,) = struct.unpack_from(order + "I", exif, 4)
    if offset + 2 > len(exif):
        return 1
    (count,) = struct.unpack_from(order + "H", exif, offset)
    for start in range(offset + 2, offset + 2 + 12 * min(count, _MAX_TAGS), 12):
        if start + 12 > len(exif):
            return 1
        tag, kind, values, value = struct.unpack_from(order + "HHIH", exif, start)
        if tag == _ORIENTATION:
            return value if kind == _SHORT and values == 1 and 1 <= value <= 8 else 1
    return 1


MAX_SIDE = 65_500  # libjpeg's
_MAX_SEGMENTS = 10_000
# Each scan of a progressive file passes over the whole picture; real ones have about ten.
_MAX_SCANS = 100
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the other three are tables
_READ = {0xC0, 0xC1, 0xC2}  # baseline, extended, progressive; Huffman codes
_BARE = {0x01, *range(0xD0, 0xD8)}  # markers that no segment follows


@dataclass(frozen=True)
class JpegLayout:
    """A header, and where the coded data of its first scan starts."""

    header: PictureHeader
    start: int

    def decode(self, data: bytes, name: str, into: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """(h, w) for grey and (h, w, 3) for colour, all of it or a refusal; ``into`` is a C-ordered place."""
        # In coded data a byte 0xFF is followed by 0x00 or by a marker, so that these two mean what they say.
        end = data.find(b"\xff\xd9", self.start)
        if end < 0:
            raise BadInput(f"{name} is truncated: its JPEG data has no end.")
        if data.count(b"\xff\xda", self.start, end) >= _MAX_SCANS:
            raise BadInput(f"{name} is a JPEG of more than {_MAX_SCANS} scans, which are not accepted.")
        # Every 8×8 block of luma takes a bit at least: a small file that announces a large picture lies, and
        # would be filled with grey at length.
        if self.header.pixels > 64 * 8 * len(data):
            raise BadInput(f"{name} is truncated: it holds fewer pixels than its JPEG header announces.")
        grey, simplejpeg = len(self.header.shape) == 2, library("simplejpeg", name)
        try:
            values: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "GRAY" if grey else "RGB", buffer=into)
        except ValueError as error:
            raise BadInput(f"{name} is damaged or truncated: its JPEG data cannot be decoded.") from error
        return values[:, :, 0] if grey else values


def jpeg_layout(file: IO[bytes], name: str) -> JpegLayout:
    """Return what the segments up to the first scan say."""
    if exactly(file, 2, name) != b"\xff\xd8":
        raise damaged(name, "it does not start as a JPEG does")
    frame: tuple[int, int, int] | None = None
    orientation = 1
    for _ in range(_MAX_SEGMENTS):
        marker = _marker(file, name)
        if marker in _BARE:
            continue
        if marker in (0xD8, 0xD9):
            break
        (length,) = struct.unpack(">H", exactly(file, 2, name))
        if length < 2:
            break
        content = exactly(file, length - 2, name)
        if marker in _FRAMES:
            if frame is not None:
                raise damaged(name, "it has two JPEG frames")
            frame = _frame(marker, content, name)
        elif marker == 0xE1 and content.startswith(b"Exif\0\0"):
            orientation = exif_orientation(content)
        elif marker == 0xDA:
            if frame is None:
                break
            return JpegLayout(header_of("jpeg", *frame, orientation=orientation), file.tell())
    raise damaged(name, "its JPEG header breaks off before a picture starts")


def encode_jpeg(values: NDArray[np.uint8], quality: int, name: str = "a .jpg file") -> bytes:
    """A baseline file without metadata, of grey (h, w) or colour (h, w, 3) with chroma at half the size."""
    simplejpeg = library("simplejpeg", name)
    if values.ndim == 2:
        grey = np.ascontiguousarray(values)[:, :, None]
        return bytes(simplejpeg.encode_jpeg(grey, quality, "GRAY", "Gray"))
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(values), quality, "RGB", "420"))


def encode_planes(
    luma: NDArray[np.uint8],
    blue: NDArray[np.uint8] | None,
    red: NDArray[np.uint8] | None,
    quality: int,
    name: str = "a .jpg file",
) -> bytes:
    """As :func:`encode_jpeg`, from JPEG's own planes Y (h, w), Cb and Cr, each ((h + 1)//2, (w + 1)//2).

    Saves what the way over red, green and blue costs; without chroma the picture is grey.
    """
    planes = [None if plane is None else np.ascontiguousarray(plane) for plane in (luma, blue, red)]
    half = tuple((side + 1) // 2 for side in luma.shape)
    if luma.ndim != 2 or any(p is not None and p.shape != half for p in planes[1:]):
        raise BadInput(f"the chroma of a picture of {luma.shape} has the shape {half}, in both planes.")
    if blue is not None and (luma.shape[0] % 2 or luma.shape[1] % 2):
        # The encoder reads luma up to even sides: beyond the array, from whatever memory stands there. So
        # the last row and column are repeated, in an array of which the picture is a part.
        even = np.pad(luma, [(0, side % 2) for side in luma.shape], mode="edge")
        planes[0] = even[: luma.shape[0], : luma.shape[1]]
    return bytes(library("simplejpeg", name).encode_jpeg_yuv_planes(*planes, quality=quality))


def _frame(marker: int, content: bytes, name: str) -> tuple[int, int, int]:
    """Return height, width and number of components."""
    if len(content) < 6:
        raise damaged(name, "its JPEG frame is too short")
    bits, height, width, components = struct.unpack_from(">BHHB", content)
    if marker not in _READ:
        raise BadInput(f"{name} is a rare kind of JPEG; baseline and progressive files are accepted.")
    if bits != 8:
        raise BadInput(f"{name} is a JPEG of {bits} bits a sample; 8 bits are accepted.")
    if components == 4:
        raise BadInput(f"{name} is a CMYK picture, made for print; convert it to RGB first.")
    if components not in (1, 3):
        raise BadInput(f"{name} is a JPEG of {components} components; grey (1) and colour (3) are accepted.")
    if height == 0 or width == 0:
        raise BadInput(f"{name} has no pixels: its JPEG header says {width}×{height}.")
    return height, width, components


def _marker(file: IO[bytes], name: str) -> int:
    if exactly(file, 1, name) != b"\xff":
        raise damaged(name, "a JPEG segment does not start where the one before it ends")
    for _ in range(64):  # bytes of filling are rare, and few
        marker = exactly(file, 1, name)[0]
        if marker != 0xFF:
            return marker
    raise damaged(name, "its JPEG header holds nothing but filling")


def decode_many(files: Sequence[bytes], names: Sequence[str], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return upright pictures in ``files``, (n, …), all of ``shape``: (h, w) in grey or (h, w, 3) in colour.

    ``names`` is what refusals call them; the first file that cannot be read or has another shape is refused.
    """
    pictures = np.empty((len(files), *shape), np.uint8)
    for place, (data, name) in enumerate(zip(files, names, strict=True)):
        layout = jpeg_layout(io.BytesIO(data), name)
        if layout.header.shape != shape:
            raise BadInput(f"{name} has the shape {layout.header.shape}; pictures of {shape} were expected.")
        if layout.header.orientation == 1:
            layout.decode(data, name, into=pictures[place])
        else:
            pictures[place] = upright(layout.decode(data, name), layout.header.orientation)
    return pictures


def encode_many(planes: Sequence[NDArray[Any]], quality: int = QUALITY) -> list[bytes]:
    """Files of Y (n, h, w) or of Y, Cb and Cr, the latter two (n, (h + 1)//2, (w + 1)//2); 255 is white.

    Values are rounded, and clipped where they leave 0 to 255. No metadata; equal planes give equal bytes.
    """
    if len(planes) not in (1, 3) or len({len(plane) for plane in planes}) != 1:
        raise BadInput(f"a picture has a plane of luma, or one and two of chroma, not {len(planes)}.")
    levels = []
    for plane in planes:
        rounded = np.rint(plane)
        levels.append(np.clip(rounded, 0, 255, out=rounded).astype(np.uint8))
    if len(levels) == 1:
        return [encode_planes(luma, None, None, quality) for luma in levels[0]]
    return [encode_planes(luma, blue, red, quality) for luma, blue, red in zip(*levels, strict=True)]
