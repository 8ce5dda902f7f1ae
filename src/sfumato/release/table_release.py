"""Tables, released by blocks of rows under the bounds and categories that their schema declares."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from sfumato.io import Schema, TableSink, TableSource, same_kind
from sfumato.io.atomic import First
from sfumato.io.csv_file import quoted
from sfumato.mechanisms import ExpectedError, Mechanism, Rows
from sfumato.release.payment import Content
from sfumato.release.protected_file import Report
from sfumato.release.source_file import SourceFile

__all__ = ["TableFile"]

_BLOCK_ROWS = 65_536
_BLOCK_BYTES = 16 << 20
# A number as text, and what a format says of one column of one block.
_NUMBER_BYTES = 25
_COLUMN_BYTES = 4 << 10


class TableFile(SourceFile):
    """The rows of ``source``, released by ``mechanism`` without the identifiers.

    ``rows`` is None for a CSV until it was read once.
    """

    def __init__(self, source: TableSource, mechanism: Mechanism) -> None:
        schema = source.schema
        self.path, self.mechanism, self.rows = source.path, mechanism, source.rows
        self._source, self._rows = source, _rows_of(mechanism, schema)
        self.statement, self.declared = self._rows.statement(), schema.to_dict()
        self._rows.prepare()
        self.values = len(schema.released)
        # Of a wide table fewer rows are in memory at once; a function of the schema alone.
        self._blocks = partial(source.blocks, max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * self.values))))
        self.left_out = tuple(column.name for column in schema.identifiers)

    def fits(self, output: Path) -> None:
        """Any place for tables holds any table."""
        same_kind(self.path, output)

    def expected(self) -> tuple[ExpectedError, ...]:
        """What the noise will do to each column."""
        schema = self._source.schema
        return self._rows.expected_error(
            *([column.name for column in part] for part in (schema.numeric, schema.coded))
        )

    def check(self, report: Report, content: Content | None = None) -> None:
        """Read every cell, which refuses the bad ones, and count the rows."""
        count, known = 0, self._source.rows
        for block in self._blocks():
            count += len(block.numeric)
            if content is not None:
                content.add(block.numeric, block.codes)
            # How many rows a CSV has is known once it was read.
            report("checking", None if known is None else count / known)
        self.rows = count

    def most_bytes(self, output: Path) -> int:
        """Every cell at its longest, whatever the format, and what stands around the rows of a block."""
        schema = self._source.schema
        words = [max(len(quoted(word).encode()) for word in column.spellings()) for column in schema.coded]
        row = sum(words) + _NUMBER_BYTES * len(schema.numeric) + 2 * self.values
        rows = self.rows or 0
        around = self.values * (_COLUMN_BYTES + 8 * max(words, default=0))
        return int(1.01 * rows * row) + around * (2 + rows // _BLOCK_ROWS) + _COLUMN_BYTES

    def write(self, output: Path, first: First, report: Report) -> None:
        """Read, perturb, keep within bounds where the schema says so, and write, block by block."""
        schema = self._source.schema
        limits = [c.bounds if c.bounds and c.clamp else (-np.inf, np.inf) for c in schema.numeric]
        low, high = np.array(limits).reshape(-1, 2).T
        with TableSink(output, schema) as sink:
            sink.accompany(*first)
            for block in self._blocks():
                at = self._source.first_row + sink.rows_written
                numeric, codes = self._rows.perturb(block.numeric, block.codes, at)
                sink.write(np.clip(numeric, low, high), codes)
                report("drawing", None if self.rows is None else sink.rows_written / self.rows)
            self.rows = sink.rows_written


def _rows_of(mechanism: Mechanism, schema: Schema) -> Rows:
    """The mechanism for rows of the columns that ``schema`` declares."""
    return Rows(
        mechanism,
        [column.bounds or (0.0, 0.0) for column in schema.numeric],
        [len(column.categories) for column in schema.coded],
        [column.weight for column in (*schema.numeric, *schema.coded)],
    )
