"""Read pictures strictly, and write them without metadata, whole or not at all.

JPEG, PNG, WebP, TIFF and BMP are read and written, GIF, HEIC and AVIF are read; grey or colour, 8 or 16 bits,
with or without alpha, as far as the format holds it. A picture is turned upright as EXIF or its container
says, once. Nothing but pixels is written: no EXIF, no profile, no text, no thumbnail. Values are kept as they
are when a colour profile is dropped. Limits are applied to what headers announce, before anything is
unpacked; what a decoder would forgive (missing rows, wrong checksums, a second frame) is refused.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import write_whole
from sfumato.io.formats import (
    PICTURES,
    PictureFormat,
    file_to_read,
    released_suffix,
    suffix_of,
    written_suffixes,
)
from sfumato.io.image_formats import (
    AvifReader,
    BmpReader,
    GifReader,
    HeicReader,
    WebpReader,
    encode_bmp,
    encode_webp,
)
from sfumato.io.image_header import PictureHeader, PictureReader, upright
from sfumato.io.jpeg import QUALITY, JpegReader, encode_jpeg
from sfumato.io.png import SIGNATURE, PngReader, encode_png
from sfumato.io.tiff import TiffReader, encode_tiff

__all__ = ["check_storable", "encode_picture", "picture_header", "read_picture", "write_picture"]

_MAX_BYTES = 2_000_000_000  # lengths in PNG have 31 bits
#: Pictures of more pixels are refused.
MAX_PIXELS = 100_000_000

# The longest sides that libjpeg and libwebp write.
_LONGEST = {"JPEG": 65_500, "WebP": 16_383}

_READERS: dict[PictureFormat, type[PictureReader]] = {
    "JPEG": JpegReader,
    "PNG": PngReader,
    "WebP": WebpReader,
    "TIFF": TiffReader,
    "BMP": BmpReader,
    "GIF": GifReader,
    "HEIC": HeicReader,
    "AVIF": AvifReader,
}
# What files start with; of the last group nothing is read, but people are told what they have.
_STARTS: tuple[tuple[bytes, PictureFormat], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (SIGNATURE, "PNG"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"BM", "BMP"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
)
# The brands of ISO base media files, which stand behind their length and ``ftyp``; two are of any coding.
_BRANDS: dict[bytes, PictureFormat] = {
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "HEIC"),
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
}
_ANY_BRANDS = (b"mif1", b"msf1")
_OTHERS = (
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"8BPS", "a Photoshop file"),
)
# A file may be larger than its pixels: eight bytes is the largest pixel, the rest is room for metadata.
_MOST_BYTES = 8 * MAX_PIXELS + (64 << 20)


@dataclass(frozen=True)
class Picture:
    """Pixels as they are looked at, with the header of the file they came from.

    ``values`` has the shape and type of the header: (h, w), or (h, w, channels), in uint8 or uint16.
    """

    values: NDArray[Any]
    header: PictureHeader


def picture_header(path: str | os.PathLike[str]) -> PictureHeader:
    """Return shape, type and format of the picture in ``path``, without decoding it.

    Refuses what :func:`read_picture` refuses, as far as the header shows it.
    """
    with _opened(path) as (file, name):
        return _reader(file, name).header


def read_picture(path: str | os.PathLike[str]) -> Picture:
    """Return the picture in ``path``; a file that is damaged anywhere in its pixels is refused.

    The suffix must tell the truth about the content. Files with several pictures (animations, pages) are
    refused, as are CMYK, floating point, and more than 100 million pixels. What stands behind the end of
    a JPEG, as cameras write it, is ignored.
    """
    with _opened(path) as (file, name):
        data = file.read(_MOST_BYTES)
    return decode_picture(data, name)


def decode_picture(data: bytes, name: str) -> Picture:
    """Return the picture in the bytes of a file called ``name``; see :func:`read_picture`."""
    reader = _reader(io.BytesIO(data), name)
    header = reader.header
    values = upright(reader.decode(data), header.orientation)
    if values.shape != header.shape or values.dtype != header.dtype:
        raise BadInput(f"{name} is damaged: its pixels are not what its header announces.")
    return Picture(values, header)


def check_storable(path: str | os.PathLike[str], shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Refuse the output ``path`` where its format cannot hold pictures of ``shape`` and ``dtype``."""
    name, format = Path(path).name, PICTURES[suffix_of(path, "picture")]
    if released_suffix(path) != suffix_of(path, "picture"):
        others = ", ".join(written_suffixes("picture"))
        raise BadInput(f"{name} cannot be written, since {format} is read only; {others} can.")
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or 0 in shape or channels not in (1, 2, 3, 4):
        raise BadInput(f"{name} takes (height, width) or (height, width, 1 to 4), not an array of {shape}.")
    if np.dtype(dtype) not in (np.uint8, np.uint16):
        raise BadInput(f"{name} takes pictures in uint8 or uint16, not in {np.dtype(dtype).name}.")
    if np.dtype(dtype) == np.uint16 and format not in ("PNG", "TIFF"):
        raise BadInput(f"{name} cannot hold 16 bits a sample; .png and .tif can.")
    if channels in (2, 4) and format in ("JPEG", "BMP"):
        raise BadInput(f"{name} cannot hold an alpha channel; .png, .tif and .webp can.")
    if channels == 2 and format == "WebP":
        raise BadInput(f"{name} cannot hold grey with alpha; .png and .tif can.")
    longest = _LONGEST.get(format, (1 << 31) - 1)
    if max(shape[:2]) > longest:
        raise BadInput(f"{name} cannot hold sides of more than {longest} pixels; .png and .tif can.")
    if math.prod(shape) * np.dtype(dtype).itemsize > _MAX_BYTES:
        raise BadInput(f"{name} cannot hold more than {_MAX_BYTES:,} bytes of pixels.")


def encode_picture(values: NDArray[Any], suffix: str, *, quality: int = QUALITY) -> bytes:
    """Return the bytes of a file of ``values`` (h, w) or (h, w, 1 to 4), in the format that ``suffix`` names.

    Equal values give equal bytes. ``quality`` matters to JPEG (with chroma at half the size) and to WebP; the
    other formats keep every value. Grey becomes colour in WebP, which has no grey.
    """
    check_storable(f"a picture{suffix}", values.shape, values.dtype)
    if isinstance(quality, bool) or not isinstance(quality, int) or not 1 <= quality <= 100:
        raise BadInput(
            f"`quality` must be a whole number from 1 to 100, not {quality!r}.", parameter="quality"
        )
    pixels = values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values
    format = PICTURES[suffix.lower()]
    if format == "JPEG":
        return encode_jpeg(pixels, quality)
    if format == "WebP":
        return encode_webp(pixels, quality)
    return {"PNG": encode_png, "TIFF": encode_tiff, "BMP": encode_bmp}[format](pixels)


def write_picture(path: str | os.PathLike[str], values: NDArray[Any], *, quality: int = QUALITY) -> None:
    """Write ``values`` to ``path``, whole or not at all, in the format that its suffix names."""
    check_storable(path, values.shape, values.dtype)
    write_whole(path, encode_picture(values, suffix_of(path, "picture"), quality=quality))


def _reader(file: IO[bytes], name: str) -> PictureReader:
    """Return the reader of ``file``, in the format that ``name`` says; too many pixels are refused."""
    format = PICTURES[suffix_of(name, "picture")]
    _check_content(file.read(12), format, name)
    file.seek(0)
    reader = _READERS[format](file, name)
    if reader.header.pixels > MAX_PIXELS:
        height, width = reader.header.shape[:2]
        raise BadInput(f"{name} has {width}×{height} pixels; up to {MAX_PIXELS:,} in all are accepted.")
    return reader


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], str]]:
    """Yield the file at ``path``, if it is not larger than any picture, and its name."""
    path = file_to_read(path)
    suffix_of(path, "picture")
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise BadInput(
                    f"{path.name} is larger than any picture of {MAX_PIXELS:,} pixels, the most that is "
                    "accepted."
                )
            yield file, path.name
    except OSError as error:
        reason = error.strerror or "it is not a file that can be read"
        raise BadInput(f"{path.name} cannot be read: {reason}.") from error


def _check_content(start: bytes, format: PictureFormat, name: str) -> None:
    """Refuse a file whose first bytes are not those of its format, and say what they are if that is known."""
    if not start:
        raise BadInput(f"{name} is empty.")
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        found: PictureFormat | None = "WebP"
    elif start[4:8] == b"ftyp":
        any_coding = start[8:12] in _ANY_BRANDS and format in ("HEIC", "AVIF")
        found = format if any_coding else _BRANDS.get(start[8:12])
    else:
        found = next((known for mark, known in _STARTS if start.startswith(mark)), None)
    if found == format:
        return
    if found is not None:
        fitting = next(suffix for suffix, known in PICTURES.items() if known == found)
        raise BadInput(f"{name} holds {_a(found)}, which its name denies; call it {fitting}.")
    other = next((known for mark, known in _OTHERS if start.startswith(mark)), None)
    what = f"it is {other}" if other else "it does not start like one"
    raise BadInput(f"{name} is not {_a(format)} picture: {what}.")


def _a(format: PictureFormat) -> str:
    return f"{'an' if format == 'AVIF' else 'a'} {format}"
