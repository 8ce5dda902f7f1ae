"""Private folders for bodies that are worked on; those of a process that was killed are swept by others.

A process has one folder, with a lock that it holds for as long as it lives, however it ends. The folders
inside are emptied after use and used again: making and removing folders waits for the disk's journal.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["WorkFolders"]

_LOCK = "lock"
# A folder is locked before it gets its name; what still has no lock after so long was never finished.
_NEW = ".new-"
_OLD_SECONDS = 600.0


class WorkFolders:
    """Folders inside ``place``, for any number of threads; made when the first is needed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._guard = threading.Lock()
        self._own: _Own | None = None

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty folder; what is in it when the block ends is gone."""
        with self._guard:
            # A forked child has neither its parent's lock nor a right to its folders.
            if self._own is None or self._own.process != os.getpid():
                self._own = _Own(self._place)
            own = self._own
            folder = own.taken()
        try:
            yield folder
        finally:
            emptied = _emptied(folder)
            with self._guard:
                if emptied:
                    own.free.append(folder)

    def sweep(self) -> None:
        """Remove what processes left behind that are no more."""
        for folder in self._place.iterdir():
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all that is ours."""
        with self._guard:
            if self._own is not None and self._own.process == os.getpid():
                self._own.close()
            self._own = None


class _Own:
    """The folder of this process, and those in it that are free."""

    def __init__(self, place: Path) -> None:
        self.process, self.free = os.getpid(), list[Path]()
        token = secrets.token_hex(16)
        new, self._place = place / (_NEW + token), place / token
        new.mkdir(mode=0o700)
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self._place)

    def taken(self) -> Path:
        """An empty folder that nobody else has."""
        if self.free:
            return self.free.pop()
        made = self._place / secrets.token_hex(16)
        made.mkdir(mode=0o700)
        return made

    def close(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self._place, ignore_errors=True)
        os.close(self._lock)


def _emptied(folder: Path) -> bool:
    """Whether ``folder`` could be emptied; one that could not is not used again, and goes with all others."""
    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry)
            else:
                os.unlink(entry)
    except OSError:
        return False
    return True


def _is_left(folder: Path) -> bool:
    """Whether nobody holds the lock of ``folder``."""
    if folder.name.startswith(_NEW):
        return _is_old(folder)
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return _is_old(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _is_old(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > _OLD_SECONDS
    return False
