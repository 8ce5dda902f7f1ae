"""Opening what is to be released; the options that do not go with it are refused here, for all commands."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import ArraySource, Schema, TableSource, kind_of, open_array
from sfumato.transforms import Transform

__all__ = ["open_source", "refuse_options"]


def open_source(
    source: str | os.PathLike[str],
    *,
    array: str | None,
    schema: str | os.PathLike[str] | Schema | None,
    then: Transform | None,
    bounds_from_data: bool = False,
) -> ArraySource | TableSource:
    """The array or the table in the file ``source``; a table needs a ``schema``."""
    if kind_of(source) == "array":
        if schema is not None:
            raise BadInput("a schema declares a table; for an array give --clip or --bounds.")
        return open_array(source, array)
    refuse_options(source, array=array, schema=None, then=then, bounds_from_data=bounds_from_data)
    if schema is None:
        raise BadInput(
            "a table needs --schema FILE, which declares the bounds or the categories of its columns."
        )
    return TableSource(source, schema if isinstance(schema, Schema) else Schema.load(schema))


def refuse_options(
    source: str | os.PathLike[str],
    *,
    array: str | None,
    schema: str | os.PathLike[str] | Schema | None,
    then: Transform | None,
    bounds_from_data: bool,
) -> None:
    """Refuse what only arrays have, and a ``schema``, for a ``source`` that is something else."""
    path = Path(source)
    what = "a folder" if path.is_dir() else f"a {kind_of(path)}"
    for flag, given, of in (
        ("--array", array is not None, ".npy and .npz files"),
        ("--alpha", then is not None, ".npy and .npz files"),
        ("--bounds-from-data", bounds_from_data, ".npy and .npz files"),
        ("--schema", schema is not None, "tables"),
    ):
        if given:
            raise BadInput(f"{flag} is for {of}, and {path.name} is {what}.")
