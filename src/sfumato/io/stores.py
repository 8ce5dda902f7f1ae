"""Stores that releases are read from and written to: a folder, or a prefix of an object store.

A store holds files by their names, which are relative, with slashes between folders. It pickles small, so
that processes elsewhere can work on the same files. Libraries read from paths only, so objects are copied to
a private folder of this machine on their way.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Self

from sfumato.errors import BadInput
from sfumato.io import atomic
from sfumato.io.atomic import writing
from sfumato.io.object_store import SCHEME, Remote, RemoteObject
from sfumato.io.temporary_folder import gone_afterwards

__all__ = ["LocalStore", "RemoteStore", "Store", "is_remote", "named"]

# What tells the format: the last suffix, and the one before it where the last says only how it is packed.
_SUFFIX = re.compile(r"((?:\.[A-Za-z0-9]{1,12}(?=\.(?:gz|bz2|xz|zst)$))?\.[A-Za-z0-9]{1,12})$", re.IGNORECASE)
# Schemes that are other words for one storage.
_SAME = {"s3a": "s3", "gcs": "gs", "local": "file"}


def is_remote(text: str) -> bool:
    """Return whether ``text`` is a URL such as ``s3://bucket/folder``; a path or a Windows drive is not."""
    return SCHEME.match(text) is not None


class LocalStore:
    """The files under ``folder``; ``shown`` is its name for people."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shown = folder, str(folder)

    def __getstate__(self) -> dict[str, Any]:
        # A process elsewhere has another working directory.
        return self.__dict__ | {"folder": self.folder.absolute()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def place(self, name: str = "") -> PurePosixPath:
        """Return where file ``name``, or the store itself, stands: the same however it is written."""
        return _on_disk(self.folder / name)

    def held(self) -> list[str]:
        """Return the names of all files but hidden ones, those of a folder before those of folders in it.

        There are none where the folder does not exist.
        """
        found: list[str] = []
        if not self.folder.exists():
            return found
        for place, folders, names in os.walk(self.folder, onerror=_refuse_closed):
            # A link to a folder is named, like a link to a file, and not followed.
            links = {name for name in folders if os.path.islink(os.path.join(place, name))}
            folders[:] = sorted(name for name in folders if name[0] != "." and name not in links)
            inside = Path(place).relative_to(self.folder)
            found += [(inside / name).as_posix() for name in sorted([*names, *links]) if name[0] != "."]
        return found

    def names(self) -> list[str]:
        """Return the names that are :meth:`held`; an empty folder is refused."""
        if found := self.held():
            return found
        raise BadInput(f"the folder {self.folder.name or self.folder} holds no files.")

    def version(self, name: str) -> str | None:
        """Return None: nothing tells a file from a later one of that name."""
        return None

    def size(self, name: str) -> int | None:
        """Return how many bytes the listed file ``name`` has; None if it cannot be looked at."""
        try:
            return (self.folder / name).stat(follow_symlinks=False).st_size
        except OSError:
            return None

    @contextmanager
    def reading(self, name: str, version: str | None = None) -> Iterator[Path]:
        """Yield a path where file ``name`` can be read while the block lasts."""
        yield self.shared(name)

    def shared(self, name: str, version: str | None = None) -> Path:
        """Return a path where file ``name`` can be read until the end, by all who work on its parts."""
        return self.folder / name

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path where file ``name`` is to be written whole, with what accompanies it beside it."""
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield path

    def settle(self) -> None:
        """Remove hidden files of killed processes, and return when all files would survive a power cut.

        To be called when nobody writes any more.
        """
        atomic.sweep(self.folder)
        atomic.settle(self.folder)

    def holds(self, name: str) -> bool:
        """Return whether file ``name`` is there, whatever its size."""
        return (self.folder / name).exists()

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of file ``name``, at most ``limit`` bytes; None if there is no such file."""
        try:
            with (self.folder / name).open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None


class RemoteStore:
    """The objects below a URL, ``shown``; each lies in a private folder of this machine while in use.

    That folder is one for all processes of this user that work on the same store. It is gone after ``with``,
    also if the process is killed. Names in it are random or digests and keep only the suffix of an object.
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
        self._guard.enter_context(gone_afterwards(self._staging()))
        return self

    def __exit__(self, *error: object) -> None:
        self._guard.close()

    def place(self, name: str = "") -> PurePosixPath:
        """Return the URL, or the path without links if it is one of this machine's own disk."""
        scheme, path = self._prefix.scheme, PurePosixPath(self._prefix.url.partition("://")[2], name)
        kind = _SAME.get(scheme, scheme)
        return _on_disk(Path(path)) if kind == "file" else PurePosixPath(kind, *path.parts)

    def held(self) -> list[str]:
        """Return the names of all objects but hidden ones."""
        return [one.name for one in self._prefix.objects()]

    def names(self) -> list[str]:
        """Return the names that are :meth:`held`, and keep their versions; an empty prefix is refused."""
        self._listed = {one.name: one for one in self._prefix.objects()}
        if not self._listed:
            raise BadInput(f"{self.shown} holds no objects.")
        return list(self._listed)

    def version(self, name: str) -> str | None:
        """Return the storage's own mark of the object as it was listed, or as it is now if it was not."""
        return (self._listed.get(name) or self._object(name)).version

    def size(self, name: str) -> int | None:
        """Return the size of the object as it was listed, or as it is now if it was not."""
        return (self._listed.get(name) or self._object(name)).size

    @contextmanager
    def reading(self, name: str, version: str | None = None) -> Iterator[Path]:
        """Yield a copy that goes away with the block; an object of another ``version`` is refused.

        Refusals of the copy name the object.
        """
        path = self._staging() / f"{secrets.token_hex(16)}{_suffix(name)}"
        try:
            self._object(name, version).fetch(path)
            with named(path, name):
                yield path
        finally:
            path.unlink(missing_ok=True)

    def shared(self, name: str, version: str | None = None) -> Path:
        """Return the one copy for all on this machine, which the first process that asks fetches."""
        one, folder = self._object(name, version), self._staging()
        digest = hashlib.sha256(f"{one.remote.url}\0{one.version}".encode()).hexdigest()[:32]
        path = folder / f"{digest}{_suffix(name)}"
        with _locked(folder / f".{digest}.lock"):
            if not path.exists():
                # A killed process may leave it: the next one overwrites it.
                partial = folder / f".{digest}.part"
                one.fetch(partial)
                with writing(path):
                    os.replace(partial, path)
        return path

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a path on this machine; what stands beside it is uploaded first, then the file itself."""
        folder = Path(tempfile.mkdtemp(dir=self._staging()))
        try:
            path = folder / Path(name).name
            yield path
            beside = sorted(file.name for file in folder.iterdir() if file != path)
            for each in (*beside, path.name):
                self._prefix.child(Path(name).with_name(each).as_posix()).put(folder / each)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def settle(self) -> None:
        """Return at once: an object that was put stays."""

    def holds(self, name: str) -> bool:
        """Return whether object ``name`` is there, whatever its size."""
        return self._prefix.child(name).find() is not None

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of object ``name``, at most ``limit`` bytes; None if there is no such object."""
        found = self._prefix.child(name).find()
        return None if found is None else found.read(limit)

    def _object(self, name: str, version: str | None = None) -> RemoteObject:
        found = self._prefix.child(name).object()
        if version not in (None, found.version):
            raise BadInput(f"{name} has changed since the objects were listed; run it again.")
        return found

    def _staging(self) -> Path:
        """Return the private folder, made by the first who needs it; one that others may enter is refused."""
        digest = hashlib.sha256(f"{os.getuid()}\0{self._token}".encode()).hexdigest()[:32]
        path = Path(tempfile.gettempdir()) / f"sfumato-{digest}"
        with writing(path):
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                found = path.lstat()
                private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
                if not private or found.st_uid != os.getuid():
                    raise BadInput(
                        f"the staging folder {path.name} exists and is open to others; remove it, or "
                        "set TMPDIR to a folder of your own."
                    ) from None
        return path


Store = LocalStore | RemoteStore


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
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


@contextmanager
def named(path: Path, name: str) -> Iterator[None]:
    """Let refusals of the file at ``path``, which may be a copy, speak of file ``name`` of a store."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(path.name, Path(name).name), parameter=error.parameter) from None


def _on_disk(path: Path) -> PurePosixPath:
    """Return ``path`` without links."""
    return PurePosixPath("file", *path.resolve().parts[1:])


def _refuse_closed(error: OSError) -> None:
    raise BadInput(f"the folder {Path(error.filename).name} cannot be read: {error.strerror}.")
