"""Size of a file once it is unpacked, and memory that the work on it takes; found from headers.

Bodies may be bombs: a few kilobytes hold gigabytes of zeros, a picture of a hundred million pixels or hours
of black film. What is counted costs little: lengths that headers state and readers hold them to, packets, and
for a table packed by gzip the unpacked bytes themselves, up to the limit. A file that cannot be read passes
here, and is refused in better words by whoever reads it. Memory is bounded from headers alone: most is
streamed, but one record, one picture, one clip of some mechanisms and what an audit compares are in memory
whole.

The pages of a Parquet file are counted by their own headers, because a reader makes room for each page by the
header before it and not by what the end of the file says; pyarrow shows the end only. The headers are in the
compact protocol of Thrift, of which only what is needed here is read. Nothing but dictionaries is unpacked: a
value that is repeated is a few bits in the file, however long it is, so a column of texts becomes at most its
rows times the longest text of its dictionary.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from mmap import PROT_READ, mmap
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.io import Schema, array_names, kind_of, open_archive, open_array, suffix_of
from sfumato.mechanisms import Mechanism
from sfumato.media.audio import BandNoise, SoundMechanism
from sfumato.media.images import PictureMechanism
from sfumato.release import MediaMechanisms, rows_at_once
from sfumato.serve.request_files import TooLarge

# Of each kind of page: where its header holds what there is of the kind, and there the encoding.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_KINDS = {_DATA: (5, 2), _DICTIONARY: (7, 2), _DATA_V2: (8, 4)}
_MOST_FIELDS, _DEEPEST = 64, 4


class Damaged(Exception):
    """A header that cannot be read."""


@dataclass(frozen=True)
class Page:
    """A page: ``content`` of the file is packed and becomes ``size`` bytes, ``values`` in an ``encoding``."""

    dictionary: bool
    size: int
    values: int
    encoding: int
    content: slice


def pages(file: mmap, start: int, length: int, values: int) -> Iterator[Page]:
    """The pages of the column of ``length`` bytes at ``start``, until they hold its ``values``."""
    at, end, found = start, min(start + length, len(file)), 0
    while at < end and found < values:
        header = _Header(file, at, end)
        fields = header.struct()
        at = header.at + _count(fields, 3)
        if at > end:
            raise Damaged
        if _count(fields, 1) in _KINDS:
            page = _page(fields, slice(header.at, at))
            yield page
            found += 0 if page.dictionary else page.values


def _page(fields: dict[int, Any], content: slice) -> Page:
    kind = _count(fields, 1)
    place, encoding = _KINDS[kind]
    of_its_kind = fields.get(place)
    if not isinstance(of_its_kind, dict):
        raise Damaged
    return Page(
        dictionary=kind == _DICTIONARY,
        size=_count(fields, 2),
        values=_count(of_its_kind, 1),
        encoding=_count(of_its_kind, encoding),
        content=content,
    )


def _count(fields: dict[int, Any], number: int) -> int:
    found = fields.get(number)
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise Damaged
    return found


class _Header:
    """A header at ``at``, as the numbers of its fields with what they hold.

    Only what every reader understands alike is taken: no field twice, and none of a kind that headers lack.
    """

    def __init__(self, file: mmap, at: int, end: int) -> None:
        self._file, self.at, self._end = file, at, end
        self._fields = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The 32-bit integers and the structs among the fields; nothing where others are."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            self._fields += 1
            if number in fields or not 0 < number < 1 << 15 or self._fields > _MOST_FIELDS:
                raise Damaged
            fields[number] = self._field(head & 15, depth)
        return fields

    def _field(self, kind: int, depth: int) -> int | dict[int, Any] | None:
        match kind:
            case 1 | 2:  # true and false are told by the kind alone
                return None
            case 4 | 6:
                self._varint()
                return None
            case 5:
                return self._integer()
            case 8:
                self._step(self._varint())
                return None
            case 12 if depth < _DEEPEST:
                return self.struct(depth + 1)
        raise Damaged

    def _step(self, length: int) -> None:
        self.at += length
        if self.at > self._end:
            raise Damaged

    def _byte(self) -> int:
        self._step(1)
        return self._file[self.at - 1]

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise Damaged

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


_CELL_BYTES = 8
# What a page costs its reader, however little it holds.
_PAGE_BYTES = 1024
# Dictionaries that are looked into: writers make them of a megabyte. The longest text of others is all of it.
_DICTIONARY_BYTES = 2 << 20
_DICTIONARY_VALUES = 1 << 22
# What is read at once of texts of which each is told by the one before it.
_STEP_BYTES = 32 << 20
# What may describe the columns, and how many rows are read at once.
_END_BYTES = 16 << 20
_BLOCK_ROWS = 65_536
_PLAIN, _LENGTHS = 0, 6
_CODES = (2, 8)


def parquet_size(file: Path, most: int) -> int:
    """Bytes, never fewer than a reader makes of ``file``; counted no further than ``most``.

    A file whose end cannot be read is left to its reader; one of which only the pages cannot is refused.
    """
    return _counted(file, most)[0]


def parquet_batch(file: Path) -> int:
    """Bytes in memory while ``file`` is read by blocks of rows: pages of all columns, a block of texts."""
    return _counted(file, 1 << 62)[1]


def _counted(file: Path, most: int) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        _require_small_end(file)
        table = pq.ParquetFile(str(file))
    except (pa.ArrowException, OSError, ValueError):
        return 0, 0
    with table, open(file, "rb") as opened, mmap(opened.fileno(), 0, prot=PROT_READ) as content:
        try:
            count = _Count(table, content, most)
            return count.found(), count.batch()
        except (Damaged, pa.ArrowException, OSError, ValueError):
            raise BadInput(f"{file.name} has damaged pages; write it again.") from None


def _require_small_end(file: Path) -> None:
    """Refuse a file whose list of columns and pages, which readers unpack whole, is too long."""
    with open(file, "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - 8))
        end = opened.read(8)
    length = int.from_bytes(end[:4], "little") if end.endswith(b"PAR1") else 0
    if _END_BYTES < length < size:
        raise TooLarge(
            f"{file.name} has {length:,} bytes that describe its columns; at most {_END_BYTES:,} are taken: "
            "write fewer columns or larger row groups."
        )


class _Count:
    """The bytes of a table, added up column by column."""

    def __init__(self, table: Any, content: mmap, most: int) -> None:
        self._table, self._content, self._most = table, content, most
        self._values_to_look_at = _DICTIONARY_VALUES
        self._batches: dict[int, int] = {}

    def found(self) -> int:
        known, found = self._table.metadata, 0
        for group in range(known.num_row_groups):
            for index in range(known.num_columns):
                found += self._column(group, index, self._most - found)
                if found > self._most:
                    return found
        return max(found, int(known.num_rows) * int(known.num_columns) * _CELL_BYTES)

    def batch(self) -> int:
        """What columns have in memory at a time, once all of them were looked at."""
        return sum(self._batches.values())

    def _column(self, group: int, index: int, most: int) -> int:
        column = self._table.metadata.row_group(group).column(index)
        declared = self._table.schema.column(index)
        texts, repeated = column.physical_type == "BYTE_ARRAY", declared.max_repetition_level > 0
        cell = max(_CELL_BYTES, int(declared.length or 0))
        found, longest, chained, widest = 0, 0, 0, 0
        for page in _pages(self._content, column):
            cells, widest = page.values * cell, max(widest, page.size)
            found += _PAGE_BYTES + (page.size + cells if texts else max(page.size, cells))
            if found > most:
                break
            if texts and page.dictionary:
                longest = max(longest, self._longest(page, column.compression))
            elif texts and page.encoding in _CODES:
                found += page.values * longest
            elif texts and page.encoding not in (_PLAIN, _LENGTHS):
                chained = max(chained, page.size)
                found += page.values * page.size if repeated else 0
        if chained and not repeated and found <= most:
            found += self._chained(group, column.path_in_schema, chained, most - found)
        rows = min(_BLOCK_ROWS, int(column.num_values))
        batch = found if chained or repeated else min(found, 2 * widest + rows * (cell + longest))
        self._batches[index] = max(batch, self._batches.get(index, 0))
        return found

    def _longest(self, page: Page, compression: str) -> int:
        """The bytes of the longest text of a dictionary; all of it, where there is too much to look at."""
        import pyarrow as pa

        self._values_to_look_at -= page.values
        if page.size > _DICTIONARY_BYTES or self._values_to_look_at < 0:
            return page.size
        try:
            content: Any = self._content[page.content]
            if compression != "UNCOMPRESSED":
                packing = pa.Codec("lz4_raw" if compression == "LZ4" else compression.lower())
                content = packing.decompress(content, page.size, asbytes=True)
            return _longest_of(content, page.values)
        except (pa.ArrowException, OSError, ValueError, struct.error):
            return page.size

    def _chained(self, group: int, path: str, widest: int, most: int) -> int:
        """The bytes of texts that may each repeat the one before: read so few at once that they fit."""
        rows = max(1, min(1 << 16, _STEP_BYTES // widest))
        found = 0
        for batch in self._table.iter_batches(rows, row_groups=[group], columns=[path], use_threads=False):
            found += batch.nbytes
            if found > most:
                break
        return found


def _pages(content: mmap, column: Any) -> Iterator[Page]:
    """The pages of a column from where readers begin: at its dictionary, if that is before its data."""
    start = int(column.data_page_offset)
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = int(column.dictionary_page_offset)
    return pages(content, start, int(column.total_compressed_size), int(column.num_values))


def _longest_of(texts: bytes, count: int) -> int:
    longest, at = 0, 0
    for _ in range(count):
        (length,) = struct.unpack_from("<I", texts, at)
        longest, at = max(longest, length), at + 4 + length
    return longest


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
        from sfumato.io import picture_header

        shape = picture_header(file).shape
        return made.picture.shaped(shape).working_bytes(math.prod(shape))
    if kind == "sound" and made.sound is not None:
        from sfumato.io import open_sound

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
    from sfumato.io import video_container

    try:
        with video_container(file) as container:
            found = [stream.codec_context for stream in container.streams.video]
            return [(one.height, one.width) for one in found if one is not None and one.height and one.width]
    except BadInput:
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
    from sfumato.io import picture_header

    try:
        header = picture_header(file)
    except BadInput:
        return 0
    _require_pixels(file, header.pixels)
    return header.pixels * header.dtype.itemsize * 4


def _sound(file: Path, most: int) -> int:
    from sfumato.io import open_sound

    try:
        sound = open_sound(file)
    except BadInput:
        return 0
    return sound.samples * sound.channels * _SAMPLE_BYTES


def _video(file: Path, most: int) -> int:
    """Packets of pictures, each a frame of three bytes a pixel; nothing is decoded."""
    from sfumato.io import video_container

    try:
        with video_container(file) as container:
            found = 0
            for stream in container.streams.video:
                if stream.codec_context is None:
                    return 0
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
    except BadInput:
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
