"""Tables, released by blocks of rows under the bounds and categories that their schema declares."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.io import Schema, TableSink, TableSource
from sfumato.mechanisms import Mechanism, Rows
from sfumato.pipeline.payment import Content, Payment
from sfumato.pipeline.protected import Protected, Report
from sfumato.report import SigningKey

__all__ = ["protect_table", "rows_of"]


def protect_table(
    source: TableSource,
    output: Path,
    mechanism: Mechanism,
    *,
    payment: Payment,
    signer: SigningKey | None,
    report: Report,
) -> Protected:
    """Release the rows of ``source`` as the rows of ``output``, without its identifiers."""
    schema = source.schema
    rows = rows_of(mechanism, schema)
    noise, content = payment.noise(mechanism), Content()
    count = _check(source, report, None if noise is None else content)
    statement, paid = payment.pay(rows.statement(), output.name, content, noise, schema.to_dict())
    limits = [c.bounds if c.bounds and c.clamp else (-np.inf, np.inf) for c in schema.numeric]
    low, high = np.array(limits).reshape(-1, 2).T
    with TableSink(output, schema) as sink:
        for block in source.blocks():
            first = sink.rows_written
            numeric, codes = rows.perturb(block.numeric, block.codes, first)
            sink.write(np.clip(numeric, low, high), codes)
            report("drawing", sink.rows_written / count)
        left_out = tuple(column.name for column in schema.identifiers)
        done = Protected(output, statement, count, len(schema.released), left_out, payment.dataset, paid)
        # Kept before the output appears: a release without its certificate never stands anywhere.
        sink.accompany(
            done.certificate_file, lambda written: payment.keep(paid, done.certified(written, signer))
        )
    return done


def rows_of(mechanism: Mechanism, schema: Schema) -> Rows:
    """The mechanism for rows of the columns that ``schema`` declares."""
    return Rows(
        mechanism,
        [column.bounds or (0.0, 0.0) for column in schema.numeric],
        [len(column.categories) for column in schema.coded],
        [column.weight for column in (*schema.numeric, *schema.coded)],
    )


def _check(source: TableSource, report: Report, content: Content | None) -> int:
    """Read every cell, which refuses the bad ones, and count the rows."""
    count = 0
    for block in source.blocks():
        count += len(block.numeric)
        if content is not None:
            content.add(block.numeric, block.codes)
        # How many rows a CSV has is known once it was read.
        report("checking", None if source.rows is None else count / source.rows)
    return count
