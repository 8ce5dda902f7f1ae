"""How much a file is once it is unpacked, found before anything is done with it: bodies may be bombs.

A few kilobytes hold gigabytes of zeros, a picture of a hundred million pixels or hours of black film. What is
counted costs little: lengths that headers state and readers hold them to, packets, the longest text of a
dictionary as often as there are rows, and for a table packed by gzip the unpacked bytes themselves, up to the
limit. A file that cannot be read is let pass here, and refused
in better words by whoever reads it.

How much memory the work on a file takes is bounded too, from headers alone: most is streamed, but one record,
one picture, one clip of some mechanisms and what an audit compares are in memory whole.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import Schema, array_names, open_array
from sfumato.io.formats import kind_of, suffix_of
from sfumato.io.npz import open_archive
from sfumato.mechanisms import Mechanism
from sfumato.media import BandNoise, PictureMechanism, SoundMechanism
from sfumato.release import MediaMechanisms
from sfumato.release.array_release import rows_at_once
from sfumato.serve.parquet_size import parquet_batch, parquet_size
from sfumato.serve.request_files import TooLarge

__all__ = ["MOST_PIXELS", "require_memory", "require_memory_to_audit", "require_unpacked"]

#: Of one picture or frame: a mechanism has some thirty bytes in memory for each.
MOST_PIXELS = 1 << 25
_STEP = 1 << 20
_SAMPLE_BYTES = 4
# In memory for each value that an audit compares, and frames of a video that are worked on at a time.
_AUDIT_BYTES = 48
_FRAMES = 4


def require_unpacked(file: Path, most: int) -> None:
    """Refuse a ``file`` that is more than ``most`` bytes once it is unpacked, or too large a picture."""
    suffix = suffix_of(file)
    measure = _MEASURES.get(suffix) or _MEASURES.get(kind_of(file))
    if measure is not None and measure(file, most) > most:
        raise TooLarge(
            f"{file.name} unpacks to more than {most:,} bytes, the most that is taken this way; "
            "send less at once, or as a job where more is taken."
        )


def require_memory(file: Path, made: Mechanism | MediaMechanisms, array: str | None, most: int) -> None:
    """Refuse a ``file`` whose release by ``made`` takes more than ``most`` bytes of memory.

    The few megabytes that any release takes are not counted.
    """
    with suppress(BadInput):  # refused in better words by whoever opens it
        _require(file, _working_bytes(file, made, array), most)


def require_memory_to_audit(files: Sequence[Path], schema: Schema | None, most: int) -> None:
    """Refuse ``files`` that an audit, which has all of their values in memory, has no room for."""
    if not files:
        return  # refused in better words: there is nothing to compare
    with suppress(BadInput):
        _require(files[0], sum(_AUDIT_BYTES * _values(file, schema, most) for file in files), most)


def _require(file: Path, needed: int, most: int) -> None:
    if needed > most:
        raise TooLarge(
            f"the work on {file.name} takes up to {needed:,} bytes of memory, and {most:,} are the most for "
            "one request; send narrower records, a smaller picture, a shorter clip or fewer rows."
        )


def _working_bytes(file: Path, made: Mechanism | MediaMechanisms, array: str | None) -> int:
    kind = kind_of(file)
    if kind == "table":
        return parquet_batch(file) if suffix_of(file) == ".parquet" else 0
    if isinstance(made, Mechanism):
        source = open_array(file, array)
        shaped = isinstance(made, PictureMechanism | SoundMechanism)
        mechanism = made.shaped(source.shape[1:]) if shaped else made
        # An array in Fortran order is read whole, and turned.
        whole = 2 * math.prod(source.shape) * source.dtype.itemsize if source.fortran else 0
        rows = min(source.rows, rows_at_once(source, mechanism))
        return mechanism.working_bytes(math.prod(source.shape[1:]), rows) + whole
    if kind == "picture" and made.picture is not None:
        from sfumato.io.image_files import picture_header

        shape = picture_header(file).shape
        return made.picture.shaped(shape).working_bytes(math.prod(shape))
    if kind == "sound" and made.sound is not None:
        from sfumato.io.audio_files import open_sound

        # Band noise is drawn as the samples come.
        sound = open_sound(file)
        values = sound.samples * sound.channels
        return 0 if isinstance(made.sound, BandNoise) else made.sound.working_bytes(values)
    if kind == "video" and made.picture is not None:
        height, width = max(_frame_sizes(file), default=(1, 1), key=math.prod)
        return _FRAMES * made.picture.shaped((height, width, 3)).working_bytes(3 * height * width)
    return 0


def _values(file: Path, schema: Schema | None, most: int) -> int:
    """How many numbers an audit makes of ``file``, at the most."""
    if kind_of(file) == "array":
        named = array_names(file) or (None,)
        return max(math.prod(open_array(file, name).shape) for name in named)
    if schema is None:
        return 0
    # Every category is a column of zeros and ones.
    columns = len(schema.numeric) + sum(len(column.categories) for column in schema.coded)
    if suffix_of(file) == ".parquet":
        import pyarrow.parquet as pq

        rows = int(pq.read_metadata(str(file)).num_rows)
    else:
        size = _gzip(file, most) if suffix_of(file) == ".csv.gz" else file.stat().st_size
        rows = size // (2 * max(1, len(schema.columns))) + 1  # a cell is a character and a comma at least
    return rows * columns


def _frame_sizes(file: Path) -> list[tuple[int, int]]:
    """(height, width) of each stream of pictures."""
    try:
        import av
    except ImportError:
        return []
    try:
        with av.open(str(file), metadata_errors="ignore") as container:
            streams = [stream.codec_context for stream in container.streams.video]
            return [(one.height, one.width) for one in streams if one.height and one.width]
    except (av.FFmpegError, ValueError, OverflowError, AttributeError):
        return []


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
        with open_archive(file) as archive:
            return sum(member.file_size for member in archive.infolist())
    except BadInput:
        return 0


def _picture(file: Path, most: int) -> int:
    from sfumato.io.image_files import picture_header

    try:
        header = picture_header(file)
    except BadInput:
        return 0
    _require_pixels(file, header.pixels)
    return header.pixels * header.dtype.itemsize * 4


def _sound(file: Path, most: int) -> int:
    from sfumato.io.audio_files import open_sound

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
