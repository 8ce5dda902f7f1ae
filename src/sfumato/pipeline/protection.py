"""The one path a release of a file takes: open, check, draw, write.

All of the data is checked before any noise is drawn, so that bad input costs nothing. The output appears
at its name when it is complete, and its statement appears just before it: whoever finds a release finds
what it promises. A crash between the two leaves a statement without an output, which harms nobody.
"""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import BadInput
from sfumato.io import Schema, TableSource, open_array, same_kind
from sfumato.mechanisms import Mechanism
from sfumato.pipeline.arrays import protect_array
from sfumato.pipeline.place import check_output
from sfumato.pipeline.protected import Protected, Report
from sfumato.pipeline.tables import protect_table
from sfumato.transforms import Transform

__all__ = ["protect"]


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
    target = Path(output)
    check_output(target, [source] if schema is None or isinstance(schema, Schema) else [source, schema])
    if dataset is not None and not (dataset.strip() and dataset.isprintable()):
        raise BadInput(f"the dataset is named {dataset!r}; a name in printable characters is accepted.")
    tell = report or (lambda stage, share: None)
    if kind == "array":
        if schema is not None:
            raise BadInput("a schema declares a table; for an array give --clip or --bounds.")
        return protect_array(
            open_array(source, array),
            target,
            mechanism,
            then=then,
            dataset=dataset,
            bounds_from_data=bounds_from_data,
            report=tell,
        )
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
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    return protect_table(TableSource(source, declared), target, mechanism, dataset=dataset, report=tell)
