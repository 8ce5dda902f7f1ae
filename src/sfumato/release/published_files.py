"""What a publication left behind, and how it is written: an archive, or a folder with a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audits.findings import Finding
from sfumato.io.atomic import write_whole
from sfumato.io.class_folders import write_class_folders
from sfumato.io.image_datasets import ArrayPair, DatasetSource, is_archive, stored_values, write_archive
from sfumato.privacy import Statement
from sfumato.release.manifest import MANIFEST, manifest_of
from sfumato.release.protected_file import Protected, Report

__all__ = ["Published", "certified_file", "names_note", "names_of", "owned_names", "write_published"]

# What a statement says of the names of classes.
_NAMED = "the classes have the names of their folders, which the owner declares public"
_NUMBERED = "the classes are numbered in the alphabetical order of their folders; no name of a class travels"

#: Makes the certificate of the bytes in a file.
Certify = Callable[[Path], bytes]


@dataclass(frozen=True)
class Published:
    """What ``publish`` wrote, and what its audit found.

    ``certified`` is the file that carries the certificate: the archive, or the manifest of a folder.
    ``statement`` has the measured column, which the certificate leaves out wherever something is proven: it
    is computed from the records and not covered by what is proven. ``page`` is the report, if one was asked
    for; it shows originals. ``folders`` says which class is of which folder, for the owner alone.
    """

    output: Path
    certified: Protected
    statement: Statement
    findings: tuple[Finding, ...]
    class_names: tuple[str, ...]
    page: Path | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for machines."""
        return self.certified.to_dict() | {
            "output": str(self.output),
            "certified": str(self.certified.output),
            "classes": list(self.class_names),
            "class_folders": dict(self.folders),
            "statement": self.statement.to_dict(),
            "findings": [item.to_dict() for item in self.findings],
            "report": None if self.page is None else str(self.page),
        }


def certified_file(output: Path) -> Path:
    """The file of ``output`` that has a certificate beside it."""
    return output if is_archive(output) else output / MANIFEST


def names_of(source: DatasetSource, classes: int) -> tuple[str, ...]:
    """What the classes are called where others read it: as in :class:`ClassFolders`, or by their labels."""
    if source.class_names is not None:
        return source.class_names
    width = len(str(classes - 1))
    return tuple(f"{label:0{width}d}" for label in range(classes))


def names_note(source: DatasetSource) -> tuple[str, ...]:
    """What a statement says of the names of class folders; nothing of an archive, which has none."""
    if isinstance(source, ArrayPair):
        return ()
    return (_NAMED if source.public_names else _NUMBERED,)


def owned_names(source: DatasetSource) -> dict[str, str]:
    """Which class is of which folder, for the owner alone; nothing of an archive."""
    return {} if isinstance(source, ArrayPair) else dict(zip(source.class_names, source.folders, strict=True))


def write_published(
    done: Protected,
    output: Path,
    source: DatasetSource,
    pictures: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    top: float,
    class_names: Sequence[str],
    certify: Certify,
    report: Report,
) -> None:
    """Let ``pictures``, with values from 0 to ``top``, appear at ``output`` with their certificate."""
    if is_archive(output):
        values = stored_values(pictures, top, source.dtype, as_files=False)
        names = ("images", "labels")
        if isinstance(source, ArrayPair):
            names = (source.pictures.name or names[0], source.labels.name or names[1])
        arrays = dict(zip(names, (values, labels), strict=True))
        write_archive(output, arrays, first=(done.certificate_file, certify))
        return

    def finish(folder: Path, files: Sequence[Path]) -> None:
        inside = replace(done, output=folder / MANIFEST)
        write_whole(inside.output, manifest_of(folder, files), first=(inside.certificate_file, certify))

    values = stored_values(pictures, top, source.dtype, as_files=True)
    write_class_folders(output, values, labels, class_names, finish=finish, report=report)
