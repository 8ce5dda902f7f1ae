"""Sources and outputs of releases, as people write them: files, folders, objects and prefixes.

A run holds a lock of the operating system (``flock``) on a hidden file beside its output from before it pays
until its output stands. A second run is refused at once, before it pays. The lock ends with the process that
holds it, however that ends, so that a file which a killed process left behind keeps nobody out.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from sfumato.errors import BadInput
from sfumato.io import (
    MEDIA,
    Kind,
    LocalStore,
    RemoteStore,
    Store,
    is_archive,
    is_remote,
    kind_of,
    writing,
)
from sfumato.reports import MANIFEST, certificate_file

__all__ = ["check_output", "located"]

_Run = TypeVar("_Run", bound=Callable[..., Any])


def check_output(output: Path, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse an ``output`` that cannot be written, or would overwrite one of ``inputs``."""
    folder = output.parent
    if not folder.is_dir():
        fault = "is not a folder" if folder.exists() else "does not exist"
        raise BadInput(f"{output.name} cannot be written: the folder {folder} {fault}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{output.name} cannot be written: you may not write into the folder {folder}.")
    for place in (output, certificate_file(output)):
        for given in inputs:
            if place.exists() and os.path.exists(given) and os.path.samefile(given, place):
                raise BadInput(f"{place.name} would overwrite the input {given}; choose another output.")
        if place.exists() and not place.is_file():
            raise BadInput(f"{place.name} exists and is not a regular file, so nothing can take its place.")


def refuse_existing(shown: str) -> None:
    """Refuse an output that is there already."""
    raise BadInput(f"{shown} exists already; choose another output, or replace it with `overwrite=True`.")


@contextmanager
def claimed(output: Path, *, parents: bool = False, wait: bool = False) -> Iterator[None]:
    """Keep every other run out of ``output``, a file or a folder, until the block ends.

    ``parents`` makes folders that are missing above it, which are removed again if they stay empty. Without a
    folder around it nothing is locked: writing is refused later. With ``wait``, a run waits until another one
    has ended instead of being refused; this is for requests, which are paid once and give the same bytes.
    """
    target = Path(os.path.realpath(output))
    made = [folder for folder in target.parents if parents and not folder.exists()]
    if parents:
        with writing(output):
            target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.is_dir():
        yield
        return
    lock = target.with_name(f".sfumato-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}.lock")
    descriptor = _locked(lock, output, wait)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()  # refused where anything stands in it


def one_run_at_a_time(run: _Run) -> _Run:
    """Lock the output, the second argument, while ``run`` runs."""

    @functools.wraps(run)
    def alone(subject: Any, output: str | os.PathLike[str], *rest: Any, **words: Any) -> Any:
        with claimed(Path(output)):
            return run(subject, output, *rest, **words)

    return cast(_Run, alone)


def _locked(lock: Path, output: Path, wait: bool) -> int:
    """Return a descriptor of the file ``lock``, locked; refuse if another run has it."""
    while True:
        with writing(output):
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(
                f"another run is writing {output.name} at this moment; wait until it has ended, or choose "
                "another output."
            ) from None
        except OSError:
            return descriptor  # a file system without locks
        # Whoever had it before may have removed the file between our opening and locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)


@dataclass(frozen=True)
class Located:
    """The file ``name`` of ``store``, or all of its files if that is None; ``shown`` is as it was given."""

    store: Store
    name: str | None
    shown: str

    @property
    def word(self) -> str:
        """Its last name, for sentences."""
        return self.shown.rstrip("/").rsplit("/", 1)[-1] or self.shown

    @property
    def kind(self) -> Kind | None:
        """The kind of one file, by its name; None for a folder."""
        return None if self.name is None else kind_of(self.name)

    @property
    def of_media(self) -> bool:
        """Whether it is one file of media."""
        return self.kind in MEDIA

    @property
    def local(self) -> Path | None:
        """The path of a local file or folder; None in an object store."""
        if not isinstance(self.store, LocalStore):
            return None
        return self.store.folder if self.name is None else self.store.folder / self.name


def located(place: str | os.PathLike[str], *, folder: bool | None = None) -> Located:
    """Return the file or folder that ``place`` names, a path or a URL.

    A path is a folder if it is one; a URL, whose store may know no folders, if its name has no suffix of a
    file that can be released. ``folder`` says so for what does not exist yet; otherwise a path that does not
    exist is refused, unless it is named like a file, which its reader will refuse.
    """
    if not isinstance(place, str | os.PathLike):
        raise BadInput(
            f"`source` and `output` name files, not {type(place).__name__}; data in memory is released by a "
            "mechanism, as in `sf.Gaussian(epsilon=1.0, clip=1.0).release(X)`.",
            parameter="source",
        )
    text = os.fspath(place)
    if is_remote(text):
        whole = _is_prefix(text) if folder is None else folder
        base, _, name = text.rstrip("/").rpartition("/")
        return Located(RemoteStore(text), None, text) if whole else Located(RemoteStore(base), name, text)
    path = Path(text)
    if folder is None and _is_prefix(text) and not path.exists():
        raise BadInput(f"{path.name or path} does not exist.")
    whole = path.is_dir() if folder is None else folder
    if whole:
        return Located(LocalStore(path), None, text)
    return Located(LocalStore(path.parent), path.name, text)


# Largest certificate or manifest in bytes; a million files have a manifest of 200 MB.
_MOST_READ = 1 << 30


@contextmanager
def at_hand(place: str | os.PathLike[str]) -> Iterator[Path]:
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
        if store.read(beside, _MOST_READ) is not None:
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
            if store.read(MANIFEST, _MOST_READ) is not None:
                for each in (MANIFEST, certificate_file(Path(MANIFEST)).name):
                    _copy(store, each, folder / each)
                return folder / name
        url, _, last = url.rpartition("/")
        name = f"{last}/{name}"
    return None


def _is_prefix(text: str) -> bool:
    if not text.endswith("/"):
        with suppress(BadInput):
            kind_of(text)
            return False
    return True


#: The mode of files that show or describe private records.
PRIVATE = 0o600


def check_places(
    source: Path, output: Path, page: Path | None, checkpoint: Path | None, *, begun: bool = False
) -> None:
    """Refuse places that cannot be written, or of which one would be inside another.

    The report and the checkpoint are private: neither may be inside the output. The folder of a run that was
    ``begun`` before may exist.
    """
    check_apart(source, output)
    if is_archive(output):
        check_output(output, [source])
    elif not begun:
        check_new_folder(output)
    inside, given = output.resolve(), source.resolve()
    if page is not None:
        check_page(source, output, page)
    if checkpoint is not None:
        if checkpoint.is_dir():
            raise BadInput(f"`checkpoint` {checkpoint} is a folder: name a file.", parameter="checkpoint")
        for private in (checkpoint, coins_file(checkpoint)):
            _private("checkpoint", private, inside, given)
            if page is not None and page.resolve() == private.resolve():
                raise BadInput(
                    f"`report` {page} and `checkpoint` {checkpoint} would be one file; name two.",
                    parameter="report",
                )


def coins_file(checkpoint: Path) -> Path:
    """Return the file beside ``checkpoint`` that keeps which records are left out of a fit."""
    return checkpoint.with_name(checkpoint.name + ".coins")


def check_apart(source: Path, output: Path) -> None:
    """Refuse an output that is the input, or of which one would be inside the other."""
    inside, given = output.resolve(), source.resolve()
    if inside == given or inside.is_relative_to(given) or given.is_relative_to(inside):
        raise BadInput(f"the output {output} and {source} lie in one another; choose another output.")


def check_new_folder(output: Path) -> None:
    """Refuse a folder that exists and is not empty, or cannot be written."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        fault = "holds files already" if output.is_dir() else "exists and is not a folder"
        raise BadInput(f"{output} {fault}; choose another output, or remove it first.")
    check_output(output.with_name(output.name + ".folder"), [])


def check_page(source: Path, output: Path, page: Path) -> None:
    """Refuse a report that is no HTML file, or would be inside the input or the output."""
    if page.suffix != ".html":
        raise BadInput(f"`report` {page.name} must name an .html file.", parameter="report")
    _private("report", page, output.resolve(), source.resolve())


def _private(parameter: str, path: Path, output: Path, source: Path) -> None:
    place = path.resolve()
    if place in (output, certificate_file(output)) or place.is_relative_to(output):
        raise BadInput(
            f"`{parameter}` {path} is private, and would be published with {output.name}.",
            parameter=parameter,
        )
    if place == source or place.is_relative_to(source):
        raise BadInput(
            f"`{parameter}` {path} would be inside the input {source.name}; choose another place.",
            parameter=parameter,
        )
    check_output(path, [])
