"""How what is to be released is opened; options that do not go with it are refused, for all commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import BadInput
from sfumato.io import Schema
from sfumato.mechanisms import Mechanism, Personalised
from sfumato.release.locations import Located
from sfumato.release.record_files import RecordFiles

if TYPE_CHECKING:
    from sfumato.mechanisms.transforms import Transform
    from sfumato.release.media_mechanisms import MediaMechanisms

__all__ = ["opener_of"]


def opener_of(
    source: Located,
    mechanism: Mechanism | MediaMechanisms,
    *,
    array: str | None = None,
    schema: str | os.PathLike[str] | Schema | None = None,
    then: Transform | None = None,
    bounds_from_data: bool = False,
    disjoint: bool = False,
    public_names: bool = False,
) -> MediaMechanisms | RecordFiles:
    """What opens the files of ``source``: of media, or of records, which tables are with a schema.

    The files of a folder are media where the mechanism is one of media.
    """
    of_media = not isinstance(mechanism, Mechanism) or mechanism.of_media
    if source.name is None and not of_media and bounds_from_data:
        raise BadInput(
            f"`bounds_from_data=True` is for one file, and {source.word} is a folder.",
            parameter="bounds_from_data",
        )
    if source.name is None and isinstance(mechanism, Personalised) and np.ndim(mechanism.epsilon) > 0:
        raise BadInput(
            f"an ε for each record is for the records of one file, and {source.word} is a folder.",
            parameter="epsilon",
        )
    if source.of_media or (source.name is None and of_media):
        what = "a folder" if source.name is None else f"a {source.kind}"
        for name, given, of in (
            ("array", array is not None, ".npy and .npz files"),
            ("then", then is not None, ".npy and .npz files"),
            ("bounds_from_data", bounds_from_data, ".npy and .npz files"),
            ("schema", schema is not None, "tables"),
            ("disjoint", disjoint, "folders of arrays or tables"),
        ):
            if given:
                raise BadInput(f"`{name}` is for {of}, and {source.word} is {what}.", parameter=name)
        from sfumato.release.media_mechanisms import MediaMechanisms

        return MediaMechanisms.of(mechanism)
    if not isinstance(mechanism, Mechanism):
        raise BadInput(
            f"{source.word} holds records; mechanisms for media are not for them.", parameter="mechanism"
        )
    if source.name is not None and disjoint:
        raise BadInput(
            f"`disjoint` is for folders of arrays or tables, and {source.word} is one file.",
            parameter="disjoint",
        )
    if source.kind == "array" and schema is not None:
        raise BadInput("`schema` declares a table; for an array give `clip` or `bounds`.", parameter="schema")
    declared = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
    return RecordFiles(mechanism, array, declared, then, bounds_from_data, disjoint, public_names)
