"""Records sent as JSON in place of a file, which are released and returned as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Collection
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import BadInput
from sfumato.io import Schema, kind_of, open_array, single_names
from sfumato.serve.refusals import TooLarge
from sfumato.serve.release_store import Release, StoredRelease
from sfumato.serve.service import Description, checked
from sfumato.serve.uploads import MOST_WORDS, private_file

#: The limits of such a body: values take far more memory than their digits. Larger ones are files.
MOST_BYTES = 2 << 20
_MOST_VALUES, _MOST_COLUMNS, _MOST_AXES = 200_000, 1_000, 8
# The limits of an answer: digits of a number with the characters around them, and all bytes.
_NUMBER, _MOST_ANSWER = 25, 16 << 20
# The types of the values of a column.
_COLUMNS = ({str}, {bool}, {int}, {float}, {int, float})
_NO_ARRAY = (
    "the array must be a list for each record, all of as many numbers, or of as many such lists; none is "
    f"empty, and they are at most {_MOST_AXES} deep."
)


class Rows(BaseModel):
    """Records to release, either as an ``array`` of rows of numbers or as a ``table`` by columns."""

    model_config = ConfigDict(extra="forbid")

    asked: Description = Field(default_factory=lambda: Description.model_validate({}))
    array: list[Any] | None = Field(
        None, description="One list for each record, all of as many numbers, or of as many such lists."
    )
    table: dict[str, list[Any]] | None = Field(
        None, description="Columns of as many values each: numbers, words, or true and false."
    )


class ReleasedRows(BaseModel):
    """Released records, in the form in which they came, and their statement.

    An array of more than 16 MiB is left out: ``…/releases/R/content`` has its file.
    """

    release: Release
    array: list[Any] | None = None
    table: dict[str, list[Any]] | None = None


async def read_rows(given: Collection[str], whole: Callable[[int], Awaitable[bytes]], limit: int) -> bytes:
    """Return the body of records that ``whole`` reads; raise if words are ``given`` in the query."""
    for name in given:
        raise BadInput(
            f"`{name}` belongs into the body, beside the records, and not into the query.", parameter=name
        )
    most = min(limit, MOST_BYTES)
    try:
        return await whole(most)
    except TooLarge:
        raise TooLarge(
            f"records as JSON have at most {most:,} bytes; send a file, which may have more."
        ) from None


def rows_file(content: bytes, folder: Path) -> tuple[Path, Description]:
    """Write the records of a JSON body to a file in ``folder``; return it with how to release it.

    Raise if the released table could be more than 16 MiB of JSON.
    """
    rows = checked("the body", Rows, content)
    json.loads(content, object_pairs_hook=single_names)  # of two columns of one name one would be lost
    if len(rows.asked.model_dump_json()) > MOST_WORDS:
        raise BadInput(f"asked has more than {MOST_WORDS:,} characters, the most that is taken.")
    if (rows.array is None) == (rows.table is None):
        raise BadInput("the body has records either as an array or as a table.")
    if rows.array is not None:
        values = _numbers(rows.array)
        with private_file(folder / "rows.npz") as file:
            np.savez_compressed(file, X=values)
        return folder / "rows.npz", rows.asked
    assert rows.table is not None
    import pyarrow.parquet as pq

    table = _columns(rows.table)
    _require_small_answer(table.num_rows, rows.asked.request().declared())
    with private_file(folder / "rows.parquet") as file:
        pq.write_table(table, file)
    return folder / "rows.parquet", rows.asked


def released_rows(done: StoredRelease) -> ReleasedRows:
    """Return the records of a release of such a file."""
    shown = Release(**done.to_dict())
    if kind_of(done.file) == "array":
        source = open_array(done.file)
        if math.prod(source.shape) * _NUMBER > _MOST_ANSWER:
            return ReleasedRows(release=shown)
        return ReleasedRows(release=shown, array=source.read().tolist())
    import pyarrow.parquet as pq

    return ReleasedRows(release=shown, table=pq.read_table(done.file).to_pydict())


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    shape: list[int] = []
    level: list[Any] = [values]
    while all(isinstance(one, list) for one in level):
        shape.append(len(level[0]))
        if len(shape) > _MOST_AXES or shape[-1] == 0 or any(len(one) != shape[-1] for one in level):
            raise BadInput(_NO_ARRAY)
        level = list(chain.from_iterable(level))
        _require_few(len(level))
    if len(shape) < 2 or not all(type(one) in (int, float) for one in level):
        raise BadInput(_NO_ARRAY)
    try:
        found = np.array(level, dtype=np.float64)
    except OverflowError:
        found = np.array([math.inf])
    if not np.isfinite(found).all():
        raise BadInput("a number of the array is not finite, or larger than a number may be.")
    return found.reshape(shape)


def _columns(columns: dict[str, list[Any]]) -> Any:
    import pyarrow as pa

    if not columns or len({len(column) for column in columns.values()}) != 1:
        raise BadInput("the table must have columns, all of as many values.")
    if len(columns) > _MOST_COLUMNS:
        raise BadInput(
            f"the table has more than {_MOST_COLUMNS:,} columns; send a file, which may have more."
        )
    _require_few(sum(map(len, columns.values())))
    for index, column in enumerate(columns.values()):
        if {type(value) for value in column} not in _COLUMNS:
            raise BadInput(f"column {index + 1} of the table must be numbers, or words, or true and false.")
    try:
        return pa.table(columns)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        raise BadInput("the table has a number that is too large, or a word that is no text.") from None


def _require_few(values: int) -> None:
    if values > _MOST_VALUES:
        raise TooLarge(
            f"records as JSON have at most {_MOST_VALUES:,} values; send a file, which may have more."
        )


def _require_small_answer(rows: int, schema: Schema | None) -> None:
    """Raise if a table has words so long that the answer could exceed its limit."""
    columns = () if schema is None else schema.released
    longest = sum(max(_NUMBER, *map(len, map(json.dumps, one.spellings())), 0) for one in columns)
    if rows * longest > _MOST_ANSWER:
        raise TooLarge(
            f"the release could be more than {_MOST_ANSWER:,} bytes of JSON; send a file, which may be."
        )
