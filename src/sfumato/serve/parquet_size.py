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

# Of each kind of page: the field of its header that describes it, and in there the field of its encoding.
_DICTIONARY = 2
_KINDS = {0: (5, 2), _DICTIONARY: (7, 2), 3: (8, 4)}
_MOST_FIELDS, _DEEPEST = 64, 4
_CELL_BYTES = 8
# What a page costs its reader, however little it holds.
_PAGE_BYTES = 1024
# Dictionaries that are read: writers make them of a megabyte. The longest text of a larger one is all of it.
_DICTIONARY_BYTES = 2 << 20
_DICTIONARY_VALUES = 1 << 22
# What is read at once of texts that are each told by the one before.
_STEP_BYTES = 32 << 20
# What may describe the columns, and how many rows are read at once.
_END_BYTES = 16 << 20
_BLOCK_ROWS = 65_536
_PLAIN, _LENGTHS = 0, 6
_CODES = (2, 8)


class _Damaged(Exception):
    """Raised for a header that cannot be read."""


@dataclass(frozen=True)
class _Page:
    """A page: ``content`` of the file is packed and becomes ``size`` bytes, ``values`` in an ``encoding``."""

    dictionary: bool
    size: int
    values: int
    encoding: int
    content: slice


class _Header:
    """A header at ``at``, as the numbers of its fields with what they hold.

    Only what every reader understands alike is accepted: no field twice, and none of a kind that headers
    lack.
    """

    def __init__(self, file: mmap, at: int, end: int) -> None:
        self._file, self.at, self._end = file, at, end
        self._fields = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the 32-bit integers and the structs among the fields, and None for all others."""
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._integer()
            self._fields += 1
            if number in fields or not 0 < number < 1 << 15 or self._fields > _MOST_FIELDS:
                raise _Damaged
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
        raise _Damaged

    def _step(self, length: int) -> None:
        self.at += length
        if self.at > self._end:
            raise _Damaged

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
        raise _Damaged

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


def _pages(file: mmap, column: Any) -> Iterator[_Page]:
    """Return the pages of ``column`` until they hold its values.

    Readers begin at its dictionary, if that is before its data.
    """
    at, found = int(column.data_page_offset), 0
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = int(column.dictionary_page_offset)
    end = min(at + int(column.total_compressed_size), len(file))
    while at < end and found < int(column.num_values):
        header = _Header(file, at, end)
        fields = header.struct()
        at = header.at + _count(fields, 3)
        if at > end:
            raise _Damaged
        kind = _count(fields, 1)
        if kind not in _KINDS:
            continue
        place, encoding = _KINDS[kind]
        described = fields.get(place)
        if not isinstance(described, dict):
            raise _Damaged
        page = _Page(
            dictionary=kind == _DICTIONARY,
            size=_count(fields, 2),
            values=_count(described, 1),
            encoding=_count(described, encoding),
            content=slice(header.at, at),
        )
        yield page
        found += 0 if page.dictionary else page.values


def _count(fields: dict[int, Any], number: int) -> int:
    found = fields.get(number)
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise _Damaged
    return found


def parquet_size(file: Path, most: int) -> int:
    """Return at least the bytes that a reader makes of ``file``, counted no further than ``most``.

    A file whose end cannot be read is left to its reader; one of which only the pages cannot is refused.
    """
    return _counted(file, most)[0]


def parquet_batch(file: Path) -> int:
    """Return the bytes in memory while ``file`` is read by blocks of rows."""
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
            return count.size(), sum(count.batches.values())
        except (_Damaged, pa.ArrowException, OSError, ValueError):
            raise BadInput(f"{file.name} has damaged pages; write it again.") from None


def _require_small_end(file: Path) -> None:
    """Raise if the list of columns and pages, which readers unpack whole, is too long."""
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
    """The bytes of a table, added up column by column; ``batches`` are those in memory at a time."""

    def __init__(self, table: Any, content: mmap, most: int) -> None:
        self._table, self._content, self._most = table, content, most
        self._values_to_read = _DICTIONARY_VALUES
        self.batches: dict[int, int] = {}

    def size(self) -> int:
        known, found = self._table.metadata, 0
        for group in range(known.num_row_groups):
            for index in range(known.num_columns):
                found += self._column(group, index, self._most - found)
                if found > self._most:
                    return found
        return max(found, int(known.num_rows) * int(known.num_columns) * _CELL_BYTES)

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
        self.batches[index] = max(batch, self.batches.get(index, 0))
        return found

    def _longest(self, page: _Page, compression: str) -> int:
        """Return the bytes of the longest text of a dictionary; all of it, if there is too much to read."""
        import pyarrow as pa

        self._values_to_read -= page.values
        if page.size > _DICTIONARY_BYTES or self._values_to_read < 0:
            return page.size
        try:
            content: Any = self._content[page.content]
            if compression != "UNCOMPRESSED":
                packing = pa.Codec("lz4_raw" if compression == "LZ4" else compression.lower())
                content = packing.decompress(content, page.size, asbytes=True)
            longest = at = 0
            for _ in range(page.values):
                (length,) = struct.unpack_from("<I", content, at)
                longest, at = max(longest, length), at + 4 + length
        except (pa.ArrowException, OSError, ValueError, struct.error):
            return page.size
        return longest

    def _chained(self, group: int, path: str, widest: int, most: int) -> int:
        """Return the bytes of texts that may each repeat the one before; few are read at a time."""
        rows = max(1, min(1 << 16, _STEP_BYTES // widest))
        found = 0
        for batch in self._table.iter_batches(rows, row_groups=[group], columns=[path], use_threads=False):
            found += batch.nbytes
            if found > most:
                break
        return found
