"""Audits of files: a certified release against the file it was made from, or its mechanism alone."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Audit, audit
from sfumato.errors import BadInput
from sfumato.io import Schema, array_names, file_to_read, kind_of
from sfumato.mechanisms import Release
from sfumato.privacy import Guarantee, Statement
from sfumato.release.manifest import MANIFEST
from sfumato.release.record_reader import Records, read_labels, read_records, refuse_media, released_schema
from sfumato.reports import Certificate, KeyRing, VerificationFailed, certificate_file, verify

__all__ = [
    "Compared",
    "audit_files",
    "audit_mechanism_of",
    "certified_statement",
    "command_line",
    "read_release",
]

_Path = str | os.PathLike[str]
Report = Callable[[str, float], None]


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
    """What the certificate beside ``file`` states; nothing is proven where there is none, or it fails."""
    if not certificate_file(file).exists():
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
    elif beside.exists():
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
