"""Files of records on their way to be released: arrays and tables, and what is asked of all of them.

Arrays, released by blocks of rows; how the file is cut changes neither the noise nor the bytes.

Tensors of any order are records too: flattened for the mechanism, and written in their own shape.

Tables, released by blocks of rows under the bounds and categories that their schema declares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import (
    ArraySink,
    ArraySource,
    First,
    Schema,
    TableSink,
    TableSource,
    kind_of,
    open_array,
    quoted,
    same_kind,
)
from sfumato.mechanisms import ExpectedError, Mechanism, Personalised, Rows, TensorMechanism, check_finite
from sfumato.mechanisms.transforms import RandomProjection, Transform
from sfumato.noise import Keyed
from sfumato.privacy import Guarantee, Statement, Unit
from sfumato.release.combined_statement import DECLARED_DISJOINT
from sfumato.release.path import Report, SourceFile, silent
from sfumato.release.payment import Content
from sfumato.release.request import keyed

if TYPE_CHECKING:
    from sfumato.media.audio import SoundMechanism
    from sfumato.media.images import PictureMechanism

__all__ = ["RecordFiles", "TableFile", "rows_at_once"]

# A block is a whole number of the mechanism's working blocks: at most this many, and at most this many bytes
# of what is drawn, unless one is larger.
_WORKING_BLOCKS = 32
_BLOCK_BYTES = 16 << 20
_DRAWN_BYTES = 8
# Headers, and the list of an archive.
_AROUND_BYTES = 64 << 10
# What an array is called whose own name is not declared, and what a statement says of such names.
_NAME = "X"
_NUMBERED = "no name in the archive travels that was not declared; arrays that are left out are numbered"
_NAMED = "the owner declares the names of the arrays in the archive public"


class ArrayFile(SourceFile):
    """The rows of ``source``, or the range ``rows`` of them, which go through ``mechanism`` and ``then``.

    ``bounds_from_data`` reads the bounds off the data, all of it, after which nothing is proven. The array
    of an archive keeps its name where that is declared, ``named``; those that are left out are numbered,
    unless ``public_names`` declares their names, too.
    """

    def __init__(
        self,
        source: ArraySource,
        mechanism: Mechanism,
        *,
        then: Transform | None = None,
        bounds_from_data: bool = False,
        named: bool = False,
        public_names: bool = False,
        rows: range | None = None,
        report: Report = silent,
    ) -> None:
        mechanism = _shaped(source, mechanism)
        if bounds_from_data:
            mechanism = _bounded_by_data(source, mechanism, report)
        self.statement = _state(source, mechanism, then)
        mechanism.prepare(_columns_of(source), _drawn_type(source, mechanism))
        if bounds_from_data:
            reason = "the bounds were read off the data, and show its extremes"
            proven = self.statement.proven
            nothing = Guarantee.nothing(reason, proven.unit, proven.neighbours)
            self.statement = replace(self.statement, proven=nothing)
        self.path, self.mechanism = source.path, mechanism
        self._name = (source.name if named else None) or _NAME
        numbers = range(1, len(source.others) + 1)
        self.left_out = source.others if public_names else tuple(f"array {number}" for number in numbers)
        if source.others or self._name != (source.name or _NAME):
            note = _NAMED if public_names else _NUMBERED
            self.statement = replace(self.statement, notes=(*self.statement.notes, note))
        self._source, self._then = source, then
        self._range = range(source.rows) if rows is None else rows
        self.rows: int = len(self._range)
        self.values = _columns_of(source)

    def fits(self, output: Path) -> None:
        """Any place for arrays holds any array."""
        same_kind(self.path, output)

    def expected(self) -> tuple[ExpectedError, ...]:
        """What the noise will do to a record."""
        return self.mechanism.expected_error(_columns_of(self._source))

    def check(self, report: Report, content: Content | None = None) -> None:
        """Read every row, and refuse those that are no records."""
        kind = _drawn_type(self._source, self.mechanism)
        for first, block in _blocks(self._source, self.mechanism, "checking", report, self._range):
            # As it will be drawn: a bound that holds in half precision may not hold in double.
            self.mechanism.check(block.astype(kind, copy=False), first)
            if content is not None:
                content.add(block)

    def most_bytes(self, output: Path) -> int:
        """The values that are drawn, and what stands around them."""
        columns = self.mechanism.released_columns(_columns_of(self._source))
        if self._then is not None:
            one = np.zeros((1, columns))
            columns = int(self._then.fit(one).transform(one).shape[1])
        return self.rows * columns * _DRAWN_BYTES + _AROUND_BYTES

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Read, perturb, transform and write, block by block."""
        source = self._source
        parts = _released(source, self.mechanism, self._then, report, self._range)
        head = next(parts)
        self.values = head.shape[1]
        record = source.shape[1:] if self.values == _columns_of(source) else (self.values,)
        with ArraySink(output, (self.rows, *record), head.dtype, name=self._name) as sink:
            sink.accompany(first)
            for part in chain([head], parts):
                sink.write(part.reshape(len(part), *record))


def rows_at_once(source: ArraySource, mechanism: Mechanism) -> int:
    """How many records of ``source`` are read and drawn at a time, and are in memory."""
    columns = _columns_of(source)
    # Whole working blocks, so that the bytes do not depend on how the file was cut.
    height = mechanism.block_rows(columns)
    return height * max(1, min(_WORKING_BLOCKS, _BLOCK_BYTES // (height * columns * _DRAWN_BYTES)))


def _columns_of(source: ArraySource) -> int:
    """How many values one record has."""
    return math.prod(source.shape[1:])


def _shaped(source: ArraySource, mechanism: Mechanism) -> Mechanism:
    """``mechanism`` for the records of ``source``; a mechanism for tensors is told their shape.

    Refuses an array that holds no records, and one without an ε for each of them.
    """
    if len(source.shape) < 2:
        raise BadInput(
            f"{source.path.name} holds an array of shape {source.shape}; records must be the rows of a "
            "table (n, d), or tensors (n, …)."
        )
    if isinstance(mechanism, Personalised) and np.ndim(mechanism.epsilon) == 1:
        budgets = np.size(mechanism.epsilon)
        if budgets != source.rows:
            raise BadInput(
                f"ε was declared for {budgets} records, and {source.path.name} holds {source.rows}; one ε a "
                "record is accepted."
            )
    if isinstance(mechanism, TensorMechanism) and mechanism.shape is None and len(source.shape) > 2:
        return type(mechanism)(**(mechanism.get_params(deep=False) | {"shape": source.shape[1:]}))
    if _of_media(mechanism) and mechanism.get_params(deep=False)["shape"] is None:
        return mechanism.shaped(source.shape[1:])
    return mechanism


def _of_media(mechanism: Mechanism) -> TypeGuard[PictureMechanism | SoundMechanism]:
    """Whether records are pictures or sounds, whose type says what white, or full loudness, is."""
    return mechanism.of_media


def _bounded_by_data(source: ArraySource, mechanism: Mechanism, report: Report) -> Mechanism:
    parameters = mechanism.get_params(deep=False)
    if "bounds" not in parameters:
        raise BadInput(
            f"{type(mechanism).__name__} takes no bounds; leave out `bounds_from_data`.",
            parameter="bounds_from_data",
        )
    if parameters.get("clip") is not None:
        raise BadInput(
            "`bounds_from_data` and `clip` each give a bound; one of them is accepted.",
            parameter="bounds_from_data",
        )
    low, high = np.inf, -np.inf
    for first, block in _blocks(source, mechanism, "looking for bounds", report, range(source.rows)):
        check_finite(block, first)
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    if low == high:
        raise BadInput(
            f"every value of {source.path.name} is {low:g}, so it has no bounds; declare them by `bounds`."
        )
    return type(mechanism)(**(parameters | {"bounds": (low, high)}))


def _state(source: ArraySource, mechanism: Mechanism, then: Transform | None) -> Statement:
    """What a release of ``source`` by ``mechanism`` states, also after ``then``."""
    statement = mechanism.statement(_columns_of(source))
    if then is None:
        return statement
    # A record of zeros shows now, rather than after the noise, whether the transform's parameters are good.
    trial = np.zeros((1, 1))
    then.fit(trial).transform(trial)
    return then.state(statement)


def _released(
    source: ArraySource, mechanism: Mechanism, then: Transform | None, report: Report, rows: range
) -> Iterator[NDArray[Any]]:
    kind = _drawn_type(source, mechanism)
    height = mechanism.block_rows(_columns_of(source))
    for first, block in _blocks(source, mechanism, "drawing", report, rows):
        value = mechanism.perturb(block.astype(kind, copy=False), first)
        if then is None:
            yield value
            continue
        # A transform works row by row, so a piece at a time is enough and takes less memory.
        for start in range(0, len(value), height):
            piece = value[start : start + height]
            yield then.fit(piece).transform(piece)


def _drawn_type(source: ArraySource, mechanism: Mechanism) -> np.dtype[Any]:
    """The type in which records are drawn: double precision, or their own where it is single or of media."""
    own = _of_media(mechanism) or source.dtype == np.float32
    return source.dtype if own else np.dtype(np.float64)


def _blocks(
    source: ArraySource, mechanism: Mechanism, stage: str, report: Report, rows: range
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Blocks of ``rows`` with the index of their first row; the progress of ``stage`` is told on the way."""
    columns = _columns_of(source)
    first = rows.start
    for block in source.blocks(rows_at_once(source, mechanism) * columns * source.dtype.itemsize, rows):
        yield first, block.reshape(len(block), columns)
        first += len(block)
        report(stage, (first - rows.start) / len(rows))


_BLOCK_ROWS = 65_536
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

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Read, perturb, keep within bounds where the schema says so, and write, block by block."""
        schema = self._source.schema
        limits = [c.bounds if c.bounds and c.clamp else (-np.inf, np.inf) for c in schema.numeric]
        low, high = np.array(limits).reshape(-1, 2).T
        with TableSink(output, schema) as sink:
            sink.accompany(first)
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


@dataclass(frozen=True)
class RecordFiles:
    """A mechanism for records, and where they stand: in an array, which ``then`` is applied to, or a table.

    ``array`` names one of several in an archive; ``schema`` declares a table. ``disjoint`` declares that no
    record is in two files of a folder, ``public_names`` that the names of arrays in an archive are public.
    """

    records = True

    mechanism: Mechanism
    array: str | None = None
    schema: Schema | None = None
    then: Transform | None = None
    bounds_from_data: bool = False
    disjoint: bool = False
    public_names: bool = False

    @property
    def apart(self) -> str | None:
        """Why no unit is in two files of a folder; None where a record may be in all of them."""
        return DECLARED_DISJOINT if self.disjoint else None

    @property
    def of_folders(self) -> Unit | None:
        """The headline of a folder is that of its files."""
        return None

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw the noise again."""
        return self.mechanism.reproducible

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that the noise is drawn from, if it is."""
        return self.mechanism.keyed

    @property
    def draws_noise(self) -> bool:
        """Whether there is any randomness in a release; a projection has that of the noise inside it."""
        inside = isinstance(self.mechanism, RandomProjection)
        return inside or "randomness" in self.mechanism.get_params(deep=False)

    def keyed_by(self, noise: Keyed) -> RecordFiles:
        """The same with noise from a secret."""
        return replace(self, mechanism=keyed(self.mechanism, noise))

    def open(
        self, path: Path, name: str | None = None, part: range | None = None, report: Report = silent
    ) -> SourceFile:
        """The file at ``path``, or a ``part`` of it (see :mod:`sfumato.io.table_files`).

        ``name``, its name in a folder, keeps the keyed noise of many files apart.
        """
        mechanism = self.mechanism
        if name is not None and mechanism.keyed is not None:
            mechanism = self.keyed_by(mechanism.keyed.part(ascii(name))).mechanism
        kind = kind_of(path)
        if kind == "array":
            if self.schema is not None:
                raise BadInput(
                    "`schema` declares a table; for an array give `clip` or `bounds`.", parameter="schema"
                )
            return ArrayFile(
                open_array(path, self.array),
                mechanism,
                named=self.public_names or self.array is not None,
                public_names=self.public_names,
                then=self.then,
                bounds_from_data=self.bounds_from_data,
                rows=part,
                report=report,
            )
        if kind != "table":
            raise BadInput(f"{path.name} holds no records; release pictures and sounds by themselves.")
        for option, given in (
            ("array", self.array is not None),
            ("then", self.then is not None),
            ("bounds_from_data", self.bounds_from_data),
        ):
            if given:
                raise BadInput(
                    f"`{option}` is for .npy and .npz files, and {path.name} is a table.", parameter=option
                )
        if self.schema is None:
            raise BadInput(
                "a table needs `schema`, which declares the bounds or the categories of its columns.",
                parameter="schema",
            )
        return TableFile(TableSource(path, self.schema, groups=part), mechanism)
