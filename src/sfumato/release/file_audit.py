"""Comparisons of originals and releases in files: audits, and contact sheets of images for the owner."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits import Audit, Finding, audit
from sfumato.errors import BadInput
from sfumato.io import (
    MEDIA,
    LocalStore,
    Schema,
    TableSource,
    array_names,
    file_to_read,
    kind_of,
    open_array,
    open_video,
    read_picture,
)
from sfumato.loading import open_cv
from sfumato.mechanisms import Release
from sfumato.privacy import Guarantee, Statement
from sfumato.release.path import silent
from sfumato.reports import (
    MANIFEST,
    Certificate,
    ContactSheet,
    Entry,
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
    "command_line",
    "media_entry",
    "read_evidence",
    "refuse_media",
]

Report = Callable[[str, float], None]
_Path = str | os.PathLike[str]
# Contact sheets: the longer side of an image in pixels, detectors, and the side of a tile of the map.
_SIDE, _TILE = 360, 16
_DETECTORS = ("faces", "text", "plates", "saliency")


@dataclass(frozen=True, eq=False)
class Records:
    """Rows ``values`` (n, d), the shape of one record in its file, and where a table's columns are."""

    values: NDArray[np.float64]
    shape: tuple[int, ...]
    fields: tuple[Field, ...] | None = None


def read_records(
    path: _Path, *, array: str | None = None, schema: Schema | None = None, beside: str | None = None
) -> Records:
    """Return every record of the file ``path`` as one row of numbers.

    Of an archive the array ``array`` is taken, else the only one that is not called ``beside``. The numeric
    columns of a table are scaled by their declared bounds to [−1, 1], and each category becomes a column of
    zeros and ones, so that distances between rows mean something.
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
    """Refuse a folder, an image, audio or a video: only records are compared row by row."""
    if Path(path).is_dir() or kind_of(path) in MEDIA:
        raise BadInput(
            f"{Path(path).name} holds pictures or sound, and records are compared here; a report shows "
            "pictures side by side, and sfumato.audits.speaker_recognition compares voices."
        )


def read_labels(name: str, original: _Path, schema: Schema | None = None) -> NDArray[np.int64]:
    """Return class labels: the array or column ``name`` of ``original``, or the only array of that file.

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
    """Yield where each column of a table stands in its rows of numbers."""
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


class Compared:
    """An original and what an audit needs beside it, read from files.

    If the original holds several arrays and none is named, the one is meant that has the name of the array in
    the release ``like``. ``keys`` trust the signers of certificates; by default those in the home folder.
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
        """The shape of one record, if it looks like an image: grey, or with three channels."""
        shape = self.records.shape
        picture = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        return shape if picture and min(shape[:2]) > 1 else None

    def for_report(self) -> dict[str, Any]:
        """Return what a report needs of the original, as keywords of :func:`sfumato.report`."""
        return {
            "original": self.records.values,
            "labels": self.labels,
            "image_shape": self.image_shape,
            "fields": self.records.fields,
        }

    def release(self, path: _Path) -> Release:
        """Return the release in the file ``path``, with the statement of the certificate beside it."""
        return read_release(path, self.schema, self._keys)


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

    ``delta`` is that of the bounds on ε; by default that of the statement, but at most 1e-5.
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
    """Audit the mechanism of the release ``path`` by its certificate; data is read only to check its bytes.

    ``path`` may also be a released folder, whose manifest has the certificate, a certificate alone, or a
    statement as JSON, such as ``sfumato plan --json`` prints.
    """
    statement, columns = _stated(Path(path), KeyRing() if keys is None else keys)
    return audit(
        statement, mechanism_only=True, columns=columns, confidence=confidence, seed=seed, report=report
    )


def command_line(name: str, *files: _Path, **options: object) -> str:
    """Return the command ``sfumato NAME FILES --OPTIONS`` as it is typed, without options that are None.

    A file is named as given if that says nothing about the machine, and by its last part otherwise.
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
    """Return the release in the file ``path``; nothing is proven of it unless its certificate holds.

    ``schema`` is that of the original table, whose identifiers are not released.
    """
    found = read_records(path, schema=None if schema is None else replace(schema, columns=schema.released))
    file = file_to_read(path)
    statement = certified_statement(file, keys)
    if schema is not None:
        # Columns were scaled on reading, so bounds in the parameters are not those of these numbers.
        plain = {name: one for name, one in statement.parameters.items() if name not in ("bounds", "clip")}
        statement = replace(statement, parameters=plain)
    return Release(found.values, statement, {"file": file.name, "rows": len(found.values)})


def read_evidence(file: Path, schema: Schema | None = None) -> Release | Audit:
    """Return the release in ``file``, or its audit if the evidence NAME.audit.json stands beside it."""
    release, beside = read_release(file, schema), file.with_name(file.name + ".audit.json")
    if not beside.exists():
        return release
    try:
        document = json.loads(beside.read_text("utf-8"))
        findings = [Finding.from_dict(item) for item in document["findings"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"{beside.name} is no evidence that sfumato audit wrote; remove it.") from None
    return Audit.of(release, findings)


def media_entry(
    released: Path,
    original: Path | None,
    count: int,
    report: Callable[[str, float | None], None] | None,
    names: Path | None = None,
) -> Entry:
    """Return what is reported of released media: its certified statement, and ``count`` images and originals.

    ``names`` is the file with the source of each released file, if they were numbered.
    """
    statement = certified_statement(released / MANIFEST if released.is_dir() else released)
    if original is None or not count:
        return Entry(released.name, statement)
    sheet = contact_sheet(original, released, count, report or silent, names)
    return Entry(released.name, statement, sheet=sheet)


def certified_statement(file: Path, keys: KeyRing | None = None) -> Statement:
    """Return what the certificate of ``file`` states; nothing is proven if there is none, or it fails."""
    if certificate_of(file) is None:
        return _nothing("no certificate stands beside the file")
    try:
        return _checked(file, keys or KeyRing()).statement
    except VerificationFailed as error:
        return _nothing(str(error))


def _checked(file: Path, keys: KeyRing) -> Certificate:
    """Return the certificate of ``file`` if it holds."""
    checked = verify(file_to_read(file), keys)
    if checked.certificate is None or not checked.holds:
        failed = next(check for check in checked.checks if check.outcome == "fails")
        raise VerificationFailed(f"its certificate does not hold: {failed.detail}")
    return checked.certificate


def _stated(file: Path, keys: KeyRing) -> tuple[Statement, int | None]:
    """Return the statement of a release, of a certificate or of a JSON document, and its columns."""
    if file.is_dir():
        file = file / MANIFEST
    beside = certificate_file(file)
    if not file.exists() and beside.exists():
        file = beside  # the certificate is all that is needed
    elif certificate_of(file) is not None:
        try:
            certificate = _checked(file, keys)
        except VerificationFailed as error:
            raise VerificationFailed(f"{file.name}: {error}.") from None
        return certificate.statement, certificate.columns
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
    """Return the name that an array has in both archives, if just one has."""
    if kind_of(original) != "array" or kind_of(released) != "array":
        return None
    common = set(array_names(original)) & set(array_names(released))
    return common.pop() if len(common) == 1 else None


def _nothing(reason: str) -> Statement:
    return Statement("unknown mechanism", {}, None, Guarantee.nothing(reason))


def contact_sheet(
    original: Path,
    released: Path,
    count: int,
    report: Callable[[str, float | None], None],
    names: Path | None = None,
) -> ContactSheet:
    """Return the first ``count`` images of two folders, or those of two files, that are in both.

    ``names`` is the file with the source of each released file, if they were numbered. Of a video the middle
    frame is shown. The map is what detectors find in the original; it is made for this sheet, whether or not
    the noise followed one.
    """
    from sfumato.media.detect import named_detectors
    from sfumato.media.images import SensitivityMap

    pairs = list(islice(_pairs(original, released, _sources(names)), count))
    if not pairs:
        raise BadInput(
            f"{released.name} holds no released picture of {original.name}, so there is nothing to show; of "
            "files that were numbered, the file of their names tells the sources."
        )
    captions, before, maps, after = [], [], [], []
    detectors = named_detectors(_DETECTORS)  # once, since they load models when they are first used
    for number, (name, old, new) in enumerate(pairs):
        first, second = _looked_at(old), _looked_at(new)
        if first.shape != second.shape:
            raise BadInput(f"{name} is not a release of the picture of the same name: their sizes differ.")
        found = SensitivityMap.from_picture(first, detectors, tile=_TILE, alone=False)
        captions.append(f"{name}, {first.shape[1]} × {first.shape[0]} pixels")
        before.append(_shrunk(first))
        maps.append(_shrunk(found.picture(first.shape)))
        after.append(_shrunk(second))
        report("comparing images", (number + 1) / len(pairs))
    return ContactSheet(tuple(captions), tuple(before), tuple(maps), tuple(after))


def _sources(names: Path | None) -> dict[str, str]:
    """Return the source of each released file, as ``protect`` writes it for the owner."""
    if names is None:
        return {}
    try:
        read = json.loads(file_to_read(names).read_text("utf-8"))
        return {str(name): str(source) for name, source in read.items()}
    except (ValueError, AttributeError, RecursionError):
        raise BadInput(f"{names.name} does not say which released file is of which source.") from None


def _pairs(original: Path, released: Path, sources: Mapping[str, str]) -> Iterator[tuple[str, Path, Path]]:
    if not released.is_dir():
        if kind_of(released) in ("picture", "video"):
            yield released.name, original / released.name if original.is_dir() else original, released
        return
    for name in LocalStore(released).names():
        if Path(name).name == MANIFEST or name.endswith(".cert.json"):
            continue
        source = sources.get(name, name)
        if not (original / source).is_file():
            source = source.rpartition(".")[0]  # a release in another format has both suffixes
        if source and kind_of(name) in ("picture", "video") and (original / source).is_file():
            yield source, original / source, released / name


def _looked_at(path: Path) -> NDArray[np.uint8]:
    """Return the image, or the middle frame, at ``path`` as bytes (h, w, 3)."""
    if kind_of(path) == "video":
        source = open_video(path)
        return next(islice(source.pictures(), source.frames // 2, None)).pixels
    values = read_picture(path).values
    return on_white(values >> 8 if values.dtype == np.uint16 else values)


def on_white(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an image with ``levels`` from 0 to 255 as bytes (h, w, 3); what is transparent becomes white."""
    values = (levels[:, :, None] if levels.ndim == 2 else levels).astype(np.float32)
    if values.shape[2] in (2, 4):
        alpha = values[:, :, -1:] / 255.0
        values = values[:, :, :-1] * alpha + 255.0 * (1.0 - alpha)
    shown = values if values.shape[2] == 3 else np.repeat(values[:, :, :1], 3, axis=2)
    return np.rint(shown).astype(np.uint8)


def _shrunk(view: NDArray[Any]) -> NDArray[np.uint8]:
    cv2 = open_cv()
    scale = min(1.0, _SIDE / max(view.shape[:2]))
    size = max(1, round(view.shape[1] * scale)), max(1, round(view.shape[0] * scale))
    return np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
