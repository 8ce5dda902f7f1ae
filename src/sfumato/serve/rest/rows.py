"""Records as JSON in the body of a request, in place of a file; released, they come back as JSON."""

from __future__ import annotations

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sfumato.errors import BadInput
from sfumato.io.formats import kind_of
from sfumato.serve.bodies import private_file
from sfumato.serve.models import Description, ReleaseShown, checked
from sfumato.serve.rest.parts import media_type
from sfumato.serve.service import Release

__all__ = ["MOST_BYTES", "ReleasedRows", "Rows", "are_rows", "released_rows", "rows_file"]

#: What such a body may have: values take far more memory than their digits. Larger ones are files.
MOST_BYTES = 2 << 20
_MOST_AXES = 8
# The types of the values of a column.
_COLUMNS = ({str}, {bool}, {int}, {float}, {int, float})


class Rows(BaseModel):
    """Records to release: numbers as an ``array`` with one record a row, or a ``table`` by its columns."""

    model_config = ConfigDict(extra="forbid")

    asked: Description = Field(default_factory=lambda: Description.model_validate({}))
    array: list[Any] | None = Field(None, description="Numbers, or lists of as many numbers each, and so on.")
    table: dict[str, list[Any]] | None = Field(None, description="Columns of as many numbers or words each.")


class ReleasedRows(BaseModel):
    """Released records, in the form in which they came, and what is stated about them."""

    release: ReleaseShown
    array: list[Any] | None = None
    table: dict[str, list[Any]] | None = None


def are_rows(request: Request, named: str | None) -> bool:
    """Whether the body of ``request`` is records as JSON, and no file, which would be ``named``."""
    return named is None and media_type(request) == "application/json"


def rows_file(content: bytes, folder: Path) -> tuple[Path, Description]:
    """Records from a body of JSON as a file in ``folder``, and how they are to be released."""
    rows = checked("the body", Rows, content)
    if (rows.array is None) == (rows.table is None):
        raise BadInput("the body has records either as an array or as a table.")
    if rows.array is not None:
        values = _numbers(rows.array)
        with private_file(folder / "rows.npy") as file:
            np.save(file, values)
        return folder / "rows.npy", rows.asked
    assert rows.table is not None
    import pyarrow.parquet as pq

    table = _columns(rows.table)
    with private_file(folder / "rows.parquet") as file:
        pq.write_table(table, file)
    return folder / "rows.parquet", rows.asked


def released_rows(done: Release) -> ReleasedRows:
    """The records of a release of such a file."""
    shown = ReleaseShown(**done.to_dict())
    if kind_of(done.file) == "array":
        return ReleasedRows(release=shown, array=np.load(done.file, allow_pickle=False).tolist())
    import pyarrow.parquet as pq

    return ReleasedRows(release=shown, table=pq.read_table(done.file).to_pydict())


def _numbers(values: list[Any]) -> NDArray[np.float64]:
    shape: list[int] = []
    level: list[Any] = [values]
    while all(isinstance(one, list) for one in level):
        shape.append(len(level[0]))
        if len(shape) > _MOST_AXES or shape[-1] == 0 or any(len(one) != shape[-1] for one in level):
            raise BadInput(
                "the array must be numbers, or lists of as many numbers each, none empty and at most "
                f"{_MOST_AXES} deep."
            )
        level = list(chain.from_iterable(level))
    if not all(type(one) in (int, float) for one in level):
        raise BadInput(
            "the array must be numbers, or lists of as many numbers each: something else is in it."
        )
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
    for index, column in enumerate(columns.values()):
        if {type(value) for value in column} not in _COLUMNS:
            raise BadInput(f"column {index + 1} of the table must be numbers, or words, or true and false.")
    try:
        return pa.table(columns)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        raise BadInput("the table has a number that is too large, or a word that is no text.") from None
