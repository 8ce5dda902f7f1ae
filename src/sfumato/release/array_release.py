"""Arrays, released by blocks of rows; how the file is cut changes neither the noise nor the bytes.

Tensors of any order are records too: flattened for the mechanism, and written in their own shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import ArraySink, ArraySource, same_kind
from sfumato.io.atomic import First
from sfumato.mechanisms import ExpectedError, Mechanism, Personalised
from sfumato.mechanisms.records import check_finite
from sfumato.mechanisms.tensors import TensorMechanism
from sfumato.privacy import Guarantee, Statement
from sfumato.release.payment import Content
from sfumato.release.protected_file import Report, silent
from sfumato.release.source_file import SourceFile

if TYPE_CHECKING:
    from sfumato.mechanisms.transforms import Transform
    from sfumato.media import PictureMechanism, SoundMechanism

__all__ = ["ArrayFile", "rows_at_once"]

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

    def write(self, output: Path, first: First, report: Report) -> None:
        """Read, perturb, transform and write, block by block."""
        source = self._source
        parts = _released(source, self.mechanism, self._then, report, self._range)
        head = next(parts)
        self.values = head.shape[1]
        record = source.shape[1:] if self.values == _columns_of(source) else (self.values,)
        with ArraySink(output, (self.rows, *record), head.dtype, name=self._name) as sink:
            sink.accompany(*first)
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
