"""Output that appears whole or not at all: files, folders, and files that appear in pairs.

Bytes go to a hidden file beside the output, readable by its owner only. When everything is written it is
flushed to the disk and renamed over the output in one step; when anything fails it is removed, and an older
output stays as it was. Only a killed process or a power cut can leave the hidden file behind; whoever knows
that nobody writes any more may :func:`sweep` it away.

Waiting for the disk after every file is most of the time of many small ones. Whoever writes many, and says
at the end that they are complete, may wait for all of them at once: :func:`unsettled`, then :func:`settle`.

Room for an output can be taken before it is known what will be in it: :func:`reserved`. The hidden file is
then made at once, and the disk keeps so many bytes for it, so that a full disk shows before anything is paid.
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
from types import TracebackType
from typing import IO, Self

from sfumato.errors import BadInput, SfumatoError, StorageFailed, StorageFull

__all__ = [
    "AtomicFile",
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
    """Files that this thread writes in the block appear whole, and are on the disk after :func:`settle`.

    A killed process changes nothing about them; a power cut before may leave some of them empty.
    """
    before = _UNSETTLED.set(True)
    try:
        yield
    finally:
        _UNSETTLED.reset(before)


def settle(folder: Path) -> None:
    """Return when everything that was written to the file system of ``folder`` is on the disk.

    One wait for all files, where one for each would have the disk begin anew every time.
    """
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not hasattr(_LIBRARY, "syncfs") or _LIBRARY.syncfs(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written in ``folder`` and the folders in it."""
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
    """Say in a sentence what the operating system refused about ``path``.

    A folder that is missing, or closed, was named by somebody: bad input. A full or broken disk was not.
    """
    try:
        yield
    except OSError as error:
        fault = storage_fault(error, path.name or str(path))
        if fault is not None:
            raise fault from error
        raise BadInput(f"{path.name or path} cannot be written: {error.strerror or error}.") from error


def storage_fault(error: OSError, name: str) -> SfumatoError | None:
    """Return ``error`` as a sentence about ``name`` where the disk failed; None where it did not."""
    kind = StorageFull if error.errno in _FULL else StorageFailed if error.errno in _BROKEN else None
    return None if kind is None else kind(f"{name} cannot be written: {error.strerror or error}.")


@contextmanager
def reserved(path: Path, size: int) -> Iterator[None]:
    """Keep ``size`` bytes of the disk for the output ``path``, which this thread writes in the block.

    Raises :class:`~sfumato.errors.StorageFull` where they are not there. A little more is kept until the
    output is opened, for what is written beside it: a certificate, rows of a ledger. On a file system that
    keeps nothing it is only looked whether there is as much now.
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
    """Raise :class:`~sfumato.errors.StorageFull` where the disk of ``folder`` has not ``size`` bytes free.

    For many files, of which nothing can be kept: others may take the room meanwhile. The folder need not be
    there yet.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    with writing(folder):
        room = os.statvfs(there)
        if room.f_bavail * room.f_frsize < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _keep_room(descriptor: int, size: int) -> None:
    """Have the disk keep ``size`` bytes for a file whose length stays what it is."""
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
    or unless given the mode that any new file gets from the process's umask. A symbolic link is followed: its
    target is replaced.
    """

    file: IO[bytes]
    _process: int
    _temporary: Path

    def __init__(self, path: str | os.PathLike[str], *, mode: int | None = None) -> None:
        self.path, self._mode = Path(path), mode
        self._target = Path(os.path.realpath(self.path))
        #: Whether another has taken over the hidden file, for which room was kept.
        self.adopted, self._roomy = False, False
        room = _RESERVED.get()
        if room is not None and room[0]._target == self._target and not room[0].adopted:
            output, beside = room
            beside.discard()
            output.adopted = self._roomy = True
            self._process, self._temporary, self.file = output._process, output._temporary, output.file
            return
        if self._target.exists() and not self._target.is_file():
            raise BadInput(f"{self.path} exists and is not a regular file, so no output can take its place.")
        # Known before the file exists: a signal may end this at any point, and nothing may remain.
        self._process = os.getpid()
        self._temporary = self._target.parent / f".{secrets.token_hex(8)}"
        with writing(self.path):
            self.file = open(self._temporary, "xb", opener=_private)  # noqa: SIM115

    def commit(self, first: AtomicFile | None = None) -> None:
        """Make the file durable, then let it appear at ``path``; where that fails nothing remains of it.

        ``first`` appears just before it. An older file at ``path`` goes away before that, so that what stands
        at ``path`` always has the ``first`` that belongs to it.
        """
        try:
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
        """Where what was written so far can be read, before it appears at ``path``."""
        with writing(self.path):
            self.file.flush()
        return self._temporary

    def _settle(self) -> None:
        """All bytes on the disk, with the mode they are to have."""
        mode = 0o666 & ~_umask() if self._mode is None else self._mode
        with writing(self.path):
            self.file.flush()
            if self._roomy:  # what was kept and not needed goes back
                os.ftruncate(self.file.fileno(), os.fstat(self.file.fileno()).st_size)
            os.fchmod(self.file.fileno(), mode)
            if not _UNSETTLED.get():
                os.fsync(self.file.fileno())
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
        """Remove what was written and leave ``path`` as it was."""
        # Closing flushes, which fails again on a full disk; the file goes away all the same.
        with suppress(OSError, AttributeError):
            self.file.close()
        self._temporary.unlink(missing_ok=True)

    def __del__(self) -> None:
        # A signal may come before anybody holds on to this file. What has appeared has another name by now,
        # and what a parent process is writing is no business of its forked child.
        if hasattr(self, "_temporary") and self._process == os.getpid() and not self.adopted:
            self.discard()


@contextmanager
def atomic_output(path: str | os.PathLike[str], *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A binary file that appears at ``path`` when the block ends without an exception, and not otherwise.

    It has ``mode`` from the first, or unless given the mode of any new file.
    """
    output = AtomicFile(path, mode=mode)
    try:
        yield output.file
    except BaseException:
        output.discard()
        raise
    output.commit()


# The hidden file with room for an output, and one that keeps room for what is written beside it.
_RESERVED: ContextVar[tuple[AtomicFile, AtomicFile] | None] = ContextVar("reserved", default=None)

#: A file that appears just before an output, and what gives its content once the output can be read.


def write_whole(path: str | os.PathLike[str], data: bytes, *, first: First | None = None) -> None:
    """Let ``data`` appear at ``path``, and the file ``first`` just before it; or neither of them.

    The content of ``first`` is asked for once ``data`` is written, and told where that can be read.
    """
    files = [AtomicFile(path)]
    try:
        with writing(files[0].path):
            files[0].file.write(data)
        if first is not None:
            content = first[1](files[0].written())
            files.append(AtomicFile(first[0]))
            with writing(files[1].path):
                files[1].file.write(content)
    except BaseException:
        for file in files:
            file.discard()
        raise
    files[0].commit(*files[1:])


class AtomicSink(ABC):
    """What all sinks share: opened by ``with``, committed if the block ends well and all was written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.rows_written = 0
        self._output: AtomicFile | None = None
        self._first: AtomicFile | None = None
        self._content: Callable[[Path], bytes] | None = None
        self._whole = True  # no write was cut off in the middle
        self._layers = ExitStack()  # what stands between the caller's values and the file: zip, gzip, Parquet

    @abstractmethod
    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        """Write what comes before the values; register in ``layers`` what must be closed after them."""

    @abstractmethod
    def _check_complete(self) -> None:
        """Raise unless everything that was announced has been written."""

    def accompany(self, path: str | os.PathLike[str], content: Callable[[Path], bytes]) -> None:
        """Let a file appear at ``path`` just before the output does, or not at all.

        ``content`` is asked for its bytes once the output is complete, and told where that can be read.
        """
        self._first = AtomicFile(path)
        self._content = content

    @contextmanager
    def _appending(self, rows: int) -> Iterator[None]:
        """Around the bytes of ``rows`` rows: they count once all of them went through."""
        if self._output is None:
            raise BadInput(f"{self.path.name} takes rows inside its with block only.")
        self._whole = False
        with writing(self.path):
            yield
        self._whole = True
        self.rows_written += rows

    def __enter__(self) -> Self:
        self._output = AtomicFile(self.path)
        try:
            with writing(self.path):
                self._begin(self._output.file, self._layers)
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            if not self._whole:
                raise BadInput(f"{self.path.name} is incomplete: a write to it failed.")
            self._check_complete()
            with writing(self.path):
                self._layers.close()
            self._write_first()
        except BaseException:
            self._abandon()
            raise
        if self._output is not None:
            self._output.commit(self._first)
            self._output = self._first = None

    def _write_first(self) -> None:
        if self._output is None or self._first is None or self._content is None:
            return
        content = self._content(self._output.written())
        with writing(self._first.path):
            self._first.file.write(content)

    def _abandon(self) -> None:
        # Layers close by writing their endings, which may fail as well; the first error is the one to tell.
        with suppress(Exception):
            self._layers.close()
        for file in (self._output, self._first):
            if file is not None:
                file.discard()
        self._output = self._first = None


def _private(name: str, flags: int) -> int:
    """Opens a file that only its owner may read, whatever the umask."""
    return os.open(name, flags, 0o600)


def _umask() -> int:
    # The umask can only be read by setting it. The strict value makes the moment in between harmless: a file
    # that another thread creates just then is too private rather than too open.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill, which appears at ``path`` if the block ends without an exception, and not otherwise.

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
