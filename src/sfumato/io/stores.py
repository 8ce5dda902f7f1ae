"""Stores that releases are read from and written to: a folder, or a prefix of an object store.

Libraries read from paths only, so objects are copied to a private folder of this machine on their way.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Self

from sfumato.errors import BadInput
from sfumato.io import atomic
from sfumato.io.atomic import writing
from sfumato.io.object_store import SCHEME, Remote, RemoteObject, scheme_of
from sfumato.io.temporary_folder import gone_afterwards

__all__ = ["LocalStore", "RemoteStore", "Store", "is_remote", "named"]

# What tells the format: the last suffix, and the one before it where the last says only how it is packed.
_SUFFIX = re.compile(r"((?:\.[A-Za-z0-9]{1,12}(?=\.(?:gz|bz2|xz|zst)$))?\.[A-Za-z0-9]{1,12})$", re.IGNORECASE)


def is_remote(text: str) -> bool:
    """Return whether ``text`` is a URL such as ``s3://bucket/folder``; a path or a Windows drive is not."""
    return SCHEME.match(text) is not None


class Staging:
    """The folder that all processes of this user on this machine get for ``token``, made by the first.

    Only its owner may enter it; one of that name that others may enter, or own, is refused. It stands below
    ``root`` or the system's temporary folder. File names are random or digests: nothing of an object's name
    but its suffix, which says the format.
    """

    def __init__(self, token: str, root: Path | None = None) -> None:
        digest = hashlib.sha256(f"{os.getuid()}\0{token}".encode()).hexdigest()[:32]
        self.path = Path(root or tempfile.gettempdir()) / f"sfumato-{digest}"
        with writing(self.path):
            try:
                self.path.mkdir(mode=0o700)
            except FileExistsError:
                found = self.path.lstat()
                private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
                if not private or found.st_uid != os.getuid():
                    raise BadInput(
                        f"the staging folder {self.path.name} exists and is open to others; remove it, or "
                        "set TMPDIR to a folder of your own."
                    ) from None

    @contextmanager
    def fetched(self, remote: Remote | RemoteObject) -> Iterator[Path]:
        """A local copy of the object, with its suffix, for the length of the block."""
        path = self.path / f"{secrets.token_hex(16)}{_suffix(remote.name)}"
        try:
            remote.fetch(path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def shared(self, remote: Remote | RemoteObject) -> Path:
        """A local copy that is fetched once, whichever process asks first, and stays."""
        version = remote.version if isinstance(remote, RemoteObject) else ""
        digest = hashlib.sha256(f"{remote.url}\0{version}".encode()).hexdigest()[:32]
        path = self.path / f"{digest}{_suffix(remote.name)}"
        with self._locked(digest):
            if not path.exists():
                # A killed process may leave it: the next one overwrites it.
                partial = self.path / f".{digest}.part"
                remote.fetch(partial)
                with writing(path):
                    os.replace(partial, path)
        return path

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        lock = self.path / f".{name}.lock"
        with writing(lock):
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # The system lets go of it when the process ends, however it ends.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _suffix(name: str) -> str:
    found = _SUFFIX.search(name.rpartition("/")[2])
    return found[1] if found else ""


# Schemes that are other words for one storage.
_SAME = {"s3a": "s3", "gcs": "gs", "local": "file"}


class Store(ABC):
    """Files by their names, which are relative, with slashes between folders.

    ``shown`` is the place for people. Pickles small, for work elsewhere on the same files. Used by ``with``,
    at whose end nothing is left of what lay on this machine on the way.
    """

    shown: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.tidy()

    def tidy(self) -> None:  # noqa: B027 (most stores leave nothing behind)
        """Remove what lies on this machine on the way."""

    @abstractmethod
    def place(self, name: str = "") -> PurePosixPath:
        """Where file ``name``, or the store itself, stands: the same for each of the ways to write it."""

    @abstractmethod
    def held(self) -> list[str]:
        """The names of all files but hidden ones, in order; none where there is no such place."""

    @abstractmethod
    def names(self) -> list[str]:
        """Those that are ``held``, to be read; a place without files is refused."""

    def version(self, name: str) -> str | None:
        """What tells file ``name``, as it is or was listed, from a later one; None where nothing does."""
        return None

    @abstractmethod
    def size(self, name: str) -> int | None:
        """How many bytes the listed file ``name`` has; None where it cannot be looked at."""

    @abstractmethod
    def reading(self, name: str, version: str | None = None) -> AbstractContextManager[Path]:
        """A path where file ``name`` can be read while the block lasts; refused if not of ``version``."""

    @abstractmethod
    def shared(self, name: str, version: str | None = None) -> Path:
        """A path where file ``name`` can be read until the end, by all who work on its parts."""

    @abstractmethod
    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A path where file ``name`` is to be written, with what accompanies it beside it.

        When the block ends well the file stands in the store, and what accompanies it stood there before.
        """

    def settle(self) -> None:  # noqa: B027 (an object that was put stays)
        """Return when all files would survive a power cut; those that were written unsettled may not.

        To be called when nobody writes any more: what killed processes left half-written is removed.
        """

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Return whether file ``name`` is there, whatever its size."""

    @abstractmethod
    def read(self, name: str, limit: int) -> bytes | None:
        """The content of file ``name``, of at most ``limit`` bytes; None where there is no such file."""


class LocalStore(Store):
    """The files under ``folder``, each of which is written atomically by whoever writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shown = folder, str(folder)

    def __getstate__(self) -> dict[str, Any]:
        # Whoever works elsewhere stands in another folder.
        return self.__dict__ | {"folder": self.folder.absolute()}

    def place(self, name: str = "") -> PurePosixPath:
        """The path without links."""
        return _on_disk(self.folder / name)

    def held(self) -> list[str]:
        """The names of all files but hidden ones, those of a folder before those of folders in it."""
        found: list[str] = []
        if not self.folder.exists():
            return found
        for place, folders, names in os.walk(self.folder, onerror=_refuse_shut):
            # A link to a folder is none of its own: it is named, like a link to a file, and not followed.
            links = {name for name in folders if os.path.islink(os.path.join(place, name))}
            folders[:] = sorted(name for name in folders if name[0] != "." and name not in links)
            inside = Path(place).relative_to(self.folder)
            found += [(inside / name).as_posix() for name in sorted([*names, *links]) if name[0] != "."]
        return found

    def names(self) -> list[str]:
        """Those that are ``held``; an empty folder is refused."""
        if found := self.held():
            return found
        raise BadInput(f"the folder {self.folder.name or self.folder} holds no files.")

    def size(self, name: str) -> int | None:
        """What the file system says."""
        try:
            return (self.folder / name).stat(follow_symlinks=False).st_size
        except OSError:
            return None

    @contextmanager
    def reading(self, name: str, version: str | None = None) -> Iterator[Path]:
        """The file itself."""
        yield self.shared(name)

    def shared(self, name: str, version: str | None = None) -> Path:
        """The file itself."""
        return self.folder / name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """The place itself, in a folder that is made where there is none."""
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield path

    def settle(self) -> None:
        """Remove hidden files of killed processes, and wait for the disk."""
        atomic.sweep(self.folder)
        atomic.settle(self.folder)

    def holds(self, name: str) -> bool:
        """Return whether the file is there."""
        return (self.folder / name).exists()

    def read(self, name: str, limit: int) -> bytes | None:
        """The content of file ``name``; None where there is no such file."""
        try:
            with (self.folder / name).open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None


class RemoteStore(Store):
    """The objects below a URL; each lies in a private folder of this machine while it is worked on.

    That is gone after ``with`` on the machine of whoever used it, also where that process is killed.
    """

    def __init__(self, url: str) -> None:
        self.shown = url
        self._prefix = Remote(url)
        self._token = secrets.token_hex(8)
        self._listed: dict[str, RemoteObject] = {}
        self._guard = ExitStack()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_listed", "_guard")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"_listed": {}, "_guard": ExitStack()}

    def __enter__(self) -> Self:
        self._guard.enter_context(gone_afterwards(self._staging().path))
        return self

    def tidy(self) -> None:
        """Remove what lay here on the way."""
        self._guard.close()

    def place(self, name: str = "") -> PurePosixPath:
        """The URL, or the path without links where it names this machine's own disk."""
        url = self._prefix.url
        scheme, path = scheme_of(url), PurePosixPath(url.partition("://")[2], name)
        kind = _SAME.get(scheme, scheme)
        return _on_disk(Path(path)) if kind == "file" else PurePosixPath(kind, *path.parts)

    def held(self) -> list[str]:
        """The names of all objects but hidden ones."""
        return [one.name for one in self._prefix.objects()]

    def names(self) -> list[str]:
        """Those that are ``held``, whose versions are kept; a prefix without objects is refused."""
        self._listed = {one.name: one for one in self._prefix.objects()}
        if not self._listed:
            raise BadInput(f"{self.shown} holds no objects.")
        return list(self._listed)

    def version(self, name: str) -> str | None:
        """The storage's own mark of the object as it was listed, or as it is now where nobody listed it."""
        return self._listed[name].version if name in self._listed else self._object(name, None).version

    def size(self, name: str) -> int | None:
        """What the storage said when the objects were listed."""
        return self._listed[name].size if name in self._listed else self._object(name, None).size

    @contextmanager
    def reading(self, name: str, version: str | None = None) -> Iterator[Path]:
        """A copy that goes away with the block; a refusal of it names the object."""
        with self._staging().fetched(self._object(name, version)) as path, named(path, name):
            yield path

    def shared(self, name: str, version: str | None = None) -> Path:
        """One copy for all on this machine, until the end."""
        return self._staging().shared(self._object(name, version))

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A place on this machine; the object is put into the store last, what accompanies it before."""
        folder = Path(tempfile.mkdtemp(dir=self._staging().path))
        try:
            path = folder / Path(name).name
            yield path
            inside = name.rpartition("/")[0]
            beside = sorted(file.name for file in folder.iterdir() if file != path)
            for each in (*beside, path.name):
                self._prefix.child(f"{inside}/{each}" if inside else each).put(folder / each)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def holds(self, name: str) -> bool:
        """Return whether the object is there."""
        return self._prefix.child(name).is_object()

    def read(self, name: str, limit: int) -> bytes | None:
        """The content of object ``name``; None where there is no such object."""
        child = self._prefix.child(name)
        return child.read(limit) if child.is_object() else None

    def _object(self, name: str, version: str | None) -> RemoteObject:
        found = self._prefix.child(name).found()
        if version is not None and found.version != version:
            raise BadInput(f"{name} has changed since the objects were listed; run it again.")
        return found

    def _staging(self) -> Staging:
        return Staging(self._token)


@contextmanager
def named(path: Path, name: str) -> Iterator[None]:
    """Let refusals of the file at ``path``, which may be a copy, speak of file ``name`` of a store."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(path.name, Path(name).name), parameter=error.parameter) from None


def _on_disk(path: Path) -> PurePosixPath:
    return PurePosixPath("file", *path.resolve().parts[1:])


def _refuse_shut(error: OSError) -> None:
    raise BadInput(f"the folder {Path(error.filename).name} cannot be read: {error.strerror}.")
