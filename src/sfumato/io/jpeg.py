"""JPEG: headers, decoding that notices every fault, and encoding, also straight from luma and chroma planes.

libjpeg fills what is missing with grey and goes on; here its warnings are refusals. Of the many kinds of
JPEG, 8-bit baseline and progressive files in grey or colour are read. CMYK is refused rather than converted:
what its inks look like depends on a print profile.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.exif import exif_orientation
from sfumato.io.image_header import PictureHeader, damaged, exactly, header_of

__all__ = ["MAX_SIDE", "JpegLayout", "encode_jpeg", "encode_planes", "jpeg_layout"]

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
        grey, library = len(self.header.shape) == 2, _simplejpeg(name)
        try:
            values: NDArray[np.uint8] = library.decode_jpeg(data, "GRAY" if grey else "RGB", buffer=into)
        except ValueError as error:
            raise BadInput(f"{name} is damaged or truncated: its JPEG data cannot be decoded.") from error
        return values[:, :, 0] if grey else values


def jpeg_layout(file: IO[bytes], name: str) -> JpegLayout:
    """What the segments up to the first scan say."""
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
    simplejpeg = _simplejpeg(name)
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
    return bytes(_simplejpeg(name).encode_jpeg_yuv_planes(*planes, quality=quality))


def _frame(marker: int, content: bytes, name: str) -> tuple[int, int, int]:
    """Height, width and number of components."""
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


def _simplejpeg(name: str) -> ModuleType:
    try:
        import simplejpeg
    except ImportError:
        raise BadInput(f"{name} needs simplejpeg: pip install 'sfumato[media]'.") from None
    module: Any = simplejpeg
    return module  # type: ignore[no-any-return]
