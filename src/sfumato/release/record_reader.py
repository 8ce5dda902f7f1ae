"""Whole files as records to compare: what an audit reads of an original and of its release."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, TableSource, array_names, kind_of, open_array
from sfumato.utility import Field

__all__ = ["Records", "read_labels", "read_records", "refuse_media", "released_schema"]

_Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Records:
    """Rows ``values`` (n, d), the shape that one row had in its file, and where a table's columns are."""

    values: NDArray[np.float64]
    shape: tuple[int, ...]
    fields: tuple[Field, ...] | None = None


def read_records(
    path: _Path, *, array: str | None = None, schema: Schema | None = None, beside: str | None = None
) -> Records:
    """Every record of the file ``path`` as one row of numbers.

    Of an archive the array is taken that ``array`` names, else the only one that is not called ``beside``.
    The numeric columns of a table are scaled by their declared bounds to [−1, 1], and each category becomes
    a column of zeros and ones, so that distances between rows mean something.
    """
    refuse_media(path)
    if kind_of(path) == "table":
        if schema is None:
            raise BadInput(
                f"{Path(path).name} is a table: give the `schema` that it was released with.",
                parameter="schema",
            )
        if array is not None:
            raise BadInput(
                f"`array` is for .npy and .npz files, and {Path(path).name} is a table.", parameter="array"
            )
        return _table(path, schema)
    if array is None and beside is not None:
        others = [name for name in array_names(path) if name != beside]
        array = others[0] if len(others) == 1 else None
    source = open_array(path, array)
    values = np.concatenate([block.reshape(len(block), -1) for block in source.blocks()])
    return Records(_finite(values.astype(np.float64, copy=False), path), source.shape[1:])


def refuse_media(path: _Path) -> None:
    """Refuse a folder, a picture, a sound or a video: what is compared row by row are records."""
    if Path(path).is_dir() or kind_of(path) in MEDIA:
        raise BadInput(
            f"{Path(path).name} holds pictures or sound, and records are compared here; a report shows "
            "pictures "
            "side by side, and sfumato.audits.speaker_recognition compares voices."
        )


def read_labels(name: str, original: _Path, schema: Schema | None = None) -> NDArray[np.int64]:
    """Class labels: the array or the column ``name`` of ``original``, or the only array of the file ``name``.

    Labels are numbered from 0 in the order of their values.
    """
    if kind_of(original) == "table":
        if schema is None or name not in [column.name for column in schema.coded]:
            known = "none" if schema is None else ", ".join(column.name for column in schema.coded)
            raise BadInput(
                f"`labels` was {name!r}, which is no categorical or boolean column of the schema",
                parameter="labels",
                accepted=known,
            )
        at = [column.name for column in schema.coded].index(name)
        values = np.concatenate([block.codes[:, at] for block in TableSource(original, schema).blocks()])
    else:
        inside = name in array_names(original)
        if not inside and not Path(name).exists():
            raise BadInput(
                f"`labels` was {name!r}, which is neither an array of {Path(original).name} nor a file.",
                parameter="labels",
            )
        source = open_array(original, name) if inside else open_array(name)
        values = np.concatenate(list(source.blocks()))
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise BadInput(
                f"`labels` must be one value a record, an array of shape (n,), not {values.shape}.",
                parameter="labels",
            )
    return np.unique(_finite(values, name), return_inverse=True)[1].astype(np.int64)


def released_schema(schema: Schema) -> Schema:
    """``schema`` as it describes a release, which holds no identifiers."""
    return replace(schema, columns=schema.released)


def _table(path: _Path, schema: Schema) -> Records:
    blocks = list(TableSource(path, schema).blocks())
    numeric = np.concatenate([block.numeric for block in blocks])
    codes = np.concatenate([block.codes for block in blocks])
    limits = np.array([column.bounds or (-1.0, 1.0) for column in schema.numeric]).reshape(-1, 2)
    half = (limits[:, 1] - limits[:, 0]) / 2.0
    parts = [(numeric - limits.mean(axis=1)) / np.where(half > 0.0, half, 1.0)]
    parts += [np.eye(len(column.categories))[codes[:, index]] for index, column in enumerate(schema.coded)]
    values = np.concatenate(parts, axis=1)
    return Records(_finite(values, path), values.shape[1:], tuple(_fields(schema)))


def _fields(schema: Schema) -> Iterator[Field]:
    """Where each column of a table stands in its rows of numbers."""
    for at, column in enumerate(schema.numeric):
        yield Field(column.name, at, at + 1, column.bounds)
    at = len(schema.numeric)
    for column in schema.coded:
        stop = at + len(column.categories)
        yield Field(column.name, at, stop, categories=column.spellings())
        at = stop


def _finite(values: NDArray[Any], name: _Path) -> NDArray[Any]:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise BadInput(f"{Path(name).name} holds a value that is not finite in row {int(bad.argmax()) + 1}.")
    return values
