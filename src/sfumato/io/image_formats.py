"""BMP, GIF, WebP, HEIC and AVIF: readers that check the header before a library decodes; two writers.

Of BMP, plain files with a palette, in 24 or in 32 bits are read. Pillow unpacks the rows; the header is read
here, because Pillow's own reader takes a palette of black and white, or of the levels 0, 1, 2, …, for another
number of bits and returns wrong pixels without a word. Pillow unpacks GIF too; its blocks are walked over
here, because Pillow's reader makes room for whatever a header announces. WebP, lossy and lossless, is read by
Pillow, HEIC by pillow-heif. Of AVIF, Pillow reads the header and PyAV the pixels: Pillow would decode a
picture of any size, whatever its header announces. One frame or picture is read; animations and bursts are
refused.

Readers are made directly and not by ``Image.open``, so that no other format is tried and nothing is printed
about large pictures: the limit on pixels is applied to the header, before anything is decoded.
"""

from __future__ import annotations

import io
import struct
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.formats import library
from sfumato.io.image_header import PictureReader, exif_orientation
from sfumato.io.video_files import boxes_fit, pixel_limit, rgb_of

_INFO = (40, 52, 56, 108, 124)  # lengths of the headers that start alike
# Pillow's names of pixels, and of how rows hold them, for each number of bits.
_BMP_ROWS = {1: ("P", "P;1"), 4: ("P", "P;4"), 8: ("P", "P"), 24: ("RGB", "BGR"), 32: ("RGB", "BGRX")}
_PLAIN, _MASKS = 0, 3
_USUAL_MASKS = (0x00FF0000, 0x0000FF00, 0x000000FF)


class BmpReader(PictureReader):
    """Reads both headers and the palette of a BMP."""

    format = "BMP"

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        self._start, length = self._unpack("<10xII")
        if length not in _INFO:
            raise BadInput(f"{name} is a rare kind of BMP; files with a Windows header are accepted.")
        info = self._take(length - 4)
        width, height, planes, bits, packing = struct.unpack_from("<iiHHI", info)
        (named,) = struct.unpack_from("<I", info, 28)
        if width < 0 or planes != 1 or bits not in (1, 2, 4, 8, 16, 24, 32):
            raise self._damaged("its BMP header holds values that no BMP has")
        if packing == _MASKS and bits == 32:
            masks = info[36:48] if length >= 52 else self._take(12)
            packing = _PLAIN if struct.unpack("<III", masks) == _USUAL_MASKS else packing
        if packing != _PLAIN or bits in (2, 16):
            raise BadInput(
                f"{name} is a compressed or 16-bit BMP; plain ones of 1, 4, 8, 24, 32 bits are accepted."
            )
        colours = (named or 1 << bits) if bits <= 8 else 0
        if colours > 1 << bits:
            raise self._damaged("its BMP palette has more colours than its pixels can name")
        # Blue, green, red and nothing for each colour.
        self._palette = np.frombuffer(self._take(4 * colours), np.uint8).reshape(-1, 4)[:, 2::-1]
        if self._start < file.tell():
            raise self._damaged("its BMP pixels start inside the header")
        self._bits, self._upwards = bits, height > 0  # upwards: the last row comes first
        grey = bits <= 8 and bool((self._palette[:, :1] == self._palette).all())
        self._announce(abs(height), width, 1 if grey else 3)

    def decode(self, data: bytes) -> NDArray[np.uint8]:
        """Return (h, w) where the palette is grey, else (h, w, 3); a fourth byte of a pixel means nothing."""
        from PIL import Image

        height, width = self.header.shape[:2]
        stride = (width * self._bits + 31) // 32 * 4
        rows = data[self._start : self._start + height * stride]
        if len(rows) != height * stride:
            raise BadInput(f"{self._name} is truncated: it holds fewer pixels than its BMP header announces.")
        mode, stored = _BMP_ROWS[self._bits]
        direction = -1 if self._upwards else 1
        values = np.asarray(Image.frombytes(mode, (width, height), rows, "raw", stored, stride, direction))
        if self._bits > 8:
            return values
        if values.max() >= len(self._palette):
            raise self._damaged("it names a colour that its BMP palette does not have")
        colours = self._palette[:, 0] if len(self.header.shape) == 2 else self._palette
        return np.take(colours, values, axis=0)


def encode_bmp(values: NDArray[np.uint8]) -> bytes:
    """Return a file without metadata of grey (h, w) or colour (h, w, 3) in uint8."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(values)).save(file, "BMP", dpi=(0, 0))
    return file.getvalue()


# Parts of a GIF that are walked over: a writer fills blocks of 255 bytes.
_MAX_BLOCKS = 1 << 20


class GifReader(PictureReader):
    """Walks over all blocks of a GIF up to the last; Pillow unpacks the only picture."""

    format = "GIF"

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        width, height, flags = self._unpack("<6xHHBxx")
        self._require_pixels(height, width)
        palette, self._blocks = self._read_palette(flags), 0
        bits, self._place = 0, slice(0)
        transparent: int | None = None
        while (kind := self._take(1)) != b";":
            if kind == b"!":
                label = self._take(1)
                content = self._take(self._take(1)[0])
                if label == b"\xf9" and len(content) == 4 and not self._place.stop:
                    transparent = content[3] if content[0] & 1 else None
                if content:
                    self._pass_blocks()
            elif kind == b",":
                if self._place.stop:
                    raise self._animated()
                *sides, flags = self._unpack("<HHHHB")
                if sides != [0, 0, width, height]:
                    raise BadInput(
                        f"{name} is a rare kind of GIF; a picture that fills its canvas is accepted."
                    )
                palette = self._read_palette(flags) or palette
                bits, self._interlaced = self._take(1)[0], bool(flags & 64)
                start = file.tell()
                self._pass_blocks()
                self._place = slice(start, file.tell())
            else:
                raise self._damaged("a GIF block does not start where the one before it ends")
            self._count_block()
        if not palette or not 1 <= bits <= 8:
            raise self._damaged("it holds no GIF picture, or one without colours")
        self._bits = bits
        colours = np.frombuffer(palette, np.uint8).reshape(-1, 3)
        colours = colours[:, :1] if (colours == colours[:, :1]).all() else colours
        if transparent is not None:
            opaque = np.where(np.arange(len(colours)) == transparent, 0, 255).astype(np.uint8)
            colours = np.column_stack([colours, opaque])
        self._colours = colours
        self._announce(height, width, colours.shape[1])

    def decode(self, data: bytes) -> NDArray[np.uint8]:
        """Return (h, w) where all colours are grey, else (h, w, 3); with alpha where one is transparent."""
        from PIL import Image

        (height, width), how = self.header.shape[:2], (self._bits, self._interlaced, -1)
        try:
            indices = np.asarray(Image.frombytes("L", (width, height), data[self._place], "gif", *how))
        except ValueError as error:
            raise self._damaged("its GIF data cannot be unpacked") from error
        if indices.max() >= len(self._colours):
            raise self._damaged("it names a colour that its GIF palette does not have")
        values: NDArray[np.uint8] = np.take(self._colours, indices, axis=0)
        return values[:, :, 0] if len(self.header.shape) == 2 else values

    def _read_palette(self, flags: int) -> bytes:
        """Return red, green and blue of each colour, where the flags announce any."""
        return self._take(6 << (flags & 7)) if flags & 128 else b""

    def _pass_blocks(self) -> None:
        """Pass over blocks up to an empty one."""
        while length := self._take(1)[0]:
            self._count_block()
            self._file.seek(length, io.SEEK_CUR)

    def _count_block(self) -> None:
        self._blocks += 1
        if self._blocks > _MAX_BLOCKS:
            raise BadInput(
                f"{self._name} is a GIF of more than {_MAX_BLOCKS:,} blocks, which are not accepted."
            )


class LibraryReader(PictureReader):
    """A picture of which a library reads the header and decodes the rest."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        with self._refusing("header cannot be read"):
            image = self._opened(file)
        channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}.get(image.mode)
        width, height = image.size
        if channels is None or width <= 0 or height <= 0:
            raise BadInput(
                f"{name} is a rare kind of picture: grey or RGB, with or without alpha, is accepted."
            )
        self._announce(height, width, channels, orientation=self._orientation(image))

    def decode(self, data: bytes) -> NDArray[np.uint8]:
        """Return (h, w) for grey, else (h, w, 2…4)."""
        with self._refusing("data cannot be decoded"):
            return self._pixels(data)

    @abstractmethod
    def _opened(self, file: IO[bytes]) -> Any:
        """Return the image as the library opens it; no pixel is decoded."""

    def _pixels(self, data: bytes) -> NDArray[np.uint8]:
        return np.asarray(self._opened(io.BytesIO(data)))

    def _orientation(self, image: Any) -> int:
        return exif_orientation(image.info.get("exif", b""))

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        """Refuse whatever is raised: libraries answer a broken file with any error."""
        try:
            yield
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"{self._name} is damaged or truncated: its {self.format} {what}.") from error

    def _require_boxes(self, file: IO[bytes]) -> None:
        """Refuse a file that ends before its outermost boxes do."""
        size = file.seek(0, io.SEEK_END)
        if not boxes_fit(file, size):
            raise BadInput(f"{self._name} is truncated: the file ends before what its container announces.")
        file.seek(0)


_ANIMATED = 0x02  # a flag of the extended header


class WebpReader(LibraryReader):
    """Pillow reads the container and decodes."""

    format = "WebP"

    def _opened(self, file: IO[bytes]) -> Any:
        from PIL.WebPImagePlugin import WebPImageFile

        start = file.read(21)
        animated = start[12:16] == b"VP8X" and start[20:] != b"" and bool(start[20] & _ANIMATED)
        file.seek(0)
        image = WebPImageFile(file)
        # One frame of an animation need not cover its canvas.
        if animated or image.n_frames != 1:
            raise self._animated()
        return image


class HeicReader(LibraryReader):
    """pillow-heif reads the boxes and decodes.

    libheif refuses pixels beyond the announced size before it makes room for them, and turns the picture
    upright by itself.
    """

    format = "HEIC"

    def _opened(self, file: IO[bytes]) -> Any:
        pillow_heif = library("pillow_heif", self._name)
        self._require_boxes(file)
        heif = pillow_heif.open_heif(file)
        if len(heif) != 1:
            raise BadInput(f"{self._name} holds {len(heif)} pictures; a HEIC with one picture is accepted.")
        return heif[0]

    def _orientation(self, image: Any) -> int:
        return 1


class AvifReader(LibraryReader):
    """Pillow reads the boxes; PyAV decodes, because FFmpeg has a limit on pixels.

    Pillow would decode a picture of any size, whatever the header says, and shrink it.
    """

    format = "AVIF"

    def _opened(self, file: IO[bytes]) -> Any:
        from PIL.AvifImagePlugin import AvifImageFile

        self._require_boxes(file)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="PIL")  # of broken EXIF
            image = AvifImageFile(file)
        if image.n_frames != 1:
            raise self._animated()
        return image

    def _pixels(self, data: bytes) -> NDArray[np.uint8]:
        """Return colour or grey, and the alpha plane, which is a second stream."""
        header = self.header
        channels = header.shape[2] if len(header.shape) == 3 else 1
        sides = header.shape[1::-1] if header.orientation >= 5 else header.shape[:2]
        streams = 2 if channels in (2, 4) else 1
        planes = []
        for number in range(streams):
            frame = self._frame(data, number, streams)
            if (frame.height, frame.width) != sides or frame.is_corrupt:
                raise self._damaged("its AVIF data has another size than its header")
            colour = number == 0 and channels >= 3
            planes.append(rgb_of(frame) if colour else frame.reformat(format="gray").to_ndarray())
        return planes[0] if streams == 1 else np.dstack(planes)

    def _frame(self, data: bytes, number: int, streams: int) -> Any:
        limit = pixel_limit(self.header.pixels)
        av = library("av", self._name)
        with av.open(io.BytesIO(data), format="mov", metadata_errors="ignore", options=limit) as container:
            found = container.streams.video
            if len(found) != streams:
                raise BadInput(f"{self._name} is a rare kind of AVIF, put together of several pictures.")
            found[number].codec_context.options = limit
            return next(container.decode(found[number]))


def encode_webp(values: NDArray[np.uint8], quality: int) -> bytes:
    """Return a lossy file without metadata of grey (h, w), colour (h, w, 3), or that with alpha (h, w, 4)."""
    from PIL import Image

    colours = np.repeat(values[:, :, None], 3, axis=2) if values.ndim == 2 else values
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colours)).save(file, "WEBP", quality=quality)
    return file.getvalue()
