"""Audits of files: a certified release against the file it was made from, or its mechanism alone.

Whole files as records to compare: what an audit reads of an original and of its release.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Audit, audit
from sfumato.errors import BadInput
from sfumato.io import MEDIA, Schema, TableSource, array_names, file_to_read, kind_of, open_array
from sfumato.mechanisms import Release
from sfumato.privacy import Guarantee, Statement
from sfumato.reports import (
    MANIFEST,
    Certificate,
    KeyRing,
    VerificationFailed,
    certificate_file,
    certificate_of,
    verify,
)
from sfumato.utility import Field

__all__ = [
    "Compared",
    "audit_files",
    "audit_mechanism_of",
    "certified_statement",
    "command_line",
    "read_release",
    "refuse_media",
    "released_schema",
]

Report = Callable[[str, float], None]


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
    values = source.read().reshape(source.rows, -1)
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
        values = source.read()
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


_Path = str | os.PathLike[str]


class Compared:
    """An original and what an audit needs beside it, read from files.

    Where the original holds several arrays and none is named, the one is meant that has the name of the
    array in the release ``like``. Certificates count that were signed with a key that ``keys`` trust, unless
    given those in the home folder.
    """

    def __init__(
        self,
        original: _Path,
        *,
        like: _Path | None = None,
        labels: str | None = None,
        array: str | None = None,
        schema: _Path | Schema | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        refuse_media(original)
        self._keys = keys
        self.path = file_to_read(original)
        self.schema = Schema.load(schema) if isinstance(schema, str | os.PathLike) else schema
        if array is None and like is not None:
            array = _same_name(original, like)
        self.records: Records = read_records(original, array=array, schema=self.schema, beside=labels)
        self.labels: NDArray[np.int64] | None = None
        if labels is not None:
            self.labels = read_labels(labels, original, self.schema)
            if len(self.labels) != len(self.records.values):
                raise BadInput(
                    f"there are {len(self.labels)} labels for {len(self.records.values)} records; one label "
                    "a record is accepted."
                )

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """The shape of one record, where it looks like a picture: grey, or with three channels."""
        shape = self.records.shape
        picture = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        return shape if picture and min(shape[:2]) > 1 else None

    def release(self, path: _Path) -> Release:
        """The release in the file ``path``, with the statement of the certificate beside it."""
        schema = None if self.schema is None else released_schema(self.schema)
        return read_release(path, schema, self._keys)


def audit_files(
    compared: Compared,
    released: _Path,
    *,
    nonmembers: _Path | None = None,
    also: Sequence[_Path] = (),
    delta: float | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> Audit:
    """Attack the release in ``released``; ``also`` are other releases of the same records to pool.

    ``delta`` is that of the bounds on ε: unless given, that of the statement, but at most 1e-5.
    """
    outside = None
    if nonmembers is not None:
        outside = read_records(nonmembers, schema=compared.schema).values
        if outside.shape[1] != compared.records.values.shape[1]:
            raise BadInput(
                f"{Path(nonmembers).name} has {outside.shape[1]} columns and the original "
                f"{compared.records.values.shape[1]}; non-members must be records of the same kind."
            )
    return audit(
        compared.release(released),
        original=compared.records.values,
        labels=compared.labels,
        nonmembers=outside,
        repeats=[compared.release(path) for path in also],
        delta=delta,
        confidence=confidence,
        seed=seed,
        report=report,
    )


def audit_mechanism_of(
    path: _Path,
    *,
    keys: KeyRing | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    report: Report | None = None,
) -> Audit:
    """Audit the mechanism of the release ``path`` by its certificate; no data is read but to check its bytes.

    ``path`` may also be a released folder, whose manifest has the certificate, a certificate alone, wherever
    its file is, or a statement as JSON, such as ``sfumato plan --json`` prints.
    """
    statement, columns = _stated(Path(path), KeyRing() if keys is None else keys)
    return audit(
        statement, mechanism_only=True, columns=columns, confidence=confidence, seed=seed, report=report
    )


def command_line(name: str, *files: _Path, **options: object) -> str:
    """Return the command ``sfumato NAME FILES --OPTIONS`` as it is typed; options that are None are left out.

    A file is named as it was if that says nothing about the machine, and by its last part otherwise.
    """
    words = ["sfumato", name, *map(_shown, files)]
    for option, given in options.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            if value is None or value is False:
                continue
            words.append("-o" if option == "output" else "--" + option.replace("_", "-"))
            if value is not True:
                words.append(_shown(value) if isinstance(value, Path) else str(value))
    return shlex.join(words)


def _shown(file: _Path) -> str:
    path = Path(file)
    return path.name if path.is_absolute() or ".." in path.parts else str(path)


def read_release(path: _Path, schema: Schema | None = None, keys: KeyRing | None = None) -> Release:
    """The release in the file ``path``; nothing is proven of it unless its certificate holds."""
    found = read_records(path, schema=schema)
    file = file_to_read(path)
    statement = certified_statement(file, keys)
    if schema is not None:
        # Columns were scaled on reading, so bounds in the parameters are not those of these numbers.
        plain = {
            name: value for name, value in statement.parameters.items() if name not in ("bounds", "clip")
        }
        statement = replace(statement, parameters=plain)
    return Release(found.values, statement, {"file": file.name, "rows": len(found.values)})


def certified_statement(file: Path, keys: KeyRing | None = None) -> Statement:
    """What the certificate of ``file`` states; nothing is proven where there is none, or it fails."""
    if certificate_of(file) is None:
        return _nothing("no certificate stands beside the file")
    checked = verify(file, KeyRing() if keys is None else keys)
    if checked.certificate is None or not checked.holds:
        failed = next(check for check in checked.checks if check.outcome == "fails")
        return _nothing(f"its certificate does not hold: {failed.detail}")
    return checked.certificate.statement


def _stated(file: Path, keys: KeyRing) -> tuple[Statement, int | None]:
    """The statement of a release, of a certificate or of a JSON document, and the columns it is about."""
    if file.is_dir():
        file = file / MANIFEST
    beside = certificate_file(file)
    if not file.exists() and beside.exists():
        file = beside  # the certificate is all that is needed
    elif certificate_of(file) is not None:
        checked = verify(file_to_read(file), keys)
        if checked.certificate is None or not checked.holds:
            failed = next(check for check in checked.checks if check.outcome == "fails")
            raise VerificationFailed(f"the certificate of {file.name} does not hold: {failed.detail}.")
        return checked.certificate.statement, checked.certificate.columns
    file_to_read(file)
    if file.suffix != ".json":
        raise BadInput(
            f"there is no certificate beside {file.name}; a release with its certificate, a certificate "
            "or a statement as JSON is accepted."
        )
    content = file.read_bytes()
    if file.name.endswith(".cert.json"):
        certificate = Certificate.read(content, keys.trusted())
        return certificate.statement, certificate.columns
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise BadInput(
            f"{file.name} is not JSON; a statement in JSON, such as a plan contains, is accepted."
        ) from None
    inside = document.get("statement", document) if isinstance(document, Mapping) else document
    return Statement.from_dict(inside), document.get("columns") if isinstance(document, Mapping) else None


def _same_name(original: _Path, released: _Path) -> str | None:
    """The name that an array has in both archives, if just one has."""
    if kind_of(original) != "array" or kind_of(released) != "array":
        return None
    common = set(array_names(original)) & set(array_names(released))
    return common.pop() if len(common) == 1 else None


def _nothing(reason: str) -> Statement:
    return Statement("unknown mechanism", {}, None, Guarantee.nothing(reason))
