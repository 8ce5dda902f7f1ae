"""The members of a ``.npz`` archive as streams, without trusting what the archive says about itself."""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from sfumato.errors import BadInput

__all__ = [
    "MAGICS",
    "array_names",
    "check_name",
    "check_packing",
    "damage",
    "open_archive",
    "open_member",
    "zip_member",
]

MAGICS = (b"PK\x03\x04", b"PK\x05\x06")  # an archive with members, and one without
_END_RECORD_BYTES = 22
_ENCRYPTED = 0x1
# Real arrays rarely shrink a hundredfold. One that does, and is large, is more likely meant to fill a disk.
_BOMB_BYTES = 1 << 30
_BOMB_RATIO = 100
_MAX_READ_BYTES = 2 << 20  # members are listed in some hundred bytes each, and read in smaller pieces


@contextmanager
def damage(label: str) -> Iterator[None]:
    """Say that ``label`` is damaged, whatever the reader of the bytes raised."""
    try:
        yield
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{label} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        # zipfile and zlib answer damaged bytes with a dozen unrelated exceptions.
        raise BadInput(f"{label} is truncated or damaged and cannot be read.") from error


def array_names(path: Path) -> tuple[str, ...]:
    """Names of the arrays in the archive, in its order."""
    with open_archive(path) as archive:
        return tuple(_arrays(archive, path))


@contextmanager
def open_member(path: Path, name: str, label: str) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """The bytes of array ``name`` and how many the archive says they are.

    The stream ends where the data really end, be that before or after the stated length, and reading to its
    end checks the archive's checksum; no more than what is asked for is ever unpacked.
    """
    with open_archive(path) as archive:
        info = _arrays(archive, path)[name]
        if info.flag_bits & _ENCRYPTED:
            raise BadInput(f"{label} is encrypted; a plain .npz archive is accepted.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadInput(f"{label} is packed by an unusual method; stored and deflated are accepted.")
        stated = info.file_size
        _refuse_bomb(info, path, label, _BOMB_BYTES, _BOMB_RATIO)
        # zipfile cuts a member off at its stated length; allowing one byte more lets longer data show.
        info = copy.copy(info)
        info.file_size += 1
        with damage(label):
            stream = cast(zipfile.ZipExtFile, archive.open(info))
        with stream:
            yield stream, stated


def check_packing(path: Path, name: str, label: str, *, least: int, ratio: int) -> None:
    """Refuse array ``name`` if it unpacks to over ``least`` bytes and over ``ratio`` times its packed size.

    For whoever holds arrays in memory whole; streams are checked when they are opened, less strictly.
    """
    with open_archive(path) as archive:
        _refuse_bomb(_arrays(archive, path)[name], path, label, least, ratio)


def check_name(name: str, archive: str) -> None:
    """Refuse ``name`` where a file of that name, unpacked from ``archive``, would stand anywhere else."""
    if not name.isprintable() or any(part in ("", ".", "..") for part in name.split("/")):
        raise BadInput(f"{name!r} cannot name an array in {archive}; a plain word is accepted.")


def zip_member(name: str) -> zipfile.ZipInfo:
    """The entry of array ``name`` in a new archive, the same on every day and machine."""
    info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3  # Unix, wherever this runs
    return info


def _refuse_bomb(info: zipfile.ZipInfo, path: Path, label: str, least: int, ratio: int) -> None:
    packed = min(info.compress_size, path.stat().st_size)
    if info.file_size > least and info.file_size > ratio * packed:
        raise BadInput(
            f"{label} unpacks to {info.file_size / 2**30:.1f} GiB, over {ratio} times its packed size, "
            "as a zip bomb does; save it unpacked by np.savez if it is what you mean."
        )


class _SmallReads(io.BufferedReader):
    """A file that reads a few megabytes at once, at most: the list of an archive's members is read whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        asked = size if size is not None and 0 <= size <= _MAX_READ_BYTES else _MAX_READ_BYTES + 1
        data = super().read(asked)
        if len(data) > _MAX_READ_BYTES:
            raise BadInput(f"{Path(str(self.name)).name} lists more arrays than can be looked through.")
        return data


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive at ``path``; one that lists too many members, or is damaged at its end, is refused."""
    with ExitStack() as stack:
        with damage(path.name):
            content = stack.enter_context(_SmallReads(io.FileIO(path)))
            archive = stack.enter_context(zipfile.ZipFile(content))
        # zipfile looks past bytes that follow the archive's end.
        with damage(path.name), path.open("rb") as file:
            file.seek(-_END_RECORD_BYTES - len(archive.comment), 2)
            if file.read(4) != b"PK\x05\x06":
                raise BadInput(f"{path.name} has bytes after the end of the archive.")
        yield archive


def _arrays(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    arrays: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename.endswith(".npy"):
            name = info.filename.removesuffix(".npy")
            if name in arrays:
                raise BadInput(f"{path.name} holds two arrays named {name!r}.")
            arrays[name] = info
    return arrays
