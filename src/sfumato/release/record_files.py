"""Files of records: one file as a kind of release, arrays and tables.

Arrays and tables are released by blocks of rows; how a file is cut into blocks changes neither the noise nor
the bytes. Tensors of any order are records too: flattened for the mechanism, and written in their own shape.
Tables are released under the bounds and categories that their schema declares.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

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
    reserved,
    same_kind,
)
from sfumato.mechanisms import ExpectedError, Mechanism, Personalised, Rows, TensorMechanism, check_finite
from sfumato.mechanisms.transforms import RandomProjection, Transform
from sfumato.noise import Keyed
from sfumato.privacy import Guarantee, Statement, Unit
from sfumato.release.combined_statement import DECLARED_DISJOINT
from sfumato.release.path import Certify, Content, Kind, Protected, Report, Spending, silent, terms_of
from sfumato.release.request import keyed, keyed_for, refuse_schema
from sfumato.reports import certificate_file

if TYPE_CHECKING:
    from sfumato.media.audio import SoundMechanism
    from sfumato.media.images import PictureMechanism

__all__ = ["OneFile", "RecordFiles", "SourceFile", "TableFile", "rows_at_once"]

# A block is a whole number of the mechanism's working blocks: at most this many, and at most this many bytes
# of what is drawn, unless one is larger.
_WORKING_BLOCKS = 32
_BLOCK_BYTES = 16 << 20
_DRAWN_BYTES = 8
# Headers, and the list of an archive.
_AROUND_BYTES = 64 << 10
# The name of an array whose own name is not declared, and notes of a statement about such names.
_NAME = "X"
_NUMBERED = "no name in the archive travels that was not declared; arrays that are left out are numbered"
_NAMED = "the owner declares the names of the arrays in the archive public"
# Rows of a table in one block, bytes of a number as text, and bytes around one column of one block.
_BLOCK_ROWS = 65_536
_NUMBER_BYTES = 25
_COLUMN_BYTES = 4 << 10


class SourceFile(ABC):
    """One file, or a range of its rows, and the mechanism that it goes through.

    Opening one prepares the mechanism: what can be refused from parameters and shape alone is refused there,
    so that a plan, a hold and a payment are only ever made for what can be drawn.

    ``statement`` is what its release will state. ``rows`` is how many records it holds, None if only reading
    tells; ``values`` is how many numbers each has. ``what`` names for people what is released, if that is not
    a number of records; ``left_out`` names what is not. ``declared`` holds as JSON values what shapes the
    noise beside the statement's parameters.
    """

    path: Path
    mechanism: Mechanism
    statement: Statement
    values: int
    rows: int | None = 1
    what: str | None = None
    left_out: tuple[str, ...] = ()
    declared: Mapping[str, Any] | None = None

    @abstractmethod
    def fits(self, output: Path) -> None:
        """Refuse an ``output`` whose format cannot hold the release; nothing has been read or paid yet."""

    def expected(self) -> tuple[ExpectedError, ...]:
        """Return the error to expect, as far as the mechanism can tell."""
        return self.mechanism.expected_error(self.values)

    @abstractmethod
    def check(self, report: Report, content: Content | None = None) -> None:
        """Read all of it, which refuses what cannot be released, and add it to ``content``; draw no noise."""

    @abstractmethod
    def most_bytes(self, output: Path) -> int:
        """Return an upper bound of the size of the release at ``output``, once the file was checked."""

    def alike(self, output: Path) -> object:
        """Return what files that can be drawn together have in common; None if each is drawn alone."""
        return None

    @abstractmethod
    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Draw the release and let it appear at ``output``, in the format of its name, after ``first``."""


class Files(ABC):
    """What opens files of records, or of media, for their release; ``records`` says which."""

    records: bool

    @property
    @abstractmethod
    def apart(self) -> str | None:
        """Why no unit is in two files of a folder; None if a record may be in all of them."""

    @property
    def headline(self) -> Unit | None:
        """The unit of the headline of a folder; None for that of its files."""
        return None

    @property
    @abstractmethod
    def mechanisms(self) -> Sequence[Mechanism]:
        """The mechanisms that files go through."""

    @property
    def drawing(self) -> list[Mechanism]:
        """The mechanisms with randomness; a projection has that of the noise inside it."""
        return [
            one
            for one in self.mechanisms
            if isinstance(one, RandomProjection) or "randomness" in one.get_params(deep=False)
        ]

    @property
    def reproducible(self) -> bool:
        """Whether anybody who knows a seed can draw some of the noise again."""
        return any(one.reproducible for one in self.mechanisms)

    @property
    def keyed(self) -> Keyed | None:
        """The keyed randomness that noise is drawn from, if all of it is."""
        keys = [one.keyed for one in self.drawing]
        return None if None in keys else next(iter(keys), None)

    @abstractmethod
    def keyed_by(self, noise: Keyed) -> Self:
        """Return the same with noise from a secret."""

    @abstractmethod
    def open(
        self, path: Path, name: str | None = None, part: range | None = None, report: Report = silent
    ) -> SourceFile:
        """Return the file at ``path``, or a ``part`` of its rows or row groups.

        ``name``, its name in a folder, keeps the keyed noise of many files apart.
        """


class OneFile(Kind[Spending]):
    """One file, drawn as it is written.

    ``room_for`` is called with the largest size of the output in bytes, and refuses by raising. ``shown`` is
    the name in the certificate, ``price`` what is charged if that is for more than this file (nested tiers),
    ``notes`` what the statement adds.
    """

    def __init__(
        self,
        file: SourceFile,
        output: Path,
        *,
        room_for: Callable[[int], None] | None = None,
        name: str | None = None,
        shown: str | None = None,
        price: Statement | None = None,
        declared: Mapping[str, Any] | None = None,
        keyed: Keyed | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._file, self.output, self._room_for, self._shown = file, output, room_for, shown
        self.name, self.price, self._notes = name or output.name, price or file.statement, notes
        self.declared = file.declared if declared is None else declared
        self.keyed = file.mechanism.keyed if keyed is None else keyed
        self.reproducible = file.mechanism.reproducible
        file.fits(output)

    def check(self, content: Content, report: Report) -> None:
        """Read the file; keyed noise is refused if it was drawn for other content."""
        self._file.check(report, None if self.keyed is None else content)
        if self.keyed is not None:
            # As the noise will tell contents apart when it is drawn: by the mechanism's terms alone.
            terms = json.dumps(terms_of(self.price), sort_keys=True)
            self.keyed.keep_to(terms.encode(), content.digest({"declared": self.declared}))

    @contextmanager
    def room(self) -> Iterator[None]:
        """Reserve room on the disk, before anything is paid."""
        size = self._file.most_bytes(self.output)
        if self._room_for is not None:
            self._room_for(size)
        with reserved(self.output, size):
            yield

    def draw(self, pay: Spending, report: Report) -> None:
        """Pay; noise is drawn as the file is written."""
        self._notes += pay()

    def write(self, certify: Certify, report: Report) -> None:
        """Draw the release and let it appear."""
        self._file.write(self.output, (certificate_file(self.output), certify), report)

    def released(self) -> Protected:
        """Return what was written; only then it is known how many rows a CSV had."""
        file = self._file
        statement = replace(file.statement, notes=(*file.statement.notes, *self._notes))
        rows = 0 if file.rows is None else file.rows
        return Protected(
            self.output, statement, rows, file.values, file.left_out, what=file.what, name=self._shown
        )


class ArrayFile(SourceFile):
    """The rows of ``source``, or the range ``rows`` of them, which go through ``mechanism`` and ``then``.

    ``bounds_from_data`` reads the bounds off the data, all of it, after which nothing is proven. The array
    of an archive keeps its name if that is declared, ``named``; those that are left out are numbered, unless
    ``public_names`` declares their names, too.
    """

    rows: int

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
        self.path, self._source, self._then = source.path, source, then
        self._range = range(source.rows) if rows is None else rows
        self.rows, self._columns = len(self._range), math.prod(source.shape[1:])
        self.values = self._columns
        self.mechanism = _shaped(source, mechanism)
        if bounds_from_data:
            self.mechanism = self._bounded_by_data(report)
        # Double precision, or the records' own where it is single or of media.
        own = _of_media(self.mechanism) or source.dtype == np.float32
        self._drawn_type: np.dtype[Any] = source.dtype if own else np.dtype(np.float64)
        self.statement = self._state()
        self.mechanism.prepare(self.values, self._drawn_type)
        if bounds_from_data:
            reason = "the bounds were read off the data, and show its extremes"
            proven = self.statement.proven
            nothing = Guarantee.nothing(reason, proven.unit, proven.neighbours)
            self.statement = replace(self.statement, proven=nothing)
        self._name = (source.name if named else None) or _NAME
        numbers = range(1, len(source.others) + 1)
        self.left_out = source.others if public_names else tuple(f"array {number}" for number in numbers)
        if source.others or self._name != (source.name or _NAME):
            note = _NAMED if public_names else _NUMBERED
            self.statement = replace(self.statement, notes=(*self.statement.notes, note))

    def _bounded_by_data(self, report: Report) -> Mechanism:
        """Return the mechanism with the lowest and highest value of all rows as its bounds."""
        parameters, name = self.mechanism.get_params(deep=False), self.path.name
        if "bounds" not in parameters:
            raise BadInput(
                f"{type(self.mechanism).__name__} takes no bounds; leave out `bounds_from_data`.",
                parameter="bounds_from_data",
            )
        if parameters.get("clip") is not None:
            raise BadInput(
                "`bounds_from_data` and `clip` each give a bound; one of them is accepted.",
                parameter="bounds_from_data",
            )
        low, high = np.inf, -np.inf
        for first, block in self._blocks("looking for bounds", report, range(self._source.rows)):
            check_finite(block, first)
            low, high = min(low, float(block.min())), max(high, float(block.max()))
        if low == high:
            raise BadInput(
                f"every value of {name} is {low:g}, so it has no bounds; declare them by `bounds`."
            )
        return type(self.mechanism)(**(parameters | {"bounds": (low, high)}))

    def _state(self) -> Statement:
        """Return what the release states, also after a transform."""
        statement = self.mechanism.statement(self.values)
        if self._then is None:
            return statement
        # A record of zeros shows now, and not after the noise, whether the transform's parameters are good.
        trial = np.zeros((1, 1))
        self._then.fit(trial).transform(trial)
        return self._then.state(statement)

    def fits(self, output: Path) -> None:
        """Any format of arrays holds any array."""
        same_kind(self.path, output)

    def check(self, report: Report, content: Content | None = None) -> None:
        """Read every row, and refuse those that are no records."""
        for first, block in self._blocks("checking", report, self._range):
            # As it will be drawn: a bound that holds in half precision may not hold in double.
            self.mechanism.check(block.astype(self._drawn_type, copy=False), first)
            if content is not None:
                content.add(block)

    def most_bytes(self, output: Path) -> int:
        """Return the size of the values that are drawn, and of what stands around them."""
        columns = self.mechanism.released_columns(self.values)
        if self._then is not None:
            one = np.zeros((1, columns))
            columns = int(self._then.fit(one).transform(one).shape[1])
        return self.rows * columns * _DRAWN_BYTES + _AROUND_BYTES

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Read, perturb, transform and write, block by block."""
        parts = self._released(report)
        head = next(parts)
        self.values = head.shape[1]
        record = self._source.shape[1:] if self.values == self._columns else (self.values,)
        with ArraySink(output, (self.rows, *record), head.dtype, name=self._name) as sink:
            sink.accompany(first)
            for part in chain([head], parts):
                sink.write(part.reshape(len(part), *record))

    def _released(self, report: Report) -> Iterator[NDArray[Any]]:
        height = self.mechanism.block_rows(self._columns)
        for first, block in self._blocks("drawing", report, self._range):
            value = self.mechanism.perturb(block.astype(self._drawn_type, copy=False), first)
            if self._then is None:
                yield value
                continue
            # A transform works row by row, so a piece at a time is enough and takes less memory.
            for start in range(0, len(value), height):
                piece = value[start : start + height]
                yield self._then.fit(piece).transform(piece)

    def _blocks(self, stage: str, report: Report, rows: range) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield blocks of ``rows`` with the index of their first row; report the progress of ``stage``."""
        source, first = self._source, rows.start
        size = rows_at_once(source, self.mechanism) * self._columns * source.dtype.itemsize
        for block in source.blocks(size, rows):
            yield first, block.reshape(len(block), self._columns)
            first += len(block)
            report(stage, (first - rows.start) / len(rows))


def rows_at_once(source: ArraySource, mechanism: Mechanism) -> int:
    """Return how many records of ``source`` are read and drawn at a time, and are in memory."""
    columns = math.prod(source.shape[1:])
    # Whole working blocks, so that the bytes do not depend on how the file was cut.
    height = mechanism.block_rows(columns)
    return height * max(1, min(_WORKING_BLOCKS, _BLOCK_BYTES // (height * columns * _DRAWN_BYTES)))


def _shaped(source: ArraySource, mechanism: Mechanism) -> Mechanism:
    """Return ``mechanism`` for the records of ``source``; a mechanism for tensors is given their shape.

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
                f"ε was declared for {budgets} records, and {source.path.name} holds {source.rows}; one ε "
                "for each record is accepted."
            )
    if isinstance(mechanism, TensorMechanism) and mechanism.shape is None and len(source.shape) > 2:
        return type(mechanism)(**(mechanism.get_params(deep=False) | {"shape": source.shape[1:]}))
    if _of_media(mechanism) and mechanism.get_params(deep=False)["shape"] is None:
        return mechanism.shaped(source.shape[1:])
    return mechanism


def _of_media(mechanism: Mechanism) -> TypeGuard[PictureMechanism | SoundMechanism]:
    """Return whether records are images or audio, whose type says what white, or full loudness, is."""
    return mechanism.of_media


class TableFile(SourceFile):
    """The rows of ``source``, released by ``mechanism`` without the identifiers.

    ``rows`` is None for a CSV until it was read once.
    """

    def __init__(self, source: TableSource, mechanism: Mechanism) -> None:
        schema = source.schema
        self.path, self.mechanism, self.rows, self._source = source.path, mechanism, source.rows, source
        self._rows = Rows(
            mechanism,
            [column.bounds or (0.0, 0.0) for column in schema.numeric],
            [len(column.categories) for column in schema.coded],
            [column.weight for column in (*schema.numeric, *schema.coded)],
        )
        self.statement, self.declared = self._rows.statement(), schema.to_dict()
        self._rows.prepare()
        self.values = len(schema.released)
        # Of a wide table fewer rows are in memory at once; a function of the schema alone.
        self._blocks = partial(source.blocks, max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * self.values))))
        self.left_out = tuple(column.name for column in schema.identifiers)

    def fits(self, output: Path) -> None:
        """Any format of tables holds any table."""
        same_kind(self.path, output)

    def expected(self) -> tuple[ExpectedError, ...]:
        """Return what the noise will do to each column."""
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
        """Return the size of every cell at its longest, whatever the format, and of what is around blocks."""
        schema = self._source.schema
        words = [max(len(quoted(word).encode()) for word in column.spellings()) for column in schema.coded]
        row = sum(words) + _NUMBER_BYTES * len(schema.numeric) + 2 * self.values
        rows = self.rows or 0
        around = self.values * (_COLUMN_BYTES + 8 * max(words, default=0))
        return int(1.01 * rows * row) + around * (2 + rows // _BLOCK_ROWS) + _COLUMN_BYTES

    def write(self, output: Path, first: First | None, report: Report) -> None:
        """Read, perturb, keep within bounds if the schema says so, and write, block by block."""
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


@dataclass(frozen=True)
class RecordFiles(Files):
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
        """Why no unit is in two files of a folder; None if a record may be in all of them."""
        return DECLARED_DISJOINT if self.disjoint else None

    @property
    def mechanisms(self) -> Sequence[Mechanism]:
        """The mechanism."""
        return [self.mechanism]

    def keyed_by(self, noise: Keyed) -> Self:
        """Return the same with noise from a secret."""
        return replace(self, mechanism=keyed(self.mechanism, noise))

    def open(
        self, path: Path, name: str | None = None, part: range | None = None, report: Report = silent
    ) -> SourceFile:
        """Return the file at ``path``, or a ``part`` of it."""
        mechanism, kind = keyed_for(self.mechanism, name), kind_of(path)
        if kind == "array":
            if self.schema is not None:
                refuse_schema(kind, path.name)
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
            raise BadInput(f"{path.name} holds no records; release images and audio by themselves.")
        for option in ("array", "then", "bounds_from_data"):
            if getattr(self, option) not in (None, False):
                raise BadInput(
                    f"`{option}` is for .npy and .npz files, and {path.name} is a table.", parameter=option
                )
        if self.schema is None:
            raise BadInput(
                "a table needs `schema`, which declares the bounds or the categories of its columns.",
                parameter="schema",
            )
        return TableFile(TableSource(path, self.schema, groups=part), mechanism)
