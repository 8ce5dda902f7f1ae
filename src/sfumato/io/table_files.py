"""Tables as streams of rows under a schema: ``.csv``, ``.csv.gz`` and ``.parquet``."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import AtomicSink
from sfumato.io.cells import Place, codes_of, numbers_of
from sfumato.io.csv_file import arrow_faults, csv_batches, csv_header, quoted
from sfumato.io.formats import file_to_read, kind_of, suffix_of
from sfumato.io.schema import Schema

__all__ = ["TableBlock", "TableSink", "TableSource"]

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
        if kind_of(path) != "table":
            raise BadInput(f"{os.fspath(path)!r} is not a table; .csv, .csv.gz and .parquet are accepted.")
        self.path = file_to_read(path)
        self.schema = schema
        self.rows: int | None = None
        self.first_row = 0
        self._parquet = suffix_of(path) == ".parquet"
        self._groups = groups
        self._names = self._parquet_header() if self._parquet else csv_header(self.path)
        try:
            schema.check_against(self._names)
        except BadInput as error:
            raise error.at(self.path.name) from None

    def blocks(self, max_rows: int = _BLOCK_ROWS) -> Iterator[TableBlock]:
        """Consecutive blocks of at most ``max_rows`` rows; every call reads the file anew.

        An empty cell, a number that is not finite, a text that is no number and a value outside the declared
        categories are refused with their column and data row, counted from 1.
        """
        if max_rows < 1:
            raise BadInput(f"`max_rows` was {max_rows}; a positive number is accepted.", parameter="max_rows")
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
                cells = batch.column(column.name)
                numeric[:, index] = numbers_of(cells, Place(self.path.name, column, first_row))
            for index, column in enumerate(self.schema.coded):
                cells = batch.column(column.name)
                codes[:, index] = codes_of(cells, Place(self.path.name, column, first_row))
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
        if kind_of(path) != "table":
            raise BadInput(
                f"{self.path.name} is no place for a table; .csv, .csv.gz and .parquet are accepted."
            )
        self.schema = schema
        self._suffix = suffix_of(path)
        self._stream: Any = None
        self._parquet: Any = None

    def write(self, numeric: NDArray[np.float64], codes: NDArray[np.int64]) -> None:
        """Append rows: ``numeric`` (k, m) and ``codes`` (k, c), laid out as in :class:`TableBlock`."""
        self._check(numeric, codes)
        with self._appending(len(numeric)):
            for start in range(0, len(numeric), _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                columns = self._columns(numeric[rows], codes[rows])
                if self._parquet is None:
                    self._stream.write(_lines(columns))
                else:
                    self._write_row_group(columns)

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

    def _write_row_group(self, columns: list[Any]) -> None:
        import pyarrow as pa

        self._parquet.write_batch(pa.record_batch(columns, schema=self._parquet.schema))

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
