"""BMP, GIF, WebP, HEIC and AVIF: pictures that libraries decode, once their headers are checked.

Of BMP, plain files with a palette, in 24 or in 32 bits are read. Pillow unpacks the rows; the header is read
here, because Pillow's own reader takes a palette of black and white, or of the levels 0, 1, 2, …, for another
number of bits and returns wrong pixels without a word. Pillow unpacks GIF too; its blocks are walked over
here, because Pillow's reader makes room for whatever a header announces. WebP, lossy and lossless, is read by
Pillow, HEIC by pillow-heif. Of AVIF, Pillow reads the header and PyAV the pixels: Pillow would decode a
picture of any size, whatever its header announces. One frame or picture is read; animations and bursts are
refused. BMP and WebP are written, the others are not.

Readers are made directly and not by ``Image.open``, so that no other format is tried and nothing is printed
about large pictures: the limit on pixels is applied to the header, before anything is decoded.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import FORMAT_NAMES, PictureFormat, exactly
from sfumato.io.image_header import PictureHeader, damaged, header_of, library
from sfumato.io.jpeg import exif_orientation
from sfumato.io.video_files import boxes_fit, pixel_limit, rgb_of

_INFO = (40, 52, 56, 108, 124)  # lengths of the headers that start alike
# Pillow's names of pixels, and of how rows hold them, for each number of bits.
_BMP_ROWS = {1: ("P", "P;1"), 4: ("P", "P;4"), 8: ("P", "P"), 24: ("RGB", "BGR"), 32: ("RGB", "BGRX")}
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
        from PIL import Image

        height, width = self.header.shape[:2]
        stride = (width * self.bits + 31) // 32 * 4
        rows = data[self.start : self.start + height * stride]
        if len(rows) != height * stride:
            raise BadInput(f"{name} is truncated: it holds fewer pixels than its BMP header announces.")
        mode, stored = _BMP_ROWS[self.bits]
        direction = -1 if self.upwards else 1
        values = np.asarray(Image.frombytes(mode, (width, height), rows, "raw", stored, stride, direction))
        if self.bits > 8:
            return values
        colours = np.frombuffer(self.palette, np.uint8).reshape(-1, 4)[:, 2::-1]
        if values.max() >= len(colours):
            raise damaged(name, "it names a colour that its BMP palette does not have")
        return np.take(colours[:, 0] if len(self.header.shape) == 2 else colours, values, axis=0)


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


def encode_bmp(values: NDArray[np.uint8]) -> bytes:
    """Return a file without metadata of grey (h, w) or colour (h, w, 3) in uint8."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(values)).save(file, "BMP", dpi=(0, 0))
    return file.getvalue()


# Parts of a GIF that are walked over: a writer fills blocks of 255 bytes.
_MAX_BLOCKS = 1 << 20


@dataclass(frozen=True)
class GifLayout:
    """A header, the colours, and where the data of the only picture stands; Pillow unpacks it."""

    header: PictureHeader
    bits: int
    interlaced: bool
    colours: NDArray[np.uint8]  # in the channels of the header
    place: slice

    def decode(self, data: bytes, name: str) -> NDArray[np.uint8]:
        """(h, w) where all colours are grey, else (h, w, 3); with alpha where one colour is transparent."""
        from PIL import Image

        (height, width), how = self.header.shape[:2], (self.bits, self.interlaced, -1)
        try:
            indices = np.asarray(Image.frombytes("L", (width, height), data[self.place], "gif", *how))
        except ValueError as error:
            raise damaged(name, "its GIF data cannot be unpacked") from error
        if indices.max() >= len(self.colours):
            raise damaged(name, "it names a colour that its GIF palette does not have")
        values: NDArray[np.uint8] = np.take(self.colours, indices, axis=0)
        return values[:, :, 0] if len(self.header.shape) == 2 else values


def gif_layout(file: IO[bytes], name: str) -> GifLayout:
    """Walk over all blocks up to the last, without unpacking anything."""
    mark, width, height, flags = struct.unpack("<6sHHBxx", exactly(file, 13, name))
    if mark not in (b"GIF87a", b"GIF89a"):
        raise damaged(name, "it does not start as a GIF does")
    if width == 0 or height == 0:
        raise BadInput(f"{name} has no pixels: its GIF header says {width}×{height}.")
    palette, blocks = _gif_palette(file, flags, name), 0
    clear: int | None = None
    found: tuple[bytes, int, bool, slice, int | None] | None = None
    while (kind := exactly(file, 1, name)) != b";":
        if kind == b"!":
            label = exactly(file, 1, name)
            content = exactly(file, exactly(file, 1, name)[0], name)
            if label == b"\xf9" and len(content) == 4:
                clear = content[3] if content[0] & 1 else None
            blocks += _passed_blocks(file, name) if content else 0
        elif kind == b",":
            if found is not None:
                raise BadInput(f"{name} is an animated GIF; pictures with one frame are accepted.")
            *sides, flags = struct.unpack("<HHHHB", exactly(file, 9, name))
            if sides != [0, 0, width, height]:
                raise BadInput(f"{name} is a rare kind of GIF; a picture that fills its canvas is accepted.")
            own, bits = _gif_palette(file, flags, name), exactly(file, 1, name)[0]
            start = file.tell()
            blocks += _passed_blocks(file, name)
            found = (own or palette, bits, bool(flags & 64), slice(start, file.tell()), clear)
        else:
            raise damaged(name, "a GIF block does not start where the one before it ends")
        blocks += 1
        if blocks > _MAX_BLOCKS:
            raise BadInput(f"{name} is a GIF of more than {_MAX_BLOCKS:,} blocks, which are not accepted.")
    if found is None or not found[0] or not 1 <= found[1] <= 8:
        raise damaged(name, "it holds no GIF picture, or one without colours")
    palette, bits, interlaced, place, clear = found
    colours = np.frombuffer(palette, np.uint8).reshape(-1, 3)
    colours = colours[:, :1] if (colours == colours[:, :1]).all() else colours
    if clear is not None:
        opaque = np.where(np.arange(len(colours)) == clear, 0, 255).astype(np.uint8)
        colours = np.column_stack([colours, opaque])
    return GifLayout(header_of("gif", height, width, colours.shape[1]), bits, interlaced, colours, place)


def _gif_palette(file: IO[bytes], flags: int, name: str) -> bytes:
    """Return red, green and blue of each colour, where the flags announce any."""
    return exactly(file, 6 << (flags & 7), name) if flags & 128 else b""


def _passed_blocks(file: IO[bytes], name: str) -> int:
    """Pass over blocks up to an empty one; how many they were."""
    for number in range(_MAX_BLOCKS + 1):
        length = exactly(file, 1, name)[0]
        if length == 0:
            return number
        file.seek(length, io.SEEK_CUR)
    return _MAX_BLOCKS + 1


MAX_SIDE = 16_383
_ANIMATED = 0x02  # a flag of the extended header


@dataclass(frozen=True)
class LibraryLayout:
    """A header, and the function by which a library decodes the rest."""

    header: PictureHeader
    pixels: Callable[[bytes, str, PictureHeader], NDArray[np.uint8]]

    def decode(self, data: bytes, name: str) -> NDArray[np.uint8]:
        """Return (h, w) for grey, else (h, w, 2…4)."""
        shown = FORMAT_NAMES[self.header.format]
        with _refusing(f"{name} is damaged or truncated: its {shown} data cannot be decoded."):
            return self.pixels(data, name, self.header)


@contextmanager
def _refusing(sentence: str) -> Iterator[None]:
    """Refuse with ``sentence`` whatever is raised: readers of pictures show a broken file as any error."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(sentence) from error


def webp_layout(file: IO[bytes], name: str) -> LibraryLayout:
    """Read the container; no pixel is decoded."""
    from PIL.WebPImagePlugin import WebPImageFile

    start = file.read(21)
    animated = start[12:16] == b"VP8X" and start[20:] != b"" and bool(start[20] & _ANIMATED)
    file.seek(0)
    # Made without Image.open, which would warn of any large picture and try other formats.
    with _refusing(f"{name} is damaged or truncated: its WebP header cannot be read."):
        image = WebPImageFile(file)
    # One frame of an animation need not cover its canvas.
    if animated or image.n_frames != 1:
        raise BadInput(f"{name} is an animated WebP; pictures with one frame are accepted.")
    return _layout_of(image, "webp", _webp_pixels, name)


def _webp_pixels(data: bytes, name: str, header: PictureHeader) -> NDArray[np.uint8]:
    from PIL.WebPImagePlugin import WebPImageFile

    return np.asarray(WebPImageFile(io.BytesIO(data)))


def _layout_of(
    image: Any,
    format: PictureFormat,
    pixels: Callable[[bytes, str, PictureHeader], NDArray[np.uint8]],
    name: str,
    orientation: int | None = None,
) -> LibraryLayout:
    """Return the layout of a picture that a library opened."""
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}.get(image.mode)
    width, height = image.size
    if channels is None or width <= 0 or height <= 0:
        raise BadInput(f"{name} is a rare kind of picture: grey or RGB, with or without alpha, is accepted.")
    if orientation is None:
        orientation = exif_orientation(image.info.get("exif", b""))
    return LibraryLayout(header_of(format, height, width, channels, orientation=orientation), pixels)


def heic_layout(file: IO[bytes], name: str) -> LibraryLayout:
    """Read the boxes; no pixel is decoded. libheif turns the picture upright by itself."""
    heif = _opened_heic(file, name)
    if len(heif) != 1:
        raise BadInput(f"{name} holds {len(heif)} pictures; a HEIC with one picture is accepted.")
    return _layout_of(heif[0], "heic", _heic_pixels, name, orientation=1)


def _opened_heic(file: IO[bytes], name: str) -> Any:
    pillow_heif = library("pillow_heif", name)
    _require_boxes(file, name)
    with _refusing(f"{name} is damaged or truncated: its HEIC header cannot be read."):
        return pillow_heif.open_heif(file)


def _heic_pixels(data: bytes, name: str, header: PictureHeader) -> NDArray[np.uint8]:
    # libheif refuses pixels beyond the size that the header announces before it makes room for them.
    return np.asarray(_opened_heic(io.BytesIO(data), name)[0])


def avif_layout(file: IO[bytes], name: str) -> LibraryLayout:
    """Read the boxes; no pixel is decoded."""
    from PIL.AvifImagePlugin import AvifImageFile

    _require_boxes(file, name)
    with (
        _refusing(f"{name} is damaged or truncated: its AVIF header cannot be read."),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", category=UserWarning, module="PIL")  # of broken EXIF
        image = AvifImageFile(file)
    if image.n_frames != 1:
        raise BadInput(f"{name} is an animated AVIF; pictures with one frame are accepted.")
    return _layout_of(image, "avif", _avif_pixels, name)


def _avif_pixels(data: bytes, name: str, header: PictureHeader) -> NDArray[np.uint8]:
    """Return colour or grey, and the alpha plane, which is a second stream.

    Pillow would decode a picture of any size, whatever the header says, and shrink it; FFmpeg has a limit.
    """
    channels = header.shape[2] if len(header.shape) == 3 else 1
    sides = header.shape[1::-1] if header.orientation >= 5 else header.shape[:2]
    planes = []
    for number in range(2 if channels in (2, 4) else 1):
        frame = _avif_frame(data, number, 1 + (channels in (2, 4)), header.pixels, name)
        if (frame.height, frame.width) != sides or frame.is_corrupt:
            raise damaged(name, "its AVIF data has another size than its header")
        colour = number == 0 and channels >= 3
        planes.append(rgb_of(frame) if colour else frame.reformat(format="gray").to_ndarray())
    return planes[0] if len(planes) == 1 else np.dstack(planes)


def _avif_frame(data: bytes, number: int, streams: int, pixels: int, name: str) -> Any:
    av = library("av", name)
    limit = pixel_limit(pixels)
    with av.open(io.BytesIO(data), format="mov", metadata_errors="ignore", options=limit) as container:
        found = container.streams.video
        if len(found) != streams:
            raise BadInput(f"{name} is a rare kind of AVIF, put together of several pictures.")
        found[number].codec_context.options = limit
        return next(container.decode(found[number]))


def _require_boxes(file: IO[bytes], name: str) -> None:
    """Refuse a file that ends before its outermost boxes do."""
    size = file.seek(0, io.SEEK_END)
    if not boxes_fit(file, size):
        raise BadInput(f"{name} is truncated: the file ends before what its container announces.")
    file.seek(0)


def encode_webp(values: NDArray[np.uint8], quality: int) -> bytes:
    """Return lossy file without metadata of colour (h, w, 3), colour and alpha (h, w, 4), or grey (h, w)."""
    from PIL import Image

    colours = np.repeat(values[:, :, None], 3, axis=2) if values.ndim == 2 else values
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colours)).save(file, "WEBP", quality=quality)
    return file.getvalue()
