"""Size of a Parquet file once it is unpacked, found from the headers of its pages.

The pages of a Parquet file are counted by their own headers, because a reader makes room for each page by the
header before it and not by what the end of the file says; pyarrow shows the end only. The headers are in the
compact protocol of Thrift, of which only what is needed here is read. Nothing but dictionaries is unpacked: a
value that is repeated is a few bits in the file, however long it is, so a column of texts becomes at most its
rows times the longest text of its dictionary.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import PROT_READ, mmap
from pathlib import Path
from typing import Any

from sfumato.errors import BadInput
from sfumato.serve.refusals import TooLarge

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
