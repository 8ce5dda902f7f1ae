"""The manifest of a released folder: the names and digests of its files, written last and certified.

Its certificate is the only one of the folder. So the manifest also has the statement of each file, once for
all files with the same one: a file and the manifest are enough to know what is guaranteed of the file.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BadInput
from sfumato.io import LocalStore, RemoteStore, Store
from sfumato.privacy import Statement
from sfumato.release.request import located
from sfumato.reports import (
    MANIFEST,
    Check,
    KeyRing,
    Verification,
    certificate_file,
    file_digest,
    verify,
)

if TYPE_CHECKING:
    from sfumato.ledger import Ledger

# Largest manifest that is read; a million files have one of less than 200 MB.
_MANIFEST_BYTES = 1 << 30


def manifest_of(folder: Path, files: Sequence[Path]) -> bytes:
    """Return the bytes of the manifest of ``files``, which are below ``folder``."""
    return manifest_bytes({file.relative_to(folder).as_posix(): file_digest(file) for file in files})


@dataclass(frozen=True)
class Stated:
    """What is stated of a file of a folder; files with the same statement share it."""

    statement: Statement
    rows: int
    columns: int
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, as in a certificate."""
        facts = {"rows": self.rows, "columns": self.columns, "left_out": list(self.left_out)}
        return {"statement": self.statement.to_dict(), **facts}


def manifest_bytes(
    digests: Mapping[str, str],
    run: str | None = None,
    skipped: int = 0,
    stated: Mapping[Stated, Sequence[str]] | None = None,
) -> bytes:
    """Return the bytes of the manifest of files with these SHA-256 ``digests``, which ``run`` has released.

    ``skipped`` is how many files of the source could not be released; which ones, and why, is for its owner.
    ``stated`` has the files of each statement; their names are left out if it is that of all files.
    """
    document: dict[str, Any] = {} if run is None else {"run": run}
    document |= {"skipped": skipped} if skipped else {}
    releases = [
        one.to_dict() | ({} if len(files) == len(digests) else {"files": list(files)})
        for one, files in (stated or {}).items()
    ]
    document |= {"releases": releases} if releases else {}
    return (json.dumps(document | {"files": dict(digests)}, indent=2) + "\n").encode()


@dataclass(frozen=True)
class Listed:
    """A file that a manifest, or the log of a run, lists."""

    sha256: str
    rows: int
    columns: int
    left_out: tuple[str, ...] = ()


def refuse_other_run(output: Store, run: str) -> dict[str, Listed]:
    """Return the files that ``run`` has listed in a manifest in ``output`` before.

    Refuses the manifest of another run, or one that cannot be read: files of two runs in one place would be a
    release that neither manifest describes.
    """
    held = output.read(MANIFEST, _MANIFEST_BYTES)
    if held is None:
        return {}
    try:
        read = json.loads(held)
        facts = {name: one for one in read["releases"] for name in one.get("files", read["files"])}
        listed = {
            name: Listed(digest, facts[name]["rows"], facts[name]["columns"], tuple(facts[name]["left_out"]))
            for name, digest in read["files"].items()
        }
        if read["run"] == run:
            return listed
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise BadInput(
        f"{output.shown} holds the {MANIFEST} of another run, whose files would be mixed with those of "
        "this one; choose another output, or remove that release first."
    )


def unlisted(held: Iterable[str], listed: Collection[str], *, certified: bool = True) -> list[str]:
    """Return the files ``held`` that are not ``listed``, nor the manifest and its certificate.

    If files are ``certified`` one by one, as before manifests had statements, their certificates belong to
    them.
    """
    known = {MANIFEST, *listed}
    known |= {certificate_file(Path(name)).as_posix() for name in (known if certified else {MANIFEST})}
    return [name for name in held if name not in known]


def some(names: Sequence[str]) -> str:
    """Return five of ``names`` and how many more there are, for people."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest in ``folder``; refuse what is none."""
    try:
        read = json.loads((folder / MANIFEST).read_text("utf-8"))
        if isinstance(read["files"], dict) and isinstance(read.get("skipped", 0), int):
            return dict(read)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadInput(f"{MANIFEST} in {folder.name or folder} is no manifest of released files.")


def verify_folder(folder: Path, keys: KeyRing, ledger: Ledger | None = None) -> Verification:
    """Check the manifest in ``folder`` against its certificate, and every file against the manifest.

    A file that it does not list fails the folder, whatever certificate it has of its own: a reader would take
    it for part of the release. Hidden files are ignored.
    """
    found, manifest = verify(folder / MANIFEST, keys, ledger), read_manifest(folder)
    listed, skipped = manifest["files"], manifest.get("skipped", 0)
    altered = [
        name
        for name, digest in listed.items()
        if not (folder / name).is_file() or file_digest(folder / name) != digest
    ]
    if altered:
        check = Check("file", "fails", f"missing or altered since they were certified: {some(altered)}")
    else:
        check = Check("file", "holds", f"so are those of the {len(listed)} files that it lists")
    if foreign := unlisted(LocalStore(folder).held(), listed, certified="releases" not in manifest):
        others = Check("folder", "fails", f"not part of this release, the manifest lists no {some(foreign)}")
    else:
        left = f"; {skipped:,} of the source's could not be released and are not here" if skipped else ""
        others = Check("folder", "holds", f"nothing else stands in the folder{left}")
    return replace(found, checks=(*found.checks, check, others))


@contextmanager
def local_copy(place: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield ``place`` as a local path: the path itself, or a copy of what is in an object store.

    A file is copied with its certificate, or with the manifest that lists it and its certificate; a prefix
    with all of its files.
    """
    found = located(place)
    if found.local is not None:
        yield found.local
        return
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, found.store as store:
        copy = Path(folder, found.word)
        if found.name is None:
            for name in store.names():
                _copy(store, name, copy / name)
            yield copy
            return
        beside = certificate_file(Path(found.name)).name
        if store.read(beside, _MANIFEST_BYTES) is not None:
            _copy(store, beside, copy.with_name(beside))
        else:
            copy = _with_manifest(store.shown, found.name, Path(folder)) or copy
        _copy(store, found.name, copy)
        yield copy


def _copy(store: Store, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with store.reading(name) as path:
        shutil.move(path, target)


def _with_manifest(url: str, name: str, folder: Path) -> Path | None:
    """Copy the manifest beside or above the object ``name`` below ``url``; return where the object goes."""
    while "://" in url.rpartition("/")[0]:
        with RemoteStore(url) as store:
            if store.read(MANIFEST, _MANIFEST_BYTES) is not None:
                for each in (MANIFEST, certificate_file(Path(MANIFEST)).name):
                    _copy(store, each, folder / each)
                return folder / name
        url, _, last = url.rpartition("/")
        name = f"{last}/{name}"
    return None
