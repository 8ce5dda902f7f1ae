"""Files and folders that appear whole or not at all, alone or with a file that explains them.

Bytes go to a hidden file beside the output, which only its owner may read. When everything is written it is
flushed to the disk and renamed over the output in one step; on any failure it is removed, and an older output
stays. Only a killed process or a power cut can leave the hidden file behind; :func:`sweep` removes it once
nobody writes any more.

Waiting for the disk takes most of the time of a small file. A batch of many can wait for all of them at once:
write them under :func:`unsettled`, then call :func:`settle`. :func:`reserved` takes room for an output before
its content is known, so that a full disk shows before anything is paid.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Self

from sfumato.errors import BadInput, SfumatoError, StorageFailed, StorageFull

__all__ = [
    "First",
    "atomic_folder",
    "atomic_output",
    "require_room",
    "reserved",
    "storage_fault",
    "sync",
    "unsettled",
    "write_whole",
    "writing",
]

#: A file that appears just before an output, and the function that returns its content. The function is
#: called once the output is complete, with the path where the output can be read.
First = tuple[str | os.PathLike[str], Callable[[Path], bytes]]

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}")
_KEEP_SIZE = 1
_BESIDE_BYTES = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
_UNSETTLED: ContextVar[bool] = ContextVar("unsettled", default=False)


@contextmanager
def unsettled() -> Iterator[None]:
    """Do not wait for the disk for files that this thread writes in the block; :func:`settle` does.

    The files appear whole even if the process is killed. A power cut before ``settle`` may leave some empty.
    """
    before = _UNSETTLED.set(True)
    try:
        yield
    finally:
        _UNSETTLED.reset(before)


def settle(folder: Path) -> None:
    """Return when everything that was written to the file system of ``folder`` is on the disk."""
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not hasattr(_LIBRARY, "syncfs") or _LIBRARY.syncfs(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove the hidden files that killed processes left in ``folder`` and in the folders below it."""
    for place, _, names in os.walk(folder):
        for name in filter(_TEMPORARY.fullmatch, names):
            (Path(place) / name).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Return when ``path``, a file or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about ``path`` into one sentence.

    A full or broken disk is a :class:`~sfumato.errors.StorageFailed`; anything else, such as a missing or
    closed folder, is bad input.
    """
    try:
        yield
    except OSError as error:
        name = path.name or str(path)
        other = BadInput(f"{name} cannot be written: {error.strerror or error}.")
        raise storage_fault(error, name) or other from error


def storage_fault(error: OSError, name: str) -> SfumatoError | None:
    """Return the error that says that ``name`` cannot be written; None unless the disk is full or broken."""
    kind = StorageFull if error.errno in _FULL else StorageFailed if error.errno in _BROKEN else None
    return None if kind is None else kind(f"{name} cannot be written: {error.strerror or error}.")


@contextmanager
def reserved(path: Path, size: int) -> Iterator[None]:
    """Keep ``size`` bytes of the disk for the output ``path``, which this thread writes in the block.

    Raises :class:`~sfumato.errors.StorageFull` if there are fewer. A little more is kept until the output is
    opened, for what is written beside it: a certificate, rows of a ledger. On a file system that cannot keep
    room, it is only checked that there is as much now.
    """
    output, beside = AtomicFile(path), AtomicFile(path)
    taken = _RESERVED.set((output, beside))
    try:
        with writing(output.path):
            _keep_room(output.file.fileno(), size)
            _keep_room(beside.file.fileno(), _BESIDE_BYTES)
        yield
    finally:
        _RESERVED.reset(taken)
        beside.discard()
        if not output.adopted:
            output.discard()


def require_room(folder: Path, size: int) -> None:
    """Raise :class:`~sfumato.errors.StorageFull` if the disk of ``folder`` has less than ``size`` bytes free.

    For many files, for which no room can be kept. The folder need not exist yet.
    """
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    with writing(folder):
        room = os.statvfs(existing)
        if room.f_bavail * room.f_frsize < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _keep_room(descriptor: int, size: int) -> None:
    """Have the disk keep ``size`` bytes for a file, without changing its length."""
    refused = errno.EOPNOTSUPP
    if hasattr(_LIBRARY, "fallocate64"):
        done = _LIBRARY.fallocate64(descriptor, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(max(1, size)))
        refused = 0 if done == 0 else ctypes.get_errno()
    if refused in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        room = os.fstatvfs(descriptor)
        refused = 0 if room.f_bavail * room.f_frsize >= size else errno.ENOSPC
    if refused:
        raise OSError(refused, os.strerror(refused))


class AtomicFile:
    """A binary file that takes the place of ``path`` on :meth:`commit` and vanishes on :meth:`discard`.

    While being written it has mode 0600 and a random name that starts with a dot; committed, it has ``mode``,
    by default the one that the process's umask gives to new files. A symbolic link is followed: its target is
    replaced. ``first`` may be set until the file is committed.
    """

    file: IO[bytes]
    first: First | None = None
    _temporary: Path

    def __init__(self, path: str | os.PathLike[str], *, mode: int | None = None) -> None:
        self.path, self._mode = Path(path), mode
        self._target = Path(os.path.realpath(self.path))
        self._process = os.getpid()
        #: Whether another has taken over the hidden file, for which room was kept.
        self.adopted = False
        room = _RESERVED.get()
        if room is not None and room[0]._target == self._target and not room[0].adopted:
            output, beside = room
            beside.discard()
            output.adopted = True
            self._temporary, self.file = output._temporary, output.file
            return
        if self._target.exists() and not self._target.is_file():
            raise BadInput(f"{self.path} exists and is not a regular file, so no output can take its place.")
        # Known before the file exists: a signal may end this at any point, and nothing may remain.
        self._temporary = self._target.parent / f".{secrets.token_hex(8)}"
        with writing(self.path):
            self.file = open(self._temporary, "xb", opener=_private)  # noqa: SIM115

    def commit(self) -> None:
        """Make the file durable, then let it appear at ``path``; on failure nothing remains of it.

        ``first`` appears just before it. An older file at ``path`` is removed before that, so that a file at
        ``path`` always has the ``first`` that belongs to it.
        """
        first: AtomicFile | None = None
        try:
            if self.first is not None:
                content = self.first[1](self.written())
                first = AtomicFile(self.first[0])
                with writing(first.path):
                    first.file.write(content)
            self._settle()
            if first is not None:
                first._settle()
                with writing(self.path):
                    self._target.unlink(missing_ok=True)
                first._appear()
            self._appear()
        except BaseException:
            if first is not None:
                # It has appeared for an output that did not.
                if self._temporary.exists() and not first._temporary.exists():
                    first._target.unlink(missing_ok=True)
                first.discard()
            self.discard()
            raise

    def written(self) -> Path:
        """Return where what was written so far can be read, before it appears at ``path``."""
        with writing(self.path):
            self.file.flush()
        return self._temporary

    def _settle(self) -> None:
        """Put all bytes on the disk, with the mode they are to have."""
        mode = 0o666 & ~_umask() if self._mode is None else self._mode
        with writing(self.path):
            self.file.flush()
            descriptor = self.file.fileno()
            os.ftruncate(descriptor, os.fstat(descriptor).st_size)  # gives back room that was not needed
            os.fchmod(descriptor, mode)
            if not _UNSETTLED.get():
                os.fsync(descriptor)
            self.file.close()

    def _appear(self) -> None:
        with writing(self.path):
            os.replace(self._temporary, self._target)
        if _UNSETTLED.get():
            return
        # Some file systems cannot sync a folder. The output is complete either way; at worst a power cut
        # brings the older one back.
        with suppress(OSError):
            sync(self._target.parent)

    def discard(self) -> None:
        """Remove what was written and leave ``path`` as it was; after :meth:`commit` this does nothing."""
        # Closing flushes, which fails again on a full disk; the file goes away all the same.
        with suppress(OSError, AttributeError):
            self.file.close()
        self._temporary.unlink(missing_ok=True)

    def __del__(self) -> None:
        # A signal may come before anybody holds on to this file. A forked child leaves alone what its parent
        # is writing.
        if hasattr(self, "_temporary") and self._process == os.getpid() and not self.adopted:
            self.discard()


# The hidden file with room for an output, and one that keeps room for what is written beside it.
_RESERVED: ContextVar[tuple[AtomicFile, AtomicFile] | None] = ContextVar("reserved", default=None)


@contextmanager
def atomic_output(
    path: str | os.PathLike[str], *, mode: int | None = None, first: First | None = None
) -> Iterator[IO[bytes]]:
    """Yield a binary file that appears at ``path`` if the block ends without an exception.

    It has ``mode``, by default that of any new file. ``first`` appears just before it, or not at all.
    """
    output = AtomicFile(path, mode=mode)
    output.first = first
    try:
        yield output.file
        output.commit()
    finally:
        output.discard()


def write_whole(path: str | os.PathLike[str], data: bytes, *, first: First | None = None) -> None:
    """Let ``data`` appear at ``path``, and the file ``first`` just before it; or neither of them."""
    with atomic_output(path, first=first) as file, writing(Path(path)):
        file.write(data)


class AtomicSink(ABC):
    """Base class of sinks: opened by ``with``, committed if the block ends well and all was written.

    ``expected`` is how many ``what`` (rows, samples, frames) make it complete; None where any number does.
    """

    def __init__(self, path: str | os.PathLike[str], expected: int | None = None, what: str = "rows") -> None:
        self.path = Path(path)
        self.rows_written = 0
        self._expected, self._what = expected, what
        self._output: AtomicFile | None = None
        self._whole = True  # no write was cut off in the middle
        self._layers = ExitStack()  # what stands between the caller's values and the file: zip, gzip, Parquet

    @abstractmethod
    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        """Write what comes before the values; register in ``layers`` what must be closed after them."""

    def _check_complete(self) -> None:
        """Raise unless everything that was announced has been written."""
        if self._expected not in (None, self.rows_written):
            raise BadInput(
                f"{self.path.name} was to hold {self._expected} {self._what}, and {self.rows_written} were "
                "written."
            )

    def accompany(self, first: First | None) -> None:
        """Let the file ``first``, if one is given, appear just before the output does, or not at all."""
        self._opened().first = first

    @contextmanager
    def _appending(self, rows: int) -> Iterator[None]:
        """Count ``rows`` rows once the block that writes them ends well."""
        self._opened()
        if self._expected is not None and self.rows_written + rows > self._expected:
            raise BadInput(f"{self.path.name} takes {self._expected} {self._what}, and more were written.")
        self._whole = False
        with writing(self.path):
            yield
        self._whole = True
        self.rows_written += rows

    def _opened(self) -> AtomicFile:
        if self._output is None:
            raise BadInput(f"{self.path.name} takes {self._what} inside its with block only.")
        return self._output

    def __enter__(self) -> Self:
        self._output = AtomicFile(self.path)
        try:
            with writing(self.path):
                self._begin(self._output.file, self._layers)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                if not self._whole:
                    raise BadInput(f"{self.path.name} is incomplete: a write to it failed.")
                self._check_complete()
                with writing(self.path):
                    self._layers.close()
                self._opened().commit()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Remove whatever was not committed."""
        # Layers close by writing their endings, which may fail as well; the first error is the one to tell.
        with suppress(Exception):
            self._layers.close()
        self._opened().discard()
        self._output = None


def _private(name: str, flags: int) -> int:
    """Open a file that only its owner may read, whatever the umask."""
    return os.open(name, flags, 0o600)


def _umask() -> int:
    # The umask can only be read by setting it. The strict value makes the moment in between harmless: a file
    # that another thread creates just then is too private rather than too open.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder to fill, which appears at ``path`` if the block ends without an exception.

    It stands in a hidden folder beside ``path``, closed to others until all is there. ``path`` must not
    exist, or be an empty folder.
    """
    target = Path(os.path.realpath(path))
    hidden = target.parent / f".{secrets.token_hex(8)}"
    inside = hidden / "whole"
    with writing(target):
        try:
            hidden.mkdir(mode=0o700)
            inside.mkdir()
            yield inside
            os.replace(inside, target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
