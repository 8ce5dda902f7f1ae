"""Opening what is to be released; the options that do not go with it are refused here, for all commands."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import ArraySource, Schema, TableSource, kind_of, open_array
from sfumato.transforms import Transform

__all__ = ["open_source"]


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
    for flag, given in (
        ("--array", array is not None),
        ("--alpha", then is not None),
        ("--bounds-from-data", bounds_from_data),
    ):
        if given:
            raise BadInput(f"{flag} is for .npy and .npz files, and {Path(source).name} is a table.")
    if schema is None:
        raise BadInput(
            "a table needs --schema FILE, which declares the bounds or the categories of its columns."
        )
    return TableSource(source, schema if isinstance(schema, Schema) else Schema.load(schema))
