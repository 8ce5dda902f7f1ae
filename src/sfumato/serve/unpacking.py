"""How much a file is once it is unpacked, found before anything is done with it: bodies may be bombs.

A few kilobytes hold gigabytes of zeros, a picture of a hundred million pixels or hours of black film. What is
counted costs little: lengths that headers state and readers hold them to, packets, the longest text of a
dictionary as often as there are rows, and for a table packed by gzip the unpacked bytes themselves, up to the
limit. A file that cannot be read is let pass here, and refused
in better words by whoever reads it.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io.formats import kind_of, suffix_of
from sfumato.serve.bodies import TooLarge
from sfumato.serve.parquet_size import parquet_size

__all__ = ["MOST_PIXELS", "require_unpacked"]

#: Of one picture or frame: a mechanism has some thirty bytes in memory for each.
MOST_PIXELS = 1 << 25
_STEP = 1 << 20
_SAMPLE_BYTES = 4


def require_unpacked(file: Path, most: int) -> None:
    """Refuse a ``file`` that is more than ``most`` bytes once it is unpacked, or too large a picture."""
    suffix = suffix_of(file)
    measure = _MEASURES.get(suffix) or _MEASURES.get(kind_of(file))
    if measure is not None and measure(file, most) > most:
        raise TooLarge(
            f"{file.name} unpacks to more than {most:,} bytes, the most that is taken this way; "
            "send less at once, or as a job where more is taken."
        )


def _gzip(file: Path, most: int) -> int:
    """The unpacked bytes, counted no further than the limit; members may follow each other."""
    found = 0
    unpacker = zlib.decompressobj(wbits=31)
    with open(file, "rb") as packed:
        waiting = packed.read(_STEP)
        while waiting and found <= most:
            try:
                found += len(unpacker.decompress(waiting, _STEP))
            except zlib.error:
                return found
            waiting = unpacker.unconsumed_tail
            if unpacker.eof:
                waiting, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=31)
            waiting = waiting or packed.read(_STEP)
    return found


def _archive(file: Path, most: int) -> int:
    try:
        with zipfile.ZipFile(file) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return 0


def _picture(file: Path, most: int) -> int:
    from sfumato.io.pictures import picture_header

    try:
        header = picture_header(file)
    except BadInput:
        return 0
    _require_pixels(file, header.pixels)
    return header.pixels * header.dtype.itemsize * 4


def _sound(file: Path, most: int) -> int:
    from sfumato.io.sounds import open_sound

    try:
        sound = open_sound(file)
    except BadInput:
        return 0
    return sound.samples * sound.channels * _SAMPLE_BYTES


def _video(file: Path, most: int) -> int:
    """Packets of pictures, each a frame of three bytes a pixel; nothing is decoded."""
    try:
        import av
    except ImportError:
        return 0
    try:
        with av.open(str(file), metadata_errors="ignore") as container:
            found = 0
            for stream in container.streams.video:
                pixels = stream.codec_context.width * stream.codec_context.height
                _require_pixels(file, pixels)
                found += 3 * pixels
            frame = max(1, found)
            found = 0
            for packet in container.demux(container.streams.video):
                found += frame if packet.size else 0
                if found > most:
                    break
            return found
    except (av.FFmpegError, ValueError, OverflowError, AttributeError):
        return 0


def _require_pixels(file: Path, pixels: int) -> None:
    if pixels > MOST_PIXELS:
        raise TooLarge(f"{file.name} has {pixels:,} pixels; at most {MOST_PIXELS:,} are taken.")


_MEASURES: Mapping[str, Callable[[Path, int], int]] = {
    ".csv.gz": _gzip,
    ".npz": _archive,
    ".parquet": parquet_size,
    "picture": _picture,
    "sound": _sound,
    "video": _video,
}
