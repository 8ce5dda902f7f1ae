"""Tables, released by blocks of rows under the bounds and categories that their schema declares."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.io import Schema, TableSink, TableSource
from sfumato.mechanisms import Mechanism, Rows
from sfumato.pipeline.protected import Protected, Report

__all__ = ["protect_table"]


def protect_table(
    source: TableSource, output: Path, mechanism: Mechanism, *, dataset: str | None, report: Report
) -> Protected:
    """Release the rows of ``source`` as the rows of ``output``, without its identifiers."""
    schema = source.schema
    rows = _rows(mechanism, schema)
    statement = rows.statement()
    count = _check(source, report)
    limits = [c.bounds if c.bounds and c.clamp else (-np.inf, np.inf) for c in schema.numeric]
    low, high = np.array(limits).reshape(-1, 2).T
    with TableSink(output, schema) as sink:
        for block in source.blocks():
            first = sink.rows_written
            numeric, codes = rows.perturb(block.numeric, block.codes, first)
            sink.write(np.clip(numeric, low, high), codes)
            report("drawing", sink.rows_written / count)
        left_out = tuple(column.name for column in schema.identifiers)
        done = Protected(output, statement, count, len(schema.released), left_out, dataset)
        sink.accompany(done.statement_file, done.document())
    return done


def _rows(mechanism: Mechanism, schema: Schema) -> Rows:
    return Rows(
        mechanism,
        [column.bounds or (0.0, 0.0) for column in schema.numeric],
        [len(column.categories) for column in schema.coded],
        [column.weight for column in (*schema.numeric, *schema.coded)],
    )


def _check(source: TableSource, report: Report) -> int:
    """Read every cell, which refuses the bad ones, and count the rows."""
    count = 0
    for block in source.blocks():
        count += len(block.numeric)
        # How many rows a CSV has is known once it was read.
        report("checking", None if source.rows is None else count / source.rows)
    return count
