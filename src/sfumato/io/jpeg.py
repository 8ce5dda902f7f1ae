"""JPEG: reading that notices every fault, and writing, also straight from luma and chroma planes.

libjpeg fills what is missing with grey and goes on; here its warnings are refusals. 8-bit baseline and
progressive files in grey or colour are read. CMYK is refused rather than converted: what its inks look like
depends on a print profile. A release that stays in JPEG's own planes is never turned into red, green and blue
and back, which makes folders of photographs fast.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import library
from sfumato.io.image_header import PictureReader, exif_orientation

__all__ = ["encode_many"]

#: Of JPEG and WebP output, from 1 to 100.
QUALITY = 90
_MAX_SEGMENTS = 10_000
# Each scan of a progressive file passes over the whole picture; real ones have about ten.
_MAX_SCANS = 100
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the other three are tables
_READ = {0xC0, 0xC1, 0xC2}  # baseline, extended, progressive; Huffman codes
_BARE = {0x01, *range(0xD0, 0xD8)}  # markers that no segment follows


class JpegReader(PictureReader):
    """Reads the segments up to the first scan; simplejpeg decodes."""

    format = "JPEG"

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        self._take(2)
        frame: tuple[int, int, int] | None = None
        orientation = 1
        for _ in range(_MAX_SEGMENTS):
            marker = self._marker()
            if marker in _BARE:
                continue
            if marker in (0xD8, 0xD9):
                break
            (length,) = self._unpack(">H")
            if length < 2:
                break
            content = self._take(length - 2)
            if marker in _FRAMES:
                if frame is not None:
                    raise self._damaged("it has two JPEG frames")
                frame = self._frame(marker, content)
            elif marker == 0xE1 and content.startswith(b"Exif\0\0"):
                orientation = exif_orientation(content)
            elif marker == 0xDA:
                if frame is None:
                    break
                self._start = file.tell()
                self._announce(*frame, orientation=orientation)
                return
        raise self._damaged("its JPEG header breaks off before a picture starts")

    def decode(self, data: bytes) -> NDArray[np.uint8]:
        """Return (h, w) for grey and (h, w, 3) for colour, all of it or a refusal."""
        # In coded data a byte 0xFF is followed by 0x00 or by a marker, so that these two mean what they say.
        end = data.find(b"\xff\xd9", self._start)
        if end < 0:
            raise BadInput(f"{self._name} is truncated: its JPEG data has no end.")
        if data.count(b"\xff\xda", self._start, end) >= _MAX_SCANS:
            raise BadInput(f"{self._name} is a JPEG of more than {_MAX_SCANS} scans, which are not accepted.")
        # Every 8×8 block of luma takes a bit at least: a small file that announces a large picture lies, and
        # would be filled with grey at length.
        if self.header.pixels > 64 * 8 * len(data):
            raise BadInput(
                f"{self._name} is truncated: it holds fewer pixels than its JPEG header announces."
            )
        grey, simplejpeg = len(self.header.shape) == 2, library("simplejpeg", self._name)
        try:
            values: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "GRAY" if grey else "RGB")
        except ValueError as error:
            raise BadInput(
                f"{self._name} is damaged or truncated: its JPEG data cannot be decoded."
            ) from error
        return values[:, :, 0] if grey else values

    def _frame(self, marker: int, content: bytes) -> tuple[int, int, int]:
        """Return height, width and number of components."""
        if len(content) < 6:
            raise self._damaged("its JPEG frame is too short")
        bits, height, width, components = struct.unpack_from(">BHHB", content)
        name = self._name
        if marker not in _READ:
            raise BadInput(f"{name} is a rare kind of JPEG; baseline and progressive files are accepted.")
        if bits != 8:
            raise BadInput(f"{name} is a JPEG of {bits} bits a sample; 8 bits are accepted.")
        if components == 4:
            raise BadInput(f"{name} is a CMYK picture, made for print; convert it to RGB first.")
        if components not in (1, 3):
            raise BadInput(
                f"{name} is a JPEG of {components} components; grey (1) and colour (3) are accepted."
            )
        return height, width, components

    def _marker(self) -> int:
        if self._take(1) != b"\xff":
            raise self._damaged("a JPEG segment does not start where the one before it ends")
        for _ in range(64):  # bytes of filling are rare, and few
            marker = self._take(1)[0]
            if marker != 0xFF:
                return marker
        raise self._damaged("its JPEG header holds nothing but filling")


def encode_jpeg(values: NDArray[np.uint8], quality: int) -> bytes:
    """Return a file without metadata of grey (h, w) or colour (h, w, 3), with chroma at half the size."""
    simplejpeg = library("simplejpeg", "a .jpg file")
    if values.ndim == 2:
        grey = np.ascontiguousarray(values)[:, :, None]
        return bytes(simplejpeg.encode_jpeg(grey, quality, "GRAY", "Gray"))
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(values), quality, "RGB", "420"))


def encode_planes(
    luma: NDArray[np.uint8], blue: NDArray[np.uint8] | None, red: NDArray[np.uint8] | None, quality: int
) -> bytes:
    """Return a file of JPEG's own planes Y (h, w), Cb and Cr, each ((h + 1)//2, (w + 1)//2).

    Without chroma the picture is grey.
    """
    planes = [None if plane is None else np.ascontiguousarray(plane) for plane in (luma, blue, red)]
    half = tuple((side + 1) // 2 for side in luma.shape)
    if luma.ndim != 2 or any(plane is not None and plane.shape != half for plane in planes[1:]):
        raise BadInput(f"the chroma of a picture of {luma.shape} has the shape {half}, in both planes.")
    if blue is not None and (luma.shape[0] % 2 or luma.shape[1] % 2):
        # The encoder reads luma up to even sides: beyond the array, from whatever memory stands there. So
        # the last row and column are repeated, in an array of which the picture is a part.
        even = np.pad(luma, [(0, side % 2) for side in luma.shape], mode="edge")
        planes[0] = even[: luma.shape[0], : luma.shape[1]]
    return bytes(library("simplejpeg", "a .jpg file").encode_jpeg_yuv_planes(*planes, quality=quality))


def encode_many(planes: Sequence[NDArray[Any]], quality: int = QUALITY) -> list[bytes]:
    """Return files of Y (n, h, w) or of Y, Cb and Cr, the latter two (n, (h + 1)//2, (w + 1)//2).

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
