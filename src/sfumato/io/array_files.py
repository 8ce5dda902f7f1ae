"""NumPy arrays as streams of row blocks: ``.npy`` files, and the members of ``.npz`` archives."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sfumato.errors import BadInput
from sfumato.io import npz
from sfumato.io.atomic import AtomicSink
from sfumato.io.formats import file_to_read, suffix_of
from sfumato.io.npy import MAGIC, Layout, check_array, npy_header, read_layout

__all__ = ["ArraySink", "ArraySource", "array_names", "open_array"]

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
        """Consecutive C-ordered blocks of shape ``(k, *shape[1:])``: up to ``max_bytes`` each, or one row.

        Every call reads the file anew, and refuses it where it has changed since it was opened, ends early or
        late, or fails its checksum. A Fortran-ordered array is held in memory whole. Of ``rows``, if given,
        those before are passed over, and those after are not read.
        """
        if max_bytes < 1:
            raise BadInput(
                f"`max_bytes` was {max_bytes}; a positive number is accepted.", parameter="max_bytes"
            )
        label = _label(self.path, self.name)
        step = max(1, max_bytes // self._layout.row_bytes)
        wanted = range(self.rows) if rows is None else rows
        with _stream(self.path, self.name, label) as (stream, size):
            with npz.damage(label):
                layout = read_layout(stream, label)
            if layout != self._layout or size != _size(layout):
                raise BadInput(f"{label} has changed since it was opened.")
            if self._layout.fortran:
                flat = self._read(stream, (int(np.prod(self.shape)),), label)
                _expect_end(stream, label)
                whole = flat.reshape(self.shape, order="F")
                for start in range(wanted.start, wanted.stop, step):
                    yield np.ascontiguousarray(whole[start : min(start + step, wanted.stop)])
                return
            with npz.damage(label):
                stream.seek(wanted.start * layout.row_bytes, os.SEEK_CUR)
            for start in range(wanted.start, wanted.stop, step):
                count = min(step, wanted.stop - start)
                block = self._read(stream, (count, *self.shape[1:]), label)
                if start + count == self.rows:
                    _expect_end(stream, label)
                yield block

    def _read(self, stream: io.BufferedIOBase, shape: tuple[int, ...], label: str) -> NDArray[Any]:
        block = np.empty(shape, self._layout.dtype)
        raw = block.reshape(-1).view(np.uint8)
        view = raw.data
        position = 0
        while position < len(view):
            with npz.damage(label):
                got = stream.readinto(view[position : position + _READ_BYTES])
            if not got:
                raise BadInput(f"{label} is truncated: it holds less data than its header says.")
            position += got
        if self.dtype.kind == "b" and raw.max() > 1:
            raise BadInput(f"{label} holds booleans that are neither 0 nor 1.")
        return block if block.dtype.isnative else block.byteswap(inplace=True).view(self.dtype)


def open_array(path: str | os.PathLike[str], array: str | None = None) -> ArraySource:
    """The array in ``path``, which must be the only one of an archive unless ``array`` names it.

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
    elif magic.startswith(npz.MAGICS):
        names = npz.array_names(path)
        array = _choose(names, array, path)
        others = tuple(name for name in names if name != array)
    else:
        raise BadInput(f"{path.name} is not a NumPy file: .npy and .npz are accepted.")
    label = _label(path, array)
    with _stream(path, array, label) as (stream, size):
        with npz.damage(label):
            layout = read_layout(stream, label)
        if size != _size(layout):
            fault = "truncated" if size < _size(layout) else "followed by other bytes"
            raise BadInput(
                f"{label} is {fault}: its header announces {layout.data_bytes} bytes of data, and "
                f"{size - layout.header_bytes} are there."
            )
    if layout.fortran and layout.data_bytes > _MAX_FORTRAN_BYTES:
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
        super().__init__(path)
        self.shape = tuple(int(length) for length in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
        self.name = name
        self._suffix = suffix_of(self.path)
        if self._suffix not in (".npy", ".npz"):
            raise BadInput(f"{self.path.name} is no place for an array; .npy and .npz are accepted.")
        npz.check_name(name, self.path.name)
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
        if self.rows_written + len(block) > self.shape[0]:
            raise BadInput(f"{self.path.name} takes {self.shape[0]} rows, and more were written.")
        raw = np.ascontiguousarray(block, self.dtype).reshape(-1).view(np.uint8)
        with self._appending(len(block)):
            self._stream.write(raw.data)

    def _begin(self, file: IO[bytes], layers: ExitStack) -> None:
        self._stream = file
        if self._suffix == ".npz":
            archive = layers.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_STORED))
            # The size is not known to zipfile beforehand, so room for more than 4 GiB is always kept.
            member = npz.zip_member(self.name)
            self._stream = layers.enter_context(archive.open(member, "w", force_zip64=True))
        self._stream.write(npy_header(self.shape, self.dtype))

    def _check_complete(self) -> None:
        if self.rows_written != self.shape[0]:
            raise BadInput(
                f"{self.path.name} was to hold {self.shape[0]} rows, and {self.rows_written} were written."
            )


@contextmanager
def _stream(path: Path, name: str | None, label: str) -> Iterator[tuple[io.BufferedIOBase, int]]:
    if name is not None:
        with npz.open_member(path, name, label) as opened:
            yield opened
    else:
        with npz.damage(label):
            file = path.open("rb")
        with file:
            yield file, os.fstat(file.fileno()).st_size


def _expect_end(stream: io.BufferedIOBase, label: str) -> None:
    with npz.damage(label):  # a wrong checksum shows here
        if stream.read(1):
            raise BadInput(f"{label} holds more data than its header says.")


def array_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the arrays in the archive ``path``, in its order; none where it is a ``.npy`` file."""
    path = file_to_read(path)
    with path.open("rb") as file:
        archive = file.read(len(MAGIC)).startswith(npz.MAGICS)
    return npz.array_names(path) if archive else ()


def _choose(names: tuple[str, ...], wanted: str | None, path: Path) -> str:
    if not names:
        raise BadInput(f"{path.name} holds no arrays.")
    shown = ", ".join(repr(name) for name in names[:20]) + (", …" if len(names) > 20 else "")
    if wanted is None:
        if len(names) > 1:
            raise BadInput(
                f"{path.name} holds {len(names)} arrays; name one of them by `array`",
                parameter="array",
                accepted=shown,
            )
        return names[0]
    if wanted not in names:
        raise BadInput(
            f"`array` was {wanted!r}, which is no array of {path.name}", parameter="array", accepted=shown
        )
    return wanted


def _label(path: Path, name: str | None) -> str:
    return path.name if name is None else f"array {name!r} of {path.name}"


def _size(layout: Layout) -> int:
    return layout.header_bytes + layout.data_bytes
