"""Uploaded files: safe names, private folders, size limits and minimum transfer rates.

Each process has one folder, with a lock that the system releases when the process ends. Folders left by
killed processes are swept by others. Subfolders are emptied after use and used again, because creating and
removing folders waits for the disk's journal.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import BadInput, SfumatoError
from sfumato.io import released_suffix, suffix_of
from sfumato.serve.settings import Settings

_LOCK = "lock"
# A folder is locked before it gets its name; what still has no lock after so long was never finished.
_NEW = ".new-"
_OLD_SECONDS = 600.0
#: The longest description or certificate that comes with a file, in characters.
MOST_WORDS = 100_000
_PAUSE_SECONDS = 30.0
_LEAST_RATE = 16 << 10


def file_name(name: str) -> str:
    """Return the last part of ``name``, which a client chose; raise if it could mislead."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = all(character.isalnum() or character in "._- " for character in last) and last.isascii()
    if not last or last.startswith(".") or len(last) > 100 or not plain:
        raise BadInput("the name of the file must be letters, digits, dots, dashes and spaces, at most 100.")
    suffix_of(last)  # one that can be released
    return last


def released_name(file: Path) -> str:
    """Return the name of the release of ``file``, without the client's name, which may identify people."""
    return f"release{released_suffix(file)}"


class WorkFolders:
    """Temporary folders inside ``place``, for any number of threads; created when first needed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._guard = threading.Lock()
        self._own: _Own | None = None

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder; its content is removed when the block ends."""
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
        """Remove the folders of processes that have ended."""
        for folder in self._place.iterdir():
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder of this process."""
        with self._guard:
            if self._own is not None and self._own.process == os.getpid():
                self._own.close()
            self._own = None


class _Own:
    """The folder of this process and its free subfolders."""

    def __init__(self, place: Path) -> None:
        self.process, self.free = os.getpid(), list[Path]()
        token = secrets.token_hex(16)
        new, self._place = place / (_NEW + token), place / token
        new.mkdir(mode=0o700)
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self._place)

    def taken(self) -> Path:
        """Return an empty folder that nobody else uses."""
        if self.free:
            return self.free.pop()
        made = self._place / secrets.token_hex(16)
        made.mkdir(mode=0o700)
        return made

    def close(self) -> None:
        """Remove the folder with everything in it."""
        shutil.rmtree(self._place, ignore_errors=True)
        os.close(self._lock)


def _emptied(folder: Path) -> bool:
    """Empty ``folder`` and return whether that succeeded; otherwise it is not used again."""
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
    """Return whether no process holds the lock of ``folder``."""
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


class TooLarge(SfumatoError):
    """Raised if a body has more bytes than the service accepts."""


class TooSlow(SfumatoError):
    """Raised if a sender pauses for too long or sends too slowly."""


class Pace:
    """The minimum transfer rate: half a minute, plus one second for every 16 KiB received.

    A sender that trickles bytes holds its place no longer than one that sends nothing.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self.bytes = 0

    def add(self, count: int) -> None:
        """Count received bytes."""
        self.bytes += count

    def patience(self) -> float:
        """Return how many seconds to wait for more; 0 if the sender is too slow already."""
        left = self._start + _PAUSE_SECONDS + self.bytes / _LEAST_RATE - self._clock()
        return max(0.0, min(left, _PAUSE_SECONDS))


def require_size(size: int, limit: int) -> None:
    """Raise :class:`TooLarge` if a body of ``size`` bytes exceeds ``limit``."""
    if size > limit:
        raise TooLarge(f"the body is larger than {limit:,} bytes, the most this service takes.")


def direct_limit(settings: Settings) -> int:
    """Return the most bytes that a synchronous request may bring."""
    return min(settings.direct_bytes, settings.body_bytes)


@contextmanager
def for_jobs(limit: int, settings: Settings) -> Iterator[None]:
    """Name jobs, if they accept more, in the refusal of a body larger than ``limit``."""
    try:
        yield
    except TooLarge:
        if limit >= settings.body_bytes:
            raise
        raise TooLarge(
            f"the body is larger than {limit:,} bytes, the most that is waited for; ask for a "
            "job, as POST /v1/datasets/…/jobs or by Submit, which takes more."
        ) from None


def private_file(place: Path) -> BinaryIO:
    """Open a new file at ``place`` for writing, readable by its owner only."""
    return open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def require_some(size: int) -> None:
    """Raise if a body is empty."""
    if size == 0:
        raise BadInput("the body is empty; it must be the file to release.")


async def written(chunks: AsyncIterable[bytes], into: Path, limit: int) -> None:
    """Write ``chunks`` to the private file ``into``.

    Raise if there are more than ``limit`` bytes or none, or if the sender does not keep the :class:`Pace`.
    """
    pace = Pace()
    with private_file(into) as file:
        coming = aiter(chunks)
        while True:
            try:
                chunk = await asyncio.wait_for(anext(coming), pace.patience())
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise TooSlow("the body came too slowly; send it again.") from None
            pace.add(len(chunk))
            require_size(pace.bytes, limit)
            file.write(chunk)
    require_some(pace.bytes)
