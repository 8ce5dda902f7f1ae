"""NumPy arrays as streams of row blocks: ``.npy`` files, and the members of ``.npz`` archives.

Headers and archives come from untrusted files. The header of an array is parsed by NumPy within limits on its
length, dimensions and row size; objects are never unpickled. An archive is not trusted about itself: names,
packing and sizes of its members are checked, and a member that unpacks to far more than it takes is refused.
"""

from __future__ import annotations

import copy
import io
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray

from sfumato.errors import BadInput
from sfumato.io.atomic import AtomicSink
from sfumato.io.formats import exactly, file_to_read, suffix_of

__all__ = ["ArraySink", "ArraySource", "array_names", "open_archive", "open_array"]

MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 10_000  # NumPy's own limit: beyond it, parsing a header can exhaust the interpreter
_MAX_DIMENSIONS = 64
_MAX_ROW_BYTES = 1 << 30
_TRIES = 20
_PARSING = Lock()
_LENGTH_FIELD = {(1, 0): "<H", (2, 0): "<I", (3, 0): "<I"}


@dataclass(frozen=True)
class Layout:
    """What the header of a stream says about the bytes that follow it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # in the byte order of the file
    fortran: bool  # and the order makes a difference: more than one axis is longer than 1
    header_bytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry along the first axis."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the header and of the data that follows it."""
        return self.header_bytes + self.shape[0] * self.row_bytes


def read_layout(stream: io.BufferedIOBase, label: str) -> Layout:
    """Read the header at the start of ``stream`` and leave it at the first byte of data.

    Never reads more than a header may hold, and never unpickles. ``label`` names the array in refusals.
    """
    prefix = exactly(stream, 8, label)
    if prefix[:6] != MAGIC:
        raise BadInput(f"{label} is not a NumPy array: a .npy stream was expected.")
    version = (prefix[6], prefix[7])
    if version not in _LENGTH_FIELD:
        raise BadInput(
            f"{label} has version {version[0]}.{version[1]} of the .npy format; 1.0, 2.0, 3.0 are accepted."
        )
    field = exactly(stream, struct.calcsize(_LENGTH_FIELD[version]), label)
    (length,) = struct.unpack(_LENGTH_FIELD[version], field)
    if length > _MAX_HEADER_BYTES:
        raise BadInput(f"{label} has a header of {length} bytes; up to {_MAX_HEADER_BYTES} are accepted.")
    text = io.BytesIO(field + exactly(stream, length, label))
    # Versions 2 and 3 differ in how field names are encoded, and arrays with fields are refused below.
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    try:
        shape, fortran, dtype = _parsed(read, text)
    except Exception as error:
        # A header is a Python literal: a broken one fails in the tokenizer, the parser or the constructor of
        # dtypes, each with exceptions of its own.
        raise BadInput(f"{label} has a NumPy header that cannot be parsed.") from error
    check_array(shape, dtype, label)
    return Layout(
        shape=tuple(int(length) for length in shape),
        dtype=dtype,
        fortran=bool(fortran) and sum(length > 1 for length in shape) > 1,
        header_bytes=len(prefix) + text.getbuffer().nbytes,
    )


def _parsed(read: Callable[..., Any], text: io.BytesIO) -> Any:
    """Return what ``read`` finds in a header, also while other threads parse something.

    Python 3.11 counts how deep its parser is in one place for all threads, and ends with a SystemError where
    two of them were in it: ours take turns, and after what others did it is tried again.
    """
    for _ in range(_TRIES):
        with _PARSING, suppress(SystemError):
            return read(text, max_header_size=_MAX_HEADER_BYTES)
        text.seek(0)
    return read(text, max_header_size=_MAX_HEADER_BYTES)


def check_array(shape: tuple[int, ...], dtype: np.dtype[Any], label: str) -> None:
    """Refuse everything but real numbers, in arrays with at least one row and one column."""
    accepted = "integers, booleans and floats of 16, 32 or 64 bits are accepted"
    if dtype.hasobject:
        raise BadInput(f"{label} holds pickled Python objects, which are never loaded; {accepted}.")
    if dtype.names is not None or dtype.subdtype is not None:
        raise BadInput(f"{label} is a structured array; save each field as an array of its own.")
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise BadInput(f"{label} has dtype {dtype.name}; {accepted}.")
    if len(shape) == 0:
        raise BadInput(f"{label} is a single number; an array with one row per record is accepted.")
    if len(shape) > _MAX_DIMENSIONS:
        raise BadInput(f"{label} has {len(shape)} dimensions; up to {_MAX_DIMENSIONS} are accepted.")
    if any(length < 0 for length in shape):
        raise BadInput(f"{label} has a negative length in its shape.")
    if shape[0] == 0:
        raise BadInput(f"{label} has no rows.")
    if 0 in shape:
        raise BadInput(f"{label} has no columns.")
    if math.prod(shape) * dtype.itemsize > np.iinfo(np.int64).max:
        raise BadInput(f"{label} has a shape that no file could hold.")
    if math.prod(shape[1:]) * dtype.itemsize > _MAX_ROW_BYTES:
        raise BadInput(f"{label} has rows of more than {_MAX_ROW_BYTES >> 30} GiB, which are not accepted.")


MAGICS = (b"PK\x03\x04", b"PK\x05\x06")  # an archive with members, and one without
_END_RECORD_BYTES = 22
_ENCRYPTED = 0x1
# Real arrays rarely shrink a hundredfold. One that does, and is large, is more likely meant to fill a disk.
_BOMB_BYTES = 1 << 30
_BOMB_RATIO = 100
_MAX_READ_BYTES = 2 << 20  # members are listed in some hundred bytes each, and read in smaller pieces


@contextmanager
def damage(label: str) -> Iterator[None]:
    """Turn whatever the reader of the bytes raises into the sentence that ``label`` is damaged."""
    try:
        yield
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{label} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        # zipfile and zlib answer damaged bytes with a dozen unrelated exceptions.
        raise BadInput(f"{label} is truncated or damaged and cannot be read.") from error


def _member_names(path: Path) -> tuple[str, ...]:
    """Return names of the arrays in the archive, in its order."""
    with open_archive(path) as archive:
        return tuple(_arrays(archive, path))


@contextmanager
def _stream(path: Path, name: str | None, label: str) -> Iterator[tuple[io.BufferedIOBase, int]]:
    """Yield the bytes of array ``name`` of an archive, or of a file, and how many there are said to be.

    The stream ends where the data really end, be that before or after the stated length, and reading to its
    end checks the archive's checksum; no more than what is asked for is ever unpacked.
    """
    if name is None:
        with damage(label):
            file = path.open("rb")
        with file:
            yield file, os.fstat(file.fileno()).st_size
        return
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
    """Return the entry of array ``name`` in a new archive, the same on every day and machine."""
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
    """Yield the archive at ``path``; one with too many members, or damaged at its end, is refused."""
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


_BLOCK_BYTES = 32 << 20
_READ_BYTES = 1 << 20  # unpacking makes a copy of what one read returns, so reads stay small
_MAX_FORTRAN_BYTES = 256 << 20


@dataclass(frozen=True)
class ArraySource:
    """An array in a file, read by blocks of rows; :func:`open_array` makes one.

    ``name`` is its name inside an archive (None for ``.npy``), ``others`` the arrays beside it that are left
    out, ``dtype`` that of the blocks: the file's, in native byte order.
    """

    path: Path
    name: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    others: tuple[str, ...]
    _layout: Layout = field(repr=False)

    @property
    def rows(self) -> int:
        """Length of the first axis."""
        return self.shape[0]

    @property
    def fortran(self) -> bool:
        """Whether columns stand one after the other, so that the rows are read all at once."""
        return self._layout.fortran

    def blocks(self, max_bytes: int = _BLOCK_BYTES, rows: range | None = None) -> Iterator[NDArray[Any]]:
        """Yield C-ordered blocks of shape ``(k, *shape[1:])``: up to ``max_bytes`` each, or one row.

        Every call reads the file anew, and refuses it where it has changed since it was opened, ends early or
        late, or fails its checksum. A Fortran-ordered array is held in memory whole. Of ``rows``, if given,
        those before are passed over, and those after are not read.
        """
        label = _label(self.path, self.name)
        step = max(1, max_bytes // self._layout.row_bytes)
        wanted = range(self.rows) if rows is None else rows
        with _stream(self.path, self.name, label) as (stream, size):
            with damage(label):
                layout = read_layout(stream, label)
            if layout != self._layout or size != layout.bytes:
                raise BadInput(f"{label} has changed since it was opened.")
            if self._layout.fortran:
                flat = self._read(stream, (int(np.prod(self.shape)),), label)
                _expect_end(stream, label)
                whole = flat.reshape(self.shape, order="F")
                for start in range(wanted.start, wanted.stop, step):
                    yield np.ascontiguousarray(whole[start : min(start + step, wanted.stop)])
                return
            with damage(label):
                stream.seek(wanted.start * layout.row_bytes, os.SEEK_CUR)
            for start in range(wanted.start, wanted.stop, step):
                count = min(step, wanted.stop - start)
                block = self._read(stream, (count, *self.shape[1:]), label)
                if start + count == self.rows:
                    _expect_end(stream, label)
                yield block

    def read(self, report: Callable[[float], None] = lambda share: None) -> NDArray[Any]:
        """Return the whole array; ``report`` is told the share of it that is read."""
        values, done = np.empty(self.shape, self.dtype), 0
        for block in self.blocks():
            values[done : done + len(block)] = block
            done += len(block)
            report(done / self.rows)
        return values

    def _read(self, stream: io.BufferedIOBase, shape: tuple[int, ...], label: str) -> NDArray[Any]:
        block = np.empty(shape, self._layout.dtype)
        raw = block.reshape(-1).view(np.uint8)
        view = raw.data
        position = 0
        while position < len(view):
            with damage(label):
                got = stream.readinto(view[position : position + _READ_BYTES])
            if not got:
                raise BadInput(f"{label} is truncated: it holds less data than its header says.")
            position += got
        if self.dtype.kind == "b" and raw.max() > 1:
            raise BadInput(f"{label} holds booleans that are neither 0 nor 1.")
        return block if block.dtype.isnative else block.byteswap(inplace=True).view(self.dtype)


def open_array(path: str | os.PathLike[str], array: str | None = None) -> ArraySource:
    """Return the array in ``path``, which must be the only one of an archive unless ``array`` names it.

    Reads the header alone. Refuses whatever is no array of real numbers with at least one row and one column,
    and a file whose length is not the one its header gives; pickled objects are never loaded.
    """
    path = file_to_read(path)
    with path.open("rb") as file:
        magic = file.read(len(MAGIC))
    others: tuple[str, ...] = ()
    if magic == MAGIC:
        if array is not None:
            raise BadInput(
                f"{path.name} holds one array, which has no name: leave out `array`.", parameter="array"
            )
    elif magic.startswith(MAGICS):
        names = _member_names(path)
        array = choose_array(path, names, array, "array")
        others = tuple(name for name in names if name != array)
    else:
        raise BadInput(f"{path.name} is not a NumPy file: .npy and .npz are accepted.")
    label = _label(path, array)
    with _stream(path, array, label) as (stream, size):
        with damage(label):
            layout = read_layout(stream, label)
        if size != layout.bytes:
            fault = "truncated" if size < layout.bytes else "followed by other bytes"
            announced, held = layout.bytes - layout.header_bytes, size - layout.header_bytes
            raise BadInput(
                f"{label} is {fault}: its header announces {announced} bytes of data, and {held} are there."
            )
    if layout.fortran and layout.bytes > _MAX_FORTRAN_BYTES:
        raise BadInput(
            f"{label} is stored in Fortran order and larger than {_MAX_FORTRAN_BYTES >> 20} MiB, so its rows "
            "cannot be streamed; save np.ascontiguousarray(X) instead."
        )
    return ArraySource(path, array, layout.shape, layout.dtype.newbyteorder("="), others, layout)


class ArraySink(AtomicSink):
    """An array of known shape and dtype written by blocks of rows to a ``.npy`` or ``.npz`` file.

    ``with ArraySink(path, shape, dtype) as sink: sink.write(block)``. The file appears at ``path`` when the
    block ends and exactly ``shape[0]`` rows were written; otherwise nothing appears and an older file stays.
    ``name`` is the array's name inside a ``.npz``. Equal arrays give equal bytes.
    """

    def __init__(
        self, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: DTypeLike, name: str = "X"
    ) -> None:
        self.shape = tuple(int(length) for length in shape)
        super().__init__(path, expected=self.shape[0] if self.shape else None)
        self.dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
        self.name = name
        self._suffix = suffix_of(self.path, "array")
        check_name(name, self.path.name)
        check_array(self.shape, self.dtype, self.path.name)
        self._stream: Any = None

    def write(self, block: NDArray[Any]) -> None:
        """Append rows: shape ``(k, *shape[1:])``, of a dtype that fits into the sink's without loss."""
        if block.shape[1:] != self.shape[1:] or block.ndim != len(self.shape):
            raise BadInput(
                f"{self.path.name} takes rows of shape {self.shape[1:]}, not blocks of {block.shape}."
            )
        if not np.can_cast(block.dtype, self.dtype, "safe"):
            raise BadInput(f"{self.path.name} takes {self.dtype.name}, which cannot hold {block.dtype.name}.")
        raw = np.ascontiguousarray(block, self.dtype).reshape(-1).view(np.uint8)
        with self._appending(len(block)):
            self._stream.write(raw.data)

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        self._stream = file
        if self._suffix == ".npz":
            archive = layers.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_STORED))
            # The size is not known to zipfile beforehand, so room for more than 4 GiB is always kept.
            member = zip_member(self.name)
            self._stream = layers.enter_context(archive.open(member, "w", force_zip64=True))
        description = npy_format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": self.shape}
        npy_format.write_array_header_1_0(self._stream, header)


def _expect_end(stream: io.BufferedIOBase, label: str) -> None:
    with damage(label):  # a wrong checksum shows here
        if stream.read(1):
            raise BadInput(f"{label} holds more data than its header says.")


def array_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return names of the arrays in the archive ``path``, in its order; none where it is a ``.npy`` file."""
    path = file_to_read(path)
    with path.open("rb") as file:
        archive = file.read(len(MAGIC)).startswith(MAGICS)
    return _member_names(path) if archive else ()


def choose_array(
    path: Path, names: Sequence[str], wanted: str | None, parameter: str, usual: Sequence[str] = ()
) -> str:
    """Return ``wanted``, or else the only array of the archive, or the only one with a ``usual`` name.

    ``parameter`` is what refusals call the choice.
    """
    if not names:
        raise BadInput(f"{path.name} holds no arrays.")
    accepted = ", ".join(repr(name) for name in names[:20]) + (", …" if len(names) > 20 else "")
    if wanted is not None:
        if wanted not in names:
            problem = f"`{parameter}` was {wanted!r}, which is no array of {path.name}"
            raise BadInput(problem, parameter=parameter, accepted=accepted)
        return wanted
    found = [name for name in names if name in usual] if usual else names
    if len(found) == 1:
        return found[0]
    if not usual:
        problem = f"{path.name} holds {len(names)} arrays; name one of them by `{parameter}`"
        raise BadInput(problem, parameter=parameter, accepted=accepted)
    if found:
        several = " and ".join(repr(name) for name in found)
        raise BadInput(
            f"{several} of {path.name} could each be the {parameter}; choose one by `{parameter}`.",
            parameter=parameter,
        )
    raise BadInput(
        f"{path.name} holds no array called {', '.join(usual[:-1])} or {usual[-1]}; name one of its arrays "
        f"by `{parameter}`",
        parameter=parameter,
        accepted=accepted,
    )


def _label(path: Path, name: str | None) -> str:
    return path.name if name is None else f"array {name!r} of {path.name}"
