"""Read and write tables by blocks of rows under a schema: ``.csv``, ``.csv.gz`` and ``.parquet``.

Arrow parses CSV as text, and columns are then turned into numbers or codes here; a bad cell is refused with
its row. A large file is cut into parts that are read by themselves, at rows or at row groups.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.array_files import open_array
from sfumato.io.atomic import AtomicSink
from sfumato.io.formats import file_to_read, suffix_of
from sfumato.io.schema import Column, Schema

__all__ = ["TableSink", "TableSource", "cuts_of", "quoted"]

_SHOWN_CATEGORIES = 10
_SPELLED_BOOLEANS = {"false": 0, "0": 0, "no": 0, "true": 1, "1": 1, "yes": 1}


class _Cells:
    """The cells of one column in consecutive rows, of which the first is data row ``first_row``, from 1."""

    def __init__(self, cells: Any, column: Column, file: str, first_row: int) -> None:
        import pyarrow as pa

        # Text has four forms in Arrow: dictionary, large, view, plain.
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if pa.types.is_large_string(cells.type) or pa.types.is_string_view(cells.type):
            cells = cells.cast(pa.string())
        self._cells, self._column, self._file, self._first_row = cells, column, file, first_row
        self._accepted = ""

    def numbers(self) -> NDArray[np.float64]:
        """Return finite float64 values of numbers, or of text that spells numbers."""
        import pyarrow as pa

        self._accepted = "a finite number is accepted"
        kind, types = self._cells.type, pa.types
        if types.is_string(kind):
            self._refuse_nulls()
            numbers = self._parsed()
        elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            self._refuse_nulls()
            numbers = self._cells.cast(pa.float64(), safe=False)  # integers beyond 2^53 are rounded
        else:
            self._refuse_type("numbers are accepted in a numeric column")
        values = np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
        self._refuse_first(~np.isfinite(values))
        return values

    def codes(self) -> NDArray[np.int64]:
        """Return the index into the column's categories of each cell of text, integers or booleans."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column, kind, types = self._column, self._cells.type, pa.types
        boolean = isinstance(column.categories[0], bool)
        if boolean:
            codes = {text: column.categories.index(bool(value)) for text, value in _SPELLED_BOOLEANS.items()}
            self._accepted = "true, false, yes, no, 1 and 0 are accepted"
        else:
            codes = {text: code for code, text in enumerate(column.spellings())}
            shown = ", ".join(repr(value) for value in column.categories[:_SHOWN_CATEGORIES])
            more = len(column.categories) - _SHOWN_CATEGORIES
            self._accepted = f"the declared categories are {shown}" + (
                f" and {more} more" if more > 0 else ""
            )
        known = (types.is_string, types.is_integer, types.is_boolean, types.is_floating)
        if not any(is_known(kind) for is_known in known):
            self._refuse_type(f"text, integers or booleans are accepted in a {column.kind} column")
        self._refuse_nulls()
        text = self._cells.cast(pa.string())  # 1.0 becomes "1", True becomes "true"
        if boolean:
            text = pc.ascii_lower(text)
        found = pc.index_in(text, value_set=pa.array(list(codes), pa.string()))
        positions = np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False))
        self._refuse_first(positions < 0)
        return np.take(np.array(list(codes.values()), dtype=np.int64), positions)

    def _parsed(self) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        with suppress(pa.ArrowInvalid):
            return self._cells.cast(pa.float64())
        trimmed = pc.ascii_trim_whitespace(self._cells)
        with suppress(pa.ArrowInvalid):
            return trimmed.cast(pa.float64())
        # Some cell between low and high is the first that spells no number; halve until it stands alone.
        low, high = 0, len(trimmed)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                trimmed[low:middle].cast(pa.float64())
                low = middle
            except pa.ArrowInvalid:
                high = middle
        self._refuse(low)

    def _refuse_nulls(self) -> None:
        if self._cells.null_count:
            self._refuse_first(self._cells.is_null().to_numpy(zero_copy_only=False))

    def _refuse_first(self, wrong: NDArray[np.bool_]) -> None:
        if wrong.any():
            self._refuse(int(np.argmax(wrong)))

    def _refuse(self, index: int) -> NoReturn:
        """Refuse a cell by its place: what it holds is private."""
        cell = self._cells[index]
        blank = not cell.is_valid or (hasattr(cell, "as_buffer") and cell.as_buffer().size == 0)
        held = "is empty" if blank else "is not as declared"
        raise BadInput(
            f"{self._file}: column {self._column.name!r} {held} in data row {self._first_row + index}; "
            f"{self._accepted}."
        )

    def _refuse_type(self, accepted: str) -> NoReturn:
        raise BadInput(f"{self._file}: column {self._column.name!r} has type {self._cells.type}; {accepted}.")


_HEAD_BYTES = 1 << 20
_PARSE_BYTES = 4 << 20  # at once; a record that is longer is refused
# What Arrow says of a line of another length; it counts the header as row 1.
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@contextmanager
def arrow_faults(name: str, format_name: str) -> Iterator[None]:
    """Refuse the file in one sentence where Arrow finds something wrong with it."""
    import pyarrow as pa

    try:
        yield
    except BadInput:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["it is damaged"])[0][:200]
        if found := _RAGGED.search(reason):
            row, expected, there = map(int, found.groups())
            raise BadInput(
                f"{name} has a line of another length than its header in data row {row - 1}: {expected} "
                f"fields are accepted, not {there}."
            ) from error
        reason = reason.partition(". ")[0].rstrip(".")
        raise BadInput(f"{name} cannot be read as {format_name}: {reason}.") from error


def csv_header(path: Path) -> list[str]:
    """Return the names in the first line; a file without a record below it is refused."""
    with arrow_faults(path.name, "CSV"), closing(_open(path)) as stream:
        head = stream.read(_HEAD_BYTES)
        complete = not stream.read(1)
    end = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
    if not complete and end == 0:
        raise BadInput(
            f"{path.name} has a first line of more than {_HEAD_BYTES >> 20} MiB, which is no header."
        )
    try:
        # Only the names have to be text; identifiers below them may be anything.
        text = io.StringIO(
            (head if complete else head[:end]).decode("utf-8-sig", "surrogateescape"), newline=""
        )
        names = next((record for record in csv.reader(text) if record), [])
        for name in names:
            name.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{path.name} has column names that are not UTF-8 text.") from None
    except csv.Error as error:
        raise BadInput(f"{path.name} has a header that cannot be read as CSV: {error}.") from None
    if complete and not text.read().strip("\r\n"):
        raise BadInput(f"{path.name} has no data rows.")
    return names


def csv_batches(path: Path, header: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    """Yield arrow record batches of ``columns``, as text; the other columns are never turned into values.

    Arrow reads ahead in a thread of its own, which may outlive the last batch. It is handed neither a Python
    file nor a callback: a thread that enters the interpreter while this ends aborts the process.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    with arrow_faults(path.name, "CSV"):
        stream = _open(path)
    with closing(stream):
        with arrow_faults(path.name, "CSV"):
            batches = arrow_csv.open_csv(
                stream,
                # One thread, or Arrow does not know at which row it stands.
                read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_PARSE_BYTES),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=True,
                    # In a table of one column an empty line is an empty cell.
                    ignore_empty_lines=len(header) > 1,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types={name: pa.string() for name in columns},
                    strings_can_be_null=False,
                    check_utf8=False,  # a cell that is no text spells no number and no category either
                ),
            )
        with batches:
            while True:
                with arrow_faults(path.name, "CSV"):
                    batch = next(batches, None)
                if batch is None:
                    break
                yield batch
    # Arrow takes all that follows a quote that is never closed for one value, and the records in it are lost
    # without a word.
    with arrow_faults(path.name, "CSV"), closing(_open(path)) as stream:
        quotes = sum(block.count(b'"') for block in iter(lambda: stream.read(_HEAD_BYTES), b""))
    if quotes % 2:
        raise BadInput(
            f"{path.name} has an odd number of double quotes, so a value is never closed; a quote inside a "
            'value is accepted as "" within quotes.'
        )


def quoted(text: str) -> str:
    """Return ``text`` as one CSV field, in quotes only where it needs them."""
    # A space at an end might get lost, and a byte-order mark be taken for that of the file.
    if text == "" or text != text.strip(" \t\ufeff") or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _open(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None)


# Bytes of a part, before they are packed: few enough to be worked on again where something failed.
_PART_BYTES = 64 << 20


def cuts_of(path: Path, part_bytes: int = _PART_BYTES) -> list[range] | None:
    """Return consecutive ranges of the rows of a ``.npy`` or the row groups of a ``.parquet``, else None.

    Each holds about ``part_bytes``, or one row group that is larger. They depend on the shape of the file
    alone. CSV files and archives can only be read from their beginning.
    """
    suffix = suffix_of(path)
    if suffix == ".npy":
        source = open_array(path)
        step = max(1, part_bytes * source.rows // max(1, path.stat().st_size))
        starts = list(range(0, source.rows, step))
        return [range(first, last) for first, last in pairwise([*starts, source.rows])]
    if suffix != ".parquet":
        return None
    import pyarrow.parquet as pq

    with arrow_faults(path.name, "Parquet"), pq.ParquetFile(str(path)) as file:
        groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        return _together([group.total_byte_size for group in groups], part_bytes)


def _together(sizes: Sequence[int], part_bytes: int) -> list[range]:
    """Return ranges of ``sizes`` of which each sums up to ``part_bytes`` or just over, but for the last."""
    ranges, first, held = [], 0, 0
    for index, size in enumerate(sizes):
        held += size
        if held >= part_bytes or index == len(sizes) - 1:
            ranges.append(range(first, index + 1))
            first, held = index + 1, 0
    return ranges


_BLOCK_ROWS = 65_536
_BUFFER_BYTES, _BUFFERS_BYTES = 1 << 20, 16 << 20  # of one column, and of all of them together


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Consecutive rows: ``numeric`` (k, m) float64, ``codes`` (k, c) int64.

    Columns of ``numeric`` stand in the order of ``schema.numeric``; those of ``codes`` in the order of
    ``schema.coded``, as indices into their categories.
    """

    numeric: NDArray[np.float64]
    codes: NDArray[np.int64]


class TableSource:
    """A table in a file, read by blocks of rows.

    Opening reads the column names and holds them against ``schema``. Identifiers are never turned into
    values. ``rows`` is known at once for Parquet; for CSV it is None until one full pass of
    :meth:`blocks`. ``groups``, for Parquet, are the row groups to read; ``first_row`` is the index in the
    whole table of the first row that is.
    """

    def __init__(self, path: str | os.PathLike[str], schema: Schema, *, groups: range | None = None) -> None:
        self._parquet = suffix_of(path, "table") == ".parquet"
        self.path = file_to_read(path)
        self.schema = schema
        self.rows: int | None = None
        self.first_row = 0
        self._groups = groups
        self._names = self._parquet_header() if self._parquet else csv_header(self.path)
        try:
            schema.check_against(self._names)
        except BadInput as error:
            raise error.at(self.path.name) from None

    def blocks(self, max_rows: int = _BLOCK_ROWS) -> Iterator[TableBlock]:
        """Yield consecutive blocks of at most ``max_rows`` rows; every call reads the file anew.

        An empty cell, a number that is not finite, a text that is no number and a value outside the declared
        categories are refused with their column and data row, counted from 1.
        """
        columns = [column.name for column in self.schema.released]
        if self._parquet:
            batches = self._parquet_batches(columns, max_rows)
        else:
            batches = csv_batches(self.path, self._names, columns)
        rows = 0
        for batch in batches:
            for start in range(0, batch.num_rows, max_rows):
                part = batch.slice(start, max_rows)
                yield self._block(part, self.first_row + rows + 1)
                rows += part.num_rows
        if rows == 0:
            raise BadInput(f"{self.path.name} has no data rows.")
        if self.rows not in (None, rows):
            raise BadInput(f"{self.path.name} has {rows} rows where {self.rows} were found before.")
        self.rows = rows

    def _block(self, batch: Any, first_row: int) -> TableBlock:
        numeric = np.empty((batch.num_rows, len(self.schema.numeric)), np.float64)
        codes = np.empty((batch.num_rows, len(self.schema.coded)), np.int64)
        with arrow_faults(self.path.name, "a table"):
            for index, column in enumerate(self.schema.numeric):
                cells = _Cells(batch.column(column.name), column, self.path.name, first_row)
                numeric[:, index] = cells.numbers()
            for index, column in enumerate(self.schema.coded):
                cells = _Cells(batch.column(column.name), column, self.path.name, first_row)
                codes[:, index] = cells.codes()
        return TableBlock(numeric, codes)

    def _parquet_header(self) -> list[str]:
        import pyarrow.parquet as pq

        with arrow_faults(self.path.name, "Parquet"), pq.ParquetFile(str(self.path)) as file:
            held = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            groups = range(len(held)) if self._groups is None else self._groups
            self.first_row, self.rows = sum(held[: groups.start]), sum(held[groups.start : groups.stop])
            names: list[str] = file.schema_arrow.names
        if self.rows < 1:
            raise BadInput(f"{self.path.name} has no data rows.")
        return names

    def _parquet_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with arrow_faults(self.path.name, "Parquet"):
            # A buffer makes Arrow read a column piece by piece instead of a whole row group at a time.
            buffer = max(1 << 16, min(_BUFFER_BYTES, _BUFFERS_BYTES // max(1, len(columns))))
            file = pq.ParquetFile(str(self.path), buffer_size=buffer, pre_buffer=False)
        with file:
            groups = None if self._groups is None else list(self._groups)
            batches = file.iter_batches(batch_size=max_rows, columns=columns, row_groups=groups)
            while True:
                with arrow_faults(self.path.name, "Parquet"):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch


class TableSink(AtomicSink):
    """A table written by blocks of rows: the schema's columns in its order, without identifiers.

    ``with TableSink(path, schema) as sink: sink.write(numeric, codes)``. The suffix decides between CSV,
    gzipped CSV and Parquet. Categories come back as declared, booleans as true and false, numbers as float64
    (in CSV by the shortest text that reads back equal). The file appears at ``path`` when the block ends and
    at least one row was written; otherwise nothing appears and an older file stays. Equal tables written by
    equal blocks give equal bytes.
    """

    def __init__(self, path: str | os.PathLike[str], schema: Schema) -> None:
        super().__init__(path)
        self.schema = schema
        self._suffix = suffix_of(path, "table")
        self._stream: Any = None
        self._parquet: Any = None

    def write(self, numeric: NDArray[np.float64], codes: NDArray[np.int64]) -> None:
        """Append rows: ``numeric`` (k, m) and ``codes`` (k, c), laid out as in :class:`TableBlock`."""
        import pyarrow as pa

        self._check(numeric, codes)
        with self._appending(len(numeric)):
            for start in range(0, len(numeric), _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                columns = self._columns(numeric[rows], codes[rows])
                if self._parquet is None:
                    self._stream.write(_lines(columns))
                else:
                    self._parquet.write_batch(pa.record_batch(columns, schema=self._parquet.schema))

    def _check(self, numeric: NDArray[np.float64], codes: NDArray[np.int64]) -> None:
        wanted = (len(self.schema.numeric), len(self.schema.coded))
        if numeric.ndim != 2 or codes.ndim != 2 or (numeric.shape[1], codes.shape[1]) != wanted:
            raise BadInput(
                f"{self.path.name} takes blocks of {wanted[0]} numeric and {wanted[1]} coded columns, not "
                f"{numeric.shape} and {codes.shape}."
            )
        if len(numeric) != len(codes):
            raise BadInput(
                f"{self.path.name} was given {len(numeric)} rows of numbers and {len(codes)} of codes."
            )
        if not np.isfinite(numeric).all():
            raise BadInput(f"{self.path.name} takes finite numbers, and others were written.")
        sizes = np.array([len(column.categories) for column in self.schema.coded], np.int64)
        if codes.dtype.kind not in "iu" or (codes < 0).any() or (codes >= sizes).any():
            raise BadInput(
                f"{self.path.name} takes codes that index the declared categories, and others came."
            )

    def _columns(self, numeric: NDArray[np.float64], codes: NDArray[np.int64]) -> list[Any]:
        import pyarrow as pa

        numbers = {column.name: numeric[:, index] for index, column in enumerate(self.schema.numeric)}
        coded = {column.name: codes[:, index] for index, column in enumerate(self.schema.coded)}
        columns = []
        for column in self.schema.released:
            if column.name in numbers:
                values = pa.array(np.ascontiguousarray(numbers[column.name], np.float64))
                columns.append(values if self._parquet is not None else values.cast(pa.string()))
            else:
                kept = column.categories if self._parquet is not None else map(quoted, column.spellings())
                columns.append(pa.array(list(kept)).take(pa.array(coded[column.name])))
        return columns

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._suffix == ".parquet":
            types = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
            fields = [
                pa.field(
                    c.name, types[type(c.categories[0])] if c.categories else pa.float64(), nullable=False
                )
                for c in self.schema.released
            ]
            # Numbers with noise never come twice: a dictionary of them would cost memory and save nothing.
            repeated = [column.name for column in self.schema.coded]
            self._parquet = layers.enter_context(
                pq.ParquetWriter(file, pa.schema(fields), use_dictionary=repeated)
            )
            return
        self._stream = file
        if self._suffix == ".csv.gz":
            # Neither the time nor a file name goes into the header of the archive.
            self._stream = layers.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
        header = ",".join(quoted(column.name) for column in self.schema.released)
        self._stream.write(header.encode() + b"\n")

    def _check_complete(self) -> None:
        if self.rows_written == 0:
            raise BadInput(f"{self.path.name} was to hold a table, and no rows were written.")


def _lines(columns: list[Any]) -> bytes:
    import pyarrow.compute as pc

    rows = pc.binary_join_element_wise(*columns, ",")
    return ("\n".join(rows.to_pylist()) + "\n").encode()
