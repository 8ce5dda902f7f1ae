"""The one path a release of a file takes: open, check, draw, write.

All of the data is checked before any noise is drawn, so that bad input costs nothing. Output appears
at its name only when it is complete; the statement is written beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import (
    ArraySink,
    ArraySource,
    Schema,
    TableSink,
    TableSource,
    atomic_output,
    open_array,
    same_kind,
)
from sfumato.mechanisms import Mechanism, Rows
from sfumato.mechanisms.records import check_finite
from sfumato.privacy import Guarantee, Statement
from sfumato.transforms import Transform

__all__ = ["Protected", "Report", "protect"]

#: Called with the stage ("checking" or "drawing") and the share of it that is done.
Report = Callable[[str, float], None]

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class Protected:
    """What ``protect`` wrote: the output, the statement beside it, and what was left out of it."""

    output: Path
    statement_file: Path
    statement: Statement
    rows: int
    columns: int
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        proven = self.statement.proven
        return {
            "output": str(self.output),
            "statement_file": str(self.statement_file),
            "rows": self.rows,
            "columns": self.columns,
            "left_out": list(self.left_out),
            "epsilon": None if proven.proves_nothing else proven.epsilon(),
            "delta": None if proven.proves_nothing else proven.at_delta,
            "statement": self.statement.to_dict(),
        }


def protect(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    mechanism: Mechanism,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    dataset: str | None = None,
    bounds_from_data: bool = False,
    report: Report | None = None,
) -> Protected:
    """Release the file ``source`` as the file ``output`` by ``mechanism``, streaming.

    Arrays (``.npy``, ``.npz``) hold records as rows; ``array`` names one of several in an archive.
    Tables (``.csv``, ``.csv.gz``, ``.parquet``) need a ``schema``. ``then`` is applied to the release.
    ``dataset`` is written into the statement. ``bounds_from_data`` takes the lowest and highest value of an
    array for its bounds, after which nothing is proven. Raises :class:`~sfumato.errors.BadInput`, leaving no
    output, when anything is wrong with the input.
    """
    kind = same_kind(source, output)
    if Path(output).exists() and Path(source).exists() and os.path.samefile(source, output):
        raise BadInput("the output would overwrite its own original; choose another name.")
    notify = report or (lambda stage, share: None)
    if kind == "array":
        if schema is not None:
            raise BadInput("a schema declares a table; for an array give --clip or --bounds.")
        opened = open_array(source, array)
        if bounds_from_data:
            mechanism = _bounded_by_data(opened, mechanism)
        return _protect_array(opened, Path(output), mechanism, then, dataset, notify, bounds_from_data)
    if array is not None or then is not None or bounds_from_data:
        raise BadInput("--array, --alpha and --bounds-from-data are for .npy and .npz files, not for tables.")
    if schema is None:
        raise BadInput("a table needs --schema FILE, which declares its columns' bounds and categories.")
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    return _protect_table(TableSource(source, declared), Path(output), mechanism, dataset, notify)


def _bounded_by_data(source: ArraySource, mechanism: Mechanism) -> Mechanism:
    if "bounds" not in mechanism.get_params(deep=False):
        raise BadInput(f"{type(mechanism).__name__} takes no bounds; leave out --bounds-from-data.")
    low, high = np.inf, -np.inf
    first = 0
    for block in source.blocks():
        check_finite(block.reshape(len(block), -1), first)
        low, high, first = min(low, block.min()), max(high, block.max()), first + len(block)
    return mechanism.__class__(**(mechanism.get_params(deep=False) | {"bounds": (float(low), float(high))}))


def _protect_array(
    source: ArraySource,
    output: Path,
    mechanism: Mechanism,
    then: Transform | None,
    dataset: str | None,
    notify: Report,
    bounds_from_data: bool,
) -> Protected:
    if len(source.shape) != 2:
        raise BadInput(
            f"{source.path.name} holds an array of shape {source.shape}; records must be the rows of a "
            "table (n, d), as X.reshape(len(X), -1) makes them."
        )
    columns = source.shape[1]
    statement = mechanism.statement(columns)
    if bounds_from_data:
        proven = statement.proven
        reason = "the bounds were read off the data, and show its extremes"
        statement = replace(statement, proven=Guarantee.nothing(reason, proven.unit, proven.neighbours))
    kind = np.float32 if source.dtype == np.float32 else np.float64
    # Whole working blocks, so that the bytes do not depend on how the file was cut.
    height = mechanism.block_rows(columns)
    row_bytes = columns * source.dtype.itemsize
    block_bytes = row_bytes * height * max(1, _BLOCK_BYTES // (row_bytes * height))

    def blocks(stage: str) -> Iterator[tuple[int, NDArray[Any]]]:
        first = 0
        for block in source.blocks(block_bytes):
            yield first, block
            first += len(block)
            notify(stage, first / source.rows)

    for first, block in blocks("checking"):
        check_finite(block, first)

    def released() -> Iterator[NDArray[Any]]:
        for first, block in blocks("drawing"):
            value = mechanism.perturb(block.astype(kind, copy=False), first)
            yield value if then is None else then.fit(value).transform(value)

    parts = released()
    head = next(parts)
    with ArraySink(output, (source.rows, head.shape[1]), head.dtype, name=source.name or "X") as sink:
        sink.write(head)
        for part in parts:
            sink.write(part)
    if then is not None:
        statement = then.state(statement)
    return _finish(output, statement, dataset, source.rows, head.shape[1], source.others)


def _protect_table(
    source: TableSource, output: Path, mechanism: Mechanism, dataset: str | None, notify: Report
) -> Protected:
    schema = source.schema
    rows = Rows(
        mechanism,
        [column.bounds or (0.0, 0.0) for column in schema.numeric],
        [len(column.categories) for column in schema.coded],
        [column.weight for column in (*schema.numeric, *schema.coded)],
    )
    statement = rows.statement()
    count = 0
    for block in source.blocks():
        count += len(block.numeric)
        notify("checking", 0.0 if source.rows is None else count / source.rows)
    limits = [c.bounds if c.bounds and c.clamp else (-np.inf, np.inf) for c in schema.numeric]
    low, high = np.array(limits).reshape(-1, 2).T
    with TableSink(output, schema) as sink:
        first = 0
        for block in source.blocks():
            numeric, codes = rows.perturb(block.numeric, block.codes, first)
            sink.write(np.clip(numeric, low, high), codes)
            first += len(numeric)
            notify("drawing", first / count)
    left_out = tuple(column.name for column in schema.identifiers)
    return _finish(output, statement, dataset, count, len(schema.released), left_out)


def _finish(
    output: Path,
    statement: Statement,
    dataset: str | None,
    rows: int,
    columns: int,
    left_out: tuple[str, ...],
) -> Protected:
    """Write the statement beside the output."""
    file = output.with_name(output.name + ".statement.json")
    document = {"statement": statement.to_dict(), "output": output.name, "rows": rows, "columns": columns}
    with atomic_output(file) as out:
        out.write(json.dumps(document | {"dataset": dataset}, indent=2, ensure_ascii=False).encode() + b"\n")
    return Protected(output, file, statement, rows, columns, left_out)
