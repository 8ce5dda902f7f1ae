"""A private folder on local disk for one run, where objects wait for libraries that read paths."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sfumato.errors import BadInput
from sfumato.io.atomic import writing
from sfumato.io.object_store import Remote, RemoteObject

__all__ = ["Staging"]

# What tells the format: the last suffix, and the one before it where the last says only how it is packed.
_SUFFIX = re.compile(r"((?:\.[A-Za-z0-9]{1,12}(?=\.(?:gz|bz2|xz|zst)$))?\.[A-Za-z0-9]{1,12})$", re.IGNORECASE)


class Staging:
    """A new folder that only its owner may enter, below ``root`` or the system's temporary folder.

    File names are random or digests: nothing of an object's name but its suffix, which says the format.
    Everything goes away with :meth:`close` or at the end of a ``with`` block; only a killed process leaves
    the folder behind.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        with writing(Path(root or tempfile.gettempdir())):
            self._begin(Path(tempfile.mkdtemp(prefix="sfumato-", dir=root)))

    @classmethod
    def named(cls, token: str, root: str | os.PathLike[str] | None = None) -> Self:
        """The folder that all processes of this user on this node get for ``token``, made by the first.

        A folder of that name that belongs to somebody else, or that others may enter, is refused.
        """
        if not token:
            raise BadInput("a staging folder that processes share needs a token that is not empty.")
        digest = hashlib.sha256(f"{os.getuid()}\0{token}".encode()).hexdigest()[:32]
        folder = Path(root or tempfile.gettempdir()) / f"sfumato-{digest}"
        with writing(folder):
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                found = folder.lstat()
                private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
                if not private or found.st_uid != os.getuid():
                    raise BadInput(
                        f"the staging folder {folder.name} exists and is open to others; remove it, or set"
                        " TMPDIR to a folder of your own."
                    ) from None
        self = cls.__new__(cls)
        self._begin(folder)
        return self

    def _begin(self, folder: Path) -> None:
        self.path = folder
        self._numbers = itertools.count(1)

    @contextmanager
    def fetched(self, remote: Remote | RemoteObject) -> Iterator[Path]:
        """A local copy of the object, with its suffix, for the length of the block."""
        name = f"{secrets.token_hex(8)}-{next(self._numbers)}{_suffix(remote.name)}"
        path = self.path / name
        try:
            remote.fetch(path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def shared(self, remote: Remote | RemoteObject) -> Path:
        """A local copy that is fetched once, whichever process asks first, and stays until :meth:`close`."""
        version = remote.version if isinstance(remote, RemoteObject) else ""
        digest = hashlib.sha256(f"{remote.url}\0{version}".encode()).hexdigest()[:32]
        path = self.path / f"{digest}{_suffix(remote.name)}"
        with self._locked(digest):
            if not path.exists():
                partial = (
                    self.path / f".{digest}.part"
                )  # a killed process may leave it: the next one overwrites it
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

    def close(self) -> None:
        """Remove the folder and all that is in it; for every process that shares it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _suffix(name: str) -> str:
    found = _SUFFIX.search(name.rpartition("/")[2])
    return found[1] if found else ""
